"""Where a driver process must be able to write.

To the directory of its socket or token, to neurald's cache, to the caches of OpenCL's vendors, and to devices. All other files
it can read at the most; for temporary files it has a directory of its own.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from neurald.hal.address import Address
from neurald.hal.cache_secret import installation_secret
from neurald.hal.errors import Error
from neurald.hal.private_directory import make_directory
from neurald.hal.runtime_directory import runtime_directory

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
    places = [directory_of(address), platformdirs.user_cache_path("neurald"), *vendor_caches()]
    for place in places:
        # Whoever needs it will say what is wrong with it.
        with contextlib.suppress(OSError):
            make_directory(place)
    with contextlib.suppress(Error):
        installation_secret()
    devices = [Path(device) for device in _DEVICES]
    return [*places, *devices, *Path("/dev").glob(_NUMBERED_DEVICES)]


def vendor_caches() -> Iterator[Path]:
    """The caches of the vendors whose runtimes are here or have been."""
    roots = {"cache": platformdirs.user_cache_path(), "home": Path.home()}
    for variable, root, name in _VENDOR_CACHES:
        named = os.environ.get(variable, "")
        path = Path(named) if named.startswith("/") else roots[root] / name
        if named or path.is_dir() or (name == "pocl" and _has_pocl()):
            yield path


def _has_pocl() -> bool:
    """Whether PoCL may be used: it cannot do without its cache."""
    return any(Path("/etc/OpenCL/vendors").glob("pocl*"))
