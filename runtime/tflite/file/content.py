"""Opens a `.tflite` file, or takes the bytes of one, as memory that driver processes can share."""

import contextlib
import os
import stat

from neurald.hal.api_arguments import shown
from neurald.hal.errors import BadData, MissingFile, WrongType
from neurald.hal.memory.mapped_file import FileMemory
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.open_file_limit import descriptor_shortage


def file_content(
    path_or_bytes: str | os.PathLike[str] | bytes | bytearray | memoryview,
) -> tuple[str, Memory]:
    """Returns the name of a file for messages, and its content: a file is mapped, bytes are copied.

    Raises:
        MissingFile: there is no such file.
        BadData: the file cannot be read, is not a regular file, or is empty.
    """
    if isinstance(path_or_bytes, bytes | bytearray | memoryview):
        return f"a model of {memoryview(path_or_bytes).nbytes} bytes", _copy(path_or_bytes)
    return _open(path_or_bytes)


def _copy(content: bytes | bytearray | memoryview) -> Memory:
    """Copies the content of a file to memory that driver processes can share."""
    try:
        view = memoryview(content).cast("B")
    except TypeError as error:
        raise BadData(f"the bytes of a .tflite file must be contiguous: {error}") from None
    if not view.nbytes:
        raise BadData("0 bytes: the content of a .tflite file is expected")
    return SharedMemory.constant(view, "neurald model")


def _open(path: str | os.PathLike[str]) -> tuple[str, Memory]:
    """Maps a file; returns its name for messages and its memory."""
    try:
        name = os.fspath(path)
    except TypeError:
        raise WrongType(
            f"the model is {shown(path)}; the path or the bytes of a .tflite file are expected{read_advice(path)}"
        ) from None
    if not name:
        raise BadData("the path of the model is empty; that of a .tflite file is expected")
    try:
        return name, _map(name)
    except FileNotFoundError as error:
        raise MissingFile(f"{name!s}: {error.strerror}{_path_advice(name)}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise descriptor_shortage(name, error) or BadData(f"{name!s}: {reason}") from None
    except BadData as error:
        raise BadData(f"{name!s}: {error}") from None


def read_advice(model: object) -> str:
    """Returns what to do with an open or mapped file, for the end of a message; "" for others."""
    with contextlib.suppress(TypeError):
        memoryview(model)  # type: ignore[arg-type]
        return "; give a memoryview of it"
    return "; give what its method read returns" if hasattr(model, "read") else ""


def _path_advice(name: str) -> str:
    """Returns why there may be no file of this name, for the end of a message, or ""."""
    if name.startswith("~"):
        return "; Python does not replace the ~, but pathlib.Path(name).expanduser() does"
    return "; this is a URL, whose file is to be downloaded first" if "://" in name else ""


def _map(path: str) -> FileMemory:
    """Maps the file. Anything but a regular file is rejected: opening a pipe would block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadData("it is not a regular file")
        if status.st_size == 0:
            raise BadData("the file is empty")
        return FileMemory(descriptor, path, status)
    finally:
        os.close(descriptor)
