"""Spares a process that only compiles imports of which it uses nothing.

NumPy, llvmlite and msgspec import modules that only document them, describe their types, or serve
functions that compiling does not call. They take over a tenth of the time of a process that
compiles one small model.
"""

import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

#: Imported for their effect alone, which is docstrings.
_DOCUMENTATION: Final = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
#: Imported for the names of types in annotations, and for functions that are not called.
_ANNOTATIONS: Final = ("numpy._typing", "llvmlite.ir")
#: Imported by llvmlite to find its library, with much that reads packages in archives.
_RESOURCES: Final = "importlib.resources"
#: Imported by NumPy to document its functions, with what reads Python's bytecode.
_INSPECT: Final = "inspect"
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
    for name in _DOCUMENTATION:
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
        inspect = ModuleType(_INSPECT)
        vars(inspect).update(cleandoc=str, signature=_signature, __getattr__=_inspected)
        sys.modules[_INSPECT] = inspect
    # An import fails.
    sys.modules.setdefault(_OPTIONAL, None)  # type: ignore[arg-type]


def _folder_of(package: str) -> Any:
    """Returns the folder of a package. Whatever imports `importlib.resources` later gets the real one."""
    sys.modules.pop(_RESOURCES, None)
    folder = Path(import_module(package).__file__ or "").parent
    if folder.is_dir():
        return folder
    return import_module(_RESOURCES).files(package)


def _signature(function: Any) -> Any:
    """Stands for `inspect.signature`, whose results are only documentation.

    Except in `numpy.ma`, which functions such as `numpy.unique` import when they are called.
    """
    return _inspected("signature")(function) if _MASKED in sys.modules else None


def _inspected(name: str) -> Any:
    """Returns anything else of `inspect`. Whatever imports that later gets the real one.

    Raises:
        AttributeError: the module is asked for what Python's imports look for.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    if not hasattr(sys.modules.get(_INSPECT), "__file__"):
        sys.modules.pop(_INSPECT, None)
    return getattr(import_module(_INSPECT), name)


def _any_type(name: str) -> Any:
    """Stands for any type in annotations, with parameters or without.

    Raises:
        AttributeError: it is no name of a type.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    return list
