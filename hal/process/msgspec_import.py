"""Imports msgspec without `typing_extensions`, which takes 7 % of a start from the cache.

msgspec uses three names of it that `typing` has since Python 3.11, and imports those from there if
it finds none. The other modules that `typing_extensions` imports inspect functions and read source
code.
"""

import sys
from _thread import get_ident
from typing import Any, Final

_OPTIONAL: Final = "typing_extensions"


class _Finder:
    """Refuses `typing_extensions` to one thread at a time. Other threads find it meanwhile.

    It stays in `sys.meta_path`: a thread that goes through that while something is removed would
    skip what follows.
    """

    thread: int | None = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Finds nothing.

        Raises:
            ModuleNotFoundError: msgspec asks for the module.
        """
        if name == _OPTIONAL and self.thread == get_ident():
            raise ModuleNotFoundError(f"{name} is not needed", name=name)


_finder: Final = _Finder()


def import_msgspec() -> None:
    """Imports msgspec, unless it or `typing_extensions` was imported before."""
    if "msgspec" in sys.modules or _OPTIONAL in sys.modules or _finder.thread is not None:
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.thread = get_ident()
    try:
        import msgspec  # noqa: F401
    finally:
        _finder.thread = None
