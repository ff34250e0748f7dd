"""`load_tflite`: converts a `.tflite` file to a model."""

import os
from collections.abc import Mapping, Sequence
from functools import partial

from neurald.hal.api_arguments import instance, mapping
from neurald.hal.errors import BadData, WrongType
from neurald.hal.memory.mapped_file import FileMemory
from neurald.hal.memory.pool import Memory
from neurald.hal.model.model import Model
from neurald.hal.process.memory.gc_pause import paused_gc
from neurald.hal.process.threads.preparing import PREPARING
from neurald.runtime.tflite.file.content import file_content
from neurald.runtime.tflite.kept.converted import ConvertedFile
from neurald.runtime.tflite.kept.stored_model import restored_model, stored_model


def load_tflite(
    path_or_bytes: str | os.PathLike[str] | bytes | bytearray | memoryview,
    signature: str | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Model:
    """Loads the model in a `.tflite` file, or in the bytes of one.

    Bytes are copied. A file stays mapped as long as the model exists, and holds its constants: it
    must not be written or truncated meanwhile (replacing it by another file is fine). What the file
    was converted to is kept in the default cache, and used again while the file is unchanged.

    Each signature becomes a separate model. Variables that a signature assigns are variables of all
    signatures that read them; `CompilationBuilder.share_state` makes compilations share their
    values.

    Args:
        path_or_bytes: the file, or its content.
        signature: the entry point to load; its inputs and outputs are ordered by name. None: the
            first subgraph, with inputs and outputs in the file's order, named like the tensors.
        shapes: shapes of inputs by name, instead of those in the file. A length of 0 leaves a
            dimension open.

    Raises:
        WrongType: an argument is of another type; this is a BadData and a TypeError.
        MissingFile: there is no such file; this is a BadData and a FileNotFoundError.
        BadData: the file cannot be read, is damaged, has no such signature, or has unsupported
            operators; the message lists all of them.
    """
    if signature is not None:
        instance(signature, str, "the signature")
    if shapes is not None:
        mapping(shapes, "shapes", "a mapping from names of inputs to shapes")
    with PREPARING, paused_gc():
        return _load(path_or_bytes, signature, shapes)


def _load(
    path_or_bytes: str | os.PathLike[str] | bytes | bytearray | memoryview,
    signature: str | None,
    shapes: Mapping[str, Sequence[int]] | None,
) -> Model:
    name, memory = file_content(path_or_bytes)
    if shapes or not isinstance(memory, FileMemory):
        return _convert(name, memory, signature, shapes or {})
    converted = ConvertedFile(memory, signature)
    model = converted.load(restored_model, lambda: stored_model(_convert(name, memory, signature, {})))
    if model is None:
        model = _convert(name, memory, signature, {})
        converted.store(model, partial(stored_model, model))
    return model


def _convert(name: str, memory: Memory, signature: str | None, shapes: Mapping[str, Sequence[int]]) -> Model:
    from neurald.runtime.tflite.conversion.file_conversion import (
        convert,  # Not needed for a file in the cache.
    )

    try:
        return convert(memory, signature, shapes)
    except BadData as error:
        kind = WrongType if isinstance(error, WrongType) else BadData
        raise kind(f"{name}: {error}") from None
