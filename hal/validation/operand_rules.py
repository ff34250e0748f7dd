"""Validates single operands: their types, quantisation parameters and values.

The rules are Android NN's (`Validation.cpp`). Messages name the operand, what was found and what is
expected.
"""

from collections.abc import Mapping, Sequence

from neurald.hal.errors import BadData
from neurald.hal.memory.pool import Memory, checked_range
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.extension import extension_of
from neurald.hal.model.graph import Operand
from neurald.hal.model.strings import decode_strings
from neurald.hal.model.types import MAX_OPERAND_BYTES, FeatureLevel, Lifetime, OperandType, byte_size
from neurald.hal.operations.machinery.signature import MAX_RANK

#: Scales are float32 on Android.
_MAX_SCALE = (2.0 - 2.0**-23) * 2.0**127
#: Per operand.
MAX_EXTENSION_DATA_BYTES = 1 << 20
_TYPE_LEVELS: dict[OperandType, FeatureLevel] = {
    OperandType.BOOL: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_QUANT16_SYMM: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_FLOAT16: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_BOOL8: FeatureLevel.LEVEL_3,
    OperandType.FLOAT16: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_QUANT16_ASYMM: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_QUANT8_SYMM: FeatureLevel.LEVEL_3,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: FeatureLevel.LEVEL_4,
    OperandType.MODEL: FeatureLevel.LEVEL_4,
}
#: Lowest and highest zero point of the types that have a positive scale.
_ZERO_POINTS: dict[OperandType, tuple[int, int]] = {
    OperandType.TENSOR_QUANT8_ASYMM: (0, 255),
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (-128, 127),
    OperandType.TENSOR_QUANT8_SYMM: (0, 0),
    OperandType.TENSOR_QUANT16_SYMM: (0, 0),
    OperandType.TENSOR_QUANT16_ASYMM: (0, 65535),
}
#: Zero points of operands of extension operations, which check those of TENSOR_QUANT16_SYMM.
_EXTENDED_ZERO_POINTS = {**_ZERO_POINTS, OperandType.TENSOR_QUANT16_SYMM: (-(1 << 15), (1 << 15) - 1)}
#: Types of tensors without quantisation.
_PLAIN_TENSORS = frozenset(
    (
        OperandType.TENSOR_FLOAT32,
        OperandType.TENSOR_INT32,
        OperandType.TENSOR_FLOAT16,
        OperandType.TENSOR_BOOL8,
        OperandType.TENSOR_INT64,
    )
)


def validate_operand_type(operand: Operand, what: object, *, is_extended: bool = False) -> None:
    """Checks type, dimensions and quantisation parameters of an operand, but not its value.

    Args:
        operand: the operand.
        what: its name for messages, or an object that is shown as its name.
        is_extended: whether operations of an extension may use it.

    Raises:
        BadData: a rule of the type is violated.
    """
    kind, dimensions = operand.type, operand.dimensions
    limits = (_EXTENDED_ZERO_POINTS if is_extended else _ZERO_POINTS).get(kind)
    if (
        (limits is not None or kind in _PLAIN_TENSORS)
        and (
            dimensions is None
            or (
                len(dimensions) <= MAX_RANK
                and (not dimensions or min(dimensions) > 0)
                and byte_size(kind, dimensions) <= MAX_OPERAND_BYTES
            )
        )
        and (
            operand.scale == operand.zero_point == 0
            if limits is None
            else 0 < operand.scale <= _MAX_SCALE and limits[0] <= operand.zero_point <= limits[1]
        )
        and operand.channel_quant is None
        and not operand.extension_data
    ):
        return  # The usual case, decided quickly.
    if not kind.is_tensor:
        if dimensions != ():
            raise BadData(f"{what}: {kind.name} is a scalar; it has no dimensions")
    elif dimensions is not None:
        if len(dimensions) > MAX_RANK:
            raise BadData(f"{what}: rank {len(dimensions)}; at most {MAX_RANK} is allowed")
        if any(d < 0 or d > MAX_OPERAND_BYTES for d in dimensions):
            raise BadData(
                f"{what}: dimensions {list(dimensions)}; they must be from 0, which leaves a length open, to 2^32 - 1"
            )
        if byte_size(kind, dimensions) > MAX_OPERAND_BYTES:
            raise BadData(f"{what}: {kind.name}{list(dimensions)} has more than 2^32 - 1 bytes")
    _validate_extension_data(operand, what)
    _validate_scale(operand, what, _EXTENDED_ZERO_POINTS if is_extended else _ZERO_POINTS)
    _validate_channel_quant(operand, what)


def _validate_extension_data(operand: Operand, what: object) -> None:
    if not operand.extension_data:
        return
    if extension_of(operand.type) is None:
        raise BadData(
            f"{what}: {operand.type.name} takes no extension data; only types of vendors' extensions do"
        )
    if len(operand.extension_data) > MAX_EXTENSION_DATA_BYTES:
        raise BadData(
            f"{what}: {len(operand.extension_data)} bytes of extension data; "
            f"at most {MAX_EXTENSION_DATA_BYTES} are allowed"
        )


