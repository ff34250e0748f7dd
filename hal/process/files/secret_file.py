"""Files with 32 random bytes that only their user may read."""

import contextlib
import os
import stat
import time
from pathlib import Path
from typing import Final

from neurald.hal.errors import BadState
from neurald.hal.process.files.private_directory import make_directory

SECRET_BYTES: Final = 32
#: How long a file must be unchanged to be recognised by its state, in seconds. Times of files are
#: coarse.
_REST_S: Final = 3.0
#: How many files are remembered.
_MAX_KNOWN: Final = 8
#: The state and content of files that were read, by path.
_known: dict[str, tuple[object, bytes]] = {}


def secret_bytes(path: Path, what: str, remedy: str) -> bytes:
    """Returns the bytes of a file, and creates it if there is none.

    Concurrent processes agree on one.

    Args:
        path: the path of the file.
        what: it is, for messages.
        remedy: what a user may do about a damaged file, for messages.

    Raises:
        BadState: it cannot be read or created, or other users can access it.
    """
    known = _known.get(str(path))
    if known is not None and known[0] == _state(path):
        return known[1]
    try:
        try:
            return _read(path, what, remedy)
        except FileNotFoundError:
            _create(path)
            return _read(path, what, remedy)
    except OSError as error:
        raise BadState(
            f"{what} {path} cannot be read or created: {error.strerror or error}; "
            "set XDG_STATE_HOME to a folder that you can write to"
        ) from None


def _read(path: Path, what: str, remedy: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise BadState(
                f"{what} {path} is not yours alone: a regular file of yours with mode 0600 is expected"
            )
        content = file.read(SECRET_BYTES + 1)
    if len(content) != SECRET_BYTES:
        raise BadState(f"{what} {path} has {status.st_size} bytes; {SECRET_BYTES} are expected. {remedy}")
    if time.time() - status.st_ctime >= _REST_S:
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[str(path)] = _identity(status), content
    return content


def _state(path: Path) -> object:
    """Returns a file's state, which changes with content, owner and mode; None if it has none."""
    try:
        return _identity(os.stat(path, follow_symlinks=False))  # noqa: PTH116 - for the speed
    except OSError:
        return None


def _identity(status: os.stat_result) -> object:
    return (
        status.st_dev,
        status.st_ino,
        status.st_mode,
        status.st_uid,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        os.geteuid(),
    )


def _create(path: Path) -> None:
    make_directory(path.parent)
    draft = path.with_name(f".{path.name}-{os.urandom(8).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(SECRET_BYTES))
            file.flush()
            os.fsync(descriptor)
        # Unlike a rename, a link never replaces a secret that another process created meanwhile.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
