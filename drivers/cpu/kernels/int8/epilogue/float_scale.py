"""Exact rescaling with float arithmetic: a product, a sum and a conversion per vector.

A rescaling is monotonic in the sum v, so it is determined by the smallest v of every result. Floats
s and c are equivalent if trunc or floor of s·v + c changes at the same v. AVX-512 instructions can
round down, so the integer is that of the exact value, and only the errors of s and c matter. A few
floats around the exact multiplier are tried, with any c that suits all results; usually there is
one. Otherwise v times the error of s is added to c first.

A large c would leave few bits for its fraction. Instead, v is shifted by an integer, included in
the initial sums, to make c small. If values below zero round the other way, results are truncated,
c gets the sign of v, and the zero point is added afterwards.
"""

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.cpu.emit.vector import Vector

#: Largest integer that floats represent exactly, and bound on sums that may be slightly beyond the
#: reach.
_MAX_EXACT, _MAX_NEARBY = 1 << 24, 1 << 22
_MAX_INT32 = (1 << 31) - 1
#: Results that begin more than this many sums beyond the reach are ignored; see `_MAX_NEARBY`.
_STEPS_AWAY = 4
#: Relative rounding error of doubles, and margin of c from a change of result, relative to s.
_LOST, _MARGIN = 2.0**-49, 1e-6
#: Rounding error, relative to c, when the product with a rest is added to it.
_REST_LOST = 2.0**-23
#: Replaces a multiplier of 0.
_MIN_MULTIPLIER = 2.0**-200
#: Distances in floats from the exact multiplier, in the order of trials.
_NEIGHBOURS = (0, 1, -1, 2, -2)
#: Channels processed together, so that their tables stay in a cache.
_CHANNELS_AT_ONCE = 192
#: Rounding modes of instructions, without exceptions: down, and towards zero.
_DOWN, _TO_ZERO = 9, 11
_SIGN, _HALF = -1 << 31, 0xFFFF


class FloatScale(Struct, frozen=True, kw_only=True):
    """Results are floor or trunc of s·(v + move) + c.

    Attributes:
        factors, additions: (channels,), s and c, FLOAT32.
        rests: (channels,), errors of s, FLOAT32; None if they do not matter.
        moves: (channels,), integers.
        zero_point: added to the integers; 0 if it is part of c.
        is_signed: True if c has the sign of v and results are truncated; else they are rounded
            down.
    """

    factors: Array
    additions: Array
    rests: Array | None
    moves: Array
    zero_point: int
    is_signed: bool

    def rows(self) -> Array:
        """Returns the constants of each channel, (row_count, channels).

        The rows are the bits of s, c and the errors of s. If signed, a row with the zero point in
        both halves of each word precedes them.
        """
        rests = () if self.rests is None else (self.rests,)
        rows = np.stack((self.factors, self.additions, *rests)).view(np.int32).astype(np.int64)
        if not self.is_signed:
            return rows
        zero_point = (self.zero_point & _HALF) * (_HALF + 2)
        return np.concatenate((np.full((1, rows.shape[1]), zero_point), rows))

    @property
    def row_count(self) -> int:
        """Number of word rows per channel."""
        return 2 + (self.rests is not None) + self.is_signed

    def scaled(self, v: Vector, total: str, rows: list[str]) -> str:
        """Computes results without the zero point from vectors of sums and rows, for AVX-512."""
        code, kind, floats = v.code, v.type("i32"), v.type("float")
        factor, addition, *rests = rows[self.is_signed :]
        if self.is_signed:
            addition = v.binary("or", "i32", v.binary("and", "i32", total, v.number("i32", _SIGN)), addition)
        rounding = _TO_ZERO if self.is_signed else _DOWN
        number = v.cast("sitofp", "i32", total, "float")
        factor, addition, *rests = (v.bitcast("i32", each, "float") for each in (factor, addition, *rests))
        for rest in rests:
            addition = v.fma("float", number, rest, addition)
        operands = (number, factor, addition)
        multiply = "@llvm.x86.avx512.vfmadd.ps.512"
        code.declarations.add(f"declare {floats} {multiply}({floats}, {floats}, {floats}, i32)")
        typed = ", ".join(f"{floats} {each}" for each in operands)
        number = code.fresh(f"call {floats} {multiply}({typed}, i32 {rounding})")
        convert = "@llvm.x86.avx512.mask.cvtps2dq.512"
        code.declarations.add(f"declare {kind} {convert}({floats}, {kind}, i16, i32)")
        rest = f"{kind} zeroinitializer, i16 -1, i32 {rounding}"
        return code.fresh(f"call {kind} {convert}({floats} {number}, {rest})")

    def placed(self, v: Vector, scaled: str, rows: list[str]) -> str:
        """Adds the zero point to results of `scaled`, vectors of i32."""
        if not self.is_signed:
            return scaled
        return v.binary("add", "i32", scaled, v.binary("ashr", "i32", rows[0], v.number("i32", 16)))

    def placed_halves(self, v: Vector, halves: str, rows: list[str]) -> str:
        """Adds the zero point to results as i16, with saturation."""
        if not self.is_signed:
            return halves
        zero_points = v.code.value(f"bitcast <{v.lanes // 2} x i32> {rows[0]} to {v.type('i16')}")
        return v.call("llvm.sadd.sat", "i16", halves, zero_points)


