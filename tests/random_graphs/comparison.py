"""Whether a result is right, where rounding errors of one operation go through many others.

Integers, bools and quantised values are those of the references, floats within Android's tolerances. What rounding can do beyond them is
found out by evaluating the references again and again with noise on what operations round: floats may differ by some times as much as
they change then, and where an integer or a bool changes, a rounding error decides, and any value near those that came is right.
"""

import numpy as np
from random_graphs.graph import RandomGraph
from random_graphs.reference import Evaluation, Noise

from neurald.hal.errors import Error
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array
from neurald.service.conformance.cases.comparison import tolerances

#: Evaluations with noise: some at first, all before a result is said to be wrong.
_FEW, _MANY = 4, 64
#: What floats may differ by, in parts of what the noise changes.
_FACTOR = 16.0


class Envelope:
    """The expected outputs of a graph, and how much rounding may change them."""

    def __init__(self, graph: RandomGraph) -> None:
        self._graph = graph
        self._runs: list[list[Array]] = []
        self._failures = 0

    def may_fail(self) -> bool:
        """Whether a rounding error decides if the graph can be run: a value becomes a shape that is not the declared one."""
        self._noisy(_MANY)
        return self._failures > 0

    def difference(self, position: int, found: Array, *, is_exact: bool) -> str:
        """What is wrong with an output, "" if nothing is.

        Args:
            position: of the output.
            found: what a device gave.
            is_exact: whether the device computes with references.
        """
        expected = self._graph.expected[position]
        if found.shape != expected.shape:
            if not is_exact and self._changes_shape(position):
                return ""
            return f"shape {list(found.shape)}; {list(expected.shape)} is expected"
        if found.tobytes() == expected.tobytes():
            return ""
        wrong = ~_equal(found, expected)
        if not is_exact:
            for runs in (0, _FEW, _MANY):
                if not wrong.any():
                    break
                wrong = ~self._within(position, found, runs)
        if not wrong.any():
            return ""
        places = np.flatnonzero(wrong.reshape(-1))
        first = int(places[0])
        return (
            f"{len(places)} of {expected.size} elements, the first at {first}: "
            f"{found.reshape(-1)[first]!s}; {expected.reshape(-1)[first]!s} is expected"
        )

    def _within(self, position: int, found: Array, runs: int) -> Array:
        kind = self._kind(position)
        expected = self._graph.expected[position]
        others = [run[position] for run in self._noisy(runs)]
        if any(other.shape != expected.shape for other in others):
            return np.ones(expected.shape, np.bool_)
        if expected.dtype.kind not in "fc":
            wide_values = [array.astype(np.float64) for array in (expected, *others)]
            low, high = np.minimum.reduce(wide_values), np.maximum.reduce(wide_values)
            span = high - low
            is_near = np.abs(found.astype(np.float64) - (low + high) / 2) <= 1.5 * span
            return np.asarray(_equal(found, expected) | (is_near & (span > 0)))
        absolute, relative = tolerances(kind, relaxed=False)
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            wanted, given = expected.astype(wide), found.astype(wide)
            limit = absolute + relative * np.abs(wanted)
            unstable = np.zeros(expected.shape, np.bool_)
            for other in others:
                unstable |= np.isfinite(other) != np.isfinite(expected)
                unstable |= ~np.isfinite(other) & ~_equal(other, expected)
                change = np.abs(other.astype(wide) - wanted)
                limit = np.maximum(limit, _FACTOR * np.where(np.isfinite(change), change, 0.0))
            near = np.abs(given - wanted) <= limit
            # Noise that nearly overflows says nothing about the last step.
            near &= np.isfinite(wanted)
        return np.asarray(near | unstable | _equal(found, expected))

    def _kind(self, position: int) -> OperandType:
        graph = self._graph.model.main
        return graph.operands[graph.outputs[position]].type

    def _noisy(self, count: int) -> list[list[Array]]:
        while len(self._runs) < count:
            noise = Noise(len(self._runs))
            try:
                self._runs.append(Evaluation(self._graph.model, noise).outputs(self._graph.inputs))
            except (Error, ValueError):
                self._failures += 1
                # With noise a value is refused that is just allowed: all outputs are as unstable as can be.
                self._runs.append([np.empty((0, 0, 0, 0, 0, 0, 0), a.dtype) for a in self._graph.expected])
        return self._runs[:count]

    def _changes_shape(self, position: int) -> bool:
        shape = self._graph.expected[position].shape
        return any(run[position].shape != shape for run in self._noisy(_MANY))


def _equal(first: Array, second: Array) -> Array:
    with np.errstate(invalid="ignore"):
        equal = first == second
        if first.dtype.kind in "fc":
            equal |= np.isnan(first) & np.isnan(second)
    return np.asarray(equal)
