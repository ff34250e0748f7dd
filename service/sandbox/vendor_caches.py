"""Gives each driver caches of its own for code that the runtimes of its devices compile.

Runtimes of vendors load code from their caches without checking who has written it, and by default
all programs of a user share them. So a driver in its sandbox uses a folder beside neurald's cache
that no other driver and no other program uses. A runtime that cannot write its cache would compile
the same again in each process.
"""

import contextlib
import os
from pathlib import Path
from typing import Final
from urllib.parse import quote

from neurald.hal.process.environment import environment_variable
from neurald.hal.process.files.private_directory import make_directory
from neurald.hal.process.files.user_directories import cache_directory

#: Beside neurald's cache, which all drivers can write.
_FOLDER: Final = "neurald-drivers"
#: The variables that name the caches of vendors' runtimes, and their folders in that of a driver:
#: PoCL, NVIDIA, Mesa, Intel's compute runtime, AMD's code object manager, clvk.
CACHE_VARIABLES: Final = {
    "POCL_CACHE_DIR": "pocl",
    "CUDA_CACHE_PATH": "nvidia",
    "MESA_SHADER_CACHE_DIR": "mesa",
    "NEO_CACHE_DIR": "neo",
    "AMD_COMGR_CACHE_DIR": "comgr",
    "CLVK_CACHE_DIR": "clvk",
}


def driver_cache(driver: str) -> Path:
    """Returns the folder of the caches of a driver.

    Args:
        driver: the name of an installed driver, or its factory.
    """
    return cache_directory().with_name(_FOLDER) / quote(driver, safe=":")


def use_own_caches(driver: str, otherwise: Path) -> list[Path]:
    """Makes this process use the driver's caches, and creates their folders; returns these.

    A variable that is set stays, and its folder is among the result: an operator has chosen it.

    Args:
        driver: the name of an installed driver, or its factory.
        otherwise: a folder of this process, for caches that do not outlive it if there can be no
            others, such as in a container whose user may not write beside neurald's cache.
    """
    folder = driver_cache(driver)
    if not _is_made(folder):
        folder = otherwise / _FOLDER
    found = []
    for variable, name in CACHE_VARIABLES.items():
        path = Path(environment_variable(variable) or folder / name)
        if path.is_absolute() and _is_made(path):
            os.environ[variable] = str(path)
            found.append(path)
    return found


def _is_made(folder: Path) -> bool:
    """Creates a folder if it is missing; returns whether this process can write there."""
    if not folder.is_absolute():
        return False
    with contextlib.suppress(OSError):
        make_directory(folder)
    return os.access(folder, os.W_OK | os.X_OK)
