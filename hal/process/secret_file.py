"""Files with 32 random bytes that only their user may read."""

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from neurald.hal.errors import BadState
from neurald.hal.process.private_directory import make_directory

SECRET_BYTES: Final = 32


def secret_bytes(path: Path, what: str, remedy: str) -> bytes:
    """Returns the bytes of a file, and creates it if there is none. Concurrent processes agree on one.

    Args:
        path: of the file.
        what: it is, for messages.
        remedy: what a user may do about a damaged file, for messages.

    Raises:
        BadState: it cannot be read or created, or other users can access it.
    """
    try:
        try:
            return _read(path, what, remedy)
        except FileNotFoundError:
            _create(path)
            return _read(path, what, remedy)
    except OSError as error:
        raise BadState(f"{what} {path} cannot be read or created: {error.strerror or error}") from None


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
    return content


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
