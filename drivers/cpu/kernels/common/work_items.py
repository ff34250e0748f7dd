"""Loop over a range of work items that are indexed in several dimensions.

It counts the index in every dimension, without a division per work item.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from neurald.drivers.compiler.ir.extents.extent import is_one
from neurald.drivers.cpu.emit.instructions import Instructions


@contextmanager
def each_work_item(
    code: Instructions, extents: Sequence[int], shared_order: Sequence[int] | None = None
) -> Iterator[tuple[list[str], str]]:
    """Writes a loop over the work items from `%begin` to below `%end`.

    Args:
        code: receives the instructions.
        extents: extents of the dimensions of work items, slowest first; their product is the number
            of work items.
        shared_order: the order of the dimensions, slowest first, for a range that is not all work
            items. If all kernels are divided alike, threads read less of each other's results.

    Yields:
        The index of the work item in each dimension, and its number in the range.
    """
    dimensions = range(len(extents))
    orders = [dimensions, dimensions if shared_order is None else shared_order]
    if tuple(orders[0]) == tuple(orders[1]):
        orders.pop()
    is_whole = ""
    if len(orders) > 1:
        is_first = code.value("icmp eq i64 %begin, 0")
        is_last = code.value(f"icmp eq i64 %end, {math.prod(extents)}")
        is_whole = code.value(f"and i1 {is_first}, {is_last}")

    def chosen(found: Sequence[Mapping[int, str]], dimension: int) -> str:
        names = [each[dimension] for each in found]
        if len({*names}) == 1:
            return names[0]
        return code.value(f"select i1 {is_whole}, i64 {names[0]}, i64 {names[1]}")

    counted = [dimension for dimension in dimensions if not is_one(extents[dimension])]
    begins = [_digits(code, extents, order) for order in orders]
    carried = [("i64", chosen(begins, dimension)) for dimension in counted]
    with code.loop("%begin", "%end", carried, may_be_empty=True) as loop:
        index = dict(zip(counted, loop.carried, strict=True))
        position = [index.get(dimension, "0") for dimension in dimensions]
        yield position, code.value(f"sub i64 {loop.index}, %begin")
        nexts = [_successor(code, index, extents, order) for order in orders]
        loop.results = [chosen(nexts, dimension) for dimension in counted]


@contextmanager
def each_rectangle(code: Instructions, inner: int) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Writes a loop over the parts of a range of work items that have two dimensions.

    There are at most three: what the range has of its first row, whole rows, and what it has of its
    last row. Whole rows can so be computed in any order.

    Args:
        code: receives the instructions.
        inner: the extent of the inner dimension.

    Yields:
        The ranges of both dimensions, outer first. The outer one may be empty.
    """
    if inner == 1:
        yield ("%begin", "%end"), ("0", "1")
        return
    first, start = (code.value(f"{name} i64 %begin, {inner}") for name in ("udiv", "urem"))
    last, stop = (code.value(f"{name} i64 %end, {inner}") for name in ("udiv", "urem"))
    is_one = code.value(f"icmp eq i64 {first}, {last}")
    cuts = code.value(f"icmp ne i64 {start}, 0")
    has_head = code.value(f"or i1 {is_one}, {cuts}")
    has_some = code.value("icmp ne i64 %begin, %end")
    has_head = code.value(f"and i1 {has_head}, {has_some}")
    after = code.value(f"add i64 {first}, {code.value(f'zext i1 {has_head} to i64')}")
    head_stop = code.value(f"select i1 {is_one}, i64 {stop}, i64 {inner}")
    has_tail = code.value(f"icmp ne i64 {stop}, 0")
    ends = code.value(f"add i64 {last}, {code.value(f'zext i1 {has_tail} to i64')}")
    # In a range within a row, the head is all.
    tail_end = code.value(f"select i1 {is_one}, i64 {last}, i64 {ends}")
    with code.loop("0", "3") as part:
        is_head, is_tail = (code.fresh(f"icmp eq i64 {part.index}, {number}") for number in (0, 2))

        def chosen(head: str, middle: str, tail: str) -> str:
            rest = code.fresh(f"select i1 {is_tail}, i64 {tail}, i64 {middle}")
            return code.fresh(f"select i1 {is_head}, i64 {head}, i64 {rest}")

        yield (
            (chosen(first, after, last), chosen(after, last, tail_end)),
            (chosen(start, "0", "0"), chosen(head_stop, str(inner), stop)),
        )


def _digits(code: Instructions, extents: Sequence[int], order: Sequence[int]) -> Mapping[int, str]:
    """Returns the index of the first work item in each dimension longer than 1."""
    digits = {}
    for place, dimension in enumerate(order):
        inner = math.prod(extents[each] for each in order[place + 1 :])
        outer = math.prod(extents[each] for each in order[:place])
        digit = "%begin"
        if not is_one(inner):
            digit = code.value(f"udiv i64 {digit}, {inner}")
        if not is_one(extents[dimension]) and not is_one(outer):
            digit = code.value(f"urem i64 {digit}, {extents[dimension]}")
        digits[dimension] = digit
    return digits


def _successor(
    code: Instructions, index: Mapping[int, str], extents: Sequence[int], order: Sequence[int]
) -> Mapping[int, str]:
    """Returns the index of the next work item in each dimension longer than 1."""
    results: dict[int, str] = {}
    carry = "1"
    for dimension in reversed(order):
        if dimension not in index:
            continue
        following = code.value(f"add i64 {index[dimension]}, {carry}")
        is_over = code.value(f"icmp eq i64 {following}, {extents[dimension]}")
        results[dimension] = code.value(f"select i1 {is_over}, i64 0, i64 {following}")
        carry = code.value(f"zext i1 {is_over} to i64")
    return results
