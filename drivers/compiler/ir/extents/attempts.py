"""Optional simplifications, which are kept only if they are valid for all lengths."""

from collections.abc import Callable
from typing import Generic, TypeVar

from neurald.drivers.compiler.ir.extents.scope import ExtentScope

_T = TypeVar("_T")
#: The type of the names of attempts.
_N = TypeVar("_N")


class ExtentAttempts(Generic[_N]):
    """Attempts of a compilation that is repeated if some of them fail.

    Expressions are shared, so that one that was simplified by what only holds for some lengths may
    be used again after its guards were dropped. So everything that was compiled in a scope is
    discarded if an attempt failed in it, and compiled again in another scope without that attempt.

    Attributes:
        failed: the attempts that failed, in all scopes.
    """

    def __init__(self) -> None:
        self.failed: set[_N] = set()

    def make(self, scope: ExtentScope, name: _N, make: Callable[[], _T]) -> _T | None:
        """Returns what a function makes if that is valid wherever everything before it is.

        Returns None and adds the attempt to `failed` otherwise, if it raises an exception, or if it
        is there already. A failed attempt leaves no guards, so that the next ones are not affected.
        """
        if name in self.failed:
            return None
        before = scope.decisions()
        is_valid = False
        try:
            made = make()
            is_valid = scope.decisions() == before
        finally:
            if not is_valid:
                self.failed.add(name)
                scope.undo(before)
        return made if is_valid else None
