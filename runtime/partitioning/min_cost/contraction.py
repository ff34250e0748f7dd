"""Joins operations of a large graph that a good plan does not separate, before it is searched.

An operation is joined with the only one whose results it reads, or with the only one that reads its
results, if both are cheapest on the same device, and if it does not pay to move one of them alone
to another device. It does not if what the edge between them would transfer, and what the operation
would cost more, exceed what its other values would save. A path that leaves such a group cannot
return to it: all but one operation of the group have all their inputs, or all their readers, in it.
"""

from typing import Final

from neurald.hal.lazy_numpy import Array, np
from neurald.runtime.partitioning.min_cost.problem import PlacementProblem

#: How often operations are joined with writers, and then with readers.
_ROUNDS: Final = 3
#: A round that leaves more than this share is the last one.
_LITTLE: Final = 0.9


def contract(problem: PlacementProblem) -> tuple[PlacementProblem, Array]:
    """Returns a problem whose operations are groups of those of a problem, and the group of each of them.

    Groups are numbered in an order in which they can run.
    """
    labels = np.arange(problem.count)
    for _ in range(_ROUNDS):
        before = problem.count
        for into_reader in (False, True):
            groups, count = _groups(problem, into_reader=into_reader)
            if count < problem.count:
                problem = problem.contracted(groups, count)
                labels = groups[labels]
        if problem.count > _LITTLE * before:
            break
    return problem, labels


def _groups(problem: PlacementProblem, *, into_reader: bool) -> tuple[Array, int]:
    """Returns the group of each operation if it joins its only writer, or its only reader."""
    count = problem.count
    sources, targets = problem.graph.edges
    own, other = (sources, targets) if into_reader else (targets, sources)
    first, last = np.full(count, count), np.full(count, -1)
    np.minimum.at(first, own, other)
    np.maximum.at(last, own, other)
    (joined,) = np.nonzero(first == last)
    target = first[joined]
    is_joined = _belong(problem, joined, target, into_reader=into_reader)
    root = np.arange(count)
    root[joined[is_joined]] = target[is_joined]
    while True:
        above = root[root]
        if (above == root).all():
            break
        root = above
    roots, groups = np.unique(root, return_inverse=True)
    return groups, len(roots)


def _belong(problem: PlacementProblem, joined: Array, target: Array, *, into_reader: bool) -> Array:
    """Returns whether operations belong to their only writers, or to their only readers."""
    costs = problem.cost_array
    preferred = costs.argmin(axis=1)
    is_same: Array = preferred[joined] == preferred[target]
    if not problem.has_transfers:
        return is_same
    graph = problem.graph
    sizes = graph.bytes[graph.read]
    is_inner = graph.sources >= 0
    incoming = np.bincount(graph.read_by, sizes, problem.count)
    is_used = graph.is_output.copy()
    is_used[graph.read] = True
    (used,) = np.nonzero(is_used & (graph.writer >= 0))
    outgoing = np.bincount(graph.writer[used], graph.bytes[used], problem.count)
    # What is between an operation and the one it joins is all that it reads from others, or that
    # others read from it.
    from_others = np.bincount(graph.read_by[is_inner], sizes[is_inner], problem.count)
    between = (outgoing if into_reader else from_others)[joined]
    there = problem.per_byte_out[:, None] + problem.per_byte_in
    most, least = np.maximum(there, there.T)[preferred], np.minimum(there, there.T)[preferred]
    best = costs.min(axis=1)
    for position in (joined, target):
        others = incoming[position] + outgoing[position] - between
        more = costs[position] - best[position][:, None] + between[:, None] * least[joined]
        is_worth = more < others[:, None] * most[joined]
        is_worth[np.arange(len(position)), preferred[position]] = False
        is_same &= ~is_worth.any(axis=1)
    return is_same
