"""Subgraphs of `.tflite` files as bytes, and as models with tensors by their numbers."""

from collections.abc import Mapping

import msgspec

from neurald.hal.decoding import from_msgpack
from neurald.hal.memory.pool import Memory
from neurald.hal.model.model import Model
from neurald.hal.records import DECODE_ERRORS, replace
from neurald.runtime.tflite.kept.stored_model import ReadGraphs, StoredModel, restored_model, stored_model


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
    """An entry, with the outline of its model."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    origins: tuple[tuple[tuple[int, int], int], ...]
    outline: bytes


def stored_entry(entry: Entry) -> StoredModel | None:
    """Returns an entry as bytes; see `stored_model`."""
    stored = stored_model(entry.model)
    if stored is None:
        return None
    kept = _Stored(
        inputs=entry.inputs,
        outputs=entry.outputs,
        origins=tuple(entry.origins.items()),
        outline=stored.outline,
    )
    return replace(stored, outline=msgspec.msgpack.encode(kept))


def restored_entry(outline: bytes | memoryview, file: Memory, read: ReadGraphs) -> Entry | None:
    """Returns an entry from what `stored_entry` returned; None if it is of another version.

    Args:
        outline: the outline of the entry.
        file: the file that the model was converted from.
        read: returns the rest.
    """
    try:
        stored = from_msgpack(outline, _Stored)
    except (ValueError, *DECODE_ERRORS):
        return None
    model = restored_model(stored.outline, file, read)
    if model is None:
        return None
    return Entry(model=model, inputs=stored.inputs, outputs=stored.outputs, origins=dict(stored.origins))
