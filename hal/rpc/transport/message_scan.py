"""Looks through a serialized message before anything is made of it, and takes it apart a piece at a time.

An empty message inside another one is two bytes of it, and over a hundred in memory. So what a message holds is counted on
the bytes as they came: field by field, down to the messages inside, without an object for any of them. What protobuf
would skip or only find out later is refused at once: fields that are not known here, lengths that lead out of a message.

Protobuf parses a message in one go, in which no other thread of Python can run. `parse_in_pieces` has them run in between.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from neurald.hal.accounting.pacing import step
from neurald.hal.errors import BadData, ResourceExhaustedPersistent

_M = TypeVar("_M", bound=Message)

#: Parsing so many bytes takes a fraction of a millisecond.
_PIECE_BYTES: Final = 1 << 16

# How a value of a field is passed over, by its wire type.
_VARINT: Final = 0
_FIXED64: Final = 1
_DELIMITED: Final = 2
_FIXED32: Final = 5
#: Of wire type `_DELIMITED` too, but each is a part.
_REPEATED_BYTES: Final = 6

_MAX_VARINT_BYTES: Final = 10
#: So often it is looked at whether a message consists of parts that hold nothing: such a one is not read to its limit.
_LOOK_PARTS: Final = 1 << 13
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


class _Table:
    """The fields of one kind of message: by tag how a value is passed over, or the table of the message that it is."""

    __slots__ = ("tags",)

    def __init__(self) -> None:
        self.tags: dict[int, int | _Table] = {}


def count_parts(kind: type[Message], data: bytes, most: int) -> int:
    """How many messages, strings and byte strings a serialized message holds, at any depth, in its repeated fields and others.

    It takes time in proportion to the fields that are looked at, and no memory.

    Args:
        kind: what `data` is.
        data: from anybody.
        most: how many there may be.

    Raises:
        BadData: it is no such message, or has fields that are not known here.
        ResourceExhaustedPersistent: there are more; nothing behind these was looked at.
    """
    name = kind.DESCRIPTOR.name
    try:
        return _count(name, _table(kind.DESCRIPTOR).tags, data, most)
    except IndexError:
        raise _malformed(name, data) from None


def _count(name: str, tags: Mapping[int, "int | _Table"], data: bytes, most: int) -> int:
    at, end = 0, len(data)
    parts = 0
    bound = min(most, _LOOK_PARTS)
    around: list[tuple[int, Mapping[int, int | _Table]]] = []
    while True:
        if at >= end:
            if at > end:
                raise _malformed(name, data)
            if not around:
                return parts
            end, tags = around.pop()
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
            raise BadData(f"{name} has fields that are not known here")
        length = data[at]
        at += 1
        if length > 0x7F:
            length, at = _varint(name, data, at - 1)
        if entry == _DELIMITED:
            at += length
            continue
        parts += 1
        if parts > bound:
            bound = _next_bound(name, data, at, parts, most)
        if entry == _REPEATED_BYTES:
            at += length
            continue
        if at + length > end:
            raise _malformed(name, data)
        around.append((end, tags))
        end = at + length
        tags = entry.tags  # type: ignore[union-attr]


def _next_bound(name: str, data: bytes, at: int, parts: int, most: int) -> int:
    """How many parts there may be until the next look at them; see `count_parts`."""
    step(is_interpreted=True)
    what = f"{name} of {len(data)} bytes holds {parts} parts in its first {at}"
    if parts > most:
        raise ResourceExhaustedPersistent(f"{what}; at most {most} are allowed")
    if at < parts * _EMPTY_PART_BYTES:
        raise ResourceExhaustedPersistent(
            f"{what}, of which most hold nothing; a message with content is expected"
        )
    return min(most, parts + _LOOK_PARTS)


def parse_in_pieces(kind: type[_M], data: bytes) -> _M:
    """The message that `data` holds, as `kind.FromString` makes it, with a moment for other threads every so many bytes.

    Args:
        kind: what `data` is.
        data: what `count_parts` has looked through.

    Raises:
        BadData: it is no such message.
    """
    message = kind()
    try:
        _merge(message, data, 0, len(data))
    except (DecodeError, IndexError):
        raise _malformed(kind.DESCRIPTOR.name, data) from None
    return message


def _merge(message: Any, data: bytes, start: int, end: int) -> None:
    """Adds what the bytes of a message hold to it: small fields together, large messages inside by themselves."""
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
            found = message.DESCRIPTOR.fields_by_number.get(tag >> 3)
            if length > _PIECE_BYTES and found is not None and _is_plain_message(found):
                message.MergeFromString(data[start:field])
                start = at
                value = getattr(message, found.name)
                if found.is_repeated:
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
    """Whether values of a field are messages of their own, which those of a map are not for its users."""
    kind = field.message_type
    return kind is not None and not kind.GetOptions().map_entry


def _varint(name: str, data: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
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
    return BadData(f"{name}: these {len(data)} bytes are no such message")


@cache
def _table(descriptor: Descriptor) -> _Table:
    return _table_of(descriptor, {})


def _table_of(descriptor: Descriptor, known: dict[str, _Table]) -> _Table:
    table = known.get(descriptor.full_name)
    if table is not None:
        return table
    table = known[descriptor.full_name] = _Table()
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
            table.tags[base | _DELIMITED] = _DELIMITED  # many values in one
    return table
