"""Plans one arena for values that are needed only for a part of a run.

Values that are never alive at the same time share bytes.

A strategy is an order in which values are placed; each value gets the lowest offset that does not
overlap any value that is already placed and alive at the same time, so no strategy takes more than
separate allocation. Which strategy wins depends on the shape of the model: all are tried, and the
smallest arena is taken.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct


class Lifespan(Struct, frozen=True, kw_only=True):
    """A value, and the first and last position of the program (inclusive) at which it is alive."""

    value: int
    size_bytes: int
    first: int
    last: int


class Strategy(Enum):
    """Order in which values are placed; of equally good strategies the first is used."""

    #: The order of decreasing size: the greedy-by-size planner of TFLite's arena.
    SIZE = "size"
    #: The order of first uses; at the same position, the largest first.
    FIRST_USE = "first use"
    #: The order of positions, that with the most live bytes first; by decreasing size at each.
    BREADTH = "breadth"
    #: Nothing shares bytes.
    NAIVE = "naive"


class MemoryPlan(Struct, frozen=True, kw_only=True):
    """Aligned offsets in an arena.

    Attributes:
        offsets: the offsets by value.
        size_bytes: the size in bytes of the whole arena: the peak memory between steps.
        strategy: the strategy that was used.
        sizes_bytes: size of the arena with each strategy that was tried.
    """

    offsets: Mapping[int, int]
    size_bytes: int
    strategy: Strategy
    sizes_bytes: Mapping[Strategy, int]

    @property
    def unshared_bytes(self) -> int:
        """Size of the arena if no two values shared bytes."""
        return self.sizes_bytes[Strategy.NAIVE]


def plan_memory(
    lifespans: Sequence[Lifespan],
    *,
    alignment: int,
    strategies: Sequence[Strategy] = (Strategy.SIZE, Strategy.FIRST_USE, Strategy.BREADTH),
) -> MemoryPlan:
    """Places every value.

    Args:
        lifespans: one per value, in any order.
        alignment: every value starts at a multiple of this many bytes and is padded to the next
            multiple.
        strategies: those that are tried.
    """
    rounded = [(span, -(-span.size_bytes // alignment) * alignment) for span in lifespans]
    plans = {strategy: _place(_ORDERS[strategy](rounded)) for strategy in strategies}
    sizes = {strategy: size for strategy, (_, size) in plans.items()}
    sizes[Strategy.NAIVE] = sum(size for _, size in rounded)
    best = min(plans, key=lambda strategy: sizes[strategy])
    return MemoryPlan(
        offsets=MappingProxyType(plans[best][0]),
        size_bytes=sizes[best],
        strategy=best,
        sizes_bytes=MappingProxyType(sizes),
    )


#: Number of positions at which a value is alive, below which it is in the lists of each.
_FEW_POSITIONS: Final = 32

#: A lifespan and its size rounded up to the alignment.
_Rounded: TypeAlias = tuple[Lifespan, int]


def _place(order: Sequence[_Rounded]) -> tuple[dict[int, int], int]:
    """Returns the offsets and the arena's size."""
    # Most values are alive at few positions, which have lists of what is alive there. The others
    # are examined one by one. This is a large part of a start, so that it is one loop.
    at: dict[int, list[tuple[int, int]]] = defaultdict(list)
    short: list[tuple[int, int, tuple[int, int]]] = []
    long: list[tuple[int, int, tuple[int, int]]] = []
    offsets: dict[int, int] = {}
    end = 0
    for lifespan, size in order:
        first, last = lifespan.first, lifespan.last
        positions = range(first, last + 1)
        is_short = len(positions) <= _FEW_POSITIONS
        alive = [part for one, other, part in long if one <= last and first <= other]
        if is_short:
            for position in positions:
                alive += at[position]
        else:
            alive += [part for one, other, part in short if one <= last and first <= other]
        offset = 0
        for begin, stop in sorted(alive):
            if offset + size <= begin:
                break
            if stop > offset:  # Faster than `max`.
                offset = stop
        part = offset, offset + size
        end = max(end, offset + size)
        offsets[lifespan.value] = offset
        if is_short:
            short.append((first, last, part))
            for position in positions:
                at[position].append(part)
        else:
            long.append((first, last, part))
    return offsets, end


def _by_size(spans: Sequence[_Rounded]) -> list[_Rounded]:
    return sorted(spans, key=lambda pair: (-pair[1], pair[0].first, pair[0].value))


def _by_first_use(spans: Sequence[_Rounded]) -> list[_Rounded]:
    return sorted(spans, key=lambda pair: (pair[0].first, -pair[1], pair[0].value))


def _by_breadth(spans: Sequence[_Rounded]) -> list[_Rounded]:
    by_size = _by_size(spans)
    # Live bytes only grow where a lifespan begins, and those positions cover every value.
    positions = sorted({span.first for span, _ in spans})
    alive = {
        position: [pair for pair in by_size if pair[0].first <= position <= pair[0].last]
        for position in positions
    }
    positions.sort(key=lambda position: (-sum(size for _, size in alive[position]), position))
    return list(dict.fromkeys(pair for position in positions for pair in alive[position]))


_ORDERS: Mapping[Strategy, Callable[[Sequence[_Rounded]], list[_Rounded]]] = {
    Strategy.SIZE: _by_size,
    Strategy.FIRST_USE: _by_first_use,
    Strategy.BREADTH: _by_breadth,
}
