"""LSTM cells of the first tier give the results of references."""

from typing import Any

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared
from support.cpu.layers import FLOAT, SIGNED, LayerBuilder, check, values

import neurald as nd
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.operations import DEFINITIONS

#: Steps, batch, elements of the input, units, and options of the cell.
CELLS: dict[str, tuple[int, int, int, int, dict[str, Any]]] = {
    "one step": (1, 1, 1, 1, {}),
    "batch-major": (5, 3, 7, 19, {}),
    "time-major": (4, 9, 6, 33, {"time_major": True}),
    "coupled gates": (3, 2, 5, 8, {"coupled": True}),
    "peephole": (3, 2, 5, 20, {"peephole": True}),
    "coupled gates with peephole": (2, 1, 4, 21, {"coupled": True, "peephole": True}),
    "clip": (6, 2, 5, 17, {"cell_clip": 0.2}),
}


def _model(
    name: str,
    steps: int,
    batch: int,
    size: int,
    units: int,
    *,
    coupled: bool = False,
    peephole: bool = False,
    time_major: bool = False,
    cell_clip: float = 0.0,
    weights: nd.OperandType = FLOAT,
    asymmetric: bool = False,
    with_states: bool = True,
    projection: bool = False,
    activation: int = 4,
) -> nd.Model:
    build = LayerBuilder(7)
    operation = nd.OperationType[name]
    is_sequence = "SEQUENCE" in name
    forms = DEFINITIONS[operation].forms
    form = forms[1] if with_states and is_sequence else forms[0]
    shapes = {
        "input": ((steps, batch, size) if time_major else (batch, steps, size))
        if is_sequence
        else (batch, size),
        "output_state_in": (batch, units),
        "cell_state_in": (batch, units),
    }
    scalars = {
        "cell_activation": (nd.OperandType.INT32, activation),
        "cell_clip": (nd.OperandType.FLOAT32, cell_clip),
        "projection_clip": (nd.OperandType.FLOAT32, 0.0),
        "time_major": (nd.OperandType.BOOL, time_major),
        "asymmetric": (nd.OperandType.BOOL, asymmetric),
    }
    inputs, given = [], []
    for parameter in form.inputs:
        each = parameter.name
        if each in scalars:
            inputs.append(build.scalar(scalars[each][1], scalars[each][0]))
            continue
        if each in shapes:
            inputs.append(build.operand(FLOAT, shapes[each]))
            given.append(inputs[-1])
            continue
        is_of_input = each in ("input_to_input_weights", "recurrent_to_input_weights", "input_gate_bias")
        is_absent = (
            (coupled and (is_of_input or each == "cell_to_input_weights"))
            or ("projection" in each and not (projection and each == "projection_weights"))
            or "norm" in each
            or (each.startswith("cell_to") and not peephole)
        )
        is_matrix = each.startswith(("input_to", "recurrent_to", "projection_w"))
        kind = weights if is_matrix else FLOAT
        if is_absent:
            inputs.append(build.operand(kind, (0,), **({} if kind is FLOAT else {"scale": 1.0})))
            build.builder.set_operand_value(inputs[-1], None)
            continue
        shape: tuple[int, ...] = (units,)
        if is_matrix:
            shape = (units, size if each.startswith("input_to") else units)
        if kind is FLOAT:
            inputs.append(build.constant(FLOAT, values(build.rng, FLOAT, shape) * np.float32(0.3)))
        else:
            numbers = values(build.rng, SIGNED, shape)
            scale = float(build.rng.uniform(0.001, 0.005))
            inputs.append(build.constant(SIGNED, numbers, scale=scale, zero_point=0))
    width = (3 if coupled else 4) * units
    results = {
        "output": (*shapes["input"][:-1], units),
        "output_state_out": (batch, units),
        "cell_state_out": (batch, units),
        "scratch_buffer": (batch, width),
    }
    outputs = [build.operand(FLOAT, results[each.name]) for each in form.outputs]
    build.builder.add_operation(operation, inputs, outputs)
    build.builder.identify_inputs_and_outputs(given, outputs)
    return build.builder.finish()


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("cell", CELLS)
def test_sequences(target: str, cell: str) -> None:
    *sizes, options = CELLS[cell]
    for with_states in (False, True):
        check(
            _model("UNIDIRECTIONAL_SEQUENCE_LSTM", *sizes, **options, with_states=with_states),
            target,
            threads=2,
        )


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("cell", ["one step", "coupled gates", "peephole", "clip"])
def test_single_steps(target: str, cell: str) -> None:
    _, *sizes, options = CELLS[cell]
    check(_model("LSTM", 1, *sizes, **options), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("cell", ["batch-major", "time-major", "coupled gates"])
def test_weights_of_8_bits(target: str, cell: str, asymmetric: bool) -> None:
    *sizes, options = CELLS[cell]
    name = "TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM"
    model = _model(name, *sizes, **options, weights=SIGNED, asymmetric=asymmetric)
    # A state may be rounded to another integer, which later steps see.
    check(model, target, rtol=1e-2)


@pytest.mark.parametrize("options", [{"projection": True}, {"activation": 1}], ids=str)
def test_other_cells_have_no_kernel(options: dict[str, Any]) -> None:
    model = _model("UNIDIRECTIONAL_SEQUENCE_LSTM", 2, 1, 3, 4, **options)
    assert isinstance(prepared(model, TARGETS_HERE[0]), ReferenceModel)
