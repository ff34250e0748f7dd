"""Encodes `.onnx` files field by field: only little of Protocol Buffers is needed."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_TYPES = {
    np.dtype(np.float32): 1,
    np.dtype(np.uint8): 2,
    np.dtype(np.int8): 3,
    np.dtype(np.int32): 6,
    np.dtype(np.int64): 7,
}
_REAL, _INTEGER, _TEXT, _INTEGERS = 1, 2, 3, 7

Attribute = int | float | str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """Encoded parts of a graph."""

    nodes: Sequence[bytes]
    constants: Sequence[bytes]
    inputs: Sequence[bytes]
    outputs: Sequence[bytes]


def model(graph: Graph, *, ir_version: int, opset: int) -> bytes:
    """Encodes a file."""
    encoded = _message(
        *((1, each) for each in graph.nodes),
        (2, b"network"),
        *((5, each) for each in graph.constants),
        *((11, each) for each in graph.inputs),
        *((12, each) for each in graph.outputs),
    )
    return _message((1, ir_version), (7, encoded), (8, _message((1, b""), (2, opset))))


def node(
    kind: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Attribute]
) -> bytes:
    """Encodes an operation, which gets the name of its first output."""
    return _message(
        *((1, name.encode()) for name in inputs),
        *((2, name.encode()) for name in outputs),
        (3, outputs[0].encode()),
        (4, kind.encode()),
        *((5, _attribute(name, value)) for name, value in attributes.items()),
    )


def tensor(name: str, value: Any) -> bytes:
    """Encodes a constant."""
    array = np.asarray(value)
    return _message(
        *((1, length) for length in array.shape),
        (2, _TYPES[array.dtype]),
        (8, name.encode()),
        (9, np.ascontiguousarray(array).tobytes()),
    )


def port(name: str, shape: Sequence[int], dtype: "np.dtype[Any]") -> bytes:
    """Encodes an input or output."""
    lengths = _message(*((1, _message((1, length))) for length in shape))
    return _message((1, name.encode()), (2, _message((1, _message((1, _TYPES[dtype]), (2, lengths))))))


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return _message((1, name.encode()), (3, value), (20, _INTEGER))
    if isinstance(value, float):
        return _message((1, name.encode()), (2, value), (20, _REAL))
    if isinstance(value, str):
        return _message((1, name.encode()), (4, value.encode()), (20, _TEXT))
    return _message((1, name.encode()), *((8, each) for each in value), (20, _INTEGERS))


def _message(*fields: tuple[int, int | float | bytes]) -> bytes:
    """Encodes a message of numbers and length-delimited fields."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            # Negative numbers have 64 bits.
            parts += [_varint(number << 3), _varint(value % (1 << 64))]
        elif isinstance(value, float):
            parts += [_varint(number << 3 | 5), struct.pack("<f", value)]
        else:
            parts += [_varint(number << 3 | 2), _varint(len(value)), value]
    return b"".join(parts)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
