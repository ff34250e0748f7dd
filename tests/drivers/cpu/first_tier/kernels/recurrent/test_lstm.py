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
    "projection": (4, 3, 7, 19, {"outputs": 5}),
    "projection with bias and clip": (3, 2, 4, 9, {"outputs": 21, "biased": True, "projection_clip": 0.3}),
    "normalisation": (5, 3, 7, 19, {"normalized": True}),
    "normalisation with peephole": (3, 2, 5, 33, {"normalized": True, "peephole": True, "cell_clip": 0.5}),
    "all of it": (
        4,
        2,
        5,
        17,
        {"normalized": True, "peephole": True, "coupled": True, "outputs": 6, "time_major": True},
    ),
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
    outputs: int = 0,
    biased: bool = False,
    normalized: bool = False,
    projection_clip: float = 0.0,
    activation: int = 4,
) -> nd.Model:
    """Returns a model of a cell; with a number of `outputs` one with a projection to these."""
    build, width = LayerBuilder(7), outputs or units
    operation = nd.OperationType[name]
    is_sequence = "SEQUENCE" in name
    forms = DEFINITIONS[operation].forms
    form = forms[1] if with_states and is_sequence else forms[0]
    shapes = {
        "input": ((steps, batch, size) if time_major else (batch, steps, size))
        if is_sequence
        else (batch, size),
        "output_state_in": (batch, width),
        "cell_state_in": (batch, units),
    }
    scalars = {
        "cell_activation": (nd.OperandType.INT32, activation),
        "cell_clip": (nd.OperandType.FLOAT32, cell_clip),
        "projection_clip": (nd.OperandType.FLOAT32, projection_clip),
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
        is_of_input = each in (
            "input_to_input_weights",
            "recurrent_to_input_weights",
            "input_gate_bias",
            "input_layer_norm_weights",
        )
        is_absent = (
            (coupled and (is_of_input or each == "cell_to_input_weights"))
            or ("projection" in each and not (outputs and (biased or each == "projection_weights")))
            or ("norm" in each and not normalized)
            or (each.startswith("cell_to") and not peephole)
        )
        is_matrix = each.startswith(("input_to", "recurrent_to", "projection_w"))
        kind = weights if is_matrix or each.startswith("cell_to") else FLOAT
        if is_absent:
            inputs.append(build.operand(kind, (0,), **({} if kind is FLOAT else {"scale": 1.0})))
            build.builder.set_operand_value(inputs[-1], None)
            continue
        shape: tuple[int, ...] = (width if each == "projection_bias" else units,)
        if is_matrix:
            shape = (units, size if each.startswith("input_to") else width)
            shape = (width, units) if each == "projection_weights" else shape
        if kind is FLOAT:
            inputs.append(build.constant(FLOAT, values(build.rng, FLOAT, shape) * np.float32(0.3)))
        else:
            numbers = values(build.rng, SIGNED, shape)
            scale = float(build.rng.uniform(0.001, 0.005))
            inputs.append(build.constant(SIGNED, numbers, scale=scale, zero_point=0))
    results = {
        "output": (*shapes["input"][:-1], width),
        "output_state_out": (batch, width),
        "cell_state_out": (batch, units),
        "scratch_buffer": (batch, (3 if coupled else 4) * units),
    }
    computed = [build.operand(FLOAT, results[each.name]) for each in form.outputs]
    build.builder.add_operation(operation, inputs, computed)
    build.builder.identify_inputs_and_outputs(given, computed)
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
@pytest.mark.parametrize(
    "cell", ["one step", "coupled gates", "peephole", "clip", "projection", "normalisation", "all of it"]
)
def test_single_steps(target: str, cell: str) -> None:
    _, *sizes, options = CELLS[cell]
    check(_model("LSTM", 1, *sizes, **{**options, "time_major": False}), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("cell", ["batch-major", "time-major", "coupled gates", "projection", "all of it"])
def test_weights_of_8_bits(target: str, cell: str, asymmetric: bool) -> None:
    *sizes, options = CELLS[cell]
    name = "TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM"
    model = _model(name, *sizes, **options, weights=SIGNED, asymmetric=asymmetric)
    # A state may be rounded to another integer, which later steps see.
    check(model, target, rtol=1e-2)


def test_other_cells_have_no_kernel() -> None:
    model = _model("UNIDIRECTIONAL_SEQUENCE_LSTM", 2, 1, 3, 4, activation=1)
    assert isinstance(prepared(model, TARGETS_HERE[0]), ReferenceModel)
