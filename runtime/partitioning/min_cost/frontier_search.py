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
        for state, (cost, trail) in states.items():
            rest = state if all_kept else tuple([state[index] for index in kept])
            for device, alone, launch in own:
                total = cost + alone
                is_launched = True
                for index, out, into in read:
                    source = state[index]
                    if source == device:
                        is_launched = False
                    else:
                        total += out[source] + into[device]
                if is_launched:
                    total += launch
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
