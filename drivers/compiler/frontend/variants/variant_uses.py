"""Counts the uses of a model's variant, by executions and by functions that repeat them."""

from collections.abc import Callable
from typing import Final, TypeAlias

#: Called when a variant has been used often; returns whether a faster one is going to replace it.
Improve: TypeAlias = Callable[[], bool]

#: Number of uses of a variant for any lengths after which the model is compiled for its shapes.
FREQUENT_USES: Final = 32


class VariantUses:
    """Counts the uses of a variant that a faster one may replace. Several threads may count.

    A function that was made of the variant ends when the variant is replaced, so that anyone who
    calls it makes another one, of the faster variant.

    Args:
        improve: see `Improve`; None if the faster variant is coming without it.

    Attributes:
        is_over: True once the variant was replaced, or is known to remain.
    """

    def __init__(self, improve: Improve | None) -> None:
        self._improve = improve
        self._count = 0
        self.is_over = False

    def add(self) -> None:
        """Counts a use."""
        self._count += 1
        improve = self._improve
        if improve is not None and self._count >= FREQUENT_USES:
            self._improve, self._count = None, 0
            if not improve():
                self._improve = improve

    def counted_call(self, function: Callable[..., object]) -> Callable[..., object]:
        """Returns a function that counts its calls, and returns None after the variant's end.

        Calls for which it returns None otherwise, such as those on other shapes, are not counted.
        """

        def call(*arguments: object) -> object:
            if self.is_over:
                return None
            result = function(*arguments)
            if result is not None:
                self.add()
            return result

        return call
