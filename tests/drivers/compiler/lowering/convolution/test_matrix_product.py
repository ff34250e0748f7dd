from itertools import product

import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.single_operation import FLOAT_TYPES, Given, given, scalars, stored_values, wanted
from support.sweeps import sweep

from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

ANDROID, TFLITE = OperationType.BATCH_MATMUL, OperationType.TFLITE_BATCH_MATMUL
BYTE, SHORT = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT16_SYMM
FLOAT, INT32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
ADJOINTS = tuple(product((False, True), repeat=2))
#: Shapes of the factors, before they are transposed.
SHAPES = (((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 1)), ((0, 3), (3, 2)), ((2, 1, 3, 7), (2, 1, 7, 2)))
BROADCAST = (((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)))
generator = np.random.default_rng(8)


def _adjoint_shape(values: Array, is_transposed: bool) -> Array:
    return values.swapaxes(-1, -2) if is_transposed else values


def _quantized(
    kind: OperandType, shape: tuple[int, ...], is_transposed: bool, scale: float, zero: int
) -> Given:
    return given(kind, _adjoint_shape(stored_values(generator, kind, shape), is_transposed), scale, zero)


@sweep("adjoints", ADJOINTS)
@sweep("shapes", SHAPES)
def test_android(shapes: tuple[tuple[int, ...], ...], adjoints: tuple[bool, bool]) -> None:
    for kind in FLOAT_TYPES:
        factors = [
            given(kind, _adjoint_shape(generator.normal(0, 1, s), t))
            for s, t in zip(shapes, adjoints, strict=True)
        ]
        expect_same(ANDROID, [*factors, *scalars(*adjoints)], wanted(kind), data=(0, 1), compare=close)
    large = [
        given(INT32, _adjoint_shape(generator.integers(-(2**31), 2**31, s), t))
        for s, t in zip(shapes, adjoints, strict=True)
    ]
    expect_same(ANDROID, [*large, *scalars(*adjoints)], wanted(INT32), data=(0, 1))
    quantized = [_quantized(BYTE, s, t, 0.1, z) for s, t, z in zip(shapes, adjoints, (5, -9), strict=True)]
    expect_same(ANDROID, [*quantized, *scalars(*adjoints)], wanted(BYTE, 0.9, 3), data=(0, 1))


@sweep("adjoints", ADJOINTS)
@sweep("shapes", [*SHAPES, *BROADCAST])
def test_quantized_values_of_tflite(shapes: tuple[tuple[int, ...], ...], adjoints: tuple[bool, bool]) -> None:
    for first, second, output in (
        (BYTE, BYTE, wanted(BYTE, 0.9, 3)),
        (BYTE, BYTE, wanted(INT32)),
        (SHORT, SHORT, wanted(SHORT, 200.0)),
        (SHORT, BYTE, wanted(SHORT, 2.0)),
    ):
        zero_points = [0 if kind is SHORT else 6 for kind in (first, second)]
        factors = [
            _quantized(kind, s, t, 0.1, z)
            for kind, s, t, z in zip((first, second), shapes, adjoints, zero_points, strict=True)
        ]
        expect_same(TFLITE, [*factors, *scalars(*adjoints)], output, data=(0, 1))


@sweep("asymmetric", [False, True])
@sweep("adjoints", ADJOINTS)
@sweep("shapes", [*SHAPES, *BROADCAST])
def test_floats_with_quantized_weights(
    shapes: tuple[tuple[int, ...], ...], adjoints: tuple[bool, bool], asymmetric: bool
) -> None:
    floats = given(FLOAT, _adjoint_shape(generator.normal(0, 1, shapes[0]), adjoints[0]))
    inputs = [floats, _quantized(BYTE, shapes[1], adjoints[1], 0.1, 0), *scalars(*adjoints, asymmetric)]
    # A float on the boundary between two quantised values may become either.
    expect_same(TFLITE, inputs, wanted(FLOAT), data=(0, 1), compare=_near)


def test_weights_with_channel_scales() -> None:
    kind = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
    quant = ChannelQuant(scales=(0.1, 0.2, 0.3, 0.4, 0.5), dimension=1)
    weights = given(kind, stored_values(generator, kind, (4, 5)), channel_quant=quant)
    inputs = [given(FLOAT, generator.normal(0, 1, (3, 4))), weights, *scalars(False, False, True)]
    expect_same(TFLITE, inputs, wanted(FLOAT), compare=_near)


def _near(result: Array, expected: Array) -> None:
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=0.6)
