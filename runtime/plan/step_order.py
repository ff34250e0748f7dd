"""Finds which steps of a plan wait for which, so that the others run at the same time.

A step waits for the steps that write what it reads, and for the steps before it on the same device:
a device runs one step of an execution at a time, in the order of the plan. In plans with control
flow, every step waits for the one before it.
"""

from collections.abc import Sequence

from neurald.runtime.plan.plan import ExecutionStep, PlanStep


def steps_to_wait_for(program: Sequence[PlanStep]) -> tuple[frozenset[int], ...]:
    """Returns for each step of a plan the positions of the steps that it waits for directly.

    Returns:
        Nothing if no two steps can run at the same time.
    """
    found: list[frozenset[int]] = []
    # By position, a mask of all steps before it, direct and indirect.
    before: list[int] = []
    writers: dict[int, int] = {}
    last_on: dict[int, int] = {}
    overlaps = False
    for position, step in enumerate(program):
        if not isinstance(step, ExecutionStep):
            return ()
        direct = {writers[number] for number in step.reads if number in writers}
        previous = last_on.get(id(step.device))
        if previous is not None:
            direct.add(previous)
        mask = 0
        for each in direct:
            mask |= before[each] | 1 << each
        overlaps |= mask != (1 << position) - 1
        before.append(mask)
        found.append(frozenset(direct))
        last_on[id(step.device)] = position
        for number in step.writes:
            writers[number] = position
    return tuple(found) if overlaps else ()
