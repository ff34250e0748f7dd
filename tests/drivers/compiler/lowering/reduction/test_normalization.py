import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.boxes import real_scalars
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    given,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

SHAPES = ((5,), (2, 7), (3, 0), (2, 3, 4, 5))
generator = np.random.default_rng(5)


@sweep("operation", [OperationType.L2_NORMALIZATION, OperationType.TFLITE_L2_NORMALIZATION])
@sweep("shape", SHAPES)
def test_l2(operation: OperationType, shape: tuple[int, ...]) -> None:
    for axis in range(-1, len(shape)):
        for kind in FLOAT_TYPES:
            source = given(kind, generator.normal(0, 3, shape))
            expect_same(operation, [source, *scalars(axis)], wanted(kind), compare=close)


@sweep("shape", SHAPES)
def test_l2_of_quantized_values(shape: tuple[int, ...]) -> None:
    for kind, zero_point in zip(QUANT8_TYPES, (128, 0), strict=True):
        values = stored_values(generator, kind, shape)
        output = wanted(kind, 1 / 128, zero_point)
        for axis in range(len(shape)):
            inputs = [given(kind, values, 0.1, 5), *scalars(axis)]
            expect_same(OperationType.L2_NORMALIZATION, inputs, output, compare=close)
            expect_same(OperationType.TFLITE_L2_NORMALIZATION, inputs, output)


@sweep("length", [1, 2, 40, 5000])
def test_exact_l2_of_small_and_large_sums(length: int) -> None:
    for kind, zero_point in zip(QUANT8_TYPES, (128, 0), strict=True):
        lowest = np.iinfo(kind.dtype.name).min
        values = np.stack([np.full(length, lowest + step) for step in (0, 1, 2, 3, 100, 255)])
        inputs = [given(kind, values, 0.1, lowest), *scalars(1)]
        expect_same(OperationType.TFLITE_L2_NORMALIZATION, inputs, wanted(kind, 1 / 128, zero_point))


@sweep("shape", SHAPES)
def test_local_response(shape: tuple[int, ...]) -> None:
    for kind in FLOAT_TYPES:
        for radius in (0, 1, 3, 100):
            for axis in range(-1, len(shape)):
                source = given(kind, generator.normal(0, 1, shape))
                inputs = [source, *scalars(radius), *real_scalars(kind, 2.0, 0.5, 0.75), *scalars(axis)]
                expect_same(OperationType.LOCAL_RESPONSE_NORMALIZATION, inputs, wanted(kind), compare=close)


@sweep("beta", [0.5, 0.75, 1.0, 0.6, 0.0, -0.5])
@sweep(("bias", "alpha"), [(1.0, 0.3), (0.0, 1.0), (-0.0, 0.0), (-2.0, 0.5), (1.5, -0.2), (1e-30, 1e30)])
def test_local_response_of_special_numbers(beta: float, bias: float, alpha: float) -> None:
    values = generator.normal(0, 2, (9, 11)).astype(np.float32)
    values.flat[::12] = [np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-40, 0, -0.0, 1e-20]
    source = given(OperandType.TENSOR_FLOAT32, values)
    factors = real_scalars(OperandType.TENSOR_FLOAT32, bias, alpha, beta)
    inputs = [source, *scalars(2), *factors, *scalars(1)]
    wanted_ = wanted(OperandType.TENSOR_FLOAT32)
    expect_same(OperationType.LOCAL_RESPONSE_NORMALIZATION, inputs, wanted_, compare=close)


@sweep("nchw", [False, True])
@sweep("shape", [(2, 3, 4, 5), (1, 1, 1, 1), (2, 0, 3, 1)])
def test_instance(shape: tuple[int, ...], nchw: bool) -> None:
    for kind in FLOAT_TYPES:
        source = given(kind, generator.normal(1, 2, shape))
        inputs = [source, *real_scalars(kind, 1.5, 0.25, 1e-2), *scalars(nchw)]
        expect_same(OperationType.INSTANCE_NORMALIZATION, inputs, wanted(kind), compare=close)
