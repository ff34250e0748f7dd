"""NumPy, imported when it is first used.

Importing NumPy takes longer than everything else that a start from the cache does. Modules that
such a start imports take `np` from here instead of importing NumPy. Annotations in them that name
NumPy's types are strings.
"""

import re
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

__all__ = ["Array", "np", "numpy_version"]

#: The assignment of the version in `numpy/version.py`.
_VERSION: Final = re.compile(r"""^version\s*=\s*["']([^"']+)["']""", re.MULTILINE)


def _lazy_module(name: str) -> ModuleType:
    """Returns a module that is imported when an attribute is first read."""
    module = ModuleType(name)

    def read(attribute: str) -> Any:
        value = getattr(import_module(name), attribute)
        # Further reads find it here, as fast as in the module itself.
        setattr(module, attribute, value)
        return value

    vars(module)["__getattr__"] = read
    return module


if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
else:
    np = _lazy_module("numpy")
    #: An array with elements of any type.
    Array = Any


@cache
def numpy_version() -> str:
    """Returns the version of NumPy, without importing it if its files tell."""
    spec = None if "numpy" in sys.modules else find_spec("numpy")
    found = None if spec is None or not spec.origin else version_in(Path(spec.origin).with_name("version.py"))
    return str(np.__version__) if found is None else found


def version_in(path: Path) -> str | None:
    """Returns the version that a file assigns as text; None if it does not."""
    try:
        found = _VERSION.search(path.read_text("utf-8"))
    except (OSError, UnicodeError):
        return None
    return None if found is None else found[1]
