"""Lists the paths that a driver process must be able to read.

They are the system's programs, libraries and public settings, Python and the packages that it can
import, and what the process may write to. Files of users, such as keys and documents, are not among
them, also if the process could read them otherwise: drivers get models and data from their clients,
never from files.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from neurald.hal.cache.secret import secret_path
from neurald.hal.crashes.records import crash_directory
from neurald.hal.errors import Error

#: Directories of the system whose contents are public.
_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"),
    # Other ways to install software, and where drivers of GPUs are put into them.
    *("/nix/store", "/gnu/store", "/snap", "/run/opengl-driver", "/run/opengl-driver-32", "/run/nvidia"),
    # The kernel checks who may read what of other processes.
    *("/proc", "/sys"),
)
#: Directories of settings for loaders, compilers and GPUs. Other settings are files in `/etc` that
#: everyone may read; directories there may have secrets.
_SETTINGS: Final = (
    *(
        "alternatives",
        "ld.so.conf.d",
        "OpenCL",
        "vulkan",
        "glvnd",
        "EGL",
        "nvidia",
        "nvidia-container-runtime",
    ),
    *("rocm", "python3", "ssl/certs", "pki/tls/certs"),
)
_ETC: Final = Path("/etc")
#: Variables that name files or directories from which libraries are loaded, separated by colons.
_VARIABLES: Final = (
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "OCL_ICD_VENDORS",
    "OPENCL_VENDOR_PATH",
    "OCL_ICD_FILENAMES",
)


def readable_paths() -> list[Path]:
    """Returns all paths that a driver must be able to read, besides those that it may write to."""
    found = [Path(name) for name in _SYSTEM]
    found += (_ETC / name for name in _SETTINGS)
    found += _public_files(_ETC)
    found += _of_python()
    for variable in _VARIABLES:
        found += (Path(name) for name in os.environ.get(variable, "").split(":") if name.startswith("/"))
    # A user without a home directory has neither.
    with contextlib.suppress(Error):
        found += [secret_path(), crash_directory()]
    return found


def listable_paths() -> list[Path]:
    """Returns the directories whose entries may be listed, without being read."""
    return [Path("/dev"), _ETC]


def _public_files(directory: Path) -> Iterator[Path]:
    """Yields the files in a directory that everyone may read."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        try:
            status = entry.stat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IROTH:
            yield Path(entry.path)


def _of_python() -> Iterator[Path]:
    """Yields where Python is, and the packages that it can import."""
    yield from (Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix))
    yield from (Path(name).absolute() for name in sys.path if name)
    # The packages of neurald may be links to other directories.
    package = Path(__file__).parents[2]
    yield package.resolve()
    yield from (child.resolve() for child in package.iterdir() if child.is_symlink())
    # Packages that are developed, which their finders know.
    for module in tuple(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("__editable__"):
            yield from (Path(place).parent for place in getattr(module, "MAPPING", {}).values())
