"""Recurrent cells of the first tier give the results of references."""

from collections.abc import Mapping, Sequence
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


BOOL, INT = nd.OperandType.BOOL, nd.OperandType.INT32
GATES = ("input", "forget", "cell", "output")


def _layer(
    name: str,
    given: Mapping[str, Sequence[int]],
    constants: Mapping[str, Sequence[int]],
    scalars: Mapping[str, tuple[nd.OperandType, Any]],
    outputs: Mapping[str, Sequence[int]],
    weights: nd.OperandType = FLOAT,
) -> nd.Model:
    """Returns a model of one layer, whose other inputs are omitted.

    Args:
        name: of the operation.
        given, constants, outputs: shapes by the names of parameters.
        scalars: types and values.
        weights: type of constants that are weights of inputs and states.
    """
    build, operation = LayerBuilder(3), nd.OperationType[name]
    (form,) = (
        each for each in DEFINITIONS[operation].forms if [one.name for one in each.outputs] == list(outputs)
    )
    inputs, free = [], []
    for parameter in form.inputs:
        each = parameter.name
        kind = weights if "weights" in each and "norm" not in each and "cell_to" not in each else FLOAT
        if each in scalars:
            inputs.append(build.scalar(scalars[each][1], scalars[each][0]))
        elif each in given:
            inputs.append(build.operand(FLOAT, given[each]))
            free.append(inputs[-1])
        elif each not in constants:
            inputs.append(build.operand(kind, (0,), **({} if kind is FLOAT else {"scale": 1.0})))
            build.builder.set_operand_value(inputs[-1], None)
        elif kind is FLOAT:
            array = values(build.rng, FLOAT, constants[each]) * np.float32(0.3)
            inputs.append(build.constant(FLOAT, array))
        else:
            numbers = values(build.rng, kind, constants[each])
            scale = float(build.rng.uniform(0.001, 0.005))
            inputs.append(build.constant(kind, numbers, scale=scale, zero_point=0))
    results = [build.operand(FLOAT, shape) for shape in outputs.values()]
    build.builder.add_operation(operation, inputs, results)
    build.builder.identify_inputs_and_outputs(free, results)
    return build.builder.finish()


def _rnn_parameters(prefix: str, size: int, units: int) -> dict[str, Sequence[int]]:
    return {
        f"{prefix}weights": (units, size),
        f"{prefix}recurrent_weights": (units, units),
        f"{prefix}bias": (units,),
    }


def _lstm_parameters(prefix: str, size: int, units: int) -> dict[str, Sequence[int]]:
    return {
        **{f"{prefix}input_to_{gate}_weights": (units, size) for gate in GATES},
        **{f"{prefix}recurrent_to_{gate}_weights": (units, units) for gate in GATES},
        **{f"{prefix}cell_to_{gate}_weights": (units,) for gate in GATES if gate != "cell"},
        **{f"{prefix}{gate}_gate_bias": (units,) for gate in GATES},
    }


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("activation", [0, 1, 2, 3, 4, 6])
def test_basic_cells(target: str, activation: int) -> None:
    constants, state = _rnn_parameters("", 7, 19), {"hidden_state_in": (3, 19)}
    scalars = {"cell_activation": (INT, activation)}
    step = _layer(
        "RNN",
        {"input": (3, 7), **state},
        constants,
        scalars,
        {"hidden_state_out": (3, 19), "output": (3, 19)},
    )
    check(step, target, threads=2)
    for time_major, leading in ((0, (3, 5)), (1, (5, 3))):
        for states in ({}, {"hidden_state_out": (3, 19)}):
            sequence = _layer(
                "UNIDIRECTIONAL_SEQUENCE_RNN",
                {"input": (*leading, 7), **state},
                constants,
                {**scalars, "time_major": (INT, time_major)},
                {"output": (*leading, 19), **states},
            )
            check(sequence, target, threads=2)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_basic_cells_of_8_bit_weights(asymmetric: bool) -> None:
    model = _layer(
        "TFLITE_UNIDIRECTIONAL_SEQUENCE_RNN",
        {"input": (3, 5, 7), "hidden_state_in": (3, 19)},
        _rnn_parameters("", 7, 19),
        {"cell_activation": (INT, 4), "time_major": (INT, 0), "asymmetric": (BOOL, asymmetric)},
        {"output": (3, 5, 19)},
        SIGNED,
    )
    check(model, TARGETS_HERE[-1], rtol=1e-2)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("auxiliary", [0, 6])
