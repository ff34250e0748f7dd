"""Removes files that this process has made, but not files that others have put in their place."""

import contextlib
import os
from pathlib import Path


class OwnFile:
    """A file that this process has made.

    It stays open, since the system gives the number of a file that is gone to the next one: a
    socket that another process has bound at the same path could not be told from that of this
    process.

    Attributes:
        path: where it is, unless another one has replaced it.

    Raises:
        OSError: there is no such file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)

    @property
    def is_there(self) -> bool:
        """True if it is at its path, and was not replaced."""
        if self._descriptor < 0:
            return False
        try:
            return os.path.samestat(self.path.lstat(), os.fstat(self._descriptor))
        except OSError:
            return False

    def move(self, path: Path) -> None:
        """Moves it to a path, where it replaces what is there.

        Raises:
            OSError: it cannot be moved there.
        """
        self.path.replace(path)
        self.path = path

    def remove(self) -> None:
        """Removes it, unless it was replaced."""
        if self.is_there:
            self.path.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Leaves it to others."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)
