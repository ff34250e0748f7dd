"""Which of the client's buffers a plan keeps a copy of in shared memory, so that devices of other processes find it there.

Such a device copies what lies in other memory each time that it reads or writes it. So an input or constant that is read more
than once is copied once, and an output that a later step reads stays where it was written, and is copied back in the end.
"""

from collections.abc import Sequence

from neurald.runtime.plan.plan import ExecutionStep, PlanStep, Value, WhileStep


def values_to_share(program: Sequence[PlanStep], values: Sequence[Value]) -> frozenset[int]:
    """The numbers of such values."""
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
        # In a loop it is read again and again, but what the loop carries only in its first iteration.
        turns = 2 if any(position in loop for loop in loops) else 1
        for number in step.reads:
            weight = turns
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
