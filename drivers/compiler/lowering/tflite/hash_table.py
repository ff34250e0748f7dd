"""Lowers HASHTABLE_LOOKUP for all types."""

from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.movement.gather import hashtable_lookup
from neurald.hal.model.operation_type import OperationType

LOWERINGS: Lowerings = {OperationType.TFLITE_HASHTABLE_LOOKUP: hashtable_lookup}
