"""Deep expressions computed without a deep stack: chains of thousands of operations are legal in a model."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from neurald.drivers.compiler.ir.expression import Expression
from neurald.drivers.compiler.ir.traversal import walk_through

#: How many computations may be nested before operands are computed in advance. Each takes a few of Python's frames.
_DEEPEST = 32

_T = TypeVar("_T")


class Nesting(Generic[_T]):
    """Bounds the recursion of what computes something of an expression by computing it of the operands first.

    Args:
        operands: gives the operands of an expression that may be computed in advance, in an order that is the same in every process.
    """

    def __init__(self, operands: Callable[[Expression], Iterable[Expression]]) -> None:
        self._operands = operands
        self._depth = 0

    def made(
        self, expression: Expression, make: Callable[[Expression], _T], value: Callable[[Expression], _T]
    ) -> _T:
        """Returns what `make` gives for an expression.

        Args:
            expression: of which nothing is known yet.
            make: calls `value` for operands.
            value: gives what is known of an expression, or calls this method and keeps the result.
        """
        self._depth += 1
        if self._depth % _DEEPEST == 0:
            for part in walk_through(expression, self._operands):
                if part is not expression:
                    value(part)
        result = make(expression)
        self._depth -= 1
        return result
