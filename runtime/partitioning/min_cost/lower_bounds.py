"""Lower bounds of the costs of a small graph's operations, wherever the others run.

The exact search bounds with these figures what the rest of a plan takes.
"""

import math
from collections.abc import Sequence
from typing import Final

from neurald.hal.lazy_numpy import Array, np
from neurald.runtime.partitioning.min_cost.problem import PlacementProblem

#: How often the weights of devices are improved.
_ROUNDS: Final = 20


def bits(operations: int) -> list[int]:
    """Returns the numbers of the bits that are set."""
    found = []
    while operations:
        lowest = operations & -operations
        operations ^= lowest
        found.append(lowest.bit_length() - 1)
    return found


class LowerBounds:
    """Figures of a problem.

    Attributes:
        written: by operation, those that it reads from, as bits.
        readers: by operation, those that read from it.
        options: by operation, the devices that can run it, as bits.
        used: all devices that can run an operation.
        own: by operation and device, its cost there with that of moving outputs of the graph.
        tails: by operation and device, what at least follows its end.
        alone: by operation and device, its cost with moving the client's values, and its tail.
        weights: the weights of the devices; one set after another.
        weighted: by operation, device and set of weights, its weighted cost.
        all_left: by set of weights, the least weighted cost of all operations.
        changes: by operation, its devices, the most promising ones first, and by how much the least
            weighted costs grow if it is there.
    """

    def __init__(self, problem: PlacementProblem) -> None:
        self._problem = problem
        count = problem.count
        self._indexes = range(problem.device_count + 1)
        self.written = [0] * count
        readers: list[set[int]] = [set() for _ in range(count)]
        for source, target in zip(*(each.tolist() for each in problem.graph.edges), strict=True):
            self.written[target] |= 1 << source
            readers[source].add(target)
        self.readers = [sorted(each) for each in readers]
        self._devices: dict[int, list[int]] = {}
        self.options = [
            sum(1 << device for device in self._indexes if costs[device] < math.inf)
            for costs in problem.costs
        ]
        self.used = [d for d in self._indexes if any(options >> d & 1 for options in self.options)]
        self.own = self._own_costs()
        self.tails = self._shortest_tails()
        self.alone = self._alone()
        self.weights = self._device_weights()
        self.weighted = [
            [
                [weights[device] * cost if cost < math.inf else math.inf for weights in self.weights]
                for device, cost in enumerate(costs)
            ]
            for costs in self.own
        ]
        least = [list(map(min, zip(*rows, strict=True))) for rows in self.weighted]
        self.all_left = [sum(column) for column in zip(*least, strict=True)]
        self.changes = [
            [
                (device, [each - low for each, low in zip(rows[device], lowest, strict=True)])
                for device in sorted(self.devices(options), key=lambda device: rows[device][-1])
            ]
            for rows, lowest, options in zip(self.weighted, least, self.options, strict=True)
        ]

    def devices(self, options: int) -> list[int]:
        """Returns the devices of bits."""
        found = self._devices.get(options)
        if found is None:
            found = self._devices[options] = bits(options)
        return found

    def _own_costs(self) -> list[list[float]]:
        problem = self._problem
        found = [costs.copy() for costs in problem.costs]
        if problem.has_transfers:
            for costs, numbers in zip(found, problem.writes, strict=True):
                for value in (problem.values[number] for number in numbers):
                    if value.is_output:
                        costs[:] = [cost + out for cost, out in zip(costs, value.out, strict=True)]
        return found

    def _shortest_tails(self) -> list[list[float]]:
        problem = self._problem
        tails = [[0.0] * len(self._indexes) for _ in range(problem.count)]
        for position in reversed(range(problem.count)):
            for device in self.devices(self.options[position]):
                longest = 0.0
                for number in problem.writes[position]:
                    value = problem.values[number]
                    out = 0.0 if value.is_output else value.out[device]
                    for reader in value.readers:
                        shortest = min(
                            self.own[reader][target]
                            + tails[reader][target]
                            + (
                                0.0
                                if target == device
                                else out + value.into[target] + problem.launches[target]
                            )
                            for target in self.devices(self.options[reader])
                        )
                        longest = max(longest, shortest)
                tails[position][device] = longest
        return tails

    def _alone(self) -> list[list[float]]:
        problem = self._problem
        found = []
        for position, (own, tails) in enumerate(zip(self.own, self.tails, strict=True)):
            costs = [cost + tail for cost, tail in zip(own, tails, strict=True)]
            if problem.has_transfers:
                for value in (problem.values[number] for number in problem.reads[position]):
                    if value.writer < 0:
                        costs = [cost + into for cost, into in zip(costs, value.into, strict=True)]
            found.append(costs)
        return found

    def _device_weights(self) -> list[list[float]]:
        """Returns weights for a high bound of the load: equal ones, and nearly the best ones.

        The best ones are those of the dual of the linear program that divides operations among
        devices; they are approached by making devices with much work weigh more.
        """
        if self._problem.is_sequential:
            return [[1.0] * len(self._indexes)]
        costs = np.array(self.own)[:, self.used]
        rows = np.arange(len(costs))
        equal = weights = np.full(len(self.used), 1 / len(self.used))
        best, highest = weights, -1.0
        for number in range(_ROUNDS):
            chosen = (costs * weights).argmin(axis=1)
            loads = np.bincount(chosen, costs[rows, chosen], len(self.used))
            bound = float(loads @ weights)
            if bound > highest:
                best, highest = weights, bound
            weights = weights * np.exp(loads / (loads.max() or 1.0) / (1 + 0.3 * number))
            weights = weights / weights.sum()
        return [self._of_all_devices(each) for each in (equal, best)]

    def _of_all_devices(self, weights: Array) -> list[float]:
        found = [0.0] * len(self._indexes)
        of_used: Sequence[float] = weights.tolist()
        for device, weight in zip(self.used, of_used, strict=True):
            found[device] = weight
        return found
