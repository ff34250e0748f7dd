"""Loads pyopencl and lets OpenCL's loader find every vendor's library.

Libraries that no `.icd` file names, common in containers and wheels, are found too: while the
loader searches, it is pointed to a folder with the system's `.icd` files and one for each such
library.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from neurald.drivers.opencl.platform.errors import OPENCL
from neurald.hal.errors import UnavailableDevice
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.fork import forkable_lock

#: If any of these is set, the user controls where the loader searches, and nothing is added.
_LOADER_VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")
#: Names further libraries, but not every loader honours it.
_FILES_VARIABLE = "OCL_ICD_FILENAMES"
_SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
_LIBRARY = re.compile(
    r"lib(nvidia-opencl|pocl|intelocl|igdrcl|amdocl64|RusticlOpenCL|mali|PVROCL)\.so(\.[\d.]+)?"
)

_lock = forkable_lock()


def load() -> Any:
    """Imports the optional package pyopencl on first use.

    Raises:
        UnavailableDevice: it is not installed, fails to load, or the parent process used it before
            a fork.
    """
    OPENCL.require()
    # pyopencl's program cache would make a cold start look warm, and the service has its own cache
    # of compiled programs.
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    try:
        import pyopencl
    except ImportError as error:
        raise UnavailableDevice(
            f"OpenCL needs pyopencl: install neurald[opencl] with pip ({error})"
        ) from None
    # Some runtimes log every build, and pyopencl warns about each; errors contain the important
    # part of the log.
    warnings.filterwarnings("ignore", category=pyopencl.CompilerWarning)
    return pyopencl


@contextlib.contextmanager
def all_libraries() -> Iterator[None]:
    """Makes OpenCL's loader also find libraries that no `.icd` file names.

    The loader searches once per process, when the platforms are first requested, and keeps the
    result.
    """
    with _lock, _vendors():
        yield


@contextlib.contextmanager
def _vendors() -> Iterator[None]:
    if any(environment_variable(variable) for variable in _LOADER_VARIABLES):
        yield
        return
    of_system = _named_in(_SYSTEM_VENDORS)
    of_user = [one for one in (environment_variable(_FILES_VARIABLE) or "").split(":") if one]
    of_environment = _named_in(Path(sys.prefix) / "etc/OpenCL/vendors")
    entries = _entries([*of_system, *of_user, *of_environment], _libraries())
    if entries == of_system:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="neurald-opencl-") as folder:
        for index, entry in enumerate(entries):
            Path(folder, f"{index:03}.icd").write_text(f"{entry}\n")
        os.environ["OCL_ICD_VENDORS"] = folder
        try:
            yield
        finally:
            del os.environ["OCL_ICD_VENDORS"]


def _named_in(folder: Path) -> list[str]:
    """Returns the libraries named by the `.icd` files of a folder, as written there."""
    names = []
    for file in sorted(folder.glob("*.icd")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            names.append(file.read_text().strip())
    return [one for one in names if one]


def _entries(named: Sequence[str], libraries: Sequence[Path]) -> list[str]:
    """Returns the named libraries without duplicates, and one library of each other vendor.

    A name that matches no file is kept, because the loader may resolve it, but does not count for
    its vendor.
    """
    files = {name: path for path in reversed(libraries) for name in (path.name, path.resolve().name)}
    entries: dict[Path, str] = {}
    vendors = set()
    for name in named:
        file = Path(name) if "/" in name else files.get(name, Path(name))
        entries.setdefault(file.resolve(), name)
        if "/" in str(file) and file.exists():
            vendors.add(_stem(name))
    for file in libraries:
        if _stem(file.name) not in vendors:
            vendors.add(_stem(file.name))
            entries[file.resolve()] = str(file)
    return list(entries.values())


def _stem(library: str) -> str:
    """Returns the name of a library without its folder and version."""
    return library.rpartition("/")[2].partition(".so")[0]


def _libraries() -> list[Path]:
    """Returns the known vendors' libraries on this machine, in the search order of the linker."""
    folders = [*(environment_variable("LD_LIBRARY_PATH") or "").split(":"), f"{sys.prefix}/lib"]
    paths = [path for folder in folders if folder for path in sorted(Path(folder).glob("lib*.so*"))]
    # Ordinary users often lack /sbin in their PATH.
    environment = {"PATH": f"{environment_variable('PATH') or ''}:/usr/sbin:/sbin", "LC_ALL": "C"}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        cache = subprocess.run(
            ["ldconfig", "-p"],  # noqa: S607
            env=environment,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout
        paths += [Path(line.rpartition("=> ")[2]) for line in cache.splitlines() if "=> " in line]
    return [path for path in paths if _LIBRARY.fullmatch(path.name) and path.exists()]
