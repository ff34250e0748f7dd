"""The secret of this installation, which authenticates cache entries and artifacts.

32 random bytes in a file of the user, created on first use. A process that can read that file can
act as this user anyway; one that can only write to a cache directory cannot forge an entry. A
driver's process can write to the cache, so it has only a secret that is derived from this one.
"""

import contextlib
import os
from functools import lru_cache
from pathlib import Path

from neurald.hal.digests import mac_of
from neurald.hal.errors import BadState
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.files.secret_file import secret_bytes
from neurald.hal.process.files.user_directories import state_directory

#: Environment variable with an alternative file for the secret.
SECRET_VARIABLE = "NEURALD_SECRET_FILE"  # noqa: S105 - the name of a variable
MAC_BYTES = 32
_MAX_REASON_BYTES = 2000

#: The secret that this process has in place of the installation's, or the reason why there is none;
#: None for the installation's. Its owner.
_derived: bytes | BadState | None = None
_owner = ""


def secret_path() -> Path:
    """Returns the path of the secret, which need not exist.

    Raises:
        BadState: the user has no home directory.
    """
    named = environment_variable(SECRET_VARIABLE)
    path = _path_of(named) if named else _path_in(state_directory())
    if not path.is_absolute():
        raise BadState(
            f"there is no path for the installation's secret: {path} is not absolute; set HOME or {SECRET_VARIABLE}"
        )
    return path


# Paths are created rarely, since that takes as long as looking for a file.


@lru_cache(maxsize=8)
def _path_of(named: str) -> Path:
    return Path(named)


@lru_cache(maxsize=8)
def _path_in(directory: Path) -> Path:
    return directory / "secret"


def installation_secret() -> bytes:
    """Returns the secret, and creates it if there is none. Concurrent processes agree on one.

    After `keep_derived_secret` it is the derived one.

    Raises:
        BadState: it cannot be read or created, or other users can access it.
    """
    if isinstance(_derived, BadState):
        raise BadState(str(_derived))
    if _derived is not None:
        return _derived
    return secret_bytes(
        secret_path(),
        "the installation's secret",
        "Remove the file: a new secret is created then, and cached models are compiled again",
    )


def secret_owner() -> str:
    """Returns whose secret `installation_secret` returns; empty for the installation's own."""
    return _owner


def derived_secret(secret: bytes, owner: str) -> bytes:
    """Returns the secret of an owner, such as a driver, derived from the installation's."""
    return authentication_code(secret, b"secret of", owner.encode())


def authentication_code(secret: bytes, purpose: bytes, content: bytes) -> bytes:
    """Returns the authentication code of `content`, which depends on the secret and the purpose."""
    return mac_of(secret, b"neurald " + purpose + b"\0" + content)


def keep_derived_secret(owner: str) -> None:
    """Gives this process a secret that is derived from the installation's, in place of that.

    A child derives it, so that the installation's is never in the memory of this process, which may
    run code that is not trusted. The process must have a single thread.

    Args:
        owner: what the process is for. Processes of the same owner have the same secret.

    Raises:
        OSError: no child can be started.
    """
    global _derived, _owner
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            _write_derived(owner, writing)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        secret, reason = pipe.read(MAC_BYTES), pipe.read(_MAX_REASON_BYTES).decode(errors="replace")
    # A process that was started with SIGCHLD ignored cannot wait for a child that has ended.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    _owner = owner
    is_there = len(secret) == MAC_BYTES and not reason
    _derived = secret if is_there else BadState(reason or "the installation's secret could not be read")


def _write_derived(owner: str, descriptor: int) -> None:
    """Writes the derived secret, or as many other bytes and the reason why there is none."""
    try:
        said = derived_secret(installation_secret(), owner)
    except BadState as error:
        said = bytes(MAC_BYTES) + str(error).encode()
    os.write(descriptor, said)
