"""The secret of this installation: what cache entries and artifacts are authenticated with.

32 random bytes in a file of the user's own, made when they are first needed. Who can read that file can do everything in this
user's name anyway; whoever can only write to a cache directory cannot make an entry that is believed.
"""

import contextlib
import hmac
import os
import secrets
import stat
from pathlib import Path

import platformdirs

from neurald.hal.errors import BadState
from neurald.hal.process.private_directory import make_directory

#: Names another file for the secret.
SECRET_VARIABLE = "NEURALD_SECRET_FILE"  # noqa: S105 - the name of a variable
SECRET_BYTES = 32
MAC_BYTES = 32


def secret_path() -> Path:
    """Where the secret is, or will be.

    Raises:
        BadState: the user has no home, so that there is no place for it.
    """
    named = os.environ.get(SECRET_VARIABLE)
    path = Path(named) if named else platformdirs.user_state_path("neurald") / "secret"
    if not path.is_absolute():
        raise BadState(f"there is no place for the installation's secret: {path} is not absolute (no HOME?)")
    return path


def installation_secret() -> bytes:
    """The secret, made if there is none yet; processes that make it at the same time agree on one.

    Raises:
        BadState: it cannot be read or made, or it is not the user's alone.
    """
    path = secret_path()
    try:
        try:
            return _read(path)
        except FileNotFoundError:
            _create(path)
            return _read(path)
    except OSError as error:
        raise BadState(f"the installation's secret {path}: {error.strerror or error}") from None


def authentication_code(secret: bytes, purpose: bytes, content: bytes) -> bytes:
    """The code that only the installation can make for `content`; one for another purpose is another one."""
    return hmac.digest(secret, b"neurald " + purpose + b"\0" + content, "sha256")


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
            "Remove it to have a new one made; what was cached is then compiled again"
        )
    return content


def _create(path: Path) -> None:
    make_directory(path.parent)
    draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            os.fsync(descriptor)
        # Unlike a rename, a link never replaces the secret that another process has made meanwhile.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
