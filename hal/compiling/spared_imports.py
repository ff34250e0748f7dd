"""Spares a process that only compiles imports of which it uses nothing.

NumPy, llvmlite and msgspec import modules that only document them, describe their types, or serve
functions that compiling does not call. They take over a tenth of the time of a process that
compiles one small model.
"""

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Final

#: Imported for their effect alone, which is docstrings.
_DOCUMENTATION: Final = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
#: Imported by their packages only so that users find them there.
_UNUSED: Final = ("llvmlite.binding.newpassmanagers", "msgspec.inspect")
#: Imported for the names of types in annotations, and for functions that are not called.
_ANNOTATIONS: Final = ("numpy._typing", "llvmlite.ir")
#: Imported by llvmlite to find its library, with much that reads packages in archives.
_RESOURCES: Final = "importlib.resources"
#: Imported by NumPy to document its functions, with what reads Python's bytecode.
_INSPECT: Final = "inspect"
#: Imported by `logging`, NumPy, `socket`, `uuid` and `pathlib` for what is rarely used.
_SELDOM: Final = ("ast", "pickle", "platform", "selectors", "traceback", "urllib.parse")
#: Needs signatures.
_MASKED: Final = "numpy.ma"
#: Replaced by the standard library where it is missing.
_OPTIONAL: Final = "typing_extensions"


def spare_imports() -> None:
    """Puts empty modules in the places of modules that were not imported yet.

    This is for processes that only compile, and for devices that say that they need none of these
    (`neurald.hal.compiling.contract.SparesImports`): whatever is imported later finds the empty
    modules, too.
    """
    for name in (*_DOCUMENTATION, *_UNUSED):
        sys.modules.setdefault(name, ModuleType(name))
    for name in _ANNOTATIONS:
        types = ModuleType(name)
        vars(types)["__getattr__"] = _any_type
        sys.modules.setdefault(name, types)
    if _RESOURCES not in sys.modules:
        resources = ModuleType(_RESOURCES)
        vars(resources).update(files=_folder_of, as_file=nullcontext)
        sys.modules[_RESOURCES] = resources
    if _INSPECT not in sys.modules:
        sys.modules[_INSPECT] = _postponed(_INSPECT, cleandoc=str, signature=_signature)
    for name in _SELDOM:
        if name not in sys.modules:
            sys.modules[name] = _postponed(name, **_TAKEN.get(name, {}))
    # An import fails.
    sys.modules.setdefault(_OPTIONAL, None)  # type: ignore[arg-type]


def _folder_of(package: str) -> Any:
    """Returns the folder of a package.

    Whatever imports `importlib.resources` later gets the real one.
    """
    from pathlib import Path

    sys.modules.pop(_RESOURCES, None)
    folder = Path(import_module(package).__file__ or "").parent
    if folder.is_dir():
        return folder
    return import_module(_RESOURCES).files(package)


def _postponed(name: str, **found: Callable[..., object]) -> ModuleType:
    """Returns a module that is imported when something is asked for that is not in `found`."""
    module = ModuleType(name)
    vars(module).update(found, __getattr__=partial(_of, name))
    return module


def _of(module: str, name: str) -> Any:
    """Returns what a postponed module has. Whatever imports the module later gets the real one.

    Raises:
        AttributeError: it has no such name, or it is asked for what Python's imports look for.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    if not hasattr(sys.modules.get(module), "__file__"):
        sys.modules.pop(module, None)
    return getattr(import_module(module), name)


def _signature(function: Any) -> Any:
    """Stands for `inspect.signature`, whose results are only documentation.

    Except in `numpy.ma`, which functions such as `numpy.unique` import when they are called.
    """
    return _of(_INSPECT, "signature")(function) if _MASKED in sys.modules else None


def _later(module: str, name: str) -> Callable[..., object]:
    """Returns what calls a function of a postponed module."""
    return lambda *arguments, **named: _of(module, name)(*arguments, **named)


#: The functions that modules take from a postponed module while they are imported.
_TAKEN: Final[dict[str, dict[str, Callable[..., object]]]] = {
    "platform": {"system": lambda: os.uname().sysname, "machine": lambda: os.uname().machine},
    "urllib.parse": {name: _later("urllib.parse", name) for name in ("quote", "quote_from_bytes")},
}


def _any_type(name: str) -> Any:
    """Stands for any type in annotations, with parameters or without.

    Raises:
        AttributeError: it is not a name of a type.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    return list
