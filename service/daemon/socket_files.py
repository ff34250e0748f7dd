"""The files of a daemon's sockets."""

import contextlib
import os
import stat
from pathlib import Path

from filelock import FileLock, Timeout

from neurald.hal.errors import BadState
from neurald.hal.process.activation import is_served
from neurald.hal.process.files.private_directory import open_private


def prepare_shared_directory(directory: Path, group: int) -> None:
    """Creates a directory whose sockets other users can see and get its group.

    Only this user can create and replace files in it. A driver in its sandbox cannot change the
    group of its sockets; they inherit that of the directory.

    Args:
        directory: the directory to create, if it is missing.
        group: the group of the directory.

    Raises:
        BadState: other users could replace the directory or its files, or it cannot be used.
    """
    wanted = stat.S_ISGID | 0o755
    try:
        directory.mkdir(mode=0o755, exist_ok=True)
        descriptor = open_private(directory, may_be_link=False)
        try:
            status = os.fstat(descriptor)
            if status.st_gid != group:
                os.fchown(descriptor, -1, group)
            if status.st_gid != group or stat.S_IMODE(status.st_mode) != wanted:
                os.fchmod(descriptor, wanted)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BadState(
            f"{directory} cannot be used for the machine's sockets: {error.strerror or error}; `neurald "
            "install-service --system` creates it"
        ) from None


def lock_socket(path: Path, otherwise: str = "") -> FileLock:
    """Locks the path of a socket for this process.

    Args:
        path: the path of the socket.
        otherwise: the message if another process holds the lock; "" for that of daemons.

    Raises:
        BadState: another process holds the lock, or the file cannot be locked.
    """
    lock = FileLock(path.with_name(f"{path.name}.lock"), timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise BadState(otherwise or f"another daemon already serves unix://{path} or is about to") from None
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
        BadState: a process serves it, or it is not a socket.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise BadState(f"{path} exists and is not a socket; remove it or choose another address")
    if is_served(path):
        raise BadState(f"another process serves unix://{path}; end it, or listen elsewhere")
    path.unlink()
