import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.single_operation import (
    FLOAT_TYPES,
    QUANT8_TYPES,
    Given,
    given,
    scalars,
    stored_values,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

generator = np.random.default_rng(4)


def _beta(kind: OperandType, beta: float) -> Given:
    is_half = kind is OperandType.TENSOR_FLOAT16
    return given(OperandType.FLOAT16 if is_half else OperandType.FLOAT32, beta)


@sweep("operation", [OperationType.SOFTMAX, OperationType.TFLITE_SOFTMAX])
@sweep("shape", [(7,), (2, 5), (3, 4, 5), (2, 3, 4, 5), (2, 0, 3), (0,)])
def test_softmax(operation: OperationType, shape: tuple[int, ...]) -> None:
    for axis in range(-len(shape), len(shape)):
        for kind in FLOAT_TYPES:
            source = given(kind, generator.normal(0, 20, shape))
            inputs = [source, _beta(kind, 0.5), *scalars(axis)]
            expect_same(operation, inputs, wanted(kind), compare=close)
        for kind, zero_point in zip(QUANT8_TYPES, (0, -128), strict=True):
            source = given(kind, stored_values(generator, kind, shape), 0.04, 3)
            inputs = [source, _beta(kind, 1.3), *scalars(axis)]
            expect_same(operation, inputs, wanted(kind, 1 / 256, zero_point), compare=close)


@sweep("shape", [(1,), (3, 9), (3, 0), (2, 300)])
def test_16_bit_softmax_is_exact(shape: tuple[int, ...]) -> None:
    kind = OperandType.TENSOR_QUANT16_SYMM
    for scale in (1e-5, 2e-4, 0.3):
        source = given(kind, stored_values(generator, kind, shape), scale)
        for axis in range(len(shape)):
            inputs = [source, _beta(kind, 1.0), *scalars(axis)]
            expect_same(OperationType.TFLITE_SOFTMAX, inputs, wanted(kind, 1 / (1 << 15)))


@sweep("operation", [OperationType.LOG_SOFTMAX, OperationType.TFLITE_LOG_SOFTMAX])
def test_log_softmax(operation: OperationType) -> None:
    for kind in FLOAT_TYPES:
        for shape in ((5,), (2, 3, 4)):
            source = given(kind, generator.normal(0, 5, shape))
            inputs = [source, _beta(kind, 1.5), *scalars(-1)]
            expect_same(operation, inputs, wanted(kind), compare=close)


def test_a_negative_beta() -> None:
    for kind in FLOAT_TYPES:
        inputs = [given(kind, generator.normal(0, 2, (3, 9))), _beta(kind, -0.75), *scalars(-1)]
        expect_same(OperationType.TFLITE_SOFTMAX, inputs, wanted(kind), compare=close)


def test_quantized_log_softmax() -> None:
    for kind, zero_point in zip(QUANT8_TYPES, (255, 127), strict=True):
        alone = [given(kind, 5, 0.04, 3), _beta(kind, 1.0), *scalars(-1)]
        expect_same(OperationType.TFLITE_LOG_SOFTMAX, alone, wanted(kind, 1 / 16, zero_point))
        source = given(kind, stored_values(generator, kind, (4, 9)), 0.04, 3)
        inputs = [source, _beta(kind, 1.0), *scalars(1)]
        output = wanted(kind, 1 / 16, zero_point)
        expect_same(OperationType.TFLITE_LOG_SOFTMAX, inputs, output, compare=close)
