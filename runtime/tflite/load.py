"""`load_tflite`: converts a `.tflite` file to a model."""

import os
import stat

from neurald.hal.errors import BadData
from neurald.hal.memory.mapped_file import FileMemory
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.model.types import Model
from neurald.runtime.tflite.converted import ConvertedFile


def load_tflite(
    path_or_bytes: str | os.PathLike[str] | bytes | bytearray | memoryview, signature: str | None = None
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

    Raises:
        BadData: the file cannot be read, is damaged, has no such signature, or has unsupported
            operators; the message lists all of them.
    """
    if isinstance(path_or_bytes, bytes | bytearray | memoryview):
        name = f"{memoryview(path_or_bytes).nbytes} bytes"
        return _convert(name, _copy(path_or_bytes), signature)
    name, file = _open(path_or_bytes)
    converted = ConvertedFile(file, signature)
    model = converted.load()
    if model is None:
        model = _convert(name, file, signature)
        converted.store(model)
    return model


def _convert(name: str, memory: Memory, signature: str | None) -> Model:
    from neurald.runtime.tflite.conversion import convert  # Not needed for a file in the cache.

    try:
        return convert(memory, signature)
    except BadData as error:
        raise BadData(f"{name}: {error}") from None


def _copy(content: bytes | bytearray | memoryview) -> Memory:
    """Copies the content of a file to memory that driver processes can share."""
    try:
        view = memoryview(content).cast("B")
    except TypeError as error:
        raise BadData(f"the bytes of a .tflite file must be contiguous: {error}") from None
    if not view.nbytes:
        raise BadData("0 bytes: the content of a .tflite file is expected")
    return SharedMemory.constant(view, "neurald model")


def _open(path: str | os.PathLike[str]) -> tuple[str, FileMemory]:
    """Maps a file; returns its name for messages and its memory."""
    try:
        name = os.fspath(path)
    except TypeError:
        raise BadData(
            f"a path or the bytes of a .tflite file are expected, not {type(path).__name__}"
        ) from None
    try:
        return name, _map(name)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadData(f"{name!s}: {reason}") from None
    except BadData as error:
        raise BadData(f"{name!s}: {error}") from None


def _map(path: str) -> FileMemory:
    """Maps the file. Anything but a regular file is rejected: opening a pipe would block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadData("it is not a regular file")
        if status.st_size == 0:
            raise BadData("the file is empty")
        return FileMemory(descriptor, path)
    finally:
        os.close(descriptor)
