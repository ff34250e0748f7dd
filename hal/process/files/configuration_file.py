"""Finds and reads the configuration file of the service manager.

The manager checks it strictly (`neurald.service.manager.settings.configuration`). Applications read
from it whether they may start a manager, and which drivers that would supervise.
"""

import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from neurald.hal.errors import BadData, BadState
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.files.bounded_read import read_at_most
from neurald.hal.process.files.user_directories import configuration_directory

#: Environment variables: the configuration file, and the drivers, separated by commas.
CONFIG_VARIABLE = "NEURALD_CONFIG"
DRIVERS_VARIABLE = "NEURALD_SERVE_DRIVERS"
_SYSTEM_FILE: Final = Path("/etc/neurald/neurald.toml")
#: Limits the file, which is read as a whole.
_MAX_FILE_BYTES: Final = 1 << 20


def configuration_path(chosen: Path | None = None, *, is_system: bool = False) -> tuple[Path, bool]:
    """Returns the path of the configuration file, and whether somebody chose it.

    Args:
        chosen: the path on the command line.
        is_system: whether the machine's service reads it.
    """
    if chosen is not None:
        return chosen, True
    if named := environment_variable(CONFIG_VARIABLE):
        return Path(named), True
    if is_system:
        return _SYSTEM_FILE, False
    own = _in(configuration_directory())
    # With sudo, XDG_CONFIG_HOME may still be another user's folder, which this one cannot enter.
    return (own if os.path.exists(own) else _SYSTEM_FILE), False  # noqa: PTH110 - never raises


@lru_cache(maxsize=8)
def _in(directory: Path) -> Path:
    return directory / "neurald.toml"


def read_configuration(path: Path, *, must_exist: bool) -> dict[str, Any]:
    """Reads the configuration file; returns no values if there is none and none has to be.

    Raises:
        BadState: it cannot be read.
        BadData: it is a pipe, is not TOML, or is too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            # /dev/null is a file without settings.
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                raise BadData(f"the configuration file {path} is a pipe; a file is expected")
            text = read_at_most(file, _MAX_FILE_BYTES)
    except FileNotFoundError:
        if must_exist:
            raise BadState(
                f"the configuration file {path} does not exist; create it, or correct what names it (--config or "
                "NEURALD_CONFIG)"
            ) from None
        return {}
    except OSError as error:
        raise BadState(f"the configuration file {path} cannot be read: {error.strerror or error}") from None
    if len(text) > _MAX_FILE_BYTES:
        raise BadData(f"the configuration file {path} has more than {_MAX_FILE_BYTES} bytes")
    import tomllib  # most users have no file

    try:
        return tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:  # also of numbers with thousands of digits
        raise BadData(f"the configuration file {path}: {error}") from None


def listed_drivers() -> tuple[str, ...]:
    """Returns the drivers that the environment names; empty if it names none."""
    listed = (environment_variable(DRIVERS_VARIABLE) or "").split(",")
    return tuple(each.strip() for each in listed if each.strip())
