"""Limits how many operations the compilation of control flow inlines.

Nested graphs multiply them, and so do attempts. A model that is not compiled as a whole has many
parts that are tried on their own, of which each could reach the limit of one.
"""

from typing import Final

from neurald.hal.model.model import Model

#: Limit on the inlined operations of a part, including those of attempts. It grows with the number
#: of operations of the model.
_MAX_INLINED: Final = 20_000
_MAX_INLINED_PER_OPERATION: Final = 8
#: How many times that limit all parts of a model together may take.
_MAX_WHOLES: Final = 6


class InliningBudget:
    """The operations that may still be inlined for a model and its parts."""

    def __init__(self) -> None:
        self._left: int | None = None

    def begin(self, model: Model) -> int:
        """Returns how many operations may be inlined for a part of the model."""
        graphs = (model.main, *model.referenced)
        most = _MAX_INLINED + _MAX_INLINED_PER_OPERATION * sum(len(each.operations) for each in graphs)
        if self._left is None:
            self._left = _MAX_WHOLES * most
        return min(most, self._left)

    def spend(self, count: int) -> None:
        """Notes how many operations were inlined for a part that has begun."""
        if self._left is not None:
            self._left = max(0, self._left - count)
