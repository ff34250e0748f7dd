"""Where the values of a fused graph lie while it runs: in one arena, see `neurald.hal.memory_plan`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from neurald.drivers.compiler.graph import Value
from neurald.drivers.compiler.kernel import FusedGraph
from neurald.hal.memory_plan import Lifespan, MemoryPlan, plan_memory


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StoragePlan:
    """Where values lie.

    Attributes:
        offsets: in the arena, in bytes, of every value that lies there. Aliases lie where what they are aliases of lies.
        arena: how large the arena is, and what it would be by other strategies. Its values are numbers.
    """

    offsets: Mapping[Value, int]
    arena: MemoryPlan


def plan_storage(
    graph: FusedGraph,
    uses: Sequence[Iterable[Value]],
    *,
    alignment: int,
    elsewhere: Collection[Value] = (),
) -> StoragePlan:
    """Places all values but constants.

    Inputs are there from the beginning, outputs to the end, and anything else from the first step that uses it to the last.

    Args:
        graph: what runs.
        uses: what each step reads, writes, or needs while it runs, in the order of the steps.
        alignment: in bytes, of each value.
        elsewhere: inputs and outputs that have a place of their own, and need none in the arena.
    """
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for position, values in enumerate(uses):
        for value in values:
            source = graph.aliases.get(value, value)
            if source.constant is None and source not in elsewhere:
                first.setdefault(source, position)
                last[source] = position
    first.update((value, 0) for value in graph.inputs if value in first)
    last.update((value, len(uses)) for value in graph.outputs if value in last)
    arena = plan_memory(
        [
            Lifespan(value=number, size_bytes=value.size_bytes, first=first[value], last=last[value])
            for number, value in enumerate(first)
        ],
        alignment=alignment,
    )
    offsets = {value: arena.offsets[number] for number, value in enumerate(first)}
    offsets.update((alias, offsets[source]) for alias, source in graph.aliases.items() if source in offsets)
    return StoragePlan(offsets=MappingProxyType(offsets), arena=arena)
