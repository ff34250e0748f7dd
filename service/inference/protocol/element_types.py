"""The element types of the V2 protocol, and those of models."""

from typing import Any, Final

import numpy as np

from neurald.hal.lanes.packets import BYTES, type_named

#: The protocol's name of each type that models have, by its name in lanes. BF16 is a type of the
#: protocol that no model has.
_DATATYPES: Final = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    BYTES: "BYTES",
}
_KINDS: Final = {datatype: kind for kind, datatype in _DATATYPES.items()}
#: The protocol's names of types.
DATATYPES: Final = (*_KINDS, "BF16")
_CONTENT_FIELDS: Final = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def datatype_of(kind: str) -> str:
    """Returns the protocol's name of a type."""
    return _DATATYPES[kind]


def kind_of_datatype(datatype: str) -> str | None:
    """Returns the name in lanes of a type of the protocol; None if models have no such type."""
    return _KINDS.get(datatype)


def config_type(kind: str) -> str:
    """Returns the name of a type in a model's configuration."""
    datatype = _DATATYPES[kind]
    return "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"


def content_field(datatype: str) -> str | None:
    """Returns the field of InferTensorContents for a type; None if it has none."""
    return _CONTENT_FIELDS.get(datatype)


def dtype_of(datatype: str) -> "np.dtype[Any]":
    """Returns the NumPy type of a type other than BYTES."""
    return type_named(_KINDS[datatype])
