"""The secret of this installation, which authenticates cache entries and artifacts.

32 random bytes in a file of the user, created on first use. A process that can read that file can
act as this user anyway; one that can only write to a cache directory cannot forge an entry.
"""

import os
from functools import lru_cache
from pathlib import Path

from neurald.hal.digests import mac_of
from neurald.hal.errors import BadState
from neurald.hal.process.secret_file import secret_bytes
from neurald.hal.process.user_directories import state_directory

#: Environment variable with an alternative file for the secret.
SECRET_VARIABLE = "NEURALD_SECRET_FILE"  # noqa: S105 - the name of a variable
MAC_BYTES = 32


def secret_path() -> Path:
    """Returns the path of the secret, which need not exist.

    Raises:
        BadState: the user has no home directory.
    """
    named = os.environ.get(SECRET_VARIABLE)
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

    Raises:
        BadState: it cannot be read or created, or other users can access it.
    """
    return secret_bytes(
        secret_path(),
        "the installation's secret",
        "Remove the file: a new secret is created then, and cached models are compiled again",
    )


def authentication_code(secret: bytes, purpose: bytes, content: bytes) -> bytes:
    """Returns the authentication code of `content`, which depends on the secret and the purpose."""
    return mac_of(secret, b"neurald " + purpose + b"\0" + content)
