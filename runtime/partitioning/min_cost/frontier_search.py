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
from operator import add
from typing import Final, TypeAlias

from neurald.hal.lazy_numpy import Array, np
from neurald.runtime.costs.graph_arrays import different
from neurald.runtime.partitioning.min_cost.problem import Choice, PlacementProblem

#: How many states are kept at each operation.
MAX_STATES: Final = 4
#: How many operations a frontier has at most.
MAX_FRONTIER: Final = 6

#: The device of an operation, and the entries of those before it.
_Trail: TypeAlias = "tuple[int, _Trail | None]"


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
    launches = problem.launches
    own_costs = _without_dominated(problem).tolist()
    pairs = problem.per_byte_between.tolist()
    reads, last_reader = _reads(problem)
    moves_of: dict[float, list[list[float]]] = {}
    frontier: list[int] = []
    #: The devices of operations that are live but not in the frontier.
    settled: dict[int, int] = {}
    choice: Choice = [0] * problem.count
    #: Operations with several devices to choose from.
    open_positions: list[int] = []
    # By the devices of the frontier: the cost, and the devices of the open operations so far.
    states: dict[tuple[int, ...], tuple[float, _Trail | None]] = {(): (0.0, None)}
    for position, given in enumerate(own_costs):
        read: list[tuple[int, list[list[float]]]] = []
        of_settled: set[int] = set()
        for writer, size in reads[position]:
            moves = moves_of.get(size)
            if moves is None:
                moves = moves_of[size] = [[size * each for each in row] for row in pairs]
            source = settled.get(writer)
            if source is None:
                read.append((frontier.index(writer), moves))
            else:
                of_settled.add(source)
                if size:
                    given = list(map(add, given, moves[source]))
        own = [
            (device, cost, 0.0 if device in of_settled else launches[device])
            for device, cost in enumerate(given)
            if cost < math.inf
        ]
        kept = [index for index, operation in enumerate(frontier) if last_reader[operation] > position]
        all_kept = len(kept) == len(frontier)
        is_open = len(own) > 1
        if is_open:
            open_positions.append(position)
        else:
            choice[position] = settled[position] = own[0][0]
            if all_kept and not read:
                continue  # It costs the same in all states.
        is_kept = is_open and last_reader[position] > position
        following: dict[tuple[int, ...], tuple[float, _Trail | None]] = {}
        for state, (cost, trail) in states.items():
            rest = state if all_kept else tuple([state[index] for index in kept])
            sources = [(state[index], moves[state[index]]) for index, moves in read]
            for device, total, launch in own:
                total += cost
                for source, moved in sources:
                    if source == device:
                        launch = 0.0
                    else:
                        total += moved[device]
                total += launch
                key = (*rest, device) if is_kept else rest
                known = following.get(key)
                if known is None or total < known[0]:
                    following[key] = (total, (device, trail) if is_open else trail)
        if len(following) > MAX_STATES:
            best = sorted(following.items(), key=_cost_of_state)
            following = dict(best[:MAX_STATES])
        states = following
        if not all_kept:
            frontier = [frontier[index] for index in kept]
        if is_kept:
            frontier.append(position)
        if len(frontier) > MAX_FRONTIER:
            oldest = min(states, key=lambda state: states[state][0])[0]
            settled[frontier.pop(0)] = oldest
            states = {state[1:]: found for state, found in states.items() if state[0] == oldest}
    _, trail = min(states.values(), key=lambda each: each[0])
    for position in reversed(open_positions):
        assert trail is not None  # noqa: S101 - it has one entry for each open operation
        choice[position], trail = trail
    return choice
