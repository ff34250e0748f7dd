"""Lowers AVERAGE_POOL_2D and MAX_POOL_2D, including 16-bit quantised values."""

from neurald.drivers.compiler.lowering.convolution import pooling
from neurald.hal.model.operation_type import OperationType

LOWERINGS = {
    OperationType.TFLITE_AVERAGE_POOL_2D: pooling.LOWERINGS[OperationType.AVERAGE_POOL_2D],
    OperationType.TFLITE_MAX_POOL_2D: pooling.LOWERINGS[OperationType.MAX_POOL_2D],
}
