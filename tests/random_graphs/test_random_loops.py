"""Random programs of loops on two devices give the results of the references."""

import random

from random_graphs.loop_programs import devices_of, mismatch_of
from support.models.plans import compiled
from support.models.random_loops import random_loops
from support.sweeps import sweep

from neurald.runtime.plan.plan import CompoundBody

SEEDS = range(8)


@sweep("seed", SEEDS[::2], full=SEEDS[1::2])
def test_split_programs_equal_the_references(seed: int) -> None:
    assert mismatch_of(seed, is_split=True) == ""


def test_state_crosses_the_border_of_plans() -> None:
    """Plans of programs have loops with steps on different devices."""
    crossing = 0
    for seed in (0, 4, 8):
        model, _ = random_loops(seed)
        body = compiled(model, *devices_of(model, random.Random(seed))).plan.body
        if isinstance(body, CompoundBody):
            names = {step.device.name for step in body.program if hasattr(step, "device")}
            crossing += len(names) > 1
    assert crossing
