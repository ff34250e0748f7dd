"""Interpolation in the first tier gives the results of references."""

from typing import Any

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE
from support.cpu.layers import FLOAT, INT32, SHORT, SIGNED, UNSIGNED, LayerBuilder, check

import neurald as nd


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, SIGNED, UNSIGNED, SHORT], ids=lambda kind: kind.name)
@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((2, 5, 7, 19), (11, 4)),
        ((1, 1, 1, 1), (3, 2)),
        ((1, 6, 6, 16), (12, 12)),
        ((1, 3, 4, 5), (1, 1)),
        ((3, 7, 9, 3), (25, 23)),
        ((1, 40, 6, 12), (9, 31)),
    ],
)
def test_bilinear_interpolation(target: str, kind: nd.OperandType, flags: Any, shape: Any, size: Any) -> None:
    scale = {} if kind is FLOAT else {"scale": 0.1, "zero_point": 0 if kind is SHORT else 7}
    build = LayerBuilder(0)
    given = build.operand(kind, shape, **scale)
    output = build.operand(kind, (shape[0], *size, shape[3]), **scale)
    lengths = build.constant(INT32, np.array(size, np.int32))
    inputs = [given, lengths, *(build.scalar(each, nd.OperandType.BOOL) for each in flags)]
    model = build.model(nd.OperationType.TFLITE_RESIZE_BILINEAR, inputs, output, [given])
    check(model, target, threads=2)
