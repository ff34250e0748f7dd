from itertools import product

import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    Given,
    given,
    ints,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

BILINEAR, NEAREST = OperationType.RESIZE_BILINEAR, OperationType.RESIZE_NEAREST_NEIGHBOR
#: Width and height.
SIZES = ((1, 1), (7, 5), (14, 10), (3, 2), (9, 8))
FLAGS = ((False, False), (True, False), (False, True))
generator = np.random.default_rng(6)


def _inputs(source: Given, size: tuple[int, int], nchw: bool, flags: tuple[bool, bool]) -> list[Given]:
    return [source, *scalars(*size, nchw, *flags)]


@sweep("flags", FLAGS)
@sweep("size", SIZES)
@sweep("operation", [BILINEAR, NEAREST])
def test_android(operation: OperationType, size: tuple[int, int], flags: tuple[bool, bool]) -> None:
    for nchw in (False, True):
        shape = (2, 3, 5, 7) if nchw else (2, 5, 7, 3)
        for kind in FLOAT_TYPES:
            source = given(kind, generator.normal(0, 2, shape))
            expect_same(operation, _inputs(source, size, nchw, flags), wanted(kind), compare=close)
        for kind in QUANT8_TYPES:
            source = given(kind, stored_values(generator, kind, shape), 0.5, 3)
            expect_same(operation, _inputs(source, size, nchw, flags), wanted(kind, 0.5, 3))


@sweep("flags", FLAGS)
@sweep("size", SIZES)
def test_tflite(size: tuple[int, int], flags: tuple[bool, bool]) -> None:
    # Bytes of few channels are weighted by rows first, unless the image shrinks much, and others
    # where the result is twice as wide.
    shapes = (2, 5, 7, 3), (1, 3, 60, 1), (1, 5, 7, 9)
    for kind, shape in (
        *product(QUANT8_TYPES, shapes),
        (OperandType.TENSOR_QUANT16_SYMM, shapes[0]),
    ):
        source = given(kind, stored_values(generator, kind, shape), 0.5)
        inputs = [source, ints(size[1], size[0]), *scalars(*flags)]
        for operation in (
            OperationType.TFLITE_RESIZE_BILINEAR,
            OperationType.TFLITE_RESIZE_NEAREST_NEIGHBOR,
        ):
            expect_same(operation, inputs, wanted(kind, 0.5))


def test_by_scale() -> None:
    kind = OperandType.TENSOR_FLOAT32
    source = given(kind, generator.normal(0, 2, (1, 4, 6, 2)))
    for operation in (BILINEAR, NEAREST):
        expect_same(operation, [source, *scalars(1.7, 0.6, False)], wanted(kind), compare=close)
