"""Finds a choice for a graph of any size: all operations at once settle on devices.

Each operation has a share on each device instead of one device. In every round an operation sees
what each device would cost it, with the shares of its neighbours: its own time, transfers, and a
launch where none of its operands comes from the device; and its readers' launches that it saves
there. Its shares move to the cheaper devices, little as long as the temperature is high, and at the
end to one device (a mean field approximation that is cooled down). A round is a few operations of
NumPy on the whole graph.

A launch counts less here than it takes, since operations that find none of their operands on their
device often still run in a step that is there already.
"""

from typing import Final

from neurald.hal.lazy_numpy import Array, np
from neurald.runtime.partitioning.min_cost.problem import PlacementProblem

_ROUNDS: Final = 5
#: The first and the last temperature, as parts of the longest launch.
_HOT: Final = 0.05
_COLD: Final = 0.003
#: The share of its cost with which a launch counts.
_LAUNCH_WEIGHT: Final = 0.2
#: How much of its shares an operation keeps in a round, so that neighbours do not change places.
_INERTIA: Final = 0.1
#: The cost of an operation on a device that cannot run it; it must not overflow, in 32 bits either.
_IMPOSSIBLE_S: Final = 1e20
#: No operand counts as certain to be on a device, so that products can be divided by its share.
_CERTAIN: Final = 0.999


def search(problem: PlacementProblem) -> Array:
    """Returns a device for each operation that can run it."""
    # The interpreter is a device only for control flow.
    used = problem.device_count + int(np.isfinite(problem.cost_array[:, -1]).any())
    costs = np.ascontiguousarray(problem.costs_with_client[:, :used].T)
    possible = np.isfinite(costs)
    costs[~possible] = _IMPOSSIBLE_S
    launches = (_LAUNCH_WEIGHT * np.array(problem.launches[:used]))[:, None]
    sources, targets = problem.graph.edges
    # The figures of all devices are one array in which each device has a row of operations.
    rows = np.arange(used)[:, None] * problem.count
    all_sources, all_targets = (rows + sources).ravel(), (rows + targets).ravel()
    sizes = problem.edge_bytes if problem.has_transfers else None
    pairs = problem.per_byte_between[:used, :used]
    shares = possible / possible.sum(axis=0)
    longest = max(problem.launches[: problem.device_count])
    for temperature in np.geomspace(_HOT * longest, _COLD * longest, _ROUNDS).tolist():
        absent = 1.0 - np.minimum(shares, _CERTAIN)
        launched = np.repeat(launches, problem.count, axis=1)
        absent_source = absent.take(all_sources)
        np.multiply.at(launched.reshape(-1), all_targets, absent_source)
        # Were a writer there, its readers would save the launches that their other operands leave.
        saved = (shares * launched).take(all_targets)
        saved /= absent_source
        launched += costs
        if sizes is not None:
            saved.reshape(used, -1)[:] -= sizes * (pairs @ shares).take(targets, axis=1)
            into = sizes * (pairs.T @ shares).take(sources, axis=1)
            launched += np.bincount(all_targets, into.ravel(), launched.size).reshape(launched.shape)
        launched -= np.bincount(all_sources, saved, launched.size).reshape(launched.shape)
        launched -= launched.min(axis=0)
        launched /= -temperature
        # Exponentials of 32 bits take a fifth of the time of those of 64.
        settled = np.exp(launched.astype(np.float32)).astype(np.float64)
        settled *= (1 - _INERTIA) / settled.sum(axis=0)
        shares *= _INERTIA
        shares += settled
    found: Array = shares.argmax(axis=0)
    return found
