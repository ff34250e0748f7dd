"""CONCATENATION of all types and ranks."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.movement import concatenation
from neurald.hal.operations.tflite.machinery.elements import extend_movement

(_CONCATENATION,) = (each for each in concatenation.DEFINITIONS if each.type is OperationType.CONCATENATION)

DEFINITIONS = (extend_movement(_CONCATENATION, OperationType.TFLITE_CONCATENATION),)
