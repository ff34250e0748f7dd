"""Chooses the client buffers that a plan copies to shared memory for devices of other processes.

Each time such a device reads or writes memory that is not shared, the data is copied. Therefore an
input or constant that is read more than once is copied to shared memory once, and an output that a
later step reads stays in shared memory and is copied back at the end.
"""

from collections.abc import Sequence

from neurald.runtime.plan.plan import ExecutionStep, PlanStep, PlanValue, WhileStep


def values_to_share(program: Sequence[PlanStep], values: Sequence[PlanValue]) -> frozenset[int]:
    """Returns the numbers of the values to copy."""
    loops = [
        range(position, step.end_position)
        for position, step in enumerate(program)
        if isinstance(step, WhileStep)
    ]
    starts = {
        carried: initial
        for step in program
        if isinstance(step, WhileStep)
        for carried, initial in zip(step.carried, step.initial, strict=True)
    }
    remote_reads = [0] * len(values)
    read: set[int] = set()
    touched: set[int] = set()
    for position, step in enumerate(program):
        if not isinstance(step, ExecutionStep):
            continue
        remote = step.device.is_remote
        # A step in a loop reads repeatedly, except for the initial value of a carried operand.
        reads = 2 if any(position in loop for loop in loops) else 1
        for number in step.reads:
            weight = reads
            while number in starts:
                number, weight = starts[number], 1
            read.add(number)
            remote_reads[number] += weight if remote else 0
        if remote:
            touched.update((*step.reads, *step.writes))
    return frozenset(
        number
        for number, value in enumerate(values)
        if (value.client_output is not None and number in read and number in touched)
        or ((value.client_input is not None or value.constant is not None) and remote_reads[number] > 1)
    )
