"""The types that drivers and applications use, at a path that stays the same across versions."""

from neurald.hal.model.elements import array_to_store, as_elements, first_elements, stored_array
from neurald.hal.model.graph import ChannelQuant, Location, Operand, Operation, Subgraph
from neurald.hal.model.model import Model, ModelContent, Outline, SignatureNames, StateVariable
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import (
    MAX_OPERAND_BYTES,
    DeviceType,
    Dimensions,
    Duration,
    FeatureLevel,
    FusedActivation,
    Lifetime,
    OperandType,
    PaddingScheme,
    Preference,
    Priority,
    add_operand_type,
    byte_size,
    value_size,
)
from neurald.hal.wording import counted

__all__ = [
    "MAX_OPERAND_BYTES",
    "Argument",
    "ChannelQuant",
    "DeviceType",
    "Dimensions",
    "Duration",
    "FeatureLevel",
    "FusedActivation",
    "Lifetime",
    "Location",
    "Model",
    "ModelContent",
    "Operand",
    "OperandType",
    "Operation",
    "OperationType",
    "Outline",
    "PaddingScheme",
    "Preference",
    "Priority",
    "Request",
    "SignatureNames",
    "StateVariable",
    "Subgraph",
    "add_operand_type",
    "array_to_store",
    "as_elements",
    "byte_size",
    "counted",
    "first_elements",
    "stored_array",
    "value_size",
]
