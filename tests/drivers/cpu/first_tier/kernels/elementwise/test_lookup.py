"""Functions that tables give have the results of references in the first tier."""

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE
from support.cpu.layers import SHORT, SIGNED, UNSIGNED, LayerBuilder, check

import neurald as nd


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("operation", ["TFLITE_LOGISTIC", "TFLITE_TANH", "TFLITE_RELU6", "TFLITE_QUANTIZE"])
def test_functions_of_16_bits(target: str, operation: str) -> None:
    build = LayerBuilder(0)
    given = build.operand(SHORT, (3, 1371), scale=0.0007)
    scale = {"TFLITE_RELU6": 0.0007, "TFLITE_QUANTIZE": 0.0011}.get(operation, 2.0**-15)
    output = build.operand(SHORT, (3, 1371), scale=scale)
    check(build.model(nd.OperationType[operation], [given], output, [given]), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("operation", ["RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH"])
def test_functions_of_bytes(target: str, operation: str) -> None:
    kind = UNSIGNED if operation == "RELU6" else SIGNED
    scales = {"LOGISTIC": (1 / 256, 0 if kind is UNSIGNED else -128), "TANH": (1 / 128, 0)}
    build = LayerBuilder(3)
    given = build.given(kind, (3, 1371))
    same = {"scale": 0.05, "zero_point": build.builder._operands[given].zero_point}
    scale, zero_point = scales.get(operation, (same["scale"], same["zero_point"]))
    output = build.operand(kind, (3, 1371), scale=scale, zero_point=zero_point)
    check(build.model(nd.OperationType[operation], [given], output, [given]), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [SIGNED, UNSIGNED], ids=lambda kind: kind.name)
@pytest.mark.parametrize("count", [1, 31, 32, 33, 63, 64, 65, 256, 4097, 9000])
def test_bytes_are_looked_up(target: str, kind: nd.OperandType, count: int) -> None:
    build = LayerBuilder(0)
    given = build.operand(kind, (count,), scale=0.05, zero_point=7)
    output = build.operand(kind, (count,), scale=1 / 256, zero_point=0 if kind is UNSIGNED else -128)
    model = build.model(nd.OperationType.TFLITE_LOGISTIC, [given], output, [given])
    array = np.arange(count).astype(np.uint8).view(kind.dtype)
    check(model, target, threads=2, inputs=[array])
