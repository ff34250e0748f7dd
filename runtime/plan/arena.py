"""Plans the arena for the temporaries of a plan.

Temporaries that are never needed at the same time share bytes.
"""

from collections.abc import Sequence

from neurald.hal.memory.alignment import ALIGNMENT
from neurald.hal.memory.arena_planner import Lifespan, MemoryPlan, plan_memory


def plan_arena(lifespans: Sequence[Lifespan]) -> MemoryPlan:
    """Assigns each temporary an offset in the arena.

    Offsets are multiples of `ALIGNMENT`, because temporaries become arguments of requests.
    """
    return plan_memory(lifespans, alignment=ALIGNMENT)
