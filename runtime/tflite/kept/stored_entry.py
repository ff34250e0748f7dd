"""Subgraphs of `.tflite` files as models, whose tensors stay addressed by their numbers, and as bytes."""

from collections.abc import Mapping

import msgspec

from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Model
from neurald.hal.records import DECODE_ERRORS
from neurald.runtime.tflite.kept.stored_model import restored_model, stored_model


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A subgraph as a model.

    Attributes:
        model: its inputs and outputs are `inputs` and `outputs`.
        inputs, outputs: tensors of the subgraph; those of decompositions have higher numbers.
        origins: see `TfliteSubgraph`.
    """

    model: Model
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    origins: Mapping[tuple[int, int], int] = {}


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """An entry, with its model as `stored_model` returns it."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    origins: tuple[tuple[tuple[int, int], int], ...]
    model: bytes


def stored_entry(entry: Entry) -> tuple[bytes, bytes] | None:
    """Returns an entry as bytes, and the memories that it has besides the file; see `stored_model`."""
    stored = stored_model(entry.model)
    if stored is None:
        return None
    content, added = stored
    kept = _Stored(
        inputs=entry.inputs, outputs=entry.outputs, origins=tuple(entry.origins.items()), model=content
    )
    return msgspec.msgpack.encode(kept), added


def restored_entry(content: bytes | memoryview, file: Memory, added: Memory) -> Entry | None:
    """Returns an entry from what `stored_entry` returned; None if it is of another version.

    Args:
        content: the bytes.
        file: the file that the model was converted from.
        added: the joined memories.
    """
    try:
        stored = msgspec.msgpack.decode(content, type=_Stored)
    except (ValueError, *DECODE_ERRORS):
        return None
    model = restored_model(stored.model, file, added)
    if model is None:
        return None
    return Entry(model=model, inputs=stored.inputs, outputs=stored.outputs, origins=dict(stored.origins))
