"""The types of operands, and the other enumerations of Android NN.

Dimensions follow Android with one addition. A dimension of 0 is unspecified; `None` instead of a
tuple means that even the rank is unspecified (Android writes that as rank 0, and `ModelBuilder`
accepts it). A tensor of rank 0, `()`, is a true scalar tensor, as in TFLite.
"""

import math
from enum import IntEnum

from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import np
from neurald.hal.model.enum_members import add_member
from neurald.hal.model.operation_type import TFLITE_EXTENSION_BASE
from neurald.hal.model.strings import least_bytes

Dimensions = tuple[int, ...] | None


#: Maximum size of one operand: it must fit in 32 bits.
MAX_OPERAND_BYTES = 0xFFFF_FFFF


class OperandType(IntEnum):
    """Android NN's operand types, and those of `neurald.tflite`.

    The names are those of `OperandType.aidl`, except that SUBGRAPH is called MODEL. Operand types
    of vendor extensions are added at run time; see `neurald.hal.model.extension`.
    """

    FLOAT32 = 0
    INT32 = 1
    UINT32 = 2
    TENSOR_FLOAT32 = 3
    TENSOR_INT32 = 4
    TENSOR_QUANT8_ASYMM = 5
    BOOL = 6
    TENSOR_QUANT16_SYMM = 7
    TENSOR_FLOAT16 = 8
    TENSOR_BOOL8 = 9
    FLOAT16 = 10
    TENSOR_QUANT8_SYMM_PER_CHANNEL = 11
    TENSOR_QUANT16_ASYMM = 12
    TENSOR_QUANT8_SYMM = 13
    TENSOR_QUANT8_ASYMM_SIGNED = 14
    MODEL = 15

    # Of the extension `neurald.tflite`.
    TENSOR_INT64 = TFLITE_EXTENSION_BASE
    TENSOR_UINT32 = TFLITE_EXTENSION_BASE + 1
    TENSOR_UINT64 = TFLITE_EXTENSION_BASE + 2
    TENSOR_FLOAT64 = TFLITE_EXTENSION_BASE + 3
    TENSOR_COMPLEX64 = TFLITE_EXTENSION_BASE + 4
    #: The only type whose size does not follow from the shape; see `neurald.hal.model.strings`.
    TENSOR_STRING = TFLITE_EXTENSION_BASE + 5
    TENSOR_COMPLEX128 = TFLITE_EXTENSION_BASE + 6

    @property
    def is_tensor(self) -> bool:
        """True if operands of this type have dimensions."""
        return self not in _SCALARS

    @property
    def dtype(self) -> "np.dtype[np.generic]":
        """The NumPy type of one stored element; object for strings, which are stored as a buffer.

        Raises:
            BadData: the type is MODEL, which has no elements.
        """
        if self is OperandType.MODEL:
            raise BadData("an operand of type MODEL holds a model, not data")
        found = _DTYPES.get(self)
        if found is None:
            found = _DTYPES[self] = np.dtype(_FORMATS[self])
        return found


_SCALARS = {
    OperandType.FLOAT32,
    OperandType.INT32,
    OperandType.UINT32,
    OperandType.BOOL,
    OperandType.FLOAT16,
    OperandType.MODEL,
}


#: The NumPy types of elements, as text.
_FORMATS: dict[OperandType, str] = {
    OperandType.FLOAT32: "<f4",
    OperandType.INT32: "<i4",
    OperandType.UINT32: "<u4",
    OperandType.TENSOR_FLOAT32: "<f4",
    OperandType.TENSOR_INT32: "<i4",
    OperandType.TENSOR_QUANT8_ASYMM: "u1",
    OperandType.BOOL: "?",
    OperandType.TENSOR_QUANT16_SYMM: "<i2",
    OperandType.TENSOR_FLOAT16: "<f2",
    OperandType.TENSOR_BOOL8: "?",
    OperandType.FLOAT16: "<f2",
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL: "i1",
    OperandType.TENSOR_QUANT16_ASYMM: "<u2",
    OperandType.TENSOR_QUANT8_SYMM: "i1",
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: "i1",
    OperandType.TENSOR_INT64: "<i8",
    OperandType.TENSOR_UINT32: "<u4",
    OperandType.TENSOR_UINT64: "<u8",
    OperandType.TENSOR_FLOAT64: "<f8",
    OperandType.TENSOR_COMPLEX64: "<c8",
    OperandType.TENSOR_STRING: "O",
    OperandType.TENSOR_COMPLEX128: "<c16",
}


