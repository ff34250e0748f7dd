"""Lists the paths that a driver process must be able to write to.

They are the directory of its socket or token, neurald's cache, the caches of OpenCL vendors, and
devices. All other files are read-only. Temporary files go to a directory of the process's own.
"""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from neurald.hal.cache.secret import installation_secret
from neurald.hal.crashes.records import crash_directory
from neurald.hal.errors import BadState, Error
from neurald.hal.process.address import Address
from neurald.hal.process.private_directory import make_directory
from neurald.hal.process.runtime_directory import runtime_directory
from neurald.hal.process.user_directories import cache_directory, configuration_directory, state_directory

#: For each vendor's runtime, the variable that names its cache directory, the default, which is
#: below the user's cache directory or home, and what its files in the folders of OpenCL's platforms
#: are called. A runtime that cannot write its cache compiles the same again in each process.
_VENDOR_CACHES = (
    ("POCL_CACHE_DIR", "cache", "pocl", "pocl*"),
    ("CUDA_CACHE_PATH", "home", ".nv", "nvidia*"),
    ("MESA_SHADER_CACHE_DIR", "cache", "mesa_shader_cache", "rusticl*"),
    ("MESA_SHADER_CACHE_DIR", "cache", "mesa_shader_cache_db", "rusticl*"),
    ("NEO_CACHE_DIR", "cache", "neo_compiler_cache", "intel*"),
    ("AMD_COMGR_CACHE_DIR", "cache", "comgr", "amdocl*"),
)
_PLATFORMS = (Path("/etc/OpenCL/vendors"), Path(sys.prefix) / "etc/OpenCL/vendors")
#: Variables that name other folders of platforms, or files in them.
_PLATFORM_VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")
#: Packages that bring a platform with them.
_PACKAGES = {"pocl": "pocl_binary_distribution"}
_NVIDIA = Path("/dev/nvidiactl")
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
        All paths that the daemon must be able to write to.
    """
    directories = [daemon_directory(address)]
    # A user without a home directory has no cache.
    with contextlib.suppress(Error):
        cache = cache_directory()
        directories += [cache, *vendor_caches(cache.parent)]
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


def vendor_caches(cache: Path) -> Iterator[Path]:
    """Yields the cache directories of vendors whose runtimes are or were installed.

    Args:
        cache: the user's cache directory.
    """
    roots = {"cache": cache, "home": Path(os.environ.get("HOME", cache))}
    for variable, root, name, files in _VENDOR_CACHES:
        named = os.environ.get(variable, "")
        path = Path(named) if named.startswith("/") else roots[root] / name
        if named or path.is_dir() or _is_installed(name, files):
            yield path


def _is_installed(name: str, files: str) -> bool:
    """Returns True if a vendor's runtime may be used.

    Args:
        name: of its cache directory.
        files: a pattern for its files in the folders of OpenCL's platforms.
    """
    if name in _PACKAGES and importlib.util.find_spec(_PACKAGES[name]) is not None:
        return True
    if files == "nvidia*" and _NVIDIA.exists():
        return True
    folders = list(_PLATFORMS)
    for variable in _PLATFORM_VARIABLES:
        for place in filter(None, os.environ.get(variable, "").split(":")):
            folders.append(Path(place) if Path(place).is_dir() else Path(place).parent)
    return any(True for folder in folders for _ in folder.glob(files))
