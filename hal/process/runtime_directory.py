"""Where the daemons of a user listen."""

import os
import re
import tempfile
from pathlib import Path

from neurald.hal.process.address import Address

_kept: Path | None = None


def keep_runtime_directory() -> None:
    """Has it stay where it is in this process, which is about to have its temporary files elsewhere."""
    global _kept
    _kept = runtime_directory()


def runtime_directory() -> Path:
    """Where daemons of this user listen: below `$XDG_RUNTIME_DIR`, or else where temporary files are.

    It need not exist yet.
    """
    if _kept is not None:
        return _kept
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/"):
        return Path(base) / "neurald"
    return Path(tempfile.gettempdir()) / f"neurald-{os.getuid()}"


def address_of(driver: str, listen: str | None) -> Address:
    """Where a daemon listens: as it is told or, if it is not, at a socket of the runtime directory.

    Raises:
        BadData: that is no address, or the path is too long for a socket.
    """
    if listen is not None:
        return Address.parse(listen)
    name = re.sub(r"[^\w.-]", "-", driver)
    return Address.parse(f"unix://{runtime_directory() / name}.sock")
