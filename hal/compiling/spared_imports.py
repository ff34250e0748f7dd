"""Spares a process that only compiles imports of which it uses nothing.

NumPy, llvmlite and msgspec import modules that only document them, describe their types, or serve
functions that compiling does not call. They take a tenth of the time of a process that compiles one
small model.
"""

import sys
from types import ModuleType
from typing import Any, Final

#: Imported for their effect alone, which is docstrings.
_DOCUMENTATION: Final = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
#: Imported for the names of types in annotations, and for functions that are not called.
_ANNOTATIONS: Final = ("numpy._typing", "llvmlite.ir")
#: Replaced by the standard library where it is missing.
_OPTIONAL: Final = "typing_extensions"


def spare_imports() -> None:
    """Puts empty modules in the places of modules that were not imported yet.

    This is for processes that only compile, and for devices that say that they need none of these
    (`neurald.hal.compiling.contract.SparesImports`): whatever is imported later finds the empty modules,
    too.
    """
    for name in _DOCUMENTATION:
        sys.modules.setdefault(name, ModuleType(name))
    for name in _ANNOTATIONS:
        types = ModuleType(name)
        vars(types)["__getattr__"] = _any_type
        sys.modules.setdefault(name, types)
    # An import fails.
    sys.modules.setdefault(_OPTIONAL, None)  # type: ignore[arg-type]


def _any_type(name: str) -> Any:
    """Stands for any type in annotations, with parameters or without.

    Raises:
        AttributeError: it is no name of a type.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    return list
