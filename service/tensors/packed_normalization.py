"""Reads from the metadata of a `.tflite` file how pixels are normalised for its input.

TFLite's metadata tools store a flatbuffer of a schema of its own in one of the file's buffers.
"""

import math
import mmap
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.runtime.tflite.file.flatbuffer import UINT8, UINT32, Flatbuffer, Table
from neurald.service.tensors.files import open_regular

#: What the tools call their entry in the list of metadata, and the identifier of their schema.
_ENTRY, _SCHEMA = "TFLITE_METADATA", b"M001"
_MODEL_SCHEMA: Final = b"TFL3"
#: Fields of the tables of both schemas.
_MODEL_BUFFERS, _MODEL_METADATA = 4, 6
_ENTRY_NAME, _ENTRY_BUFFER = 0, 1
_GRAPHS, _GRAPH_INPUTS, _TENSOR_UNITS = 3, 2, 4
_UNIT_KIND, _UNIT = 0, 1
#: The kind of a unit that normalises, and its fields.
_NORMALIZES = 1
_MEANS, _STDS = 0, 1
#: Maximum count of numbers: one for each channel.
_MAX_CHANNELS = 3


class Normalization(Struct, frozen=True, kw_only=True):
    """An input is (pixel - mean) / std, with one number for all channels or one for each."""

    means: tuple[float, ...]
    stds: tuple[float, ...]


def packed_normalization(path: Path) -> Normalization | None:
    """Returns how a model normalises the pixels of its first input.

    Returns:
        None if the file does not say, or is damaged.
    """
    try:
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            data = memoryview(content)
            try:
                return _normalization(data)
            finally:
                data.release()
    except (OSError, ValueError, BadData):
        return None


def _normalization(data: memoryview) -> Normalization | None:
    model = Flatbuffer(data, _MODEL_SCHEMA).root
    for entry in model.tables(_MODEL_METADATA):
        if entry.string(_ENTRY_NAME) != _ENTRY:
            continue
        buffers, number = model.tables(_MODEL_BUFFERS), entry.integer(_ENTRY_BUFFER, UINT32)
        span = buffers[number].span(0) if number < len(buffers) else None
        if span is not None:
            # A copy, since a view would keep the file mapped.
            found = bytes(data[span[0] : span[0] + span[1]])
            return _of_first_input(Flatbuffer(memoryview(found), _SCHEMA).root)
    return None


def _of_first_input(root: Table) -> Normalization | None:
    graph = _first(root.tables(_GRAPHS))
    tensor = None if graph is None else _first(graph.tables(_GRAPH_INPUTS))
    for unit in () if tensor is None else tensor.tables(_TENSOR_UNITS):
        options = unit.table(_UNIT) if unit.integer(_UNIT_KIND, UINT8) == _NORMALIZES else None
        if options is None:
            continue
        found = Normalization(means=options.reals(_MEANS), stds=options.reals(_STDS))
        return found if _is_sound(found) else None
    return None


def _first(tables: Any) -> Table | None:
    return tables[0] if len(tables) else None


def _is_sound(found: Normalization) -> bool:
    counts = (1, _MAX_CHANNELS)
    numbers = (*found.means, *found.stds)
    return (
        len(found.means) in counts
        and len(found.stds) in counts
        and all(map(math.isfinite, numbers))
        and all(found.stds)
    )
