"""Tables of 256 bytes that are one or two rounded lines, quicker computed than looked up on x86.

Only processors that choose bytes from several registers look them up as quickly. Rescaled numbers
and leaky rectifiers are such functions. A line is (2^s·i - c)·m / 2^15 for the index i, rounded to
the nearest integer: one instruction for a register of words. Where there are two lines,
the larger or the smaller one is the result. Factors m of 16 bits are not always exact, so that a
few results may be corrected by 1.
"""

from functools import lru_cache

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.vector import Vector
from neurald.hal.operations.machinery.call import Array
from neurald.hal.records import replace

#: The instruction that multiplies and rounds words, by register size in bytes.
_NAMES = {32: "avx2.pmul.hr.sw", 64: "avx512.pmul.hr.sw.512"}
_ENTRIES = 256
_FRACTION_BITS = 15
_HALF, _ONE = 1 << (_FRACTION_BITS - 1), 1 << _FRACTION_BITS
#: Largest shift for which shifted distances fit in 16 bits.
_MAX_SHIFT = 6
#: Maximum number of results that are corrected. Each takes two instructions for 32 bytes.
_MAX_CORRECTIONS = 4
#: Functions with more different steps are neither one line nor two.
_MAX_STEPS = 6
#: Factors that are tried for a line.
_TRIED = 16
#: Steeper lines, and starts with which distances would not fit in 16 bits, are not used.
_MAX_SLOPE, _MAX_START = 60.0, 16_000
#: Least number of results that are not at a limit of the type.
_MIN_INSIDE = 8
#: One index of this many is compared with all others to find the slopes of lines.
_STRIDE = 4


class Line(Struct, frozen=True, kw_only=True):
    """A line; see this module."""

    shift: int
    start: int
    factor: int


class SlopedTable(Struct, frozen=True, kw_only=True):
    """A table of 256 results that lines give, but for a few corrections.

    Attributes:
        lines: one or two.
        takes_larger: whether the larger one of two lines is the result.
        value: what is added.
        type: INT8 or UINT8; results saturate.
        corrections: indices whose results are 1 more than the lines, and 1 less.
    """

    lines: tuple[Line, ...]
    takes_larger: bool
    value: int
    type: Scalar
    corrections: tuple[tuple[int, ...], tuple[int, ...]]


def sloped_table(value: Value, v: Vector) -> SlopedTable | None:
    """Finds the lines of a table of 256 bytes.

    Returns:
        None if it has none, or if `sloped` is not available.
    """
    table = value.constant
    if table is None or value.type not in (Scalar.INT8, Scalar.UINT8) or v.lanes < _words(v):
        return None
    if v.target.machine != "x86_64" or v.target.vector_bytes not in _NAMES or v.target.has_byte_permutes:
        return None
    return _sloped(table.tobytes(), value.type)


@lru_cache(maxsize=64)
def _sloped(table: bytes, kind: Scalar) -> SlopedTable | None:
    values = np.frombuffer(table, kind.dtype).astype(np.int64)
    if len(set(np.diff(values).tolist())) > _MAX_STEPS:
        return None
    info = np.iinfo(kind.dtype.name)
    # Results at the limits may be those of numbers beyond them.
    inside = np.flatnonzero((values > info.min) & (values < info.max))
    if len(inside) < _MIN_INSIDE or inside[-1] - inside[0] >= len(inside):
        return None
    first = int(inside[0])
    results = values[first : first + len(inside)]
    before, after = _slopes(results), -_slopes(results[::-1])[::-1, ::-1]
    for end in _ends(before, after):
        parts = [(first, results[:end], before[end - 1])]
        if end < len(results):
            parts.append((first + end, results[end:], after[end]))
        # The value of a part that is constant.
        value = int(next((part[0] for _, part, _ in parts if (part == part[0]).all()), results[end - 1]))
        lines = tuple(_line(start, part - value, slopes) for start, part, slopes in parts)
        if None in lines:
            continue
        found = SlopedTable(
            lines=tuple(each for each in lines if each is not None),
            takes_larger=bool(parts[0][2].sum() < parts[-1][2].sum()),
            value=value,
            type=kind,
            corrections=((), ()),
        )
        missing = values - np.clip(_results(found), info.min, info.max)
        wrong = np.flatnonzero(missing)
        if len(wrong) <= _MAX_CORRECTIONS and (np.abs(missing) <= 1).all():
            more, less = (tuple(np.flatnonzero(missing == each).tolist()) for each in (1, -1))
            return replace(found, corrections=(more, less))
    return None


def _slopes(values: Array) -> Array:
    """Returns the least and largest slope of lines up to each element: (elements, 2)."""
    count = len(values)
    distance = np.arange(count) - np.arange(0, count, _STRIDE)[:, None]
    rise = values - values[::_STRIDE, None]
    is_after = distance > 0
    distance[~is_after] = 1
    low = np.where(is_after, (rise - 1) / distance, -np.inf).max(0)
    high = np.where(is_after, (rise + 1) / distance, np.inf).min(0)
    return np.stack([np.maximum.accumulate(low), np.minimum.accumulate(high)], 1)


