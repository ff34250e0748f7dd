"""Where values lie that are needed for a part of a run only: in one arena, in which those that never meet share bytes.

Each strategy is an order in which values are placed; each value gets the lowest offset at which it meets no value that is
placed already and alive at the same time, so that no strategy takes more than keeping all apart. Which one wins depends
on the shape of the model: all are tried, and the smallest arena is taken.
"""

from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifespan:
    """A value, and the positions of the program, both included, from which to which it must stay as it is."""

    value: int
    size_bytes: int
    first: int
    last: int

    def meets(self, other: "Lifespan") -> bool:
        """Whether both are alive at some position."""
        return self.first <= other.last and other.first <= self.last


class Strategy(Enum):
    """How values are placed; of two that take as much, the first is used."""

    #: By falling size: the greedy-by-size planner of TFLite's arena.
    SIZE = "size"
    #: By the position from which they are alive, the largest of one position first.
    FIRST_USE = "first use"
    #: Position by position, the one at which the most bytes are alive first; by falling size at each.
    BREADTH = "breadth"
    #: All apart: nothing shares bytes.
    NAIVE = "naive"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Offsets in an arena, all of them aligned.

    Attributes:
        offsets: by value.
        size_bytes: of the whole arena: the peak of what lies between steps.
        strategy: that placed them.
        sizes_bytes: what the arena would be by each strategy.
    """

    offsets: Mapping[int, int]
    size_bytes: int
    strategy: Strategy
    sizes_bytes: Mapping[Strategy, int]

    @property
    def unshared_bytes(self) -> int:
        """What the arena would be if no two values shared bytes."""
        return self.sizes_bytes[Strategy.NAIVE]


def plan_memory(lifespans: Sequence[Lifespan], *, alignment: int) -> MemoryPlan:
    """Places every value.

    Args:
        lifespans: each of a value of its own. Their order does not matter.
        alignment: every value begins at a multiple of so many bytes, and has as many bytes up to the next multiple for itself.
    """
    rounded = [(span, -(-span.size_bytes // alignment) * alignment) for span in lifespans]
    plans = {strategy: _place(order(rounded)) for strategy, order in _ORDERS.items()}
    sizes = {strategy: size for strategy, (_, size) in plans.items()}
    sizes[Strategy.NAIVE] = sum(size for _, size in rounded)
    best = min(plans, key=lambda strategy: sizes[strategy])
    return MemoryPlan(
        offsets=MappingProxyType(plans[best][0]),
        size_bytes=sizes[best],
        strategy=best,
        sizes_bytes=MappingProxyType(sizes),
    )


#: A lifespan, and the bytes that it takes with its alignment.
_Rounded: TypeAlias = tuple[Lifespan, int]


def _place(order: Sequence[_Rounded]) -> tuple[dict[int, int], int]:
    """The offsets, and the arena's size."""
    placed: list[tuple[int, int, Lifespan]] = []  # (offset, end), by offset
    for lifespan, size in order:
        offset = 0
        for begin, end, other in placed:
            if not other.meets(lifespan):
                continue
            if offset + size <= begin:
                break
            offset = max(offset, end)
        insort(placed, (offset, offset + size, lifespan), key=lambda each: each[0])
    return (
        {lifespan.value: offset for offset, _, lifespan in placed},
        max((end for _, end, _ in placed), default=0),
    )


def _by_size(spans: Sequence[_Rounded]) -> list[_Rounded]:
    return sorted(spans, key=lambda pair: (-pair[1], pair[0].first, pair[0].value))


def _by_first_use(spans: Sequence[_Rounded]) -> list[_Rounded]:
    return sorted(spans, key=lambda pair: (pair[0].first, -pair[1], pair[0].value))


def _by_breadth(spans: Sequence[_Rounded]) -> list[_Rounded]:
    by_size = _by_size(spans)
    # What is alive changes where a lifespan begins only for the better: those positions meet every value.
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