class RescalingRule(Struct, frozen=True, kw_only=True):
    """Definition of results: floor(s·v + c - b·[value is not positive]) + zero point, clamped.

    Attributes:
        factors, additions: (channels,), s and c, as doubles; s is not negative.
        below: (channels,), b; 0 if negative values round like others.
        reach: (channels,), bound on the magnitude of v.
        zero_point, low, high: zero point and limits of results.
        is_signed: True if any b matters.
    """

    factors: Array
    additions: Array
    below: Array
    reach: Array
    zero_point: int
    low: int
    high: int
    is_signed: bool


def float_scale(rule: RescalingRule) -> FloatScale | None:
    """Returns equivalent floats; None if a channel has none, or if there is only one result."""
    if rule.low == rule.high:
        return None
    return _float_scale(rule, has_rests=False) or _float_scale(rule, has_rests=True)


def _float_scale(rule: RescalingRule, *, has_rests: bool) -> FloatScale | None:
    blocks = []
    for first in range(0, len(rule.factors), _CHANNELS_AT_ONCE):
        found = _Channels(rule, slice(first, first + _CHANNELS_AT_ONCE)).solved(has_rests=has_rests)
        if found is None:
            return None
        blocks.append(found)
    factors, additions, moves = (np.concatenate(each) for each in zip(*blocks, strict=True))
    rests = (rule.factors - factors).astype(np.float32) * (factors > 0) if has_rests else None
    return FloatScale(
        factors=factors,
        additions=additions,
        rests=rests,
        moves=moves,
        zero_point=rule.zero_point if rule.is_signed else 0,
        is_signed=rule.is_signed,
    )