def test_both_directions(target: str, merged: bool, time_major: bool, auxiliary: int) -> None:
    batch, steps, size, forward, backward = 2, 5, 7, 19, 9
    leading = (steps, batch) if time_major else (batch, steps)
    both = {"fw_": (size, forward), "bw_": (auxiliary or size, backward)}
    given: dict[str, Sequence[int]] = {"input": (*leading, size)}
    # Executions could omit it if it was an input of the model.
    second = {"aux_input": (*leading, auxiliary)} if auxiliary else {}
    outputs: dict[str, Sequence[int]] = {"fw_output": (*leading, forward)}
    if merged:
        outputs = {"fw_output": (*leading, forward + backward)}
    else:
        outputs["bw_output"] = (*leading, backward)
    flags = {"time_major": (BOOL, time_major), "merge_outputs": (BOOL, merged)}
    rnn = _layer(
        "BIDIRECTIONAL_SEQUENCE_RNN",
        {**given, **{f"{prefix}hidden_state_in": (batch, units) for prefix, (_, units) in both.items()}},
        {
            **second,
            **{
                name: shape
                for prefix, sizes in both.items()
                for name, shape in _rnn_parameters(prefix, *sizes).items()
            },
        },
        {"cell_activation": (INT, 4), **flags},
        outputs,
    )
    check(rnn, target, threads=2)
    states = {
        f"{prefix}{state}_state_{end}": (batch, units)
        for end in ("in", "out")
        for prefix, (_, units) in both.items()
        for state in ("output", "cell")
    }
    lstm = _layer(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        {**given, **{name: shape for name, shape in states.items() if name.endswith("_in")}},
        {
            **second,
            **{
                name: shape
                for prefix, sizes in both.items()
                for name, shape in _lstm_parameters(prefix, *sizes).items()
            },
        },
        {
            "cell_activation": (INT, 4),
            "cell_clip": (nd.OperandType.FLOAT32, 0.0),
            "projection_clip": (nd.OperandType.FLOAT32, 0.0),
            **flags,
        },
        {**outputs, **{name: shape for name, shape in states.items() if name.endswith("_out")}},
    )
    check(lstm, target, threads=2)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(("rank", "length"), [(1, 1), (2, 2), (3, 10)])
@pytest.mark.parametrize("activation", [0, 1])
def test_factored_layers(target: str, rank: int, length: int, activation: int) -> None:
    batch, size, units = 3, 7, 5
    filters = rank * units
    for name, weights, bias in (
        ("SVDF", FLOAT, {"bias": (units,)}),
        ("SVDF", FLOAT, {}),
        ("TFLITE_SVDF", SIGNED, {"bias": (units,)}),
    ):
        scalars = {"rank": (INT, rank), "cell_activation": (INT, activation), "asymmetric": (BOOL, False)}
        model = _layer(
            name,
            {"input": (batch, size), "state_in": (batch, filters * length)},
            {"weights_feature": (filters, size), "weights_time": (filters, length), **bias},
            scalars,
            {"state_out": (batch, filters * length), "output": (batch, units)},
            weights,
        )
        check(model, target, threads=2)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(("rank", "length"), [(1, 1), (2, 2), (3, 10)])
@pytest.mark.parametrize("biased", [False, True])
def test_factored_layers_of_integers(target: str, rank: int, length: int, biased: bool) -> None:
    batch, size, units = 3, 7, 21
    filters = rank * units
    build = LayerBuilder(5)
    features = values(build.rng, SIGNED, (filters, size))
    times = build.rng.integers(-(1 << 15), 1 << 15, (filters, length)).astype(np.int16)
    bias = build.rng.integers(-(1 << 20), 1 << 20, units).astype(np.int32)
    short = nd.OperandType.TENSOR_QUANT16_SYMM
    given = build.operand(SIGNED, (batch, size), scale=0.03, zero_point=-7)
    inputs = [
        given,
        build.constant(SIGNED, features, scale=0.01, zero_point=0),
        build.constant(short, times, scale=0.0004, zero_point=0),
        build.constant(nd.OperandType.TENSOR_INT32, bias, scale=0.0004 * 0.0002, zero_point=0),
        build.operand(short, (batch, filters * length), scale=0.0002, zero_point=0),
        build.scalar(rank, INT),
        build.scalar(0, INT),
        build.scalar(False, BOOL),
    ]
    state = inputs[4]
    if not biased:
        inputs[3] = build.operand(nd.OperandType.TENSOR_INT32, (0,), scale=1.0)
        build.builder.set_operand_value(inputs[3], None)
    outputs = [
        build.operand(short, (batch, filters * length), scale=0.0002, zero_point=0),
        build.operand(SIGNED, (batch, units), scale=0.02 * length, zero_point=3),
    ]
    build.builder.add_operation(nd.OperationType.TFLITE_SVDF, inputs, outputs)
    build.builder.identify_inputs_and_outputs([given, state], outputs)
    check(build.builder.finish(), target, threads=2)
