"""Replaces rescaled sums of 8-bit numbers by sums of 32-bit products.

A sum of quantised numbers is shifted, multiplied by a mantissa of 31 bits, added, multiplied again
and rounded, for which vectors need products of 64 bits. In effect it is a linear function of two
bytes, rounded once. There are 65,536 pairs of bytes: the integers A, B and C are accepted if
(A·a + B·b + C) / 2^S has the same result for each of them. Functions of one byte are replaced in
the same way. Products of two bytes are not: what they are multiplied by is rounded twice, to few
bits at first.

Where many sums are ties, what decides about each is how the multiples of its bytes were rounded.
Then a number of 8 bits for each value of one byte, or of both, is added, from a table that
registers hold.

Where tables of words are looked up in registers as well, the sum is one of two words, if there are
such words: results are mostly ties if scales are multiples of each other, and then all others are
far from ties.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import cast

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import Array, evaluate_node
from neurald.drivers.compiler.ir.expression import (
    Apply,
    Constant,
    Expression,
    apply,
    axis,
    clamp,
    constant,
    load,
)
from neurald.drivers.compiler.ir.graph import Compute
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import rewrite, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.byte_tables import is_permuted
from neurald.drivers.cpu.emit.op_table import stored
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

_BYTES = (Scalar.INT8, Scalar.UINT8)
_RESCALED = (Op.FIXED_POINT, Op.FIXED_POINT_UP)
#: Bits of a sum without its sign, and of the sum of the lower parts of factors. The latter leaves
#: room for its rounding.
_SUM_BITS, _LOW_BITS = 31, 30
#: What is added to a sum besides half of the divisor, to round some pairs as before.
_NUDGES = (0, 1, -1, 2, -2, 4, -4, 8, -8, 16, -16, 32, -32, 64, -64)
#: One pair of this many is checked before all are.
_STEP = 15
#: Values of a byte, and the range of what is added for one.
_ENTRIES, _CORRECTIONS = 256, (-128, 127)
#: More than any sum, as INT64.
_UNBOUNDED = 1 << 40
#: Rounds in which corrections are sought; sums of bytes took 41 at most.
_MAX_ROUNDS = 64
#: Bits of a sum of words without its sign, by how many sums are shifted at least, how far words may
#: be corrected, and what is taken from negative sums.
_WORD_BITS, _MIN_WORD_SHIFT, _WORD_CORRECTIONS, _TAKEN = 15, 5, (-8, 8), (0, 3)
#: One row and column of this many is tried before all are.
_WORD_STEP = 3


class _Linear(Struct, frozen=True):
    """A linear function of bytes: the factor of each, and what is added."""

    factors: Mapping[Expression, float]
    added: float

    def scaled(self, factor: float) -> "_Linear":
        """Returns the function multiplied by a number."""
        factors = {source: factor * each for source, each in self.factors.items()}
        return _Linear(factors, factor * self.added)

    def plus(self, other: "_Linear", sign: int = 1) -> "_Linear":
        """Returns the sum of two functions, or the difference."""
        factors = dict(self.factors)
        for source, each in other.factors.items():
            factors[source] = factors.get(source, 0.0) + sign * each
        return _Linear(factors, self.added + sign * other.added)


class _Sum(Struct, frozen=True):
    """A function (x + after) / 2^shift of a sum x of multiples of bytes and a constant.

    Attributes:
        high: the factor of each byte; the sum of bytes × `low` / 2^`low_shift` is added.
        before: the constant of the sum.
        taken: what is taken from a negative x: 0 or a power of two.
        corrections: what is added for each value of each byte, from the smallest one; empty for
            a byte that has none.
    """

    high: tuple[int, ...]
    low: tuple[int, ...]
    low_shift: int
    before: int
    after: int
    shift: int
    taken: int
    corrections: tuple[tuple[int, ...], ...] = ()


def use_short_sums_of_pairs(kernel: Kernel, target: Target) -> Kernel:
    """Replaces functions of two bytes in a kernel.

    In a kernel without a contraction, it must precede `use_lookup_tables`, which precomputes what
    becomes of constant bytes, so that sums with them are no longer functions of bytes.

    Args:
        kernel: the kernel.
        target: the target of the code.
    """
    return _with_short_sums(kernel, target, 2)


def use_short_sums(kernel: Kernel, target: Target) -> Kernel:
    """Replaces functions of one byte, for which no tables are used, in a kernel."""
    return _with_short_sums(kernel, target, 1)


def _with_short_sums(kernel: Kernel, target: Target, count: int) -> Kernel:
    """Replaces functions of so many bytes."""
    if not any(_is_rescaled(each) for each in walk(kernel.body)):
        return kernel
    memory: dict[Expression, Expression] = {}
    for expression in walk(kernel.body):
        found = _replacement(expression, target, count)
        if found is not None:
            memory[expression] = rewrite(found, lambda _: None, memory)
    if not memory:
        return kernel
    return replace(kernel, body=rewrite(kernel.body, lambda _: None, memory))


def _is_rescaled(expression: Expression) -> bool:
    return isinstance(expression, Apply) and expression.op in _RESCALED


def _replacement(expression: Expression, target: Target, count: int) -> Expression | None:
    """Returns what computes a clamped byte with shorter numbers; None if nothing does.

    Args:
        expression: a function of bytes.
        target: the target of the code.
        count: the number of bytes that the function must have.
    """
    if not isinstance(expression, Apply) or expression.op is not Op.CONVERT or expression.type not in _BYTES:
        return None
    if not expression.arguments[0].type.is_integer:
        return None
    inner, low, high = _unclamped(expression.arguments[0])
    inner, after = _without_constant(inner)
    rescalings = sum(map(_is_rescaled, _between(inner)))
    linear = _linear(inner) if rescalings else None
    if linear is None or not linear.factors or low is None or high is None:
        return None
    sources = tuple(linear.factors)
    if len(sources) != count:
        return None
    wanted = _table(expression.arguments[0], sources)
    values = [_table(source, sources) for source in sources]
    few = [np.ascontiguousarray(each.reshape(-1)[::_STEP]) for each in (wanted, *values)]

    def is_right(candidate: _Sum) -> bool:
        return all(
            np.array_equal(np.clip(_computed(candidate, numbers), low, high), results)
            for results, *numbers in (few, (wanted, *values))
        )

    found = next(filter(is_right, _candidates(linear, after, values, 0)), None)
    if found is None:
        clipped = np.clip(wanted, low, high)
        is_pair, word_bytes = count > 1, _ENTRIES * Scalar.INT16.size_bytes
        if is_pair and is_permuted(target, stored(Scalar.INT16), word_bytes):
            words = _words(linear, after, values, clipped, sources)
            if words is not None:
                return clamp(words, low, high).to(expression.type)
        candidates = [_candidates(linear, after, values, 1)]
        if rescalings > 1:
            # Products of lower parts as well cost about as much as one rescaling.
            candidates += [_candidates(linear, after, values, taken, with_low=True) for taken in (0, 1)]
            last = _last_rescaling(inner)
            if is_pair and last is not None and is_permuted(target, stored(Scalar.INT8), _ENTRIES):
                candidates.append(_corrected(linear, after, values, clipped, last))
        found = next(filter(is_right, chain.from_iterable(candidates)), None)
        if found is None:
            return None
    found = _reduced(found)
    limits = [int(np.abs(each).max()) for each in values]
    most = _most(found, limits)
    if not found.low and not found.corrections and most < 1 << _WORD_BITS:
        return clamp(_expression(found, sources, Scalar.INT16), low, high).to(expression.type)
    result = _expression(found, sources)
    # Processors clamp twice as many numbers of 16 bits at once, and pack them with saturation.
    short = result.to(Scalar.INT16) if _SUM_BITS - found.shift < Scalar.INT16.size_bytes * 8 else result
    return clamp(short, low, high).to(expression.type)


def _unclamped(expression: Expression) -> tuple[Expression, int | None, int | None]:
    """Returns what an expression clamps, and its limits."""
    low: int | None = None
    high: int | None = None
    while isinstance(expression, Apply) and expression.op in (Op.MINIMUM, Op.MAXIMUM):
        value, limit = expression.arguments
        if not isinstance(limit, Constant):
            break
        number = int(limit.value)
        if expression.op is Op.MINIMUM:
            high = number if high is None else min(high, number)
        else:
            low = number if low is None else max(low, number)
        expression = value
    return expression, low, high


def _without_constant(expression: Expression) -> tuple[Expression, int]:
    """Returns an expression without a constant that it adds, and that constant."""
    if isinstance(expression, Apply) and expression.op in (Op.ADD, Op.SUBTRACT):
        value, added = expression.arguments
        if isinstance(added, Constant):
            return value, int(added.value) * (1 if expression.op is Op.ADD else -1)
    return expression, 0


def _between(expression: Expression) -> Iterator[Expression]:
    """Yields the parts of an expression down to bytes."""
    seen: set[Expression] = set()
    stack = [expression]
    while stack:
        each = stack.pop()
        if each not in seen and each.type not in _BYTES:
            seen.add(each)
            yield each
            stack.extend(each.operands)


def _linear(expression: Expression) -> _Linear | None:
    """Returns the linear function that an expression computes, apart from rounding."""
    if expression.type in _BYTES:
        return _Linear({expression: 1.0}, 0.0)
    if not expression.type.is_integer:
        return None
    if isinstance(expression, Constant):
        return _Linear({}, float(expression.value))
    if not isinstance(expression, Apply):
        return None
    first = _linear(expression.arguments[0])
    if first is None:
        return None
    numbers = [float(each.value) for each in expression.arguments[1:] if isinstance(each, Constant)]
    if expression.op in _RESCALED:
        return first.scaled(numbers[0] * 2.0 ** (numbers[1] - 31)) if len(numbers) == 2 else None
    if expression.op is Op.CONVERT:
        return first
    if expression.op is Op.SHIFT_LEFT and numbers:
        return first.scaled(2.0 ** numbers[0])
    if expression.op is Op.MULTIPLY and numbers:
        return first.scaled(numbers[0])
    second = _linear(expression.arguments[1]) if expression.op in (Op.ADD, Op.SUBTRACT) else None
    return None if second is None else first.plus(second, 1 if expression.op is Op.ADD else -1)


def _table(expression: Expression, sources: Sequence[Expression]) -> Array:
    """Computes a function for all values of its bytes."""
    numbers = []
    for source in sources:
        limits = np.iinfo(source.type.dtype.name)
        every = np.arange(limits.min, limits.max + 1).astype(source.type.dtype)
        numbers.append(Value((256,), source.type, every))
    axes = tuple(axis(256) for _ in sources)
    loads = {source: load(number, (at,)) for source, number, at in zip(sources, numbers, axes, strict=True)}
    shape = (256,) * len(sources)
    # A byte may be computed from another one, and is replaced as a whole.
    body = rewrite(expression, lambda _: None, dict(loads))
    node = Compute(output=Value(shape, expression.type), axes=axes, body=body)
    arrays = {value: value.constant for value in node.inputs if value.constant is not None}
    return np.asarray(evaluate_node(node, arrays)).astype(np.int64)


def _last_rescaling(expression: Expression) -> Apply | None:
    """Returns the last product with a constant multiplier, None if there is none at the end."""
    while isinstance(expression, Apply) and expression.op is Op.CONVERT:
        (expression,) = expression.arguments
    if not isinstance(expression, Apply) or expression.op not in _RESCALED:
        return None
    return expression if all(isinstance(each, Constant) for each in expression.arguments[1:]) else None


def _shift(linear: _Linear, after: int, limits: Sequence[int]) -> int:
    """Returns by how many bits sums can be shifted; less than 1 if none compute a function."""
    most = _reach(linear, after, limits) + 1.0
    # All sums, half of the divisor, and corrections are below 2^31.
    return min(_SUM_BITS - 1 - int(np.ceil(np.log2(most))), _LOW_BITS)


def _reach(linear: _Linear, after: int, limits: Sequence[int]) -> float:
    """Returns what no sum exceeds, with a constant that is added to it."""
    reach = sum(abs(factor) * limit for factor, limit in zip(linear.factors.values(), limits, strict=True))
    return reach + abs(linear.added) + abs(after)


def _candidates(
    linear: _Linear, after: int, values: Sequence[Array], taken: int, *, with_low: bool = False
) -> Iterator[_Sum]:
    """Yields sums that may compute a linear function and add a constant.

    Args:
        linear: the linear function.
        after: the constant that is added to it.
        values: the values of each byte.
        taken: what is taken from negative sums.
        with_low: whether products of lower parts of factors are added.
    """
    limits = [int(np.abs(each).max()) for each in values]
    shift = _shift(linear, after, limits)
    if shift < 1:
        return
    exact = [factor * 2.0**shift for factor in linear.factors.values()]
    before, half = round(linear.added * 2.0**shift), (2 * after + 1) << (shift - 1)
    high: tuple[int, ...] = tuple(map(round, exact))
    low: tuple[int, ...] = ()
    low_shift = 0
    if with_low:
        low_shift = _LOW_BITS - int(np.ceil(np.log2(sum(limits) + 1)))
        if low_shift < 1:
            return
        high = tuple(int(np.floor(each)) for each in exact)
        low = tuple(round((each - whole) * 2.0**low_shift) for each, whole in zip(exact, high, strict=True))
    for nudge in _NUDGES:
        yield _Sum(high, low, low_shift, before, half + nudge, shift, taken)


def _corrected(
    linear: _Linear, after: int, values: Sequence[Array], wanted: Array, last: Apply
) -> Iterator[_Sum]:
    """Yields sums of multiples of two bytes and of corrections for one of them or for both.

    A result tells between which limits the sum of the corrections for its pair of bytes is.

    Args:
        linear: the linear function.
        after: the constant that is added to it.
        values: the values of each byte, for all pairs.
        wanted: the results.
        last: the last product with a multiplier. It is rounded to as many bits as the exponent
            tells, and then away from zero.
    """
    shift = _shift(linear, after, [int(np.abs(each).max()) for each in values])
    if shift < 1:
        return
    factors = tuple(round(each * 2.0**shift) for each in linear.factors.values())
    before, half = round(linear.added * 2.0**shift), (2 * after + 1) << (shift - 1)
    total = _weighted(factors, values) + before
    exponent = int(cast(Constant, last.arguments[2]).value)
    steps = (0, 1 << (shift + exponent)) if 0 <= shift + exponent < shift else (0,)
    for axes in ((0,), (1,), (0, 1)):
        for taken in steps:
            rest = (wanted << shift) - half - total + np.where(total < 0, taken, 0)
            least = np.where(wanted > wanted.min(), rest, -_UNBOUNDED)
            most = np.where(wanted < wanted.max(), rest + (1 << shift) - 1, _UNBOUNDED)
            chosen = _between_limits(least, most, axes)
            if chosen is not None:
                corrections = tuple(tuple(each.reshape(-1).tolist()) if each.any() else () for each in chosen)
                yield _Sum(factors, (), 0, before, half, shift, taken, corrections)


def _words(
    linear: _Linear, after: int, values: Sequence[Array], wanted: Array, sources: Sequence[Expression]
) -> Expression | None:
    """Returns a shifted sum of two words that are looked up; None if there are no such words.

    Args:
        linear: the linear function.
        after: the constant that is added to it.
        values: the values of each byte, for all pairs.
        wanted: the results.
        sources: the two bytes.
    """
    reach = _reach(linear, after, [int(np.abs(each).max()) for each in values])
    shift = _WORD_BITS - int(np.ceil(np.log2(reach + 1.0)))
    if shift < _MIN_WORD_SHIFT:
        return None
    constants, half = (linear.added, 0.0), (2 * after + 1) << (shift - 1)
    exact = [
        factor * each + added
        for factor, each, added in zip(linear.factors.values(), values, constants, strict=True)
    ]
    words = [np.rint(each * 2.0**shift).astype(np.int64) for each in exact]
    total = words[0] + words[1]
    for taken in _TAKEN:
        rest = (wanted << shift) - half - total + np.where(total < 0, taken, 0)
        least = np.where(wanted > wanted.min(), rest, -_UNBOUNDED)
        most = np.where(wanted < wanted.max(), rest + (1 << shift) - 1, _UNBOUNDED)
        few = [each[::_WORD_STEP, ::_WORD_STEP] for each in (least, most)]
        if _between_limits(few[0], few[1], (0, 1), _WORD_CORRECTIONS) is None:
            continue
        chosen = _between_limits(least, most, (0, 1), _WORD_CORRECTIONS)
        if chosen is None:
            continue
        tables = words[0][:, :1] + chosen[0], words[1][:1] + chosen[1]
        sums = tables[0] + tables[1]
        found = (sums + np.where(sums < 0, half - taken, half)) >> shift
        fits = max(np.abs(each).max() for each in (sums, *tables)) + abs(half) + taken < 1 << _WORD_BITS
        if fits and np.array_equal(np.clip(found, wanted.min(), wanted.max()), wanted):
            return _sum_of_words(sources, tables, (half, half - taken), shift)
    return None


def _sum_of_words(
    sources: Sequence[Expression], tables: Sequence[Array], added: tuple[int, int], shift: int
) -> Expression:
    """Returns the expression of a sum of words for two bytes.

    Args:
        sources: the bytes.
        tables: the words for each value of each byte.
        added: what is added to other sums, and to negative ones.
        shift: by how many bits the result is shifted.
    """
    is_same = added[0] == added[1]
    loads = []
    for source, each, first in zip(sources, tables, (added[0] if is_same else 0, 0), strict=True):
        table = Value((_ENTRIES,), Scalar.INT16, (each.reshape(-1) + first).astype(np.int16))
        loads.append(load(table, (source.to(Scalar.INDEX) - int(np.iinfo(source.type.value).min),)))
    total = loads[0] + loads[1]
    if not is_same:
        constants = [constant(each, Scalar.INT16) for each in reversed(added)]
        total = total + apply(Op.SELECT, total < 0, *constants)
    return total >> shift


def _between_limits(
    least: Array, most: Array, axes: Sequence[int], limits: tuple[int, int] = _CORRECTIONS
) -> tuple[Array, Array] | None:
    """Returns numbers for rows and columns whose sums are between limits, None if it finds none.

    These are constraints of differences between numbers of rows and negative ones of columns. The
    numbers of rows begin with the largest ones, which fall, and those of columns with the smallest
    ones, which rise, until all constraints hold, as Bellman and Ford find shortest paths.

    Args:
        least, most: the limits for each pair of a row and a column.
        axes: 0 if numbers of rows may differ from zero, 1 if those of columns may.
        limits: those of the numbers.
    """
    (low, high), (lowest, highest) = (limits if axis in axes else (0, 0) for axis in (0, 1))
    rows, columns = np.full_like(least[:, :1], high), np.full_like(least[:1], lowest)
    for _ in range(_MAX_ROUNDS):
        lowered = np.minimum(rows, (most - columns).min(1, keepdims=True))
        raised = np.maximum(columns, (least - lowered).max(0, keepdims=True))
        if (lowered < low).any() or (raised > highest).any():
            return None
        if np.array_equal(lowered, rows) and np.array_equal(raised, columns):
            return rows, columns
        rows, columns = lowered, raised
    return None


def _reduced(candidate: _Sum) -> _Sum:
    """Divides a sum by the largest power of two that divides all of its numbers."""
    numbers = (*candidate.high, candidate.before, candidate.after, candidate.taken)
    if candidate.low or candidate.corrections:
        return candidate
    by = min(candidate.shift, *((each & -each).bit_length() - 1 for each in numbers if each))
    return replace(
        candidate,
        high=tuple(each >> by for each in candidate.high),
        before=candidate.before >> by,
        after=candidate.after >> by,
        taken=candidate.taken >> by,
        shift=candidate.shift - by,
    )


def _most(candidate: _Sum, limits: Sequence[int]) -> int:
    """Returns what no number of a sum without lower parts and corrections exceeds."""
    products = sum(abs(factor) * limit for factor, limit in zip(candidate.high, limits, strict=True))
    return products + abs(candidate.before) + abs(candidate.after) + candidate.taken


def _computed(candidate: _Sum, values: Sequence[Array]) -> Array:
    """Computes a sum for all values of its bytes."""
    total = _weighted(candidate.high, values)
    if candidate.low:
        total = total + (_weighted(candidate.low, values) >> candidate.low_shift)
    total = total + candidate.before
    for numbers, each in zip(candidate.corrections, values, strict=False):
        if numbers:
            total = total + np.array(numbers)[each - each.min()]
    if candidate.taken:
        total = total + (total >> _SUM_BITS) * candidate.taken
    rounded: Array = (total + candidate.after) >> candidate.shift
    return rounded


def _weighted(factors: Sequence[int], values: Sequence[Array]) -> Array:
    total: Array = factors[0] * values[0]
    for factor, each in zip(factors[1:], values[1:], strict=True):
        total = total + factor * each
    return total


def _expression(candidate: _Sum, sources: Sequence[Expression], kind: Scalar = Scalar.INT32) -> Expression:
    """Returns the expression of a sum of numbers of a type."""
    numbers = [source.to(kind) for source in sources]
    total, before = _products(candidate.high, numbers), candidate.before
    if candidate.low:
        total = total + (_products(candidate.low, numbers) >> candidate.low_shift)
    found, least = _corrections(candidate, sources)
    total, before = sum((each.to(Scalar.INT32) for each in found), total), before + least
    if not candidate.taken:
        added = before + candidate.after
        return (total + added if added else total) >> candidate.shift
    total = total + before
    sign = total >> (kind.size_bytes * 8 - 1)
    taken = sign if candidate.taken == 1 else sign << (candidate.taken.bit_length() - 1)
    return (total + taken + candidate.after) >> candidate.shift


def _corrections(candidate: _Sum, sources: Sequence[Expression]) -> tuple[list[Expression], int]:
    """Returns what is looked up for bytes, as bytes without a sign, and what is added to their sum.

    Bytes without a sign take fewer instructions to extend. Two of them whose sum is such a byte are
    added first.
    """
    looked_up: list[Expression] = []
    least = reach = 0
    for corrections, source in zip(candidate.corrections, sources, strict=False):
        if corrections:
            elements = np.array(corrections)
            least, reach = least + int(elements.min()), reach + int(np.ptp(elements))
            table = Value((_ENTRIES,), Scalar.UINT8, (elements - elements.min()).astype(np.uint8))
            first = int(np.iinfo(source.type.value).min)
            looked_up.append(load(table, (source.to(Scalar.INDEX) - first,)))
    if len(looked_up) > 1 and reach < _ENTRIES:
        looked_up = [looked_up[0] + looked_up[1]]
    return looked_up, least


def _products(factors: Sequence[int], numbers: Sequence[Expression]) -> Expression:
    first, *others = (number * factor for factor, number in zip(factors, numbers, strict=True))
    return sum(others, first)
