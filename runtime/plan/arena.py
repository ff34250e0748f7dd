"""The arena that the temporaries of a plan lie in, where those that are never needed at the same time share bytes."""

from collections.abc import Sequence

from neurald.hal.memory.arena_planner import Lifespan, MemoryPlan, plan_memory
from neurald.hal.memory.pool import ALIGNMENT


def plan_arena(lifespans: Sequence[Lifespan]) -> MemoryPlan:
    """Places every temporary as arguments of requests lie, since that is what they become: at multiples of `ALIGNMENT`."""
    return plan_memory(lifespans, alignment=ALIGNMENT)
