"""Opens files for results that a user names, without waiting for ever where one is a pipe."""

import os
import time
from errno import ENXIO
from pathlib import Path
from typing import BinaryIO, Final

#: How long a pipe may have no reader: it may be about to start.
_READER_S: Final = 10.0
_PAUSE_S: Final = 0.05
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_output(path: Path) -> BinaryIO:
    """Opens a file for writing, which is created or emptied; a pipe has a reader then.

    Raises:
        OSError: the file cannot be written, or is a pipe that nobody has read for some seconds.
    """
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
