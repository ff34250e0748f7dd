"""A log file of bounded size, which takes the place of stderr."""

import os
import sys
from pathlib import Path
from typing import Final

from neurald.hal.errors import BadState
from neurald.hal.process.files.private_directory import open_private_file

#: A file of this size becomes `NAME.1`, in place of the one before, and a new one begins.
MAX_BYTES: Final = 1 << 20


class BoundedLog:
    """A stream for a log's handler. All else that the process writes to stderr goes there, too.

    Args:
        path: the path of the file, with access for this user only.
        max_bytes: see `MAX_BYTES`.

    Raises:
        BadState: the file cannot be opened.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        try:
            self._open()
        except OSError as error:
            raise BadState(f"the log {path} cannot be opened: {error.strerror or error}") from None

    def _open(self) -> None:
        sys.stderr.flush()
        descriptor = open_private_file(str(self._path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, sys.stderr.fileno())
        os.close(descriptor)

    def write(self, text: str) -> int:
        """Writes text; returns how many characters there were."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """Ends a message, and begins a new file if this one is full.

        Raises:
            OSError: the disk is full, for example.
        """
        sys.stderr.flush()
        if os.fstat(sys.stderr.fileno()).st_size >= self._max_bytes:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._open()
