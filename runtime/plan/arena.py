"""The arena for the temporaries of a plan.

Those that are never needed at the same time share bytes.
"""

from collections.abc import Sequence

from neurald.hal.memory.arena_planner import Lifespan, MemoryPlan, plan_memory
from neurald.hal.memory.pool import ALIGNMENT


def plan_arena(lifespans: Sequence[Lifespan]) -> MemoryPlan:
    """Places temporaries at multiples of `ALIGNMENT`, since they become arguments of requests."""
    return plan_memory(lifespans, alignment=ALIGNMENT)
