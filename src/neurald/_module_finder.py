"""Finds the modules of this package by their paths, without a search.

Python searches each entry of a path for extension modules, source files and packages, and keeps
lists of its folders. That takes as long as loading a small module, and a start imports hundreds.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

_PACKAGE = __name__.rpartition(".")[0]


class ModuleFinder:
    """Finds modules below a package that are source files. Python finds all others as usual.

    Args:
        package: the name of the package.
    """

    def __init__(self, package: str) -> None:
        self._prefix = f"{package}."

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module; None if it is not in the first folder of the path."""
        if not path or not name.startswith(self._prefix):
            return None
        place = f"{path[0]}/{name.rpartition('.')[2]}"
        file = f"{place}.py"
        is_package = not _exists(file)
        if is_package:
            file = f"{place}/__init__.py"
            if not _exists(file):
                return None
        spec = ModuleSpec(name, SourceFileLoader(name, file), origin=file, is_package=is_package)
        # Which makes it a file with bytecode beside it.
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(place)
        return spec


def _exists(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116 - for the speed
    except OSError:
        return False
    return True


def find_modules_by_path() -> None:
    """Makes Python import the modules of this package so, after the hooks of tools have been asked.

    A package that is no folder, such as one in an archive, is searched as usual.
    """
    package = sys.modules[_PACKAGE]
    if type(package.__spec__ and package.__spec__.loader) is SourceFileLoader and PathFinder in sys.meta_path:
        sys.meta_path.insert(sys.meta_path.index(PathFinder), ModuleFinder(_PACKAGE))
