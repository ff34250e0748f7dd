"""The directory in which the daemons of a user listen."""

import os
import re
import tempfile
from pathlib import Path

from neurald.hal.process.address import Address

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
