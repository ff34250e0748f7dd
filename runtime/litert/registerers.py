"""Finds the functions that register custom operators by the names that programs give."""

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from neurald.runtime.tflite.graph.custom_operators import CustomOperators

#: Registers custom operators.
Registerer: TypeAlias = "Callable[[CustomOperators], object]"

_REMEDY = (
    "neurald does not run native custom operators of LiteRT; give a function that registers one in Python"
)


def find_registerer(name: str) -> Registerer:
    """Returns the function that a name means.

    LiteRT looks for a native function of the process, or of the library that the part before the
    last dot names. Here it is a function of the program, or of the Python module of that name.

    Raises:
        ValueError: there is no such module or function.
    """
    module_name, _, symbol = name.rpartition(".")
    if not _exists(module_name):
        library = f"{module_name}.so"
        raise ValueError(
            f"Loading library '{library}' failed with error '{library}: cannot open shared object file: "
            f"No such file or directory'; there is no Python module {module_name} either: {_REMEDY}"
        )
    module = importlib.import_module(module_name or "__main__")
    found: object = getattr(module, symbol, None)
    if not callable(found):
        raise ValueError(
            f"Looking up symbol '{symbol}' failed: there is no such function in {module.__name__}: {_REMEDY}"
        )
    return found


def _exists(module_name: str) -> bool:
    """Returns True if there is a module of that name; its parents are imported."""
    if not module_name:
        return True
    if not all(part.isidentifier() for part in module_name.split(".")):
        return False
    try:
        return importlib.util.find_spec(module_name) is not None
    except ModuleNotFoundError:
        return False
    except ValueError:
        return True  # It is imported, and was made without a specification.
