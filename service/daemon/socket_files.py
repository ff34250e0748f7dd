"""The files of a daemon's sockets."""

import contextlib
import stat
from pathlib import Path

from filelock import FileLock, Timeout

from neurald.hal.errors import BadState
from neurald.hal.process.activation import is_served


def lock_socket(path: Path) -> FileLock:
    """Locks the path of a socket for this process.

    Raises:
        BadState: another process holds the lock, or the file cannot be locked.
    """
    lock = FileLock(path.with_name(f"{path.name}.lock"), timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise BadState(f"another daemon already serves unix://{path} or is about to") from None
    except OSError as error:
        raise BadState(f"{lock.lock_file} cannot be locked: {error.strerror}") from None
    return lock


def release_socket(lock: FileLock) -> None:
    """Removes the lock file while holding it, then releases it.

    `FileLock` notices if the file that it waits for is removed.
    """
    with contextlib.suppress(OSError):
        Path(lock.lock_file).unlink()
    lock.release()


def remove_stale(path: Path) -> None:
    """Removes the socket of a dead daemon; the caller holds the lock.

    Raises:
        BadState: a process serves it, or it is no socket.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise BadState(f"{path} exists and is not a socket; remove it or choose another address")
    if is_served(path):
        raise BadState(f"another process serves unix://{path}")
    path.unlink()
