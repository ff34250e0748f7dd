"""The optimum of a placement problem by trying every choice, or every plan.

NumPy evaluates many choices at once, and operations are bits of integers. Nothing of the
search or of its predictions is used.
"""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from neurald.runtime.partitioning.min_cost.problem import PlacementProblem

#: How many choices are evaluated together.
_BLOCK = 1 << 14

_Bits = NDArray[np.uint16]
_Times = NDArray[np.float64]


def optimum(problem: PlacementProblem) -> float:
    """Returns the least predicted cost over all choices.

    Args:
        problem: of at most 16 operations, each of which writes one value; without an interpreter.
    """
    choices = _Choices(problem)
    return min(choices.least(first) for first in range(0, choices.count, _BLOCK))


def least_of_all_plans(problem: PlacementProblem) -> float:
    """Returns the least predicted cost over all choices, and all steps of these in any order.

    Args:
        problem: of few operations; without an interpreter.
    """
    options = [[d for d in range(problem.device_count) if costs[d] < np.inf] for costs in problem.costs]
    seen: set[tuple[tuple[int, frozenset[int]], ...]] = set()
    least = np.inf
    for order in _orders(problem, []):
        for devices in itertools.product(*(options[n] for n in order)):
            joins = [(True, False) if a == b else (False,) for a, b in itertools.pairwise(devices)]
            for is_joined in itertools.product(*joins):
                steps = [(devices[0], [order[0]])]
                for n, device, joined in zip(order[1:], devices[1:], is_joined, strict=True):
                    if joined:
                        steps[-1][1].append(n)
                    else:
                        steps.append((device, [n]))
                key = tuple((device, frozenset(operations)) for device, operations in steps)
                if key not in seen:
                    seen.add(key)
                    least = min(least, problem.predicted(steps))
    return least


def _orders(problem: PlacementProblem, begun: list[int]) -> Iterator[list[int]]:
    """Yields all orders in which operations can run that begin so."""
    if len(begun) == problem.count:
        yield begun
    for n in range(problem.count):
        if n not in begun and set(problem.written_reads[n]) <= set(begun):
            yield from _orders(problem, [*begun, n])


class _Choices:
    """All choices of a problem, and tables by sets of operations."""

    def __init__(self, problem: PlacementProblem) -> None:
        self._problem = problem
        self._devices = range(problem.device_count)
        self._options = [[d for d in self._devices if costs[d] < np.inf] for costs in problem.costs]
        self.count = int(np.prod([len(options) for options in self._options]))
        operations = range(problem.count)
        written = [0] * problem.count
        read_outside = [0] * problem.count
        sizes_in: list[dict[int, list[float]]] = [{} for _ in operations]
        given: dict[int, list[float]] = {}
        moved_in = [[0.0] * len(self._devices) for _ in operations]
        moved_out = [[0.0] * len(self._devices) for _ in operations]
        for number, value in enumerate(problem.values):
            for reader in value.readers:
                if value.writer >= 0:
                    written[reader] |= 1 << value.writer
                else:
                    sizes_in[reader][number] = given[number] = value.into
            if value.writer >= 0:
                moved_in[value.writer], moved_out[value.writer] = value.into, value.out
                read_outside[value.writer] = int(value.is_output)
        self._all = np.uint16((1 << problem.count) - 1)
        self._outputs = np.uint16(sum(1 << n for n in operations if read_outside[n]))
        self._writers = np.zeros(1 << problem.count, np.uint16)
        for n in operations:
            self._writers[1 << n : 2 << n] = self._writers[: 1 << n] | np.uint16(written[n])
        every = np.arange(1 << problem.count)
        self._ready = np.zeros(1 << problem.count, np.uint16)
        for n in operations:
            self._ready[((every & written[n]) == written[n]) & (every >> n & 1 == 0)] |= np.uint16(1 << n)
        self._costs = self._by_device(lambda n, d: problem.costs[n][d] if d in self._options[n] else 0.0)
        self._into = self._by_device(lambda n, d: moved_in[n][d])
        self._out = self._by_device(lambda n, d: moved_out[n][d])
        for number, into in given.items():
            readers = sum(1 << n for n in operations if number in sizes_in[n])
            for device in self._devices:
                self._costs[device][(every & readers) != 0] += into[device]

    def _by_device(self, of: Callable[[int, int], float]) -> _Times:
        """Returns by device and set of operations the sum of figures of its operations."""
        tables = np.zeros((len(self._devices), 1 << self._problem.count))
        for device, table in enumerate(tables):
            for n in range(self._problem.count):
                table[1 << n : 2 << n] = table[: 1 << n] + of(n, device)
        return tables

    def least(self, first: int) -> float:
        """Returns the least cost of the choices from a number on."""
        rest = np.arange(first, min(first + _BLOCK, self.count))
        on = np.zeros((len(self._devices), len(rest)), np.uint16)
        for n, options in enumerate(self._options):
            rest, which = np.divmod(rest, len(options))
            device = np.array(options)[which]
            for d in self._devices:
                on[d] |= (device == d).astype(np.uint16) << np.uint16(n)
        return self._least_of(on)

    def _least_of(self, on: _Bits) -> float:
        """Returns the least cost of choices, by the operations on each device."""
        problem = self._problem
        least = np.inf
        done = np.zeros(on.shape[1], np.uint16)
        free = np.zeros((len(self._devices), on.shape[1]))
        ends = np.zeros((problem.count, on.shape[1]))
        total = np.zeros(on.shape[1])
        number, device = 0, np.zeros(len(done), np.intp)
        while len(done):
            left = np.flatnonzero(done != self._all)
            if len(left) < len(done):
                costs = total if problem.is_sequential else free.max(axis=0)
                is_alone = number == 1 and not problem.is_sequential
                ended = costs[done == self._all]
                if is_alone:
                    ended = ended - np.array(problem.step_s)[device[done == self._all]]
                least = min(least, float(ended.min()))
                done, total = done[left], total[left]
                on, free, ends = on[:, left], free[:, left], ends[:, left]
            number += 1
            device, own, step = self._next_step(on, done)
            columns = np.arange(len(device))
            outside = self._writers[step] & ~own
            seconds = np.array(problem.launches)[device] + self._costs[device, step]
            seconds += self._into[device, outside]
            seconds += self._out[device, step & (self._outputs | self._writers[self._all & ~own])]
            start = free[device, columns]
            for n in range(problem.count):
                np.maximum(start, ends[n], out=start, where=(outside >> np.uint16(n) & 1).astype(bool))
            end = start + seconds
            free[device, columns] = end
            for n in range(problem.count):
                np.copyto(ends[n], end, where=(step >> np.uint16(n) & 1).astype(bool))
            total += seconds
            done |= step
        return least

    def _next_step(self, on: _Bits, done: _Bits) -> tuple[NDArray[np.intp], _Bits, _Bits]:
        """Returns the device whose queue is drained, its operations, and those of the step."""
        device = np.zeros(len(done), np.intp)
        own = on[0]
        for d in self._devices[1:]:
            waits = (self._ready[done] & on[d]) != 0
            device[waits] = d
            own = np.where(waits, on[d], own)
        reached = done
        while (more := self._ready[reached] & own).any():
            reached = reached | more
        return device, own, reached & ~done
