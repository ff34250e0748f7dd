"""Loop over a range of work items that are indexed in several dimensions.

It counts the index in every dimension, without a division per work item.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from neurald.drivers.compiler.ir.extent import is_one
from neurald.drivers.cpu.emit.instructions import Instructions


@contextmanager
def each_work_item(code: Instructions, extents: Sequence[int]) -> Iterator[tuple[list[str], str]]:
    """Writes a loop over the work items from `%begin` to below `%end`.

    Args:
        code: receives the instructions.
        extents: extents of the dimensions of work items, slowest first; their product is the number
            of work items.

    Yields:
        The index of the work item in each dimension, and an i1 that is true for the first one of
        the range.
    """
    digits = _digits(code, extents)
    carried = [("i64", digit) for digit, extent in zip(digits, extents, strict=True) if not is_one(extent)]
    with code.loop("%begin", "%end", carried, may_be_empty=True) as loop:
        names = iter(loop.carried)
        position = ["0" if is_one(extent) else next(names) for extent in extents]
        yield position, code.value(f"icmp eq i64 {loop.index}, %begin")
        loop.results = _successor(code, position, extents)


def _digits(code: Instructions, extents: Sequence[int]) -> list[str]:
    """Returns the index of the first work item."""
    digits = []
    for dimension, extent in enumerate(extents):
        inner, digit = math.prod(extents[dimension + 1 :]), "%begin"
        if not is_one(inner):
            digit = code.value(f"udiv i64 {digit}, {inner}")
        if not is_one(extent) and not is_one(math.prod(extents[:dimension])):
            digit = code.value(f"urem i64 {digit}, {extent}")
        digits.append(digit)
    return digits


def _successor(code: Instructions, position: Sequence[str], extents: Sequence[int]) -> list[str]:
    """Returns the index of the next work item, without dimensions of length 1."""
    results: list[str] = []
    carry = "1"
    for digit, extent in reversed(list(zip(position, extents, strict=True))):
        if is_one(extent):
            continue
        following = code.value(f"add i64 {digit}, {carry}")
        is_over = code.value(f"icmp eq i64 {following}, {extent}")
        results.append(code.value(f"select i1 {is_over}, i64 0, i64 {following}"))
        carry = code.value(f"zext i1 {is_over} to i64")
    return results[::-1]