def _validate_scale(
    operand: Operand, what: object, zero_points: Mapping[OperandType, tuple[int, int]]
) -> None:
    kind, scale, zero_point = operand.type, operand.scale, operand.zero_point
    if not abs(scale) <= _MAX_SCALE:
        raise BadData(f"{what}: scale {scale}; it must be a finite float32")
    if extension_of(kind) is not None:
        # Only the vendor's devices know the meaning of these fields.
        if not -(2**31) <= zero_point < 2**31:
            raise BadData(f"{what}: zero point {zero_point}; it must be an int32")
        return
    limits = zero_points.get(kind)
    if limits is not None:
        if scale <= 0:
            raise BadData(f"{what}: scale {scale:g}; {kind.name} needs a positive one")
        low, high = limits
    elif kind is OperandType.TENSOR_INT32:
        if scale < 0:
            raise BadData(f"{what}: scale {scale:g}; {kind.name} needs one of at least 0")
        low, high = 0, 0
    else:
        if scale != 0:
            raise BadData(f"{what}: scale {scale:g}; {kind.name} has none, so it must be 0")
        low, high = 0, 0
    if not low <= zero_point <= high:
        expected = f"{low}" if low == high else f"from {low} to {high}"
        raise BadData(f"{what}: zero point {zero_point}; {kind.name} needs {expected}")


def _validate_channel_quant(operand: Operand, what: object) -> None:
    quant = operand.channel_quant
    if operand.type is not OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        if quant is not None:
            raise BadData(f"{what}: {operand.type.name} takes no channel scales")
        return
    if quant is None:
        raise BadData(f"{what}: {operand.type.name} needs channel scales")
    if operand.dimensions is None or not 0 <= quant.dimension < len(operand.dimensions):
        raise BadData(
            f"{what}: channel dimension {quant.dimension} does not exist in shape {operand.dimensions}"
        )
    length = operand.dimensions[quant.dimension]
    if len(quant.scales) != length or length == 0:
        raise BadData(
            f"{what}: {len(quant.scales)} channel scales; dimension {quant.dimension} has length {length}"
        )
    # The sum detects NaN, which min and max may miss.
    if not (min(quant.scales) > 0 and max(quant.scales) <= _MAX_SCALE and sum(quant.scales) > 0):
        raise BadData(f"{what}: every channel scale must be a positive, finite float32")


def validate_value(operand: Operand, pools: Sequence[Memory], graphs: int, what: str) -> None:
    """Checks that an operand's value agrees with its lifetime and type.

    Args:
        operand: an operand whose type was validated.
        pools: the pools of the model.
        graphs: number of referenced graphs of the model.
        what: name of the operand for messages.

    Raises:
        BadData: it does not agree.
    """
    lifetime = operand.lifetime
    if (lifetime is Lifetime.SUBGRAPH) != (operand.type is OperandType.MODEL):
        raise BadData(f"{what}: type {operand.type.name} cannot have lifetime {lifetime.name}")
    if (operand.subgraph is not None) != (lifetime is Lifetime.SUBGRAPH):
        raise BadData(
            f"{what}: lifetime {lifetime.name} does not go with referenced graph {operand.subgraph}"
        )
    if operand.subgraph is not None and not 0 <= operand.subgraph < graphs:
        raise BadData(f"{what}: referenced graph {operand.subgraph}; the model has {graphs}")
    if operand.value and lifetime is not Lifetime.CONSTANT_COPY:
        raise BadData(f"{what}: lifetime {lifetime.name} does not go with a value of its own")
    if (operand.location is not None) != (lifetime is Lifetime.CONSTANT_POOL):
        raise BadData(f"{what}: lifetime {lifetime.name} does not go with its location in a pool")
    if not lifetime.is_constant:
        return
    if operand.dimensions is None:
        raise BadData(f"{what}: a constant must be fully specified; its rank is not")
    length = len(operand.value)
    if operand.location is not None:
        place = operand.location
        if not 0 <= place.pool < len(pools):
            raise BadData(f"{what}: pool {place.pool}; the model has {len(pools)}")
        if isinstance(pools[place.pool], DeviceBuffer):
            raise BadData(f"{what}: a constant cannot be in device memory; use host memory")
        checked_range(place.offset, place.length, pools[place.pool].size, what)
        length = place.length
    if operand.type is OperandType.TENSOR_STRING:
        _validate_strings(operand, pools, what)
        return
    expected = byte_size(operand.type, operand.dimensions)
    if length != expected:
        raise BadData(
            f"{what}: the value has {length} bytes; {operand.type.name}{list(operand.dimensions)} has {expected}"
        )


def _validate_strings(operand: Operand, pools: Sequence[Memory], what: str) -> None:
    """Checks that a constant's bytes are a buffer of as many strings as its dimensions require."""
    place = operand.location
    source = (
        memoryview(operand.value) if place is None else pools[place.pool].view(place.offset, place.length)
    )
    try:
        decode_strings(source, operand.dimensions or ())
    except BadData as error:
        raise BadData(f"{what}: {error}") from None


def type_level(operand_type: OperandType) -> FeatureLevel:
    """Returns the first feature level with an operand type.

    Types of `neurald.tflite` belong to no level; the first one is returned for them.
    """
    if extension_of(operand_type) is not None:
        return FeatureLevel.LEVEL_3
    return _TYPE_LEVELS.get(operand_type, FeatureLevel.LEVEL_1)
