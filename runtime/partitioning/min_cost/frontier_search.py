"""Finds a good choice for a graph of any size: dynamic programming over the live values.

Operations are placed in order. What the rest of a graph costs depends only on the devices of those
operations whose results are still to be read, the *frontier*. So of all choices with the same
frontier only the cheapest is kept. In a chain, or in one with residual connections, few operations
are live at once, and the result is optimal for the costs that this search knows: those of
operations, of transfers, and of a launch wherever an operation has no operand from its own device.
It knows no overlap. Where more operations are live, only the cheapest states are kept, and the
device of the oldest one is settled.
"""

import math
from collections.abc import Sequence
from operator import add
from typing import Final, TypeAlias

from neurald.hal.lazy_numpy import Array, np
from neurald.runtime.costs.graph_arrays import different
from neurald.runtime.partitioning.min_cost.problem import Choice, PlacementProblem

#: Maximum number of states that are kept at each operation.
MAX_STATES: Final = 4
#: Maximum number of operations of a frontier.
MAX_FRONTIER: Final = 6

#: The device of an operation, and the entries of those before it.
_Trail: TypeAlias = "tuple[int, _Trail | None]"
#: The cost, and the devices of the open operations so far, by the devices of the frontier.
_States: TypeAlias = dict[tuple[int, ...], tuple[float, "_Trail | None"]]
#: What a value costs from each device to each other one.
_Moves: TypeAlias = list[list[float]]
#: A device that can run an operation: its number, the operation's cost, and that of a launch.
_Option: TypeAlias = tuple[int, float, float]
#: An operation that another one reads from: its index in the frontier, and what its value costs.
_Source: TypeAlias = tuple[int, _Moves]


def _without_dominated(problem: PlacementProblem) -> Array:
    """Returns the costs of operations; infinite for devices that can only be worse.

    A change to the cheapest device costs a launch of the operation and of each of its readers at
    most, and moving all that they exchange.
    """
    sources, targets = problem.graph.edges
    sizes, costs = problem.edge_bytes, problem.costs_with_client
    exchanged = np.bincount(sources, sizes, problem.count) + np.bincount(targets, sizes, problem.count)
    launched = 1 + np.bincount(sources, minlength=problem.count)
    change = exchanged * problem.per_byte_between.max() + launched * max(problem.launches)
    limits = costs.min(axis=1) + change
    return np.where(costs > limits[:, None], np.inf, costs)


