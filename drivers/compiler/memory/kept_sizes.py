"""Keeps the sizes of the shapes that executions used last."""

from collections.abc import Sequence
from typing import Final, Generic, TypeAlias, TypeVar

from neurald.hal.process.fork import forkable_lock

_Shape: TypeAlias = tuple[int, ...]
_Shapes: TypeAlias = tuple[_Shape | None, ...]
_T = TypeVar("_T")

#: Maximum number of sizes that are kept, and of bytes of their numbers. Eight are kept of any
#: model.
_MAX_KEPT: Final = 256
_MAX_KEPT_BYTES: Final = 4 << 20
_ALWAYS_KEPT: Final = 8


class KeptSizes(Generic[_T]):
    """The sizes of a step, by the shapes of its inputs. Thread-safe.

    Args:
        size_bytes: the memory of the numbers for one set of shapes.
    """

    def __init__(self, size_bytes: int) -> None:
        self._known: dict[_Shapes, _T] = {}
        self._most = max(_ALWAYS_KEPT, min(_MAX_KEPT, _MAX_KEPT_BYTES // max(1, size_bytes)))
        self._lock = forkable_lock()

    def get(self, shapes: Sequence[_Shape | None]) -> _T | None:
        """Returns what is kept for these shapes."""
        return self._known.get(tuple(shapes))

    def keep(self, shapes: Sequence[_Shape | None], sizes: _T) -> None:
        """Keeps sizes for further executions, in place of the oldest if they are many."""
        with self._lock:
            while len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            self._known[tuple(shapes)] = sizes
