"""Improves the steps of a plan by small changes, each of which makes the plan faster.

The queues of devices give steps that are as large as possible (`PlacementProblem.drained`). Such a
step begins when all of its inputs are there, and all of its results are there when it has ended.
But another device may read, or write, some of them only. So a step may be cut in two: what others
read first is one part, or what does not have to wait for others. Also, single operations may move
to another step or become one, on any device, and steps may run earlier or later.

Sets of operations are integers, whose bits are the operations.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from neurald.runtime.partitioning.min_cost.problem import Choice, PlacementProblem, Steps

#: Plans must be better by more than rounding.
_TOLERANCE: Final = 1e-9
_INFINITE: Final = float("inf")

#: Steps in the order of a plan.
_Order: TypeAlias = list[tuple[int, Sequence[int]]]


def changed(
    problem: PlacementProblem, seconds: float, steps: Steps, visits: int
) -> tuple[float, Choice, Steps]:
    """Returns the prediction for a plan after changes, the device of each operation, and the steps.

    Args:
        problem: the problem of the plan, whose steps do not run one after another.
        seconds: what is predicted for the plan as it is.
        steps: its steps.
        visits: how many operations predictions may visit together.
    """
    left = visits // max(1, problem.count)
    found: _Order = list(steps)
    tried: set[tuple[tuple[int, Sequence[int]], ...]] = set()
    is_better = True
    while is_better and left > 0:
        is_better = False
        for other in _changes(problem, found):
            key = tuple((device, tuple(operations)) for device, operations in other)
            if key in tried:
                continue
            tried.add(key)
            left -= 1
            predicted = problem.predicted(other)
            if predicted < seconds * (1 - _TOLERANCE):
                seconds, found, is_better = predicted, other, True
                break
            if left <= 0:
                break
    choice = [0] * problem.count
    for device, operations in found:
        for n in operations:
            choice[n] = device
    return seconds, choice, found


def _changes(problem: PlacementProblem, steps: _Order) -> Iterator[_Order]:
    """Yields plans that differ little from a plan."""
    step_of = {n: number for number, (_, operations) in enumerate(steps) for n in operations}
    for number, (device, operations) in enumerate(steps):
        if len(operations) > 1:
            for first, second in _parts(problem, operations):
                rest = [*steps[:number], (device, first), *steps[number + 1 :]]
                last = min(
                    (step_of[f] for n in second for f in problem.graph.followers[n] if step_of[f] != number),
                    default=len(steps),
                )
                for place in {number + 1, last}:
                    yield [*rest[:place], (device, second), *rest[place:]]
    for number, step in enumerate(steps):
        first_place, last_place = _range(problem, step[1], step_of, number)
        rest = [*steps[:number], *steps[number + 1 :]]
        for place in {first_place, last_place - 1} - {number}:
            yield [*rest[:place], step, *rest[place:]]
    for number, (own, operations) in enumerate(steps):
        needed = _needed(problem, operations)
        for n in operations:
            yield from _moved(problem, steps, step_of, number, own, n)
            if len(operations) > 1:
                yield from _taken_out(problem, steps, number, needed, n)


def _range(
    problem: PlacementProblem, operations: Sequence[int], step_of: dict[int, int], number: int
) -> tuple[int, int]:
    """Returns where in a plan operations may run: from a step on, and before another one."""
    sources = [step_of[s] for n in operations for s in problem.written_reads[n]]
    readers = [step_of[f] for n in operations for f in problem.graph.followers[n]]
    first = max((s + 1 for s in sources if s != number), default=0)
    last = min((f for f in readers if f != number), default=max(step_of.values()) + 1)
    return first, last


def _moved(
    problem: PlacementProblem, steps: _Order, step_of: dict[int, int], number: int, own: int, n: int
) -> Iterator[_Order]:
    """Yields plans in which an operation is in another step, or one of its own."""
    operations = steps[number][1]
    sources = [step_of[s] for s in problem.written_reads[n]]
    readers = [step_of[f] for f in problem.graph.followers[n]]
    first = max(sources, default=0)
    last = min(readers, default=len(steps) - 1)
    left = [m for m in operations if m != n]
    rest = [*steps[:number], *([(own, left)] if left else []), *steps[number + 1 :]]
    shift = 0 if left else 1
    for other in range(first, last + 1):
        device = steps[other][0]
        if other != number and problem.costs[n][device] < _INFINITE:
            place = other - (shift if other > number else 0)
            # What reads it in that step comes after it.
            members = sorted([*rest[place][1], n])
            yield [*rest[:place], (device, members), *rest[place + 1 :]]
    earliest = max((s + 1 for s in sources), default=0)
    latest = min(readers, default=len(steps))
    if earliest > latest:
        return
    for device in range(problem.device_count):
        if problem.costs[n][device] == _INFINITE or (device == own and not left):
            continue
        for place in {earliest, latest}:
            at = place - (shift if place > number else 0)
            yield [*rest[:at], (device, [n]), *rest[at:]]


def _taken_out(
    problem: PlacementProblem, steps: _Order, number: int, needed: dict[int, int], n: int
) -> Iterator[_Order]:
    """Yields plans in which an operation is on another device, and its step is cut around it."""
    own, operations = steps[number]
    before = needed[n] & ~(1 << n)
    after = sum(1 << m for m in operations if m != n and needed[m] >> n & 1)
    rest = sum(1 << m for m in operations) & ~(before | after | 1 << n)
    cuts: tuple[tuple[list[int], list[int]], ...] = (
        ([before | rest], [after]),
        ([before], [rest | after]),
        ([before, rest], [after]),
        ([before], [rest, after]),
    )
    for device in range(problem.device_count):
        if device == own or problem.costs[n][device] == _INFINITE:
            continue
        for first, second in cuts:
            earlier, later = (
                [(own, _members(operations, part)) for part in parts if part] for parts in (first, second)
            )
            yield [*steps[:number], *earlier, (device, [n]), *later, *steps[number + 1 :]]


def _needed(problem: PlacementProblem, operations: Sequence[int]) -> dict[int, int]:
    """Returns by operation of a step the set of those of the step that it needs, with itself."""
    needed: dict[int, int] = {}
    for n in operations:
        found = 1 << n
        for source in problem.written_reads[n]:
            found |= needed.get(source, 0)
        needed[n] = found
    return needed


def _members(operations: Sequence[int], part: int) -> list[int]:
    return [n for n in operations if part >> n & 1]


def _parts(
    problem: PlacementProblem, operations: Sequence[int]
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Yields ways to cut a step in two parts, of which the first needs nothing of the second."""
    inside, needed = set(operations), _needed(problem, operations)
    whole = sum(1 << n for n in operations)
    tried = {0, whole}
    for n in operations:
        firsts = []
        if not inside.issuperset(problem.graph.followers[n]):
            firsts.append(needed[n])
        if not inside.issuperset(problem.written_reads[n]):
            firsts.append(sum(1 << m for m in operations if not needed[m] >> n & 1))
        for first in firsts:
            if first not in tried:
                tried.add(first)
                yield _members(operations, first), _members(operations, whole & ~first)
