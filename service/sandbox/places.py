"""Where a driver process must be able to write.

To the directory of its socket or token, to neurald's cache, to the caches of OpenCL's vendors, and to devices. All other files
it can read at the most; for temporary files it has a directory of its own.
"""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from neurald.hal.cache.secret import installation_secret
from neurald.hal.errors import Error
from neurald.hal.process.address import Address
from neurald.hal.process.private_directory import make_directory
from neurald.hal.process.runtime_directory import runtime_directory

#: Of each vendor's runtime: the variable that names its cache, and where that is below the user's cache or home otherwise.
_VENDOR_CACHES = (
    ("POCL_CACHE_DIR", "cache", "pocl"),
    ("CUDA_CACHE_PATH", "home", ".nv"),
    ("MESA_SHADER_CACHE_DIR", "cache", "mesa_shader_cache"),
    ("MESA_SHADER_CACHE_DIR", "cache", "mesa_shader_cache_db"),
    ("NEO_CACHE_DIR", "cache", "neo_compiler_cache"),
    ("AMD_COMGR_CACHE_DIR", "cache", "comgr"),
)
#: Devices that hold no data, and those that compute.
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


def directory_of(address: Address) -> Path:
    """Where the sockets of a daemon are made or, if it listens on TCP, its token."""
    return runtime_directory() if address.path is None else address.path.parent


def make_places(address: Address) -> list[Path]:
    """Makes the directories of a daemon that are missing, and the installation's secret; all that it must write to."""
    places = [directory_of(address)]
    # Without a home there is no cache.
    with contextlib.suppress(RuntimeError, Error):
        cache = platformdirs.user_cache_path()
        places += [cache / "neurald", *vendor_caches(cache)]
        installation_secret()
    places = [place for place in places if place.is_absolute()]
    for place in places:
        # Whoever needs it will say what is wrong with it.
        with contextlib.suppress(OSError):
            make_directory(place)
    devices = [Path(device) for device in _DEVICES]
    return [*places, *devices, *Path("/dev").glob(_NUMBERED_DEVICES)]


def vendor_caches(cache: Path) -> Iterator[Path]:
    """The caches of the vendors whose runtimes are here or have been.

    Args:
        cache: of the user.
    """
    roots = {"cache": cache, "home": Path(os.environ.get("HOME", cache))}
    for variable, root, name in _VENDOR_CACHES:
        named = os.environ.get(variable, "")
        path = Path(named) if named.startswith("/") else roots[root] / name
        if named or path.is_dir() or (name == "pocl" and _has_pocl()):
            yield path


def _has_pocl() -> bool:
    """Whether PoCL may be used: it cannot do without its cache."""
    folders = (Path("/etc/OpenCL/vendors"), Path(sys.prefix) / "etc/OpenCL/vendors")
    is_installed = importlib.util.find_spec("pocl_binary_distribution") is not None
    return is_installed or any(True for folder in folders for _ in folder.glob("pocl*"))
