"""Where the temporaries of a plan lie: in one arena, in which those that are never needed at the same time share bytes.

Temporaries are placed by falling size; each gets the lowest offset at which it meets no temporary that is placed already
and alive at the same time. That is the greedy-by-size planner of TFLite's arena.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from neurald.hal.memory import align


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifespan:
    """A temporary, and the positions of the program, both included, from which to which it must stay as it is."""

    value: int
    size_bytes: int
    first: int
    last: int

    def meets(self, other: "Lifespan") -> bool:
        """Whether both are alive at some position."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaPlan:
    """Offsets in an arena, all of them aligned.

    Attributes:
        offsets: by value.
        size_bytes: of the whole arena: the peak of what lies between steps.
        unshared_bytes: what it would be if no two temporaries shared bytes.
    """

    offsets: Mapping[int, int]
    size_bytes: int
    unshared_bytes: int


def plan_arena(lifespans: Sequence[Lifespan]) -> ArenaPlan:
    """Places every temporary, each at a multiple of `ALIGNMENT`."""
    placed: list[tuple[int, Lifespan]] = []  # by offset
    for lifespan in sorted(lifespans, key=lambda span: (-span.size_bytes, span.first, span.value)):
        offset = 0
        for other_offset, other in placed:
            if not other.meets(lifespan):
                continue
            if offset + align(lifespan.size_bytes) <= other_offset:
                break
            offset = max(offset, other_offset + align(other.size_bytes))
        placed.append((offset, lifespan))
        placed.sort(key=lambda pair: pair[0])
    return ArenaPlan(
        offsets=MappingProxyType({lifespan.value: offset for offset, lifespan in placed}),
        size_bytes=max((offset + align(lifespan.size_bytes) for offset, lifespan in placed), default=0),
        unshared_bytes=sum(align(lifespan.size_bytes) for lifespan in lifespans),
    )