def _reads(problem: PlacementProblem) -> tuple[list[list[tuple[int, float]]], list[int]]:
    """Returns each operation's sources, with bytes, and the last one that reads from it."""
    sources, targets = problem.graph.edges
    last_reader = np.full(problem.count, -1)
    np.maximum.at(last_reader, sources, targets)
    sizes = problem.edge_bytes if problem.has_transfers else np.zeros(len(sources))
    codes = targets * problem.count + sources
    once = different(codes)
    together = np.bincount(np.searchsorted(once, codes), sizes, len(once))
    found: list[list[tuple[int, float]]] = [[] for _ in range(problem.count)]
    for code, size in zip(once.tolist(), together.tolist(), strict=True):
        found[code // problem.count].append((code % problem.count, size))
    return found, last_reader.tolist()


def _cost_of_state(item: tuple[tuple[int, ...], tuple[float, "_Trail | None"]]) -> float:
    return item[1][0]


def search(problem: PlacementProblem) -> Choice:
    """Returns a choice in which every operation has a device that can run it."""
    found = _Search(problem)
    for position, costs in enumerate(_without_dominated(problem).tolist()):
        found.place(position, costs)
    return found.choice()


class _Search:
    """The states after the operations that have been placed so far.

    Args:
        problem: the operations and their costs.
    """

    def __init__(self, problem: PlacementProblem) -> None:
        self._launches = problem.launches
        self._per_byte = problem.per_byte_between.tolist()
        self._reads, self._last_reader = _reads(problem)
        #: What values of a size cost from each device to each other one.
        self._moves: dict[float, _Moves] = {}
        self._frontier: list[int] = []
        #: The devices of operations that are live but not in the frontier.
        self._settled: dict[int, int] = {}
        self._choice: Choice = [0] * problem.count
        #: Operations with several devices to choose from.
        self._open: list[int] = []
        self._states: _States = {(): (0.0, None)}

    def place(self, position: int, costs: Sequence[float]) -> None:
        """Adds the next operation, given what it costs on each device."""
        frontier = self._frontier
        own, sources = self._options(position, costs)
        kept = [index for index, operation in enumerate(frontier) if self._last_reader[operation] > position]
        all_kept = len(kept) == len(frontier)
        is_open = len(own) > 1
        if is_open:
            self._open.append(position)
        else:
            self._choice[position] = self._settled[position] = own[0][0]
            if all_kept and not sources:
                return  # It costs the same in all states.
        is_kept = is_open and self._last_reader[position] > position
        states = _following(
            self._states, own, sources, None if all_kept else kept, is_open=is_open, is_kept=is_kept
        )
        if len(states) > MAX_STATES:
            states = dict(sorted(states.items(), key=_cost_of_state)[:MAX_STATES])
        self._states = states
        if not all_kept:
            self._frontier = [frontier[index] for index in kept]
        if is_kept:
            self._frontier.append(position)
        if len(self._frontier) > MAX_FRONTIER:
            self._settle_oldest()

    def _options(self, position: int, costs: Sequence[float]) -> tuple[list[_Option], list[_Source]]:
        """Returns the options of an operation, and its sources in the frontier."""
        sources: list[_Source] = []
        devices: set[int] = set()
        for writer, size in self._reads[position]:
            moves = self._moves.get(size)
            if moves is None:
                moves = self._moves[size] = [[size * each for each in row] for row in self._per_byte]
            device = self._settled.get(writer)
            if device is None:
                sources.append((self._frontier.index(writer), moves))
            else:
                devices.add(device)
                if size:
                    costs = list(map(add, costs, moves[device]))
        own = [
            (device, cost, 0.0 if device in devices else self._launches[device])
            for device, cost in enumerate(costs)
            if cost < math.inf
        ]
        return own, sources

    def _settle_oldest(self) -> None:
        """Settles the device of the oldest operation of the frontier, as in the cheapest state."""
        device = min(self._states.items(), key=_cost_of_state)[0][0]
        self._settled[self._frontier.pop(0)] = device
        self._states = {state[1:]: found for state, found in self._states.items() if state[0] == device}

    def choice(self) -> Choice:
        """Returns the choice of the cheapest state, after all operations."""
        _, trail = min(self._states.values(), key=lambda each: each[0])
        for position in reversed(self._open):
            assert trail is not None  # noqa: S101 - it has one entry for each open operation
            self._choice[position], trail = trail
        return self._choice


def _following(
    states: _States,
    own: Sequence[_Option],
    sources: Sequence[_Source],
    kept: Sequence[int] | None,
    *,
    is_open: bool,
    is_kept: bool,
) -> _States:
    """Returns the states after another operation; of those with equal frontiers, the cheapest.

    Args:
        states: the states before.
        own: the options of the operation.
        sources: its sources in the frontier.
        kept: the indices of the frontier that stay in it; None for all.
        is_open: whether there are several options.
        is_kept: whether the operation joins the frontier.
    """
    following: _States = {}
    for state, (cost, trail) in states.items():
        rest = state if kept is None else tuple([state[index] for index in kept])
        given = [(state[index], moves[state[index]]) for index, moves in sources]
        for device, total, launch in own:
            total += cost
            for source, moved in given:
                if source == device:
                    launch = 0.0
                else:
                    total += moved[device]
            total += launch
            key = (*rest, device) if is_kept else rest
            known = following.get(key)
            if known is None or total < known[0]:
                following[key] = (total, (device, trail) if is_open else trail)
    return following
