"""The secret of this installation, which authenticates cache entries and artifacts.

32 random bytes in a file of the user, created on first use. A process that can read that file can
act as this user anyway; one that can only write to a cache directory cannot forge an entry.
"""

import contextlib
import os
import stat
from pathlib import Path

from neurald.hal.digests import mac_of
from neurald.hal.errors import BadState
from neurald.hal.process.private_directory import make_directory
from neurald.hal.process.user_directories import state_directory

#: Environment variable with an alternative file for the secret.
SECRET_VARIABLE = "NEURALD_SECRET_FILE"  # noqa: S105 - the name of a variable
SECRET_BYTES = 32
MAC_BYTES = 32


def secret_path() -> Path:
    """Returns the path of the secret, which need not exist.

    Raises:
        BadState: the user has no home directory.
    """
    named = os.environ.get(SECRET_VARIABLE)
    path = Path(named) if named else state_directory() / "secret"
    if not path.is_absolute():
        raise BadState(
            f"there is no path for the installation's secret: {path} is not absolute; set HOME or {SECRET_VARIABLE}"
        )
    return path


def installation_secret() -> bytes:
    """Returns the secret, and creates it if there is none. Concurrent processes agree on one.

    Raises:
        BadState: it cannot be read or created, or other users can access it.
    """
    path = secret_path()
    try:
        try:
            return _read(path)
        except FileNotFoundError:
            _create(path)
            return _read(path)
    except OSError as error:
        raise BadState(
            f"the installation's secret {path} cannot be read or created: {error.strerror or error}"
        ) from None


def authentication_code(secret: bytes, purpose: bytes, content: bytes) -> bytes:
    """Returns the authentication code of `content`, which depends on the secret and the purpose."""
    return mac_of(secret, b"neurald " + purpose + b"\0" + content)


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise BadState(
                f"the installation's secret {path} is not yours alone: a regular file of yours with mode 0600 is expected"
            )
        content = file.read(SECRET_BYTES + 1)
    if len(content) != SECRET_BYTES:
        raise BadState(
            f"the installation's secret {path} has {status.st_size} bytes; {SECRET_BYTES} are expected. "
            "Remove the file: a new secret is created then, and cached models are compiled again"
        )
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
