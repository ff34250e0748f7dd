"""Files in memory, and how to tell without reading one that it is still what it was.

A file whose identity, size and times are those that it had when it was read has not been written to since: whoever writes to a
file, or maps it to write, moves the time of its last change to now, and nobody can set that time. Two things are not told by that,
and are left out here. Two writes in one tick of the clock have one time, so only a file that was at rest for a while when
it was looked at is known by its times. And what was not yet on the disk when the machine went down may come back as something
else, so nothing is known of a file across a boot.
"""

import mmap
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from neurald.hal.memory.pool import HostMemory

#: How long a file must have been at rest, so that a later write is sure to change its times; some file systems count seconds.
_REST_NS = 2_500_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """What a file was when somebody looked at it. Equal states of one file mean equal bytes, if it was at rest.

    Attributes:
        boot: which run of the system's kernel that was in.
        modified_ns, changed_ns: when its content was written, and when anything about it changed, on the clock of the file system.
    """

    boot: str
    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self | None:
        """That of a file; None where the system does not tell enough."""
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
        """Whether it has not been written to for so long that any later write is seen in its times."""
        return max(self.modified_ns, self.changed_ns) + _REST_NS < time.time_ns()


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return ""


class FileMemory(HostMemory):
    """A regular file, mapped to be read. It must not be cut while the memory is used.

    Args:
        descriptor: of the file, which may be closed afterwards.
        path: by which it was opened.

    Raises:
        OSError, ValueError: it cannot be mapped; a file without bytes cannot.
    """

    def __init__(self, descriptor: int, path: str) -> None:
        status = os.fstat(descriptor)
        super().__init__(mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ))
        self._path = os.path.abspath(path)  # noqa: PTH100 - links stay what they are
        self._identity = (status.st_dev, status.st_ino, status.st_size)

    def state(self) -> FileState | None:
        """That of the file now; None where it is not at rest, or has another name by now."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 - as it is named
        except OSError:
            return None
        if (status.st_dev, status.st_ino, status.st_size) != self._identity:
            return None
        state = FileState.of(status)
        return state if state is not None and state.is_at_rest else None
