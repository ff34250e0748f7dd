"""Cumulative sums of the first tier are those of references."""

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE
from support.cpu.layers import FLOAT, INT32, INT64, LayerBuilder, check

import neurald as nd


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, INT32, INT64], ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("exclusive", "reverse"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_sums_along_an_axis(target: str, kind: nd.OperandType, exclusive: bool, reverse: bool) -> None:
    for axis in (0, 1, -1):
        build = LayerBuilder(0)
        given, output = build.operand(kind, (3, 7, 37)), build.operand(kind, (3, 7, 37))
        flags = [build.scalar(each, nd.OperandType.BOOL) for each in (exclusive, reverse)]
        inputs = [given, build.constant(INT32, np.array([axis], np.int32)), *flags]
        check(build.model(nd.OperationType.TFLITE_CUMSUM, inputs, output, [given]), target, threads=2)
