"""Splits kernels into sections along an axis, within which conditions are constant.

Concatenation and padding test the source of every element. If the test only depends on the index
along an axis, it is constant between two points, and elements there can be read unconditionally.
"""

import math
from collections.abc import Iterator, Sequence

from neurald.drivers.compiler.ir.expression import Apply, Axis, Expression, Linear, Load, Reduce, axis
from neurald.drivers.compiler.ir.extents.extent import (
    Extent,
    estimate,
    has_extents,
    highest,
    is_one,
    may_change,
    surely_lowest,
)
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.kernel_rewriting import rewrite_kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.passes.axis_rewriting import simplify_axes
from neurald.drivers.cpu.schedule.vectorization import schedule_loops
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: More sections or expressions take longer to compile than they save.
_MAX_SECTIONS, _MAX_EXPRESSIONS = 9, 180
#: Kernels that compute fewer elements, reduced ones included, finish before the code of more
#: sections would be loaded.
_MIN_ELEMENTS = 2048
#: Sections that are too short for vectors take at most this share of the time without them.
_MAX_SHORT_SHARE = 0.8
#: Longest border of which the length may differ between sizes.
_MAX_BORDER = 64
_ORDERS = (Op.LESS, Op.LESS_EQUAL)


def split_into_sections(kernel: Kernel, target: Target) -> tuple[Kernel, ...]:
    """Splits a kernel into sections, or returns the kernel itself if that is better.

    Each section computes some of the elements; see `Kernel.output_offset`.

    Args:
        kernel: may store its elements anywhere, which its sections do as well.
        target: the target of the code.
    """
    reduced = [each.axes for each in walk(*kernel.roots) if isinstance(each, Reduce)]
    times = max((math.prod(estimate(each.extent) for each in axes) for axes in reduced), default=1)
    if estimate(kernel.output.count) * times < _MIN_ELEMENTS or kernel.contraction is not None:
        return (kernel,)
    sections = _sections(kernel, target, has_short=False)
    # A value between constants takes a single load of some lanes.
    if sum(isinstance(each, Load) for each in walk(*kernel.roots)) > 1:
        others = _sections(kernel, target, has_short=True)
        is_finer = len(others) > len(sections)
        if is_finer and _time_ns(others, target) < _MAX_SHORT_SHARE * _time_ns(sections, target):
            return others
    return sections


def _time_ns(sections: Sequence[Kernel], target: Target) -> float:
    """Returns the estimated time of all sections."""
    return sum(schedule_loops(simplify_axes(each), target).cost_ns for each in sections)


def _sections(kernel: Kernel, target: Target, *, has_short: bool) -> tuple[Kernel, ...]:
    """Returns the sections of a kernel, or the kernel itself if there are none, or too many.

    Args:
        kernel: see `split_into_sections`.
        target: the target of the code.
        has_short: see `_cuts`.
    """
    sections = [replace(kernel, output_offset=kernel.stored_at)]
    position = 0
    while position < len(sections) <= _MAX_SECTIONS:
        section = sections[position]
        cut = next(_cuts(section, target, has_short=has_short), None)
        if cut is None:
            position += 1
        else:
            sections[position : position + 1] = _parts(section, *cut)
    total = sum(1 for section in sections for _ in walk(*section.roots))
    is_worthwhile = 1 < len(sections) <= _MAX_SECTIONS and total <= _MAX_EXPRESSIONS
    return tuple(sections) if is_worthwhile else (kernel,)


def _cuts(kernel: Kernel, target: Target, *, has_short: bool) -> Iterator[tuple[Axis, int]]:
    """Yields cuts where a condition changes.

    Args:
        kernel: the kernel.
        target: the target of the code.
        has_short: False if both parts must be long enough for vectors; True if one is enough.
    """
    moving = [each for each in kernel.axes if not is_one(each.extent)]
    for each in walk(*kernel.roots):
        if (
            not isinstance(each, Apply)
            or each.op not in _ORDERS
            or each.arguments[0].type is not Scalar.INDEX
        ):
            continue
        for along, at in _changes(each, kernel.axes):
            shortest = target.lanes(kernel.output.type.size_bytes) if along is moving[-1] else 1
            if along not in moving or any(_may_be_short(part, shortest) for part in (at, along.extent - at)):
                continue
            if not all(part >= 1 for part in (at, along.extent - at)):
                continue
            found = [part >= shortest for part in (at, along.extent - at)]
            if all(found) or (has_short and any(found)):
                yield along, at


def _may_be_short(length: int, shortest: int) -> bool:
    """Returns True for a part that is short for sizes for which the code must be right.

    These are the length of a border that depends on a size that is not known, and what is left of a
    list that may have few elements while the model runs.
    """
    is_variable = isinstance(length, Extent) and (highest(length) < _MAX_BORDER or may_change(length))
    return is_variable and surely_lowest(length) < shortest


def _changes(condition: Apply, axes: Sequence[Axis]) -> Iterator[tuple[Axis, int]]:
    """Yields the axis that a comparison depends on, and indices at which its result changes.

    If it also depends on axes of reductions, these are the indices from which it has another result
    at one end of each, or at the other. There are none if these follow from open lengths: where a
    window meets a border would be decided for all sizes.
    """
    first, second = condition.arguments
    difference = first - second
    if isinstance(difference, Linear):
        terms, offset = difference.terms, difference.constant
    else:
        terms, offset = ((difference, 1),), 0
    found = [(term, factor) for term, factor in terms if term in axes]
    others = [(term, factor) for term, factor in terms if term not in axes]
    if len(found) != 1 or not all(isinstance(term, Axis) for term, _ in others):
        return
    if others and has_extents((offset, *(each.extent for each in axes), *(factor for _, factor in terms))):
        return
    ((along, factor),) = found
    assert isinstance(along, Axis)  # noqa: S101 - it is among the axes
    ends = [[factor * (each.extent - 1), 0] for each, factor in others if isinstance(each, Axis)]
    # Finds where factor × along + offset crosses 0.
    from_equal = (condition.op is Op.LESS_EQUAL) is (factor < 0)
    for rest in dict.fromkeys((offset + sum(map(min, ends)), offset + sum(map(max, ends)))):
        quotient, left = divmod(-rest, factor)
        yield along, quotient + (1 if left or not from_equal else 0)


def _parts(kernel: Kernel, along: Axis, at: int) -> list[Kernel]:
    """Returns both sides of a cut."""
    parts = []
    for begin, end in ((0, at), (at, along.extent)):
        part = axis(end - begin, along.name)
        where: dict[Expression, Expression] = {along: part + begin}
        axes = (part if each is along else each for each in kernel.axes)
        parts.append(rewrite_kernel(kernel, where.get, axes))
    return parts
