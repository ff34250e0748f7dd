import numpy as np
import pytest
from support.compiler.lowering_beside_reference import expect_same, lowered_all
from support.operations.pointwise import numbers, quantization, result
from support.operations.single_operation import given
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

KINDS = (
    OperandType.TENSOR_QUANT8_ASYMM,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    OperandType.TENSOR_QUANT16_SYMM,
)


@sweep("kind", KINDS)
def test_quotients_over_the_whole_range(kind: OperandType) -> None:
    limits = np.iinfo(kind.dtype.name)
    zero = quantization(kind)[1]
    every = np.linspace(limits.min, limits.max, 256).astype(np.int64)
    divisor = np.where(every == zero, zero + 1, every)
    first, second = given(kind, every[:, np.newaxis], 0.5, zero), given(kind, divisor, 0.03, zero)
    inputs = [first, second, given(OperandType.INT32, 0)]
    expect_same(OperationType.TFLITE_DIV, inputs, result(kind, 0.9), data=(0, 1))


@sweep("kind", KINDS)
def test_divisors_of_zero_fail(kind: OperandType) -> None:
    zero = quantization(kind)[1]
    inputs = [numbers(kind, (2,)), given(kind, [zero + 1, zero], *quantization(kind))]
    inputs.append(given(OperandType.INT32, 0))
    with pytest.raises(RequirementFailed, match="non-zero divisors"):
        lowered_all(OperationType.TFLITE_DIV, inputs, result(kind), data=(0, 1))
