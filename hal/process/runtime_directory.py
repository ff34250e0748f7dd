"""The directory in which the daemons of a user listen."""

import os
import re
import tempfile
from pathlib import Path

from neurald.hal.errors import BadState
from neurald.hal.process.address import Address
from neurald.hal.process.private_directory import make_directory, open_private

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
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/"):
        return Path(base) / "neurald"
    return Path(tempfile.gettempdir()) / f"neurald-{os.getuid()}"


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
        raise BadState(f"{directory} cannot be used for a socket: {error.strerror or error}") from None


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
