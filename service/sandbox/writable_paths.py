"""Lists the paths that a driver process must be able to write to.

They are the directory of its socket or token, neurald's cache, devices, and its own caches of
vendors' runtimes (`vendor_caches.py`). All other files are read-only. Temporary files go to a
directory of the process's own.
"""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from neurald.hal.cache.secret import installation_secret
from neurald.hal.crashes.records import crash_directory
from neurald.hal.errors import BadState, Error
from neurald.hal.process.address import Address
from neurald.hal.process.files.private_directory import make_directory
from neurald.hal.process.files.runtime_directory import runtime_directory
from neurald.hal.process.files.user_directories import (
    cache_directory,
    configuration_directory,
    state_directory,
)

#: Compute devices, and devices that hold no data.
_DEVICES = (
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
    *("/dev/dri", "/dev/kfd", "/dev/accel", "/dev/dma_heap", "/dev/udmabuf", "/dev/mali0"),
    *(
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidia-modeset",
        "/dev/nvidia-caps",
    ),
)
_NUMBERED_DEVICES = "nvidia[0-9]*"


def daemon_directory(address: Address) -> Path:
    """Returns the directory of a daemon's sockets or, if it listens on TCP, of its token."""
    return runtime_directory() if address.path is None else address.path.parent


def make_writable_paths(address: Address) -> list[Path]:
    """Creates a daemon's missing directories, also that of crashes, and the installation's secret.

    Returns:
        All paths that the daemon must be able to write to, besides the caches of vendors' runtimes.
    """
    directories = [daemon_directory(address)]
    # A user without a home directory has no cache.
    with contextlib.suppress(Error):
        directories.append(cache_directory())
        installation_secret()
    directories = [directory for directory in directories if directory.is_absolute()]
    # The last one can only be read.
    for directory in (*directories, *filter(Path.is_absolute, [crash_directory()])):
        # The code that uses the directory reports the error.
        with contextlib.suppress(OSError):
            make_directory(directory)
    devices = [Path(device) for device in _DEVICES]
    return [*directories, *devices, *Path("/dev").glob(_NUMBERED_DEVICES)]


def require_protected(writable: Iterable[Path]) -> None:
    """Raises an error if a driver could change what is kept about drivers, or settings.

    Args:
        writable: the paths that the driver may write to.

    Raises:
        BadState: it could; the message says which directory to move.
    """
    protected = {"XDG_STATE_HOME": state_directory(), "XDG_CONFIG_HOME": configuration_directory()}
    for path in writable:
        for variable, directory in protected.items():
            if directory.is_absolute() and directory.resolve().is_relative_to(path.resolve()):
                raise BadState(
                    f"the driver may write to {path} and so could change {directory}, where neurald keeps what "
                    f"drivers must not change: let {variable} name another directory, which is not in {path}"
                )
