"""Lowers RESHAPE and SQUEEZE."""

from neurald.drivers.compiler.lowering.movement.indexing import reshaped
from neurald.hal.model.operation_type import OperationType

LOWERINGS = {
    OperationType.RESHAPE: reshaped,
    OperationType.SQUEEZE: reshaped,
}
