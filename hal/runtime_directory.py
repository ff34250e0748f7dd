"""Where the daemons of a user listen."""

import os
import re
import tempfile
from pathlib import Path

from neurald.hal.address import Address


def runtime_directory() -> Path:
    """Where daemons of this user listen: below `$XDG_RUNTIME_DIR`, or else where temporary files are.

    It need not exist yet.
    """
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/"):
        return Path(base) / "neurald"
    return Path(tempfile.gettempdir()) / f"neurald-{os.getuid()}"


def default_address(driver: str) -> Address:
    """Where a daemon listens that is not told where.

    Raises:
        BadData: the path is too long for a socket.
    """
    name = re.sub(r"[^\w.-]", "-", driver)
    return Address.parse(f"unix://{runtime_directory() / name}.sock")
