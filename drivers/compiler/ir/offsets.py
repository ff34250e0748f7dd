"""Offsets and strides of loads, and a deterministic order of terms."""

from collections.abc import Mapping
from weakref import WeakKeyDictionary

from neurald.drivers.compiler.ir.expression import Apply, Axis, Constant, Expression, Linear, Load
from neurald.drivers.compiler.ir.extents.extent import estimate
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.digests import name_of

#: Offsets of loads, which are needed often.
_offsets: "WeakKeyDictionary[Load, Expression]" = WeakKeyDictionary()


def offset_of(load: Load) -> Expression:
    """Returns the offset of the loaded element in its value, in elements."""
    known = _offsets.get(load)
    if known is None:
        known = _offsets[load] = linearize(load.index, load.value.shape)
    return known


def stride_along(offset: Expression, along: Axis) -> int | None:
    """Returns the stride of an offset along an axis; None if it varies."""
    if offset is along:
        return 1
    terms = offset.terms if isinstance(offset, Linear) else ((offset, 1),)
    stride = 0
    for term, factor in terms:
        if term is along:
            stride = factor
        elif any(each is along for each in walk(term)):
            return None
    return stride


class TermOrder:
    """A deterministic order of the terms of sums, the same whenever a kernel is rendered.

    Args:
        pointers: names of the values' memory.
        names: names of axes, for those that already have one.
    """

    def __init__(self, pointers: Mapping[Value, str], names: Mapping[Expression, str]) -> None:
        self._pointers = pointers
        self._names = names
        self._keys: dict[Expression, str] = {}

    def terms(self, expression: Linear) -> list[tuple[Expression, int]]:
        """Returns the terms of a sum with their factors, large factors first."""
        terms = expression.terms
        if len({abs(estimate(factor)) for _, factor in terms}) == len(terms):
            return sorted(terms, key=lambda pair: -abs(estimate(pair[1])))
        return sorted(terms, key=lambda pair: (-abs(estimate(pair[1])), self._key(pair[0])))

    def _key(self, expression: Expression) -> str:
        """Returns a digest of an expression's structure."""
        if expression not in self._keys:
            for each in walk(expression):
                if each not in self._keys:
                    self._keys[each] = self._described(each)
        return self._keys[expression]

    def _described(self, expression: Expression) -> str:
        if isinstance(expression, Axis):
            return f"{self._names.get(expression, '')}{expression.name}:{expression.extent}"
        if isinstance(expression, Constant):
            return f"{expression.type.name}{expression.value!r}"
        if isinstance(expression, Linear):
            terms = sorted(f"{factor}*{self._keys[term]}" for term, factor in expression.terms)
            parts = [*terms, str(expression.constant)]
        else:
            parts = [self._keys[each] for each in expression.operands]
        what = type(expression).__name__
        if isinstance(expression, Apply):
            what = expression.op.name
        elif isinstance(expression, Load):
            what = f"{what}{self._pointers[expression.value]}"
        text = f"{what}({','.join(parts)}){expression.type.name}"
        return name_of(text, 12)
