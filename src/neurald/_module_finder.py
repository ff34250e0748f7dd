"""Finds the modules of this package by their paths, without a search, and reads their bytecode.

Python searches each entry of a path for extension modules, source files and packages, and keeps
lists of its folders. It then looks at the source again, and reads the bytecode in several calls.
Both together take longer than loading a small module, and a start imports hundreds.
"""

from __future__ import annotations

import marshal
import os
import sys
from _imp import _fix_co_filename  # type: ignore[attr-defined]
from importlib._bootstrap_external import MAGIC_NUMBER  # `importlib.util` takes longer to import
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType

TYPE_CHECKING = False  # Importing that of `typing` takes longer than all of this.
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

_PACKAGE = __name__.rpartition(".")[0]

#: What a file of bytecode is called after the name of its module; none if Python keeps none.
_TAG: Final = sys.implementation.cache_tag
_SUFFIX: Final = f".{_TAG}{f'.opt-{sys.flags.optimize}' if sys.flags.optimize else ''}.pyc"
#: The head of bytecode: the version, that it is of a source with a time and a size, and these two.
_VERSION: Final = MAGIC_NUMBER + bytes(4)
_HEAD_BYTES: Final = 16
_WORD: Final = 0xFFFFFFFF
#: Number of bytes read at once, mostly the whole file. More take longer to allocate.
_READ_BYTES: Final = 1 << 14


class ModuleLoader(SourceFileLoader):
    """Loads a module from its bytecode, if that is of the source as it is. Python does the rest.

    Args:
        name: the name of the module.
        path: the path of its source.
        bytecode: the path of its bytecode.
        source: the state of its source.
    """

    def __init__(self, name: str, path: str, bytecode: str, source: os.stat_result) -> None:
        super().__init__(name, path)
        self._bytecode = bytecode
        #: None once it has been used, since the source may be written later.
        self._source: os.stat_result | None = source

    def get_code(self, fullname: str) -> CodeType | None:
        """See `importlib.abc.InspectLoader.get_code`."""
        source, self._source = self._source, None
        code = None if source is None else self._code(source)
        return super().get_code(fullname) if code is None else code

    def _code(self, source: os.stat_result) -> CodeType | None:
        """Returns the bytecode; None if it is missing, or of another source or another Python."""
        try:
            content = read_file(self._bytecode)
        except OSError:
            return None
        state = (int(source.st_mtime) & _WORD).to_bytes(4, "little")
        state += (source.st_size & _WORD).to_bytes(4, "little")
        if content[:_HEAD_BYTES] != _VERSION + state:
            return None
        try:
            # Whoever can write to this folder can write to that of the source.
            code = marshal.loads(memoryview(content)[_HEAD_BYTES:])  # noqa: S302
        except (EOFError, TypeError, ValueError):
            return None
        if not isinstance(code, CodeType):
            return None
        if code.co_filename != self.path:
            # As Python does: the folder was moved, or is reached through a link.
            _fix_co_filename(code, self.path)
        return code


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
        folder, module = path[0], name.rpartition(".")[2]
        file = f"{folder}/{module}.py"
        source = _state(file)
        is_package = source is None
        if is_package:
            folder, module = f"{folder}/{module}", "__init__"
            file = f"{folder}/{module}.py"
            source = _state(file)
        if source is None:
            return None
        # Otherwise Python keeps bytecode in another folder, or not at all.
        is_beside = _TAG is not None and sys.pycache_prefix is None
        bytecode = f"{folder}/__pycache__/{module}{_SUFFIX}" if is_beside else ""
        loader = ModuleLoader(name, file, bytecode, source) if is_beside else SourceFileLoader(name, file)
        spec = ModuleSpec(name, loader, origin=file, is_package=is_package)
        # Which makes it a file with bytecode beside it.
        spec.has_location = True
        if is_beside:
            spec.cached = bytecode  # Python finds out more slowly.
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(folder)
        return spec


def _state(path: str) -> os.stat_result | None:
    """Returns the state of a file; None if there is none."""
    try:
        return os.stat(path)  # noqa: PTH116 - for the speed
    except OSError:
        return None


def read_file(path: str) -> bytes:
    """Returns the content of a file, in three system calls if it is small.

    Raises:
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = part = os.read(descriptor, _READ_BYTES)
        # A shorter part is the last one, of a file that nobody writes.
        while len(part) == _READ_BYTES:
            part = os.read(descriptor, _READ_BYTES)
            content += part
    finally:
        os.close(descriptor)
    return content


def find_modules_by_path() -> None:
    """Makes Python import the modules of this package so, after the hooks of tools have been asked.

    A package that is no folder, such as one in an archive, is searched as usual.
    """
    package = sys.modules[_PACKAGE]
    if type(package.__spec__ and package.__spec__.loader) is SourceFileLoader and PathFinder in sys.meta_path:
        place = sys.meta_path.index(PathFinder)
        # Python itself has no module of this package, and takes microseconds to say so.
        while place and sys.meta_path[place - 1] in (BuiltinImporter, FrozenImporter):
            place -= 1
        sys.meta_path.insert(place, ModuleFinder(_PACKAGE))
