"""Lists the paths that a driver process must be able to read.

They are the system's programs, libraries and public settings, Python and the packages that it can
import, and what the process may write to. Files of users, such as keys and documents, are not among
them, also if the process could read them otherwise: drivers get models and data from their clients,
never from files. So a folder in which modules are looked for is left out if the user's home is in
it, or if it is only the folder that a process was started in.
"""

import contextlib
import os
import stat
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from neurald.hal.crashes.records import crash_directory
from neurald.hal.errors import Error
from neurald.hal.process.environment import environment_variable
from neurald.service.sandbox.package_links import linked_paths

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


def readable_paths(driver: str = "") -> list[Path]:
    """Returns all paths that a driver must be able to read, besides those that it may write to.

    Args:
        driver: its name, or its factory, whose module may be in the current folder.
    """
    found = [Path(name) for name in _SYSTEM]
    found += (_ETC / name for name in _SETTINGS)
    found += _public_files(_ETC)
    found += _of_python()
    named = [name for variable in _VARIABLES for name in (environment_variable(variable) or "").split(":")]
    found += _without_home(Path(name) for name in named if name.startswith("/"))
    if ":" in driver:
        found += _without_home(_current_folder())
    # A user without a home directory has none.
    with contextlib.suppress(Error):
        found.append(crash_directory())
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
    # Where `python -m` starts is the first place in which it looks for modules.
    named = {Path(name).absolute() for name in (environment_variable("PYTHONPATH") or "").split(":") if name}
    started_in = {*_current_folder()} - named
    places = (Path(name).absolute() for name in sys.path if name)
    folders = [*_without_home(place for place in places if place not in started_in)]
    yield from folders
    for folder in {*folders} - {Path(sysconfig.get_path("stdlib"))}:
        yield from _without_home(linked_paths(folder))
    # neurald itself may be in a folder that is left out, and its packages may be links.
    package = Path(__file__).parents[2]
    yield package.resolve()
    yield from linked_paths(package)
    # Packages that are developed, which their finders know.
    for module in tuple(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("__editable__"):
            packages = [Path(place) for place in getattr(module, "MAPPING", {}).values()]
            yield from packages
            yield from _without_home(package.parent for package in packages)


def _current_folder() -> Iterator[Path]:
    with contextlib.suppress(OSError):  # it was removed
        yield Path.cwd()


def _without_home(paths: Iterable[Path]) -> Iterator[Path]:
    """Yields the paths that do not contain all files of the user; the root of the system does."""
    try:
        home = Path.home()
    except RuntimeError:
        home = Path("/nonexistent")
    for path in paths:
        if not home.is_relative_to(path) and not home.resolve().is_relative_to(path.resolve()):
            yield path
