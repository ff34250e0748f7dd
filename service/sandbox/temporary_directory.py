"""Creates a directory for the temporary files of a process that may not write to the shared one."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

from neurald.hal.errors import BadState
from neurald.hal.process.files.runtime_directory import keep_runtime_directory, runtime_directory
from neurald.hal.process.files.temporary_files import temporary_files

_PREFIX = "neurald-driver-"
#: How many directories are made before it is given up: others may remove a few of them at once.
_ATTEMPTS = 20


class TemporaryDirectory:
    """A new directory that this process and its children use for temporary files from now on.

    Attributes:
        path: the path of the directory.

    Raises:
        BadState: there can be none.
    """

    def __init__(self) -> None:
        keep_runtime_directory()
        shared = shared_directory()
        remove_abandoned(shared)
        self.path, self._lock = _make(shared)
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.path)

    def remove(self) -> None:
        """Removes the directory and its contents."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def shared_directory() -> Path:
    """Returns the directory in which these directories are.

    It is that of temporary files. A container that is read-only may have none, but then it has a
    runtime directory, or no process could be reached.
    """
    return temporary_files() or runtime_directory()


def _make(shared: Path) -> tuple[Path, int]:
    """Creates a directory.

    Returns:
        Its path, and a descriptor that holds its lock as long as this process lives.

    Raises:
        BadState: there can be none, or it cannot be locked.
    """
    for _ in range(_ATTEMPTS):
        try:
            path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=shared))
        except OSError as error:
            raise BadState(
                f"no temporary directory can be made in {shared}: {error.strerror or error}"
            ) from None
        descriptor = _locked(path)
        # Another process may have removed it as abandoned before it was locked.
        if descriptor is not None:
            if path.is_dir():
                return path, descriptor
            os.close(descriptor)
        with contextlib.suppress(OSError):
            path.rmdir()
    raise BadState(
        f"no temporary directory in {shared} can be locked; set TMPDIR to a directory of a file system with locks"
    )


def _locked(path: Path) -> int | None:
    """Locks a directory and returns the descriptor that holds the lock.

    Returns None if another process holds the lock, or another user owns the directory.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def remove_abandoned(shared: Path) -> None:
    """Removes the directories of processes that were killed."""
    for path in shared.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(path.lstat().st_mode) and (descriptor := _locked(path)) is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(descriptor)
