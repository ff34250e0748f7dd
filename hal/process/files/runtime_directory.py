"""The directories in which daemons listen: each user's own, and that of the machine's service."""

import os
import re
import stat
from functools import lru_cache
from pathlib import Path
from typing import Final

from neurald.hal.errors import BadState
from neurald.hal.process.address import Address
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.files.private_directory import make_directory, open_private
from neurald.hal.process.files.temporary_files import named_temporary_files

#: Names another directory of the machine's service than the usual one.
MACHINE_VARIABLE = "NEURALD_MACHINE_DIRECTORY"
MACHINE_DIRECTORY: Final = Path("/run/neurald")
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH

_kept: Path | None = None


def keep_runtime_directory() -> None:
    """Fixes the runtime directory of this process, which is about to move its temporary files."""
    global _kept
    _kept = runtime_directory()


def runtime_directory() -> Path:
    """Returns the directory in which daemons of this user listen.

    It is below `$XDG_RUNTIME_DIR`, or else below the directory of temporary files, and need not
    exist yet.
    """
    if _kept is not None:
        return _kept
    base = environment_variable("XDG_RUNTIME_DIR") or ""
    if base.startswith("/"):
        return _below(base)
    return named_temporary_files() / f"neurald-{os.getuid()}"


@lru_cache(maxsize=8)
def _below(base: str) -> Path:
    return Path(base) / "neurald"


def serve_machine() -> None:
    """Makes the directory of the machine's service the runtime directory of this process."""
    global _kept
    _kept = machine_directory()


def machine_directory() -> Path:
    """Returns the directory in which the machine's service listens, for all users that it admits.

    It need not exist.
    """
    named = environment_variable(MACHINE_VARIABLE) or ""
    return Path(named) if named.startswith("/") else MACHINE_DIRECTORY


def machine_user() -> int | None:
    """Returns the user who runs the machine's service; None if there is none.

    The owner of its directory is that user: root, or this user, has put it where no other user can.
    """
    directory = machine_directory()
    try:
        status = os.lstat(directory)
        os.close(open_private(directory.parent, may_be_link=True))
    except (OSError, BadState):
        return None
    is_safe = stat.S_ISDIR(status.st_mode) and not status.st_mode & _OTHERS_MAY_WRITE
    return status.st_uid if is_safe else None


def in_machine_directory(path: Path) -> bool:
    """Returns True if a socket is in the directory of the machine's service."""
    return path.parent == machine_directory() and machine_user() is not None


def prepare_directory(directory: Path) -> None:
    """Creates the directory of a socket with access for its user only.

    Raises:
        BadState: other users could replace the directory, or it cannot be used.
    """
    is_ours = directory == runtime_directory()
    try:
        make_directory(directory)
        descriptor = open_private(directory, may_be_link=not is_ours)
        try:
            status = os.fstat(descriptor)
            if is_ours and status.st_uid == os.geteuid() and status.st_mode & 0o077:
                os.fchmod(descriptor, 0o700)
        finally:
            os.close(descriptor)
    except OSError as error:
        advice = "; set XDG_RUNTIME_DIR to a directory of your own" if is_ours else ""
        raise BadState(
            f"{directory} cannot be used for a socket: {error.strerror or error}{advice}"
        ) from None


def address_of(driver: str, listen: str | None) -> Address:
    """Returns the address at which a daemon listens; by default a socket in the runtime directory.

    Args:
        driver: the driver of the daemon.
        listen: the address that an operator gave; None for the default.

    Raises:
        BadData: `listen` is not an address, or the path is too long for a socket.
    """
    if listen is not None:
        return Address.parse(listen)
    name = re.sub(r"[^\w.-]", "-", driver)
    return Address.parse(f"unix://{runtime_directory() / name}.sock")
