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
from typing import Final, TypeAlias

from neurald.runtime.partitioning.min_cost.problem import Choice, PlacementProblem

#: How many states are kept at each operation.
MAX_STATES: Final = 8
#: How many operations a frontier has at most.
MAX_FRONTIER: Final = 6

#: The operation, its device, and the entries of the operations before it.
_Trail: TypeAlias = "tuple[int, _Trail | None]"


def _costs_after(
    own: list[tuple[int, float, float]], read: tuple[int, list[float], list[float]], devices: int
) -> list[list[tuple[int, float]]]:
    """Returns what an operation costs on each device, by the device of the only value that it reads."""
    _, out, into = read
    return [
        [
            (device, alone if device == source else alone + launch + out[source] + into[device])
            for device, alone, launch in own
        ]
        for source in range(devices)
    ]


def _cost_here(
    state: tuple[int, ...],
    device: int,
    alone: float,
    launch: float,
    read: list[tuple[int, list[float], list[float]]],
) -> float:
    """Returns what an operation costs on a device after the choices of a state."""
    total = alone
    for index, out, into in read:
        source = state[index]
        if source == device:
            launch = 0.0
        else:
            total += out[source] + into[device]
    return total + launch


def search(problem: PlacementProblem) -> Choice:
    """Returns a choice in which every operation has a device that can run it."""
    last_reader = [-1] * problem.count
    for value in problem.values:
        if value.writer >= 0 and value.readers:
            last_reader[value.writer] = max(last_reader[value.writer], value.readers[-1])
    frontier: list[int] = []
    #: Of operations that are live but have left the frontier.
    settled: dict[int, int] = {}
    # By the devices of the frontier: the cost, and the devices of all operations so far.
    states: dict[tuple[int, ...], tuple[float, _Trail | None]] = {(): (0.0, None)}
    values, launches = problem.values, problem.launches
    tables: dict[tuple[int, int] | None, list[list[tuple[int, float]]]] = {}
    for position in range(problem.count):
        costs = problem.costs[position]
        options = [device for device, cost in enumerate(costs) if cost < math.inf]
        place = {operation: index for index, operation in enumerate(frontier)}
        read: list[tuple[int, list[float], list[float]]] = []
        fixed = [0.0] * len(costs)
        of_settled: set[int] = set()
        for number in problem.reads[position]:
            value = values[number]
            if value.writer in settled:
                source = settled[value.writer]
                for device in options:
                    if device != source:
                        fixed[device] += value.out[source] + value.into[device]
                    else:
                        of_settled.add(device)
            elif value.writer >= 0:
                read.append((place[value.writer], value.out, value.into))
            else:
                for device in options:
                    fixed[device] += value.into[device]
        for number in problem.writes[position]:
            if values[number].is_output:
                for device in options:
                    fixed[device] += values[number].out[device]
        own = [
            (device, costs[device] + fixed[device], 0.0 if device in of_settled else launches[device])
            for device in options
        ]
        kept = [index for index, operation in enumerate(frontier) if last_reader[operation] > position]
        is_kept = last_reader[position] > position
        all_kept = len(kept) == len(frontier)
        following: dict[tuple[int, ...], tuple[float, _Trail | None]] = {}
        added: list[list[tuple[int, float]]] = []
        index = 0
        if len(read) == 1:
            index, out, _ = read[0]
            # Operations of one kind, which read values of one size, have the same costs.
            key_of_table = None if of_settled or any(fixed) else (id(costs), id(out))
            added = tables.get(key_of_table) or _costs_after(own, read[0], len(costs))
            if key_of_table is not None:
                tables[key_of_table] = added
        for state, (cost, trail) in states.items():
            rest = state if all_kept else tuple([state[index] for index in kept])
            if added:
                options_here = added[state[index]]
            else:
                options_here = [
                    (device, _cost_here(state, device, alone, launch, read)) for device, alone, launch in own
                ]
            for device, more in options_here:
                total = cost + more
                key = (*rest, device) if is_kept else rest
                known = following.get(key)
                if known is None or total < known[0]:
                    following[key] = (total, (device, trail))
        if len(following) > MAX_STATES:
            best = sorted(following.items(), key=lambda item: item[1][0])
            following = dict(best[:MAX_STATES])
        states = following
        frontier = [frontier[index] for index in kept]
        if is_kept:
            frontier.append(position)
        if len(frontier) > MAX_FRONTIER:
            oldest = min(states, key=lambda state: states[state][0])[0]
            settled[frontier.pop(0)] = oldest
            states = {state[1:]: found for state, found in states.items() if state[0] == oldest}
    _, trail = min(states.values(), key=lambda each: each[0])
    choice: Choice = []
    while trail is not None:
        choice.append(trail[0])
        trail = trail[1]
    return choice[::-1]
