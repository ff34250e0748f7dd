"""Pooling in the first tier gives the results of references."""

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared, results
from support.cpu.layers import FLOAT, SHORT, SIGNED, UNSIGNED, LayerBuilder, check, values

import neurald as nd
from neurald.hal.execution.reference_model import ReferenceModel


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, UNSIGNED, SIGNED, SHORT], ids=lambda kind: kind.name)
def test_largest_values_and_averages(target: str, kind: nd.OperandType) -> None:
    scale = {} if kind is FLOAT else {"scale": 0.05, "zero_point": 0 if kind is SHORT else 3}
    prefix = "TFLITE_" if kind is SHORT else ""
    for shape, size, stride, scheme, activation in (
        ((1, 5, 7, 3), 3, 2, 1, 0),
        ((2, 8, 8, 59), 2, 2, 2, 1),
        ((1, 4, 4, 17), 4, 1, 2, 3),
    ):
        build = LayerBuilder(0)
        given = build.operand(kind, shape, **scale)
        lengths = [-(-n // stride) if scheme == 1 else (n - size) // stride + 1 for n in shape[1:3]]
        output = build.operand(kind, (shape[0], *lengths, shape[3]), **scale)
        numbers = (scheme, stride, stride, size, size, activation)
        inputs = [given, *(build.scalar(number) for number in numbers)]
        average = build.operand(kind, (shape[0], *lengths, shape[3]), **scale)
        build.builder.add_operation(nd.OperationType[f"{prefix}AVERAGE_POOL_2D"], inputs, [average])
        build.builder.add_operation(nd.OperationType[f"{prefix}MAX_POOL_2D"], inputs, [output])
        build.builder.identify_inputs_and_outputs([given], [output, average])
        model = build.builder.finish()
        check(model, target, threads=2)
        if kind is FLOAT:
            array = values(np.random.default_rng(1), kind, shape)
            array[0, 0, 0, 0] = np.nan
            array[0, 1, 1, 1] = -np.inf
            expected, _ = results(ReferenceModel(model), model, [array])
            np.testing.assert_array_equal(results(prepared(model, target), model, [array])[0], expected)


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_root_mean_squares(target: str) -> None:
    for shape, size, stride, scheme, activation in (
        ((1, 5, 7, 3), 3, 2, 1, 0),
        ((2, 8, 8, 59), 2, 2, 2, 3),
    ):
        build = LayerBuilder(0)
        lengths = [-(-n // stride) if scheme == 1 else (n - size) // stride + 1 for n in shape[1:3]]
        given, output = build.operand(FLOAT, shape), build.operand(FLOAT, (shape[0], *lengths, shape[3]))
        numbers = (scheme, stride, stride, size, size, activation)
        inputs = [given, *(build.scalar(number) for number in numbers)]
        check(build.model(nd.OperationType.L2_POOL_2D, inputs, output, [given]), target, threads=2)
