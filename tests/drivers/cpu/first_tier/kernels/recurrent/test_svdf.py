"""SVDF on the first tier gives the results of references."""

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE
from support.cpu.layers import FLOAT, SIGNED, LayerBuilder, check, values
from support.cpu.recurrent_layers import BOOL, INT, layer

import neurald as nd


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
        model = layer(
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
