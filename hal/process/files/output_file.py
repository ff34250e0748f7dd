"""Opens files for results that a user names, without waiting for ever where one is a pipe."""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ENXIO
from pathlib import Path
from typing import BinaryIO, Final

#: How long a pipe may have no reader: it may be about to start.
_READER_S: Final = 10.0
_PAUSE_S: Final = 0.05
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for writing, which is created or emptied; a pipe has a reader then.

    A regular file that cannot be written whole, for example since the disk is full, is removed: a
    part of a result could be taken for all of it.

    Raises:
        OSError: the file cannot be written, or is a pipe that nobody has read for some seconds.
    """
    file = _opened(path)
    is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    try:
        with file:
            yield file
    except BaseException as error:
        if is_regular:
            with suppress(OSError):
                path.unlink()
        # The system names a file only if it cannot be opened.
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            raise OSError(error.errno, f"it cannot be written: {error.strerror}", str(path)) from error
        raise


def _opened(path: Path) -> BinaryIO:
    end = time.monotonic() + _READER_S
    while True:
        try:
            descriptor = os.open(path, _FLAGS, 0o666)
            break
        except OSError as error:
            if error.errno != ENXIO or not path.is_fifo():
                raise  # also of a socket
            if time.monotonic() >= end:
                raise OSError(ENXIO, "nobody reads this pipe; start its reader first", str(path)) from None
        time.sleep(_PAUSE_S)
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb")


def write_output(path: Path, content: bytes) -> None:
    """Writes a file as a whole; see `open_output`."""
    with open_output(path) as file:
        file.write(content)
