"""Bounds the recursion over deep expressions, since a model may chain thousands of operations."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from neurald.drivers.compiler.ir.expression import Expression
from neurald.drivers.compiler.ir.traversal import walk_through

#: Recursion depth at which operands are computed iteratively. Each level takes several Python
#: frames.
_MAX_DEPTH = 32

_T = TypeVar("_T")


class BoundedRecursion(Generic[_T]):
    """Bounds the depth of recursive computations over expressions.

    Args:
        operands: returns the operands that may be computed in advance. Their order must be the same
            in every process.
    """

    def __init__(self, operands: Callable[[Expression], Iterable[Expression]]) -> None:
        self._operands = operands
        self._depth = 0

    def compute(
        self, expression: Expression, make: Callable[[Expression], _T], value: Callable[[Expression], _T]
    ) -> _T:
        """Returns `make(expression)`; computes operands iteratively once the recursion is deep.

        Args:
            expression: an expression without a cached result.
            make: computes the result of an expression, and calls `value` for those of its operands.
            value: returns the cached result of an expression, or calls this method and caches its
                result.
        """
        self._depth += 1
        if self._depth % _MAX_DEPTH == 0:
            for each in walk_through(expression, self._operands):
                if each is not expression:
                    value(each)
        result = make(expression)
        self._depth -= 1
        return result
