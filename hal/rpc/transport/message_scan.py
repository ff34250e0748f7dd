"""Scans a serialized message before it is decoded, and decodes it piece by piece.

An empty nested message takes two bytes on the wire, and over a hundred in memory. So the parts of a
message are counted on the received bytes: field by field, down to nested messages, without creating
an object for any. What protobuf would skip or only detect later is refused at once: unknown fields,
and lengths beyond the end of a message.

Protobuf decodes a message in one go, during which no other Python thread can run. `parse_in_pieces`
lets them run in between.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from neurald.hal.accounting.pacing import step
from neurald.hal.errors import BadData, ResourceExhaustedPersistent

_M = TypeVar("_M", bound=Message)

#: Decoding this many bytes takes a fraction of a millisecond.
_PIECE_BYTES: Final = 1 << 16

# How to skip the value of a field, by its wire type.
_VARINT: Final = 0
_FIXED64: Final = 1
_DELIMITED: Final = 2
_FIXED32: Final = 5
#: Also of wire type `_DELIMITED`, but each value counts as a part.
_REPEATED_BYTES: Final = 6

_MAX_VARINT_BYTES: Final = 10
#: After this many parts each, it is checked whether most parts are empty: such a message is refused
#: before its limit.
_CHECK_PARTS: Final = 1 << 13
_EMPTY_PART_BYTES: Final = 3
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_WIRE_TYPES: Final = {
    FieldDescriptor.TYPE_DOUBLE: _FIXED64,
    FieldDescriptor.TYPE_FIXED64: _FIXED64,
    FieldDescriptor.TYPE_SFIXED64: _FIXED64,
    FieldDescriptor.TYPE_FLOAT: _FIXED32,
    FieldDescriptor.TYPE_FIXED32: _FIXED32,
    FieldDescriptor.TYPE_SFIXED32: _FIXED32,
    FieldDescriptor.TYPE_STRING: _DELIMITED,
    FieldDescriptor.TYPE_BYTES: _DELIMITED,
}


class _FieldTable:
    """The fields of a message type, by tag: how to skip a value, or the table of its message."""

    __slots__ = ("tags",)

    def __init__(self) -> None:
        self.tags: dict[int, int | _FieldTable] = {}


def count_parts(kind: type[Message], data: bytes, limit: int) -> int:
    """Counts the nested messages of a message, and the strings and byte strings in repeated fields.

    It takes time in proportion to the number of fields, and no memory.

    Args:
        kind: type of the message.
        data: the serialized message, which is not trusted.
        limit: how many parts there may be.

    Raises:
        BadData: it is not such a message, or has unknown fields.
        ResourceExhaustedPersistent: there are more parts; the rest of the message was not scanned.
    """
    name = kind.DESCRIPTOR.name
    try:
        return _count(name, _table(kind.DESCRIPTOR).tags, data, limit)
    except IndexError:
        raise _malformed(name, data) from None


def _count(name: str, tags: Mapping[int, "int | _FieldTable"], data: bytes, limit: int) -> int:
    at, end = 0, len(data)
    parts = 0
    bound = min(limit, _CHECK_PARTS)
    enclosing: list[tuple[int, Mapping[int, int | _FieldTable]]] = []
    while True:
        if at >= end:
            if at > end:
                raise _malformed(name, data)
            if not enclosing:
                return parts
            end, tags = enclosing.pop()
            continue
        tag = data[at]
        at += 1
        if tag > 0x7F:
            tag, at = _varint(name, data, at - 1)
        entry = tags.get(tag)
        if entry == _VARINT:
            start = at
            while data[at] > 0x7F:
                at += 1
            at += 1
            if at - start > _MAX_VARINT_BYTES:
                raise _malformed(name, data)
            continue
        if entry == _FIXED32:
            at += 4
            continue
        if entry == _FIXED64:
            at += 8
            continue
        if entry is None:
            raise BadData(f"{name} has fields that are not known here; it may be of a newer version")
        length = data[at]
        at += 1
        if length > 0x7F:
            length, at = _varint(name, data, at - 1)
        if entry == _DELIMITED:
            at += length
            continue
        parts += 1
        if parts > bound:
            bound = _next_bound(name, data, at, parts, limit)
        if entry == _REPEATED_BYTES:
            at += length
            continue
        if at + length > end:
            raise _malformed(name, data)
        enclosing.append((end, tags))
        end = at + length
        tags = entry.tags  # type: ignore[union-attr]


def _next_bound(name: str, data: bytes, at: int, parts: int, limit: int) -> int:
    """Returns the number of parts at which to check the next time; see `count_parts`."""
    step(is_interpreted=True)
    what = f"{name} of {len(data)} bytes has {parts} parts in its first {at} bytes"
    if parts > limit:
        raise ResourceExhaustedPersistent(f"{what}; at most {limit} are allowed")
    if at < parts * _EMPTY_PART_BYTES:
        raise ResourceExhaustedPersistent(
            f"{what}, of which most are empty; a message with content is expected"
        )
    return min(limit, parts + _CHECK_PARTS)


def parse_in_pieces(kind: type[_M], data: bytes) -> _M:
    """Decodes a message like `kind.FromString`, and lets other threads run in between.

    Args:
        kind: type of the message.
        data: bytes that `count_parts` has scanned.

    Raises:
        BadData: it is not such a message.
    """
    message = kind()
    try:
        _merge(message, data, 0, len(data))
    except (DecodeError, IndexError):
        raise _malformed(kind.DESCRIPTOR.name, data) from None
    return message


def _merge(message: Any, data: bytes, start: int, end: int) -> None:
    """Decodes the bytes of a message into it: small fields together, large messages alone."""
    name = message.DESCRIPTOR.name
    at = start
    while at < end:
        field = at
        tag, at = _varint(name, data, at)
        wire_type = tag & 7
        if wire_type == _VARINT:
            _, at = _varint(name, data, at)
        elif wire_type == _DELIMITED:
            length, at = _varint(name, data, at)
            inner = at
            at += length
            nested = message.DESCRIPTOR.fields_by_number.get(tag >> 3)
            if length > _PIECE_BYTES and nested is not None and _is_plain_message(nested):
                message.MergeFromString(data[start:field])
                start = at
                value = getattr(message, nested.name)
                if nested.is_repeated:
                    value = value.add()
                else:
                    value.SetInParent()
                _merge(value, data, inner, at)
        elif wire_type in _FIXED:
            at += _FIXED[wire_type]
        else:
            raise _malformed(name, data)
        if at - start >= _PIECE_BYTES:
            message.MergeFromString(data[start:at])
            start = at
            step(is_interpreted=True)
    if at > end:
        raise _malformed(name, data)
    message.MergeFromString(data[start:end])


def _is_plain_message(field: FieldDescriptor) -> bool:
    """Returns whether values of a field are messages, which entries of a map are not."""
    kind = field.message_type
    return kind is not None and not kind.GetOptions().map_entry


def _varint(name: str, data: bytes, at: int) -> tuple[int, int]:
    """Decodes the number at an offset; returns it and the offset behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift >= 7 * _MAX_VARINT_BYTES:
            raise _malformed(name, data)


def _malformed(name: str, data: bytes) -> BadData:
    return BadData(f"{name}: the {len(data)} bytes received are not a valid message")


@cache
def _table(descriptor: Descriptor) -> _FieldTable:
    return _table_of(descriptor, {})


def _table_of(descriptor: Descriptor, known: dict[str, _FieldTable]) -> _FieldTable:
    table = known.get(descriptor.full_name)
    if table is not None:
        return table
    table = known[descriptor.full_name] = _FieldTable()
    for field in descriptor.fields:
        base = field.number << 3
        if field.message_type is not None:
            table.tags[base | _DELIMITED] = _table_of(field.message_type, known)
            continue
        wire_type = _WIRE_TYPES.get(field.type, _VARINT)
        if not field.is_repeated:
            table.tags[base | wire_type] = wire_type
        elif wire_type == _DELIMITED:
            table.tags[base | _DELIMITED] = _REPEATED_BYTES
        else:
            table.tags[base | wire_type] = wire_type
            table.tags[base | _DELIMITED] = _DELIMITED  # a packed field
    return table
