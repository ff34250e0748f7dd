"""Files in memory, and detection of changes without reading them.

A file with the same identity, size and times as when it was read has not been written to since:
writing to a file, or mapping it for writing, sets its change time to now, and that time cannot be
set otherwise. Two exceptions are handled here. Two writes within one clock tick have the same time,
so a file is recognised by its times only if it had been unmodified for a while when it was
examined. And data that was not on disk at a system crash may come back different, so nothing is
assumed about a file across a boot.
"""

import mmap
import os
import time
from functools import cache
from pathlib import Path
from typing import Self

from msgspec import Struct

from neurald.hal.memory.pool import HostMemory, leave_pages

#: Minimum time since the last change, so that any later write changes the times; some file systems
#: count seconds.
_REST_NS = 2_500_000_000


class FileState(Struct, frozen=True, kw_only=True):
    """Identity, size and times of a file. Equal states of a file at rest imply equal bytes.

    Attributes:
        boot: boot ID of the kernel.
        modified_ns, changed_ns: when its content was written, and when anything about it changed,
            on the clock of the file system.
    """

    boot: str
    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self | None:
        """Returns the state of a file; None if the system does not report enough."""
        boot = _boot()
        if not boot:
            return None
        return cls(
            boot=boot,
            device=status.st_dev,
            inode=status.st_ino,
            size_bytes=status.st_size,
            modified_ns=status.st_mtime_ns,
            changed_ns=status.st_ctime_ns,
        )

    @property
    def is_at_rest(self) -> bool:
        """True if the last change is so old that any later write changes the times."""
        return max(self.modified_ns, self.changed_ns) + _REST_NS < time.time_ns()


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return ""


class FileMemory(HostMemory):
    """A regular file, mapped read-only. It must not be truncated while the memory is used.

    Args:
        descriptor: the descriptor of the file; it may be closed afterwards.
        path: the path by which it was opened.
        status: the status of the descriptor, if the caller has just asked for it.

    Attributes:
        first_state: the state in which it was opened; None if it was not at rest.

    Raises:
        OSError, ValueError: the file cannot be mapped, for example because it is empty.
    """

    def __init__(self, descriptor: int, path: str, status: os.stat_result | None = None) -> None:
        self._status = os.fstat(descriptor) if status is None else status
        super().__init__(mmap.mmap(descriptor, self._status.st_size, access=mmap.ACCESS_READ))
        # The working directory may change. Symbolic links are kept.
        self._path = path if path.startswith("/") else os.path.abspath(path)  # noqa: PTH100
        self.first_state = _at_rest(self._status)

    def _leave(self, offset: int, length: int) -> None:
        leave_pages(self._buffer, offset, length)

    def state(self) -> FileState | None:
        """Returns the current state of the file; None if it is not at rest or was replaced."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 - the path may name another file by now
        except OSError:
            return None
        first = self._status
        if (status.st_dev, status.st_ino, status.st_size) != (first.st_dev, first.st_ino, first.st_size):
            return None
        return _at_rest(status)


def _at_rest(status: os.stat_result) -> FileState | None:
    state = FileState.of(status)
    return state if state is not None and state.is_at_rest else None
