"""Finds the choice of least predicted cost of a small graph: branch and bound.

Operations are placed one after another. A part of a choice is given up when no completion can be
better than the best choice so far, for either of two reasons. The path: an operation is finished no
sooner than the launch of a step, the operations before it and the transfers between them take, and
what follows it takes at least the shortest way to the end. The load: a device takes at least the
sum of what it has to run, and all devices together at least the sum over all operations, each where
it is cheapest. Neither bound ever exceeds the prediction, so what is found is optimal, unless the
search is ended by its limit.
"""

import math
from typing import Final

from neurald.runtime.partitioning.min_cost.problem import Choice, PlacementProblem

#: How many parts of choices are looked at before the best one so far is taken.
MAX_NODES: Final = 10_000
#: Choices must be better by more than rounding.
_TOLERANCE: Final = 1e-12


def search(
    problem: PlacementProblem, best: Choice, best_cost: float, max_nodes: int = MAX_NODES
) -> tuple[Choice, float, bool]:
    """Returns the best choice, its cost, and whether it is proved to be optimal.

    Args:
        problem: of a small graph.
        best: a choice to begin with.
        best_cost: its predicted cost, or that of a better plan of the same choice.
        max_nodes: when to give up.
    """
    return _BranchAndBound(problem, best, best_cost, max_nodes).run()


class _BranchAndBound:
    """One search."""

    def __init__(self, problem: PlacementProblem, best: Choice, best_cost: float, max_nodes: int) -> None:
        self._problem = problem
        self._best = best
        self._best_cost = best_cost
        self._left = max_nodes
        self._indexes = range(problem.device_count + 1)
        self._options = [[d for d in self._indexes if costs[d] < math.inf] for costs in problem.costs]
        self._width = len({device for options in self._options for device in options})
        self._cheapest = [0.0] * (problem.count + 1)
        for position in reversed(range(problem.count)):
            self._cheapest[position] = self._cheapest[position + 1] + min(problem.costs[position])
        self._tails = self._shortest_tails()

    def _shortest_tails(self) -> list[list[float]]:
        """Returns for each operation and device what at least follows its end."""
        problem = self._problem
        tails = [[0.0] * len(self._indexes) for _ in range(problem.count)]
        for position in reversed(range(problem.count)):
            for device in self._options[position]:
                longest = 0.0
                for number in problem.writes[position]:
                    value = problem.values[number]
                    if value.is_output:
                        longest = max(longest, value.out[device])
                    for reader in value.readers:
                        longest = max(
                            longest,
                            min(
                                problem.costs[reader][target]
                                + tails[reader][target]
                                + (
                                    0.0
                                    if target == device
                                    else value.out[device] + value.into[target] + problem.launches[target]
                                )
                                for target in self._options[reader]
                            ),
                        )
                tails[position][device] = longest
        return tails

    def run(self) -> tuple[Choice, float, bool]:
        problem = self._problem
        choice: Choice = [0] * problem.count
        finished = [0.0] * problem.count
        loads = [0.0] * len(self._indexes)
        is_complete = self._extend(0, choice, finished, loads, 0.0)
        return self._best, self._best_cost, is_complete

    def _extend(
        self, position: int, choice: Choice, finished: list[float], loads: list[float], path: float
    ) -> bool:
        """Tries all devices for an operation, the most promising first. False if the limit is reached.

        The depth of the recursion is the number of operations of a small graph.
        """
        problem = self._problem
        if position == problem.count:
            cost = problem.predicted_of(choice)
            if cost < self._best_cost - _TOLERANCE * cost:
                self._best, self._best_cost = choice.copy(), cost
            return True
        found = []
        for device in self._options[position]:
            end, load, others = self._cost_of(position, device, choice, finished, loads)
            bound = self._bound(position, device, end, load, others, loads, path)
            found.append((bound, device, end, load, others))
        found.sort(key=lambda each: each[0])
        for bound, device, end, load, others in found:
            if bound >= self._best_cost * (1 - _TOLERANCE):
                break
            self._left -= 1
            if self._left < 0:
                return False
            choice[position] = device
            finished[position] = end
            before = loads.copy()
            loads[device] += load
            for other, cost in others:
                loads[other] += cost
            longest = max(path, end + self._tails[position][device])
            is_complete = self._extend(position + 1, choice, finished, loads, longest)
            loads[:] = before
            if not is_complete:
                return False
        return True

    def _cost_of(
        self, position: int, device: int, choice: Choice, finished: list[float], loads: list[float]
    ) -> tuple[float, float, list[tuple[int, float]]]:
        """Returns the earliest end of an operation, its load, and what it adds to other devices.

        A step pays once for a value that several of its operations read, and a device once for one
        that several others read, so such costs count as a load at their first reader only.
        """
        problem = self._problem
        launch = problem.launches[device]
        start = launch
        load = problem.costs[position][device]
        others: list[tuple[int, float]] = []
        if not loads[device]:
            load += launch
        for number in problem.reads[position]:
            value = problem.values[number]
            writer = value.writer
            if writer < 0:
                start = max(start, launch + value.into[device])
            elif choice[writer] == device:
                start = max(start, finished[writer])
                continue
            else:
                out = value.out[choice[writer]]
                start = max(start, finished[writer] + out + value.into[device] + launch)
            earlier = [choice[reader] for reader in value.readers if reader < position]
            if device not in earlier:
                load += value.into[device]
            if writer >= 0 and not value.is_output and not any(each != choice[writer] for each in earlier):
                others.append((choice[writer], value.out[choice[writer]]))
        for number in problem.writes[position]:
            if problem.values[number].is_output:
                load += problem.values[number].out[device]
        return start + problem.costs[position][device], load, others

    def _bound(
        self,
        position: int,
        device: int,
        end: float,
        load: float,
        others: list[tuple[int, float]],
        loads: list[float],
        path: float,
    ) -> float:
        left = self._cheapest[position + 1]
        added = load + sum(cost for _, cost in others)
        total = sum(loads) + added
        if self._problem.is_sequential:
            return total + left
        longest = max(path, end + self._tails[position][device], loads[device] + load, max(loads))
        return max(longest, (total + left) / self._width)
