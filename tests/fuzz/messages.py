"""Mutates protobuf messages field by field; unlike damaged bytes, the result usually parses."""

import random
from collections.abc import Iterator
from typing import Any

from fuzz.target import mutate_bytes
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_INTEGERS = (0, 1, 2, 3, 7, 64, 127, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
_REALS = (0.0, -1.0, 0.1, 1e300, -1e300, 5e-324, float("inf"), float("-inf"), float("nan"))
_WIDTHS = {
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_SINT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_SINT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_ENUM: (-(2**31), 2**31 - 1),
}


def mutate_message(message: Message, rng: random.Random) -> str:
    """Mutates a message in one to three places; returns a description."""
    names = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_messages(message))
        names.append(_mutate(rng.choice(places), rng))
    return "+".join(names)


def _messages(message: Message) -> Iterator[Message]:
    """Yields the message and all its submessages."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or _is_map(field):
            continue
        for each in value if field.is_repeated else (value,):
            yield from _messages(each)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _mutate(message: Any, rng: random.Random) -> str:
    fields = [field for field in message.DESCRIPTOR.fields if not _is_map(field)]
    if not fields:
        return "nothing"
    field = rng.choice(fields)
    name = field.name
    if not field.is_repeated:
        if field.message_type is not None:
            if message.HasField(name) and rng.random() < 0.5:
                message.ClearField(name)
            else:
                getattr(message, name).SetInParent()
        elif rng.random() < 0.1:
            message.ClearField(name)
        else:
            setattr(message, name, _value(field, getattr(message, name), rng))
        return str(name)
    values = getattr(message, name)
    kind = rng.choice(("remove", "repeat", "swap", "change", "change", "many"))
    if not values or kind == "many":
        for _ in range(rng.choice((1, 1, 2, 300))):
            _append(field, values, rng)
    elif kind == "remove":
        del values[rng.randrange(len(values))]
    elif field.message_type is not None:
        first, second = rng.randrange(len(values)), rng.randrange(len(values))
        if kind == "swap":
            values[first].CopyFrom(values[second])
        else:
            values.add().CopyFrom(values[first])
    elif kind == "repeat":
        values.append(rng.choice(list(values)))
    else:
        at = rng.randrange(len(values))
        values[at] = (
            _value(field, values[at], rng) if kind == "change" else values[rng.randrange(len(values))]
        )
    return f"{name} {kind}"


def _append(field: FieldDescriptor, values: Any, rng: random.Random) -> None:
    if field.message_type is not None:
        values.add()
    else:
        values.append(_value(field, _zero(field), rng))


def _zero(field: FieldDescriptor) -> Any:
    return b"" if field.type == FieldDescriptor.TYPE_BYTES else field.default_value


def _value(field: FieldDescriptor, old: Any, rng: random.Random) -> Any:
    kind = field.type
    if kind == FieldDescriptor.TYPE_BOOL:
        return not old
    if kind == FieldDescriptor.TYPE_BYTES:
        return mutate_bytes(old, rng)[0]
    if kind == FieldDescriptor.TYPE_STRING:
        return rng.choice(("", "x" * 5000, "\0", "a\nb", "é" * 10, old + old))
    if kind in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return rng.choice((*_REALS, -old, old * 2))
    if field.enum_type is not None and rng.random() < 0.7:
        return rng.choice(field.enum_type.values).number
    low, high = _WIDTHS.get(kind, (0, 2**31 - 1))
    value = rng.choice((*_INTEGERS, old + 1, old - 1, old * 2, -1, -128, rng.randrange(20)))
    return min(max(value, low), high)
