"""Counts the uses of a model's variant, by executions and by functions that repeat them."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    from neurald.hal.execution.background_worker import SubmittedWork  # rarely needed

_Key = TypeVar("_Key")

#: Called when a variant has been used often; returns the work whose result is going to replace it,
#: or None if there is none now.
Improve: TypeAlias = "Callable[[], SubmittedWork | None]"

#: Number of uses of a variant for any lengths after which the model is compiled for its shapes.
FREQUENT_USES: Final = 32
#: How many times as many uses are needed after work was lost.
_MORE: Final = 4


def improving(method: "Callable[[], Callable[[_Key], SubmittedWork | None] | None]", key: _Key) -> Improve:
    """Returns a function that calls a method with `key`, and does not keep its object alive.

    Args:
        method: returns the method, or None if its object is gone, as a `weakref.WeakMethod` does.
        key: the argument.
    """
    return partial(_improve, method, key)


def _improve(
    method: "Callable[[], Callable[[_Key], SubmittedWork | None] | None]", key: _Key
) -> "SubmittedWork | None":
    improve = method()
    return None if improve is None else improve(key)


class VariantUses:
    """Counts the uses of a variant that a faster one may replace. Several threads may count.

    A function that was made of the variant ends when the variant is replaced, so that anyone who
    calls it makes another one, of the faster variant.

    Args:
        improve: see `Improve`. It is called once, and again if its work is lost: after more and
            more uses, in case what it lacks is always missing.
        work: what `improve` has returned already, if it was called.

    Attributes:
        is_over: True once the variant was replaced, or is known to remain.
    """

    __slots__ = ("_count", "_improve", "_needed", "_work", "is_over")

    def __init__(self, improve: Improve, work: "SubmittedWork | None" = None) -> None:
        self._improve = improve
        self._work = work
        #: Negative once the work was begun.
        self._count = 0 if work is None else -1
        #: How many uses are frequent, as a multiple of `FREQUENT_USES`.
        self._needed = 1
        self.is_over = False

    def add(self) -> None:
        """Counts a use."""
        if self._count < 0:
            return
        self._count += 1
        if self._count >= self._needed * FREQUENT_USES:
            self._count = -1
            self._work = self._improve()
            if self._work is None:
                self._count = 0

    def give_way(self, deadline_s: float | None = None) -> None:
        """Lets the work for a faster variant use the interpreter; no lock may be held.

        Args:
            deadline_s: see `InterpreterTurns.give_way`.
        """
        work = self._work
        if work is not None and not work.give_way(deadline_s):
            self._work = None
            if work.is_lost:
                self._count = 0
                self._needed *= _MORE

    def counted_call(self, function: Callable[..., object]) -> Callable[..., object]:
        """Returns a function that counts its calls, and returns None after the variant's end.

        Calls for which it returns None otherwise, such as those on other shapes, are not counted.
        """

        def call(*arguments: object) -> object:
            if self.is_over:
                return None
            result = function(*arguments)
            if result is not None:
                # Calls may be short: those that have nothing to do take longer than this.
                if self._count >= 0:
                    self.add()
                if self._work is not None:
                    self.give_way()
            return result

        return call
