"""Gives each driver caches of its own for what the runtimes of its devices compile.

Runtimes of vendors load code from their caches without checking who has written it, and by default
all programs of a user share them. So a driver in its sandbox uses a folder beside neurald's cache
that no other driver and no other program uses. A runtime that cannot write its cache would compile
the same again in each process.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from neurald.hal.process.user_directories import cache_directory

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


def use_own_caches(driver: str) -> Iterator[Path]:
    """Makes this process use the driver's caches; yields their folders, which may be missing.

    A variable that is set stays, and its folder is yielded: an operator has chosen it.
    """
    for variable, name in CACHE_VARIABLES.items():
        path = Path(os.environ.get(variable) or driver_cache(driver) / name)
        if path.is_absolute():
            os.environ[variable] = str(path)
            yield path
