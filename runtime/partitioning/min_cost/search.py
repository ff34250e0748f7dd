"""Finds the plan of least predicted cost for a graph.

Plans of other policies and simple ones are predicted as well, so that what is found is never worse
than any of them. Small graphs are searched by branch and bound, which finds the best devices of
operations whose steps are as large as possible; then steps are cut and changed while that helps. In
larger ones all operations settle on devices at once (`relaxation`), which gives steps; the frontier
search places these steps as wholes, and what it finds is improved by moving single steps to other
devices while that helps; of graphs that are not too large, steps are then changed as well.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from msgspec import Struct

from neurald.hal.lazy_numpy import Array, np
from neurald.runtime.partitioning.min_cost import exact_search, frontier_search, relaxation, step_search
from neurald.runtime.partitioning.min_cost.problem import Choice, PlacementProblem, Steps

#: The name of the found plan among the predictions.
PLAN_NAME: Final = "the plan"
#: Graphs of this many operations are searched completely, if that does not take too long.
MAX_EXACT: Final = 14
#: When the exact search of the steps of a larger graph gives up; it takes some 10 us for each.
_MAX_STEP_NODES: Final = 500
#: How many operations are visited by predictions of improvements: more would take milliseconds.
_IMPROVEMENT_VISITS: Final = 300
#: The same for changes of steps, for each of so many plans of a small graph, and for the plan of a
#: larger one of up to so many operations.
_CHANGE_VISITS: Final = 3000
_MAX_CHANGED: Final = 2
_MAX_CHANGED_COUNT: Final = 400
_TOLERANCE: Final = 1e-9

#: The predicted seconds of a plan, the device of each operation, and the steps.
_Plan: TypeAlias = tuple[float, Array, Steps]


class FoundPlan(Struct, frozen=True, kw_only=True):
    """The best plan that was found.

    Attributes:
        choice: the device of each operation.
        steps: the steps with the choice's devices.
        seconds: the seconds that are predicted.
        is_optimal: whether no choice can be better whose steps are as large as possible.
        predicted: what is predicted for the plan and for others, by name.
    """

    choice: Choice
    steps: Steps
    seconds: float
    is_optimal: bool
    predicted: Mapping[str, float]


def find_plan(
    problem: PlacementProblem,
    names: Sequence[str],
    others: Iterable[tuple[str, Array, Steps | None]] = (),
    max_nodes: int = exact_search.MAX_NODES,
    max_s: float = exact_search.MAX_S,
) -> FoundPlan:
    """Finds the plan of least predicted cost.

    Args:
        problem: the problem, whose graph has at least one operation.
        names: the names of the candidates.
        others: plans of other policies: their names, the device of each operation as integers, and
            their steps; None for the steps that the devices give. Those of large graphs that cannot
            be the best are only predicted when they are asked for.
        max_nodes, max_s: limits of the search in small graphs; see `exact_search.search`.
    """
    plans: list[_Plan] = []
    predicted = Predictions(problem)
    for device, name in enumerate(names):
        if problem.uniform(device):
            seconds = problem.predicted_alone(device)
            predicted.add(f"all on {name}", seconds)
            plans.append((seconds, np.full(problem.count, device), [(device, range(problem.count))]))
    is_small = problem.count <= MAX_EXACT
    if not is_small and min(map(_seconds, plans), default=math.inf) > problem.least_sequential():
        plans.append(_searched(problem))
    known = {devices.tobytes(): seconds for seconds, devices, _ in plans}
    for name, devices, given in others:
        key = devices.tobytes()
        if given is None and key in known:
            predicted.add(name, known[key])
            continue
        if plans and not is_small and problem.least_of(devices) >= min(map(_seconds, plans)):
            predicted.add_later(name, devices, given)
            continue
        steps: Steps = problem.drained(devices.tolist()) if given is None else given
        known[key] = seconds = problem.predicted(steps)
        predicted.add(name, seconds)
        plans.append((seconds, devices, steps))
    if is_small:
        return _exact(problem, plans, predicted, max_nodes, max_s)
    seconds, devices, steps = min(plans, key=_seconds)
    choice: Choice = devices.tolist()
    if problem.count <= _MAX_CHANGED_COUNT and len(steps) > 1 and not problem.is_sequential:
        seconds, choice, steps = step_search.changed(problem, seconds, steps, _CHANGE_VISITS)
    predicted.add(PLAN_NAME, seconds)
    return FoundPlan(choice=choice, steps=steps, seconds=seconds, is_optimal=False, predicted=predicted)


class Predictions(Mapping[str, float]):
    """Keeps what is predicted for plans, by name; some are predicted when they are asked for.

    Args:
        problem: the problem that the plans are for.
    """

    def __init__(self, problem: PlacementProblem) -> None:
        self._problem = problem
        #: The found plan comes first.
        self._found: dict[str, float | None] = {PLAN_NAME: math.inf}
        self._plans: dict[str, tuple[Array, Steps | None]] = {}

    def add(self, name: str, seconds: float) -> None:
        """Adds the prediction for a plan."""
        self._found[name] = seconds

    def add_later(self, name: str, devices: Array, steps: Steps | None) -> None:
        """Adds a plan to predict later, with the steps that the devices give if there are none."""
        self._found[name] = None
        self._plans[name] = devices, steps

    def __getitem__(self, name: str) -> float:
        found = self._found[name]
        if found is None:
            # Two threads may predict the same plan, with the same result.
            devices, steps = self._plans[name]
            problem = self._problem
            found = problem.predicted_of(devices.tolist()) if steps is None else problem.predicted(steps)
            self._found[name] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _seconds(plan: tuple[float, object, Steps]) -> float:
    return plan[0]


def _searched(problem: PlacementProblem) -> _Plan:
    """Returns the best plan found by placing groups of operations from the relaxation."""
    groups = problem.drained(relaxation.search(problem).tolist())
    order = np.fromiter(chain.from_iterable(operations for _, operations in groups), np.intp, problem.count)
    lengths = [len(operations) for _, operations in groups]
    group_of = np.empty(problem.count, np.intp)
    group_of[order] = np.repeat(np.arange(len(groups)), lengths)
    inner = problem.contracted(group_of, len(groups))
    found = [_plan_of(inner, [device for device, _ in groups])]
    if inner.count > 1:
        found.append(_plan_of(inner, frontier_search.search(inner)))
    seconds, placed, steps = min(found, key=_seconds)
    if inner.count <= MAX_EXACT:
        best, cost, _ = exact_search.search(inner, placed, seconds, _MAX_STEP_NODES)
        if cost < seconds:
            seconds, placed, steps = _plan_of(inner, best)
    else:
        seconds, placed, steps = _improved(inner, seconds, placed, steps, visits=_IMPROVEMENT_VISITS)
    expanded = [
        (device, list(chain.from_iterable(groups[n][1] for n in members))) for device, members in steps
    ]
    return seconds, np.array(placed)[group_of], expanded


def _plan_of(problem: PlacementProblem, choice: Choice) -> tuple[float, Choice, Steps]:
    steps = problem.drained(choice)
    return problem.predicted(steps), choice, steps


def _exact(
    problem: PlacementProblem,
    plans: Sequence[_Plan],
    predicted: Predictions,
    max_nodes: int,
    max_s: float,
) -> FoundPlan:
    starts = [(seconds, devices.tolist(), steps) for seconds, devices, steps in plans]
    starts.append(_plan_of(problem, relaxation.search(problem).tolist()))
    starts.append(_plan_of(problem, frontier_search.search(problem)))
    seconds, choice, steps = _improved(problem, *min(starts, key=_seconds), visits=_IMPROVEMENT_VISITS)
    found, cost, is_optimal = exact_search.search(problem, choice, seconds, max_nodes, max_s)
    if cost < seconds:
        seconds, choice, steps = cost, found, problem.drained(found)
    starts.append((seconds, choice, steps))
    seconds, choice, steps = min(_changed(problem, starts), key=_seconds)
    predicted.add(PLAN_NAME, seconds)
    return FoundPlan(choice=choice, steps=steps, seconds=seconds, is_optimal=is_optimal, predicted=predicted)


def _changed(
    problem: PlacementProblem, plans: Iterable[tuple[float, Choice, Steps]]
) -> Iterator[tuple[float, Choice, Steps]]:
    """Yields plans, and the best of them with changed steps."""
    ordered = sorted(plans, key=_seconds)
    yield from ordered
    if problem.is_sequential or problem.device_count == 1:
        return
    best: dict[tuple[int, ...], tuple[float, Steps]] = {}
    for seconds, choice, steps in ordered:
        best.setdefault(tuple(choice), (seconds, steps))
    for seconds, steps in list(best.values())[:_MAX_CHANGED]:
        yield step_search.changed(problem, seconds, steps, _CHANGE_VISITS)
    cheapest = problem.cost_array[:, : problem.device_count].argmin(axis=1).tolist()
    single = [(device, [n]) for n, device in enumerate(cheapest)]
    if all(problem.costs[n][device] < math.inf for n, device in enumerate(cheapest)):
        yield step_search.changed(problem, problem.predicted(single), single, _CHANGE_VISITS)


def _improved(
    problem: PlacementProblem, seconds: float, choice: Choice, steps: Steps, *, visits: int
) -> tuple[float, Choice, Steps]:
    """Moves whole steps to other devices while that makes the plan faster, within a budget.

    Moves that reduce the work of all devices most are tried first.
    """
    left = visits // max(1, problem.count)
    tried: set[tuple[int, ...]] = set()
    while len(steps) > 1:
        for device, operations in _moves(problem, steps):
            moved = choice.copy()
            for position in operations:
                moved[position] = device
            if (key := tuple(moved)) in tried:
                continue
            if left <= 0:
                return seconds, choice, steps
            left -= 1
            tried.add(key)
            new, _, new_steps = _plan_of(problem, moved)
            if new < seconds * (1 - _TOLERANCE):
                seconds, choice, steps = new, moved, new_steps
                break
        else:
            break
    return seconds, choice, steps


def _moves(problem: PlacementProblem, steps: Steps) -> Steps:
    """Returns all moves of a step to a device that can run it, by the work that they add."""
    costs, launches = problem.costs, problem.launches
    found: list[tuple[float, int, int]] = []
    for number, (device, operations) in enumerate(steps):
        own = sum([costs[n][device] for n in operations]) + launches[device]
        for other in range(problem.device_count):
            if other != device:
                more = sum([costs[n][other] for n in operations]) - own
                if more < math.inf:
                    found.append((more, number, other))
    return [(device, steps[number][1]) for _, number, device in sorted(found)]
