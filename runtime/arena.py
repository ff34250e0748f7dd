"""The arena that the temporaries of a plan lie in, where those that are never needed at the same time share bytes."""

from collections.abc import Sequence

from neurald.hal.memory import ALIGNMENT
from neurald.hal.memory_plan import Lifespan, MemoryPlan, plan_memory


def plan_arena(lifespans: Sequence[Lifespan]) -> MemoryPlan:
    """Places every temporary as arguments of requests lie, since that is what they become: at multiples of `ALIGNMENT`."""
    return plan_memory(lifespans, alignment=ALIGNMENT)