#: Size of an element of the built-in types.
_ITEM_BYTES = {
    kind: {"?": 1, "O": 8}.get(text) or int(text.lstrip("<cfiu")) for kind, text in _FORMATS.items()
}


#: The NumPy types that have been used.
_DTYPES: dict[OperandType, "np.dtype[np.generic]"] = {}


def add_operand_type(number: int, name: str, element_bytes: int, *, is_tensor: bool) -> None:
    """Registers an operand type of a vendor's extension; see `neurald.hal.model.extension`."""
    kind = add_member(OperandType, number, name)
    _FORMATS[kind] = f"V{element_bytes}"
    if not is_tensor:
        _SCALARS.add(kind)


class FeatureLevel(IntEnum):
    """Android NN's feature levels, which say what operations a device may be asked to run."""

    LEVEL_1 = 27
    LEVEL_2 = 28
    LEVEL_3 = 29
    LEVEL_4 = 30
    LEVEL_5 = 31
    LEVEL_6 = 1000006
    LEVEL_7 = 1000007
    LEVEL_8 = 1000008
    #: Above all released levels: experimental on Android.
    EXPERIMENTAL = 0x7FFF_FFFF


class Lifetime(IntEnum):
    """The source of an operand's value (`OperandLifeTime.aidl`)."""

    TEMPORARY_VARIABLE = 0
    SUBGRAPH_INPUT = 1
    SUBGRAPH_OUTPUT = 2
    CONSTANT_COPY = 3
    CONSTANT_POOL = 4
    NO_VALUE = 5
    SUBGRAPH = 6

    @property
    def is_constant(self) -> bool:
        """True if the value is part of the model."""
        return self in _CONSTANT


_CONSTANT = frozenset((Lifetime.CONSTANT_COPY, Lifetime.CONSTANT_POOL))


class DeviceType(IntEnum):
    """The kind of hardware of a device (`DeviceType.aidl`)."""

    UNKNOWN = 0
    OTHER = 1
    CPU = 2
    GPU = 3
    ACCELERATOR = 4


class Preference(IntEnum):
    """The goal that a compilation optimises for."""

    LOW_POWER = 0
    FAST_SINGLE_ANSWER = 1
    SUSTAINED_SPEED = 2


class Priority(IntEnum):
    """Rank of a compilation's executions among those of the same user.

    See `neurald.hal.admission.executions.admission_queue`.
    """

    LOW = 90
    MEDIUM = 100
    HIGH = 110


class Duration(IntEnum):
    """The part of an execution that a duration covers."""

    ON_HARDWARE = 0
    IN_DRIVER = 1
    FENCED_ON_HARDWARE = 2
    FENCED_IN_DRIVER = 3


class FusedActivation(IntEnum):
    """The activation that an operation applies to its result."""

    NONE = 0
    RELU = 1
    RELU1 = 2
    RELU6 = 3


class PaddingScheme(IntEnum):
    """Implicit padding of windowed operations."""

    SAME = 1
    VALID = 2


def byte_size(operand_type: OperandType, dimensions: tuple[int, ...]) -> int:
    """Returns the size in bytes of a dense value; the minimum size for strings."""
    if operand_type is OperandType.TENSOR_STRING:
        return least_bytes(math.prod(dimensions))
    size = _ITEM_BYTES.get(operand_type)
    return math.prod(dimensions) * (operand_type.dtype.itemsize if size is None else size)


def value_size(operand_type: OperandType, dimensions: Dimensions) -> int | None:
    """Returns the size of a value in bytes; None if type and dimensions do not determine it."""
    if dimensions is None or 0 in dimensions or operand_type is OperandType.TENSOR_STRING:
        return None
    return byte_size(operand_type, dimensions)
