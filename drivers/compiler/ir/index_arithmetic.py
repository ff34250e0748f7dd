"""Arithmetic of INDEX expressions, simplified as they are built.

- Sums and multiples become linear forms (`Linear`), in which equal terms cancel.
- k·n·(x // n) + k·(x % n) becomes k·x.
- Quotients and remainders by a positive constant disappear where the bounds of the dividend decide
  them. Terms that are multiples of the divisor are divided on their own.

Quotients round towards minus infinity, as in Python.
"""

from collections.abc import Mapping
from functools import reduce

from neurald.drivers.compiler.ir.expression_nodes import (
    INDEX_OPERATIONS,
    Apply,
    Constant,
    Expression,
    Linear,
    apply,
    index,
    interned,
)
from neurald.drivers.compiler.ir.extents.arithmetic import common_divisor
from neurald.drivers.compiler.ir.extents.extent import (
    estimate,
    has_extents,
    is_multiple,
    is_one,
    is_rising,
    is_surely_equal,
    is_zero,
    least,
    most,
    same_length,
    smaller,
)
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar


def _linear_form(terms: Mapping[Expression, int], offset: int) -> Expression:
    """Returns offset + Σ factor × term. No term is a Linear or has only one value."""
    kept = {term: factor for term, factor in terms.items() if factor}
    if _recombine(kept):
        return sum_of(kept, offset)
    pairs = tuple(sorted(kept.items(), key=lambda pair: id(pair[0])))
    if not pairs:
        return index(offset)
    # An offset that may be 0 stays one.
    if len(pairs) == 1 and pairs[0][1] == 1 and is_zero(offset):
        return pairs[0][0]
    # The signs of factors are mostly known, unlike the order of the ends of ranges.
    low = high = offset
    for term, factor in pairs:
        one, other = factor * term.low, factor * term.high
        if not is_rising(factor):
            one, other = other, one
        low, high = low + one, high + other
    return interned(
        ("linear", pairs, offset),
        lambda: Linear(
            type=Scalar.INDEX,
            terms=pairs,
            constant=offset,
            operands=tuple([term for term, _ in pairs]),
            low=low,
            high=high,
        ),
    )


def _recombine(terms: dict[Expression, int]) -> bool:
    """Replaces k·n·(x // n) + k·(x % n) by k·x. Returns True if it found such a pair."""
    for term, factor in terms.items():
        if not isinstance(term, Apply) or term.op is not Op.MODULO:
            continue
        whole, divisor = term.arguments
        quotient = whole // divisor
        if divisor.low == divisor.high and terms.get(quotient) == factor * divisor.low:
            del terms[term], terms[quotient]
            terms[whole] = terms.get(whole, 0) + factor
            return True
    return False


def sum_of(terms: Mapping[Expression, int], offset: int) -> Expression:
    """Returns the sum of an offset and of factor × INDEX expression.

    Terms may be Linear or Constant.
    """
    return _linear_form(*_merged(terms, offset))


def constant_difference(first: Expression, second: Expression) -> int | None:
    """Returns first - second if no term of the INDEX expressions is left of it, else None.

    It compares no lengths, as the range of a difference would, so that asking guards nothing.
    """
    merged, offset = _merged({first: 1, second: -1}, 0) if first is not second else ({}, 0)
    while _recombine(merged):
        merged, offset = _merged(merged, offset)
    return offset if all(map(is_zero, merged.values())) else None


def _merged(terms: Mapping[Expression, int], offset: int) -> tuple[dict[Expression, int], int]:
    """Returns the factors of the terms of a sum, none of which is a Linear, and its offset."""
    merged: dict[Expression, int] = {}
    for term, factor in terms.items():
        if has_one_value(term):
            offset += factor * term.low
        elif isinstance(term, Linear):
            offset += factor * term.constant
            for each, inner_factor in term.terms:
                merged[each] = merged.get(each, 0) + factor * inner_factor
        else:
            merged[term] = merged.get(term, 0) + factor
    return merged, offset


def has_one_value(value: Expression) -> bool:
    """Returns True for an INDEX with one possible value: a constant, or an axis of length 1."""
    return value.type is Scalar.INDEX and same_length(value.low, value.high)


def _add(first: Expression, second: Expression) -> Expression:
    return sum_of({first: 2}, 0) if first is second else sum_of({first: 1, second: 1}, 0)


def _subtract(first: Expression, second: Expression) -> Expression:
    return index(0) if first is second else sum_of({first: 1, second: -1}, 0)


