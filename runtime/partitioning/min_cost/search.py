"""Finds the plan of least predicted cost for a graph.

Plans of other policies and simple ones are predicted as well, so that what is found is never worse
than any of them. Small graphs are searched by branch and bound. In larger ones, operations that
belong together are joined first; then they get the choice of the frontier search, which is improved
by moving whole steps to other devices while that helps.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from neurald.hal.lazy_numpy import Array, np
from neurald.runtime.partitioning.min_cost import exact_search, frontier_search
from neurald.runtime.partitioning.min_cost.contraction import contract
from neurald.runtime.partitioning.min_cost.problem import Choice, PlacementProblem, Steps

#: Graphs of so many operations are searched completely, if that does not take too long.
MAX_EXACT: Final = 14
#: How many operations are visited by predictions of improvements: more would take milliseconds.
_IMPROVEMENT_VISITS: Final = 2_000
_TOLERANCE: Final = 1e-9


class FoundPlan(Struct, frozen=True, kw_only=True):
    """The best plan that was found.

    Attributes:
        choice: the device of each operation.
        steps: with the choice's devices.
        seconds: that are predicted.
        is_optimal: whether no choice can be better.
        others: what was predicted for other plans, by name; not for those that cannot be better.
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
        others: plans of other policies, by name; None for the steps that a choice has. Those of
            large graphs without steps are left out if they cannot be the best.
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
    is_small = problem.count <= MAX_EXACT
    if not is_small and min(map(_seconds, plans), default=math.inf) > problem.least_sequential():
        plans.append(_searched(problem))
    known = {tuple(choice): seconds for seconds, choice, _ in plans}
    for name, choice, given in others:
        key = tuple(choice)
        if given is None:
            if key in known:
                predicted[name] = known[key]
                continue
            if plans and not is_small and problem.least_of(choice) >= min(map(_seconds, plans)):
                continue
        steps: Steps = problem.drained(choice) if given is None else given
        predicted[name] = known[key] = seconds = problem.predicted(steps)
        plans.append((seconds, choice, steps))
    if is_small:
        return _exact(problem, plans, predicted, max_nodes)
    seconds, choice, steps = min(plans, key=_seconds)
    return FoundPlan(choice=choice, steps=steps, seconds=seconds, is_optimal=False, others=predicted)


def _seconds(plan: tuple[float, Choice, Steps]) -> float:
    return plan[0]


def _searched(problem: PlacementProblem) -> tuple[float, Choice, Steps]:
    """Returns the plan of the frontier search over groups of operations, improved."""
    inner, groups = contract(problem)
    found = frontier_search.search(inner)
    drained = inner.drained(found)
    seconds, found, steps = _improved(inner, inner.predicted(drained), found, drained)
    if inner is problem:
        return seconds, found, steps
    return seconds, np.array(found)[groups].tolist(), _expanded(steps, groups, inner.count)


def _expanded(steps: Steps, groups: Array, count: int) -> Steps:
    """Returns steps of groups as steps of their operations, in an order in which they can run."""
    order = np.argsort(groups, kind="stable").tolist()
    ends = np.cumsum(np.bincount(groups, minlength=count)).tolist()
    starts = [0, *ends]
    return [
        (device, [position for group in members for position in order[starts[group] : ends[group]]])
        for device, members in steps
    ]


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
    seconds, choice, steps = _improved(problem, *min(plans, key=_seconds))
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