def _ends(before: Array, after: Array) -> list[int]:
    """Returns where the first of two lines may end; only the number of elements if it is all."""
    count = len(before)
    if before[-1, 0] < before[-1, 1]:
        return [count]
    longest = int((before[:, 0] < before[:, 1]).sum())
    earliest = count - int((after[:, 0] < after[:, 1]).sum())
    return sorted({longest, (longest + earliest) // 2, max(earliest, 1)}) if earliest <= longest else []


def _line(first: int, values: Array, slopes: Array) -> Line | None:
    """Returns the line closest to elements, or None if there is none with numbers of 16 bits.

    Args:
        first: index of the first element.
        values: the elements.
        slopes: between which that of the line is.
    """
    low, high = np.maximum(slopes, -_MAX_SLOPE)[0], np.minimum(slopes, _MAX_SLOPE)[1]
    best: tuple[int, Line] | None = None
    for shift in range(_MAX_SHIFT + 1):
        scale = float(1 << (_FRACTION_BITS - shift))
        tried = np.linspace(low * scale, high * scale, _TRIED + 2)[1:-1]
        factors = np.array(sorted({round(each) for each in tried.tolist()}), np.int64)
        if np.abs(factors).max() >= _ONE:
            continue
        # start · factor is at most each of these, and more than each minus one.
        indices = np.arange(first, first + len(values)) << shift
        most = factors[:, None] * indices + _HALF - values * _ONE
        middle = (most.min(1) + most.max(1) - _ONE) // 2
        starts = np.where(factors == 0, 0, np.rint(middle / np.where(factors == 0, 1, factors))).astype(
            np.int64
        )
        offset = (starts * factors)[:, None]
        wrong = ((offset > most) | (offset <= most - _ONE)).sum(1)
        wrong[np.abs(starts) > _MAX_START] = _ENTRIES
        chosen = int(wrong.argmin())
        if best is None or wrong[chosen] < best[0]:
            line = Line(shift=shift, start=int(starts[chosen]), factor=int(factors[chosen]))
            best = int(wrong[chosen]), line
        if not best[0]:
            break
    return best[1] if best is not None and best[0] <= _MAX_CORRECTIONS else None


def _results(table: SlopedTable) -> Array:
    """Returns the elements of a table without saturation and corrections."""
    rises = [
        (((np.arange(_ENTRIES) << line.shift) - line.start) * line.factor + _HALF) >> _FRACTION_BITS
        for line in table.lines
    ]
    result: Array = table.value + (np.maximum if table.takes_larger else np.minimum).reduce(rises)
    return result


def sloped(v: Vector, table: SlopedTable, indices: str) -> str:
    """Computes elements of a table, i8, in the lanes of at least a register of words.

    Args:
        v: receives the instructions.
        table: the table.
        indices: from 0 to 255, i16.
    """
    words, info = Vector(v.code, v.target, _words(v)), np.iinfo(table.type.dtype.name)
    found = v.joined("i16", [_risen(words, table, each) for each in v.parts("i16", indices, words.lanes)])
    # LLVM packs with saturation.
    found = v.call("llvm.smin", "i16", found, v.number("i16", int(info.max)))
    found = v.call("llvm.smax", "i16", found, v.number("i16", int(info.min)))
    results = v.cast("trunc", "i16", found, "i8")
    if not any(table.corrections):
        return results
    places = v.cast("trunc", "i16", indices, "i8")
    for operation, indexes in zip(("sub", "add"), table.corrections, strict=True):
        for index in indexes:
            is_there = v.compare(
                "eq", "i8", places, v.number("i8", index - _ENTRIES if index > 127 else index)
            )
            # True is -1.
            results = v.binary(operation, "i8", results, v.cast("sext", "i1", is_there, "i8"))
    return results


def _words(v: Vector) -> int:
    """Returns the number of words of a register."""
    return v.target.lanes(Scalar.INT16.size_bytes)


def _risen(words: Vector, table: SlopedTable, indices: str) -> str:
    """Computes elements in words, which are not saturated yet."""
    kind, name = words.type("i16"), f"@llvm.x86.{_NAMES[words.target.vector_bytes]}"
    words.code.declarations.add(f"declare {kind} {name}({kind}, {kind})")
    rises = []
    for line in table.lines:
        shifted = words.binary("shl", "i16", indices, words.number("i16", line.shift))
        distance = words.binary("sub", "i16", shifted, words.number("i16", line.start))
        factor = words.number("i16", line.factor)
        rises.append(words.code.value(f"call {kind} {name}({kind} {distance}, {kind} {factor})"))
    if len(rises) > 1:
        rises = [words.call(f"llvm.{'smax' if table.takes_larger else 'smin'}", "i16", *rises)]
    return words.binary("add", "i16", rises[0], words.number("i16", table.value))