def _multiply(first: Expression, second: Expression) -> Expression:
    if has_one_value(first):
        first, second = second, first
    if has_one_value(second):
        return sum_of({first: second.low}, 0)
    ends = first.low, second.low
    if not has_extents(ends) and min(ends) >= 0:
        # Corners whose order is known need no guards.
        low, high = first.low * second.low, first.high * second.high
    else:
        corners = [a * b for a in (first.low, first.high) for b in (second.low, second.high)]
        # Whichever of open lengths is larger, the bounds hold.
        low, high = reduce(least, corners), reduce(most, corners)
    return apply(Op.MULTIPLY, first, second, low=low, high=high)


def _floor_divide(value: Expression, divisor: Expression) -> Expression:
    """Returns value // divisor."""
    if not isinstance(divisor, Constant) or divisor.low < 1:
        corners = [value.low, value.high, -value.low, -value.high]
        return apply(Op.FLOOR_DIVIDE, value, divisor, low=min(corners), high=max(corners))
    n = divisor.low
    if is_surely_equal(value.low // n, value.high // n):
        return index(value.low // n)
    if is_one(n):
        return value
    if _is_quotient(value):
        inner, inner_divisor = value.operands
        return inner // (n * inner_divisor.low)
    if isinstance(value, Apply) and value.op is Op.MODULO and isinstance(value.arguments[1], Constant):
        inner, inner_divisor = value.arguments
        if inner_divisor.low > 0 and inner_divisor.low % n == 0:
            # x % (k·n) // n
            return inner // n % (inner_divisor.low // n)
    if isinstance(value, Linear):
        whole = {term: factor // n for term, factor in value.terms if is_multiple(factor, n)}
        rest = {term: factor for term, factor in value.terms if not is_multiple(factor, n)}
        if whole or not 0 <= value.constant < n:
            return sum_of(whole, value.constant // n) + _linear_form(rest, value.constant % n) // n
        split = _split_by_common_divisor(value, n)
        if split is not None:
            common, large, _ = split
            return large // (n // common)
        for term, factor in value.terms:
            if factor == 1 and _is_quotient(term):
                # (a + x // m) // n equals (m·a + x) // (m·n), which may simplify further.
                inner, inner_divisor = term.operands
                m = inner_divisor.low
                return sum_of({value: m, term: -m, inner: 1}, 0) // (m * n)
    return apply(Op.FLOOR_DIVIDE, value, divisor, low=value.low // n, high=value.high // n)


def _split_by_common_divisor(value: Linear, n: int) -> tuple[int, Expression, Expression] | None:
    """Splits a value into g × large + small with 0 <= small < g, for a divisor g > 1 of n.

    Returns (g, large, small), or None if there is no such divisor.
    """
    factors = [factor for _, factor in value.terms]
    divisors = {common_divisor(common_divisor(n, first), second) for first in factors for second in factors}
    for common in sorted(divisors - {1}, key=estimate, reverse=True):
        rest = {term: factor for term, factor in value.terms if not is_multiple(factor, common)}
        small = _linear_form(rest, value.constant % common)
        if small.low >= 0 and small.high < common:
            whole = {term: factor // common for term, factor in value.terms if is_multiple(factor, common)}
            return common, _linear_form(whole, value.constant // common), small
    return None


def _is_quotient(value: Expression) -> bool:
    """Returns True if the expression is a floor division by a positive constant."""
    if not isinstance(value, Apply) or value.op is not Op.FLOOR_DIVIDE:
        return False
    divisor = value.arguments[1]
    return isinstance(divisor, Constant) and divisor.low > 0


def _modulo(value: Expression, divisor: Expression) -> Expression:
    """Returns value % divisor."""
    if not isinstance(divisor, Constant) or divisor.low < 1:
        bound = max(abs(divisor.low), abs(divisor.high))
        return apply(Op.MODULO, value, divisor, low=-bound, high=bound)
    n = divisor.low
    if is_surely_equal(value.low // n, value.high // n):
        return value - value.low // n * n
    if isinstance(value, Apply) and value.op is Op.MODULO:
        whole, inner_divisor = value.arguments
        if isinstance(inner_divisor, Constant) and inner_divisor.low % n == 0:
            return whole % n
    if isinstance(value, Linear):
        rest = {term: factor for term, factor in value.terms if not is_multiple(factor, n)}
        if len(rest) < len(value.terms) or not 0 <= value.constant < n:
            return _linear_form(rest, value.constant % n) % n
        split = _split_by_common_divisor(value, n)
        if split is not None:
            common, large, small = split
            return large % (n // common) * common + small
    return apply(
        Op.MODULO, value, divisor, low=0, high=smaller(n - 1, value.high) if value.low >= 0 else n - 1
    )


INDEX_OPERATIONS.update(
    {
        Op.ADD: _add,
        Op.SUBTRACT: _subtract,
        Op.MULTIPLY: _multiply,
        Op.FLOOR_DIVIDE: _floor_divide,
        Op.MODULO: _modulo,
    }
)