class _Channels:
    """Solver for some channels of a rule."""

    def __init__(self, rule: RescalingRule, part: slice) -> None:
        self._rule = rule
        self._factors, self._additions = rule.factors[part], rule.additions[part]
        self._below, self._reach = rule.below[part], rule.reach[part]
        # All results but the smallest, without the zero point.
        self._results = np.arange(rule.low + 1, rule.high + 1, dtype=np.float64) - rule.zero_point
        # Number of results that are not positive.
        self._under = int(np.searchsorted(self._results, 0.0, side="right")) if rule.is_signed else 0
        steps = 1 / np.maximum(self._factors, _MIN_MULTIPLIER)
        starts = self._results * steps[:, None]
        starts -= (self._additions * steps)[:, None]
        if rule.is_signed:
            starts[:, : self._under] += (self._below * steps)[:, None]
        # The smallest v of each result, and which results are reachable; None if all are.
        self._least = np.ceil(starts)
        self._is_reached: Array | None = None
        reach = self._reach[:, None] + _STEPS_AWAY
        if (np.abs(self._least[:, [0, -1]]) > reach).any():
            self._is_reached = np.abs(self._least) <= reach
        lost = np.abs(starts[:, [0, -1]]).max() * _LOST
        if self._is_reached is not None:
            reached = np.where(self._is_reached, starts, 0.0)
            lost = max(-reached.min(), reached.max()) * _LOST
        # Extremes of the distance between each smallest v and the exact start of its result, for
        # non-positive and other results.
        beyond = np.subtract(self._least, starts, out=starts)
        self._beyond = [
            _extremes(beyond, self._is_reached, part)
            for part in (slice(self._under), slice(self._under, None))
        ]
        self._is_known = self._knows(lost)

    def solved(self, *, has_rests: bool) -> tuple[Array, Array, Array] | None:
        """Returns factors, additions and moves; None if a channel has none."""
        rule, least, is_reached = self._rule, self._least, self._is_reached
        changes: Array = np.ones(len(least), np.bool_)
        if is_reached is not None:
            changes = np.asarray(is_reached.any(axis=1))
        moves = np.zeros(len(changes))
        if not rule.is_signed:
            moves[changes] = np.rint((rule.zero_point + self._additions[changes]) / self._factors[changes])
        if is_reached is not None:
            least = np.where(is_reached, least, 0.0)
        # The smallest v increase from result to result.
        extremes = np.abs((least if is_reached is not None else least[:, [0, -1]]) + moves[:, None])
        if not self._is_known or extremes.max() >= _MAX_EXACT:
            return None
        if (self._reach + np.abs(moves)).max() > _MAX_INT32:
            return None
        factors, additions = np.zeros(len(least), np.float32), np.zeros(len(least), np.float32)
        if is_reached is not None:
            additions[~changes] = self._constants(~changes)
        pending = np.flatnonzero(changes)
        if not has_rests:
            pending = self._solve_roughly(pending, moves, factors, additions)
        for steps in (0,) if has_rests else _NEIGHBOURS:
            if not len(pending):
                break
            exact = self._factors[pending]
            tried = (exact.astype(np.float32).view(np.int32) + np.int32(steps)).view(np.float32)
            used = exact if has_rests else tried.astype(np.float64)
            low, high = self._bounds(used, moves, pending)
            chosen = ((low + high) / 2).astype(np.float32)
            margin = _MARGIN * exact + (_REST_LOST * (np.abs(chosen) + exact) if has_rests else 0.0)
            fits = (low + margin < chosen) & (chosen < high - margin)
            factors[pending[fits]], additions[pending[fits]] = tried[fits], chosen[fits]
            pending = pending[~fits]
        return None if len(pending) else (factors, additions, moves.astype(np.int64))

    def _solve_roughly(self, pending: Array, moves: Array, factors: Array, additions: Array) -> Array:
        """Solves the channels for which the nearest float and simple bounds suffice.

        Returns the channels that remain.

        Let v be the smallest sum of result k, t its distance from the exact start of the result, S
        the exact factor and s = (1 + e)·S. Then k - s·v = (1 + e)·a - e·k - s·t, where a is the
        rule's addition, so only the extremes of t and e·k are needed.
        """
        rule, exact = self._rule, self._factors[pending]
        tried = exact.astype(np.float32)
        used = tried.astype(np.float64)
        ratio, largest = used / exact, np.abs(self._results[[0, -1]]).max()
        spread = np.abs(ratio - 1) * largest
        added = ratio * self._additions[pending] - used * moves[pending]
        if not rule.is_signed:
            added += rule.zero_point
        under, above = ([each[pending] for each in extremes] for extremes in self._beyond)
        low, high = added - used * above[0] + spread, added - used * above[1] - spread + used
        if self._under:
            added = ratio * (self._additions - self._below)[pending]
            low = np.maximum(low, 1 - (added - used * under[1] - spread) - used)
            high = np.minimum(high, 1 - (added - used * under[0] + spread))
        chosen = ((low + high) / 2).astype(np.float32)
        margin = _MARGIN * exact + _LOST * (largest + abs(rule.zero_point) + 1)
        fits = (low + margin < chosen) & (chosen < high - margin)
        factors[pending[fits]], additions[pending[fits]] = tried[fits], chosen[fits]
        return np.asarray(pending[~fits])

    def _knows(self, lost: float) -> bool:
        """Returns True if rounding errors changed no smallest v or its reachability."""
        if self._is_reached is not None:
            is_partly = self._is_reached.any(axis=1) & ~self._is_reached.all(axis=1)
            if (is_partly & (self._reach > _MAX_NEARBY)).any():
                return False
        least, most = (np.array(each) for each in zip(*self._beyond, strict=True))
        is_near = (least.min(axis=0) < lost) | (most.max(axis=0) > 1 - lost)
        # Doubles are exact if the factor is a power of two.
        return not is_near.any() or not (is_near & (np.frexp(self._factors)[0] != 0.5)).any()

    def _constants(self, channels: Array) -> Array:
        """Returns the additions of channels with a single result, whose factors are 0."""
        rule = self._rule
        result = rule.low + (self._least[channels] < 0).sum(axis=1)
        # It has the sign of v, unless it is 0.
        return np.asarray((np.abs(result - rule.zero_point) if rule.is_signed else result) + 0.5)

    def _bounds(self, factors: Array, moves: Array, channels: Array) -> tuple[Array, Array]:
        """Returns the lower and upper bounds of c for all results of some channels with moved v."""
        rule, under = self._rule, self._under
        wanted = self._results if rule.is_signed else self._results + rule.zero_point
        is_reached = None if self._is_reached is None else self._is_reached[channels]
        gaps = factors[:, None] * (self._least[channels] + moves[channels][:, None])
        np.subtract(wanted, gaps, out=gaps)
        above = _extremes(gaps, is_reached, slice(under, None))
        low, high = above[1], above[0] + factors
        if under:
            # trunc(s·v - c) >= k if c < s·v - k + 1.
            below = _extremes(gaps, is_reached, slice(under))
            low, high = np.maximum(low, 1 - below[0] - factors), np.minimum(high, 1 - below[1])
        return low, high


def _extremes(numbers: Array, are_meant: Array | None, columns: slice) -> tuple[Array, Array]:
    """Returns the minimum and maximum of each row in some columns; infinite if none is selected."""
    numbers = numbers[:, columns]
    if are_meant is None and numbers.shape[1]:
        return numbers.min(axis=1), numbers.max(axis=1)
    meant = True if are_meant is None else are_meant[:, columns]
    least = np.min(numbers, axis=1, where=meant, initial=np.inf)
    return least, np.max(numbers, axis=1, where=meant, initial=-np.inf)
