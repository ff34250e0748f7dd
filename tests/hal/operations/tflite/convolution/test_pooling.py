import numpy as np
from support.operations.random_tensors import quantized
from support.operations.single_operation import evaluate, given, scalars, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

AVERAGE, MAXIMUM = OperationType.TFLITE_AVERAGE_POOL_2D, OperationType.TFLITE_MAX_POOL_2D
QUANT8, SIGNED = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
SHORT = OperandType.TENSOR_QUANT16_SYMM


@sweep("activation", [0, 1, 3])
def test_16_bit_pools(activation: int) -> None:
    x = quantized(SHORT, 2, 4, 6, 3)
    arguments = (given(SHORT, x, 0.001), *scalars(2, 3, 2, 3, 2, activation))
    windows = x.reshape(2, 2, 2, 2, 3, 3).swapaxes(2, 3).reshape(2, 2, 2, 6, 3)
    low = 0 if activation else -32768
    high = 6000 if activation == 3 else 32767
    result = evaluate(MAXIMUM, arguments, wanted(SHORT, 0.001, rank=4))
    np.testing.assert_array_equal(result, np.clip(windows.max(axis=3), low, high))
    total = windows.sum(axis=3)
    mean = np.sign(total) * ((abs(total) + 3) // 6)
    result = evaluate(AVERAGE, arguments, wanted(SHORT, 0.001, rank=4))
    np.testing.assert_array_equal(result, np.clip(mean, low, high))


def test_scales_of_pools_are_ignored() -> None:
    x = quantized(SIGNED, 1, 1, 1, 4)
    result = evaluate(
        MAXIMUM, (given(SIGNED, x, 0.5), *scalars(2, 1, 1, 1, 1, 0)), wanted(SIGNED, 2.0, 7, rank=4)
    )
    np.testing.assert_array_equal(result, x)
