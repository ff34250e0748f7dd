"""Numbers of buckets on the first tier are those of references."""

from typing import Any

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE
from support.cpu.layers import FLOAT, INT32, INT64, LayerBuilder, check

import neurald as nd

#: As floats, two of these integers are equal to a boundary.
NUMBERS = (-5, -1, 0, 1, 2, 16777215, 16777216, 16777217, 1 << 30)
BOUNDARIES = (-1.0, 0.0, 0.0, 1.5, 16777216.0)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(
    "kind", [FLOAT, nd.OperandType.TENSOR_FLOAT64, INT32, INT64], ids=lambda kind: kind.name
)
def test_boundaries_that_are_not_above_a_number_are_counted(target: str, kind: nd.OperandType) -> None:
    numbers: list[Any] = list(NUMBERS)
    if kind.dtype.kind == "f":
        numbers += [np.nan, np.inf, -np.inf, -0.0, 1.4999999, 1.5]
    array = np.resize(np.array(numbers, kind.dtype), (3, 41))
    build = LayerBuilder(0)
    given, output = build.operand(kind, array.shape), build.operand(INT32, array.shape)
    inputs = [given, build.constant(FLOAT, np.array(BOUNDARIES, np.float32))]
    model = build.model(nd.OperationType.TFLITE_BUCKETIZE, inputs, output, [given])
    check(model, target, threads=2, inputs=[array])
