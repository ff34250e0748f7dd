"""Finds the plan of least predicted cost for a graph.

Plans of other policies and simple ones are predicted first, so that what is found is never worse
than any of them. Small graphs are then searched by branch and bound. Larger ones get the choice of
the frontier search, which is improved by moving whole steps to other devices while that helps.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from neurald.runtime.partitioning.min_cost import exact_search, frontier_search
from neurald.runtime.partitioning.min_cost.problem import Choice, PlacementProblem

#: Graphs of so many operations are searched completely, if that does not take too long.
MAX_EXACT: Final = 14
#: How many operations are visited by predictions of improvements: more would take milliseconds.
_IMPROVEMENT_VISITS: Final = 2_000
_TOLERANCE: Final = 1e-9

#: A plan: its steps, each with a device and operations.
Steps = Sequence[tuple[int, Sequence[int]]]


class FoundPlan(Struct, frozen=True, kw_only=True):
    """The best plan that was found.

    Attributes:
        choice: the device of each operation.
        steps: with the choice's devices.
        seconds: that are predicted.
        is_optimal: whether no choice can be better.
        others: what was predicted for other plans, by name.
    """

    choice: Choice
    steps: Steps
    seconds: float
    is_optimal: bool
    others: dict[str, float]


def find_plan(
    problem: PlacementProblem,
    names: Sequence[str],
    others: Iterable[tuple[str, Choice, Steps | None]] = (),
    max_nodes: int = exact_search.MAX_NODES,
) -> FoundPlan:
    """Finds the plan of least predicted cost.

    Args:
        problem: of a graph with at least one operation.
        names: of the candidates.
        others: plans of other policies, by name; None for the steps that a choice has.
        max_nodes: limit of the search in small graphs.
    """
    plans: list[tuple[float, Choice, Steps]] = []
    predicted: dict[str, float] = {}
    for device, name in enumerate(names):
        if problem.uniform(device):
            choice = [device] * problem.count
            seconds = problem.predicted_alone(device)
            predicted[f"all on {name}"] = seconds
            plans.append((seconds, choice, [(device, range(problem.count))]))
    known = {tuple(choice): seconds for seconds, choice, _ in plans}
    for name, choice, given in others:
        key = tuple(choice)
        if given is None and key in known:
            predicted[name] = known[key]
            continue
        steps: Steps = problem.drained(choice) if given is None else given
        predicted[name] = known[key] = seconds = problem.predicted(steps)
        plans.append((seconds, choice, steps))
    if problem.count <= MAX_EXACT:
        return _exact(problem, plans, predicted, max_nodes)
    if min((plan[0] for plan in plans), default=math.inf) > problem.least_sequential():
        choice = frontier_search.search(problem)
        if tuple(choice) not in known:
            steps = problem.drained(choice)
            plans.append((problem.predicted(steps), choice, steps))
    seconds, choice, steps = _improved(problem, *min(plans, key=lambda plan: plan[0]))
    return FoundPlan(choice=choice, steps=steps, seconds=seconds, is_optimal=False, others=predicted)


def _exact(
    problem: PlacementProblem,
    plans: list[tuple[float, Choice, Steps]],
    predicted: dict[str, float],
    max_nodes: int,
) -> FoundPlan:
    if not plans:
        choice = frontier_search.search(problem)
        steps: Steps = problem.drained(choice)
        plans = [(problem.predicted(steps), choice, steps)]
    seconds, choice, steps = _improved(problem, *min(plans, key=lambda plan: plan[0]))
    found, cost, is_optimal = exact_search.search(problem, choice, seconds, max_nodes)
    if cost < seconds:
        seconds, choice, steps = cost, found, problem.drained(found)
    return FoundPlan(choice=choice, steps=steps, seconds=seconds, is_optimal=is_optimal, others=predicted)


def _improved(
    problem: PlacementProblem, seconds: float, choice: Choice, steps: Steps
) -> tuple[float, Choice, Steps]:
    """Moves whole steps to other devices while that makes the plan faster, within a budget."""
    left = _IMPROVEMENT_VISITS // max(1, problem.count)
    if len(steps) == 1:
        return seconds, choice, steps
    is_better = True
    while is_better:
        is_better = False
        for device, operations in steps:
            for other in range(problem.device_count):
                if other == device or any(problem.costs[n][other] == math.inf for n in operations):
                    continue
                if left <= 0:
                    return seconds, choice, steps
                left -= 1
                moved = choice.copy()
                for position in operations:
                    moved[position] = other
                new_steps = problem.drained(moved)
                new = problem.predicted(new_steps)
                if new < seconds * (1 - _TOLERANCE):
                    seconds, choice, steps = new, moved, new_steps
                    is_better = True
                    break
            if is_better:
                break
    return seconds, choice, steps
