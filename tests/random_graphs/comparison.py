"""Judges results in which rounding errors of one operation propagate through many others.

Integers, bools and quantised values must equal the references, and floats must be within Android's
tolerances. The effect of rounding beyond these is estimated by evaluating the references repeatedly
with noise on rounding operations: floats may differ by a multiple of the resulting change, and if
an integer or bool changes, rounding decides it, so any value near the observed ones is correct.
"""

import numpy as np
from random_graphs.graph import RandomGraph
from random_graphs.reference import Evaluation, Noise

from neurald.hal.errors import Error
from neurald.hal.execution.output_comparison import tolerances
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

#: Evaluations with noise: a few at first, all before a result is declared wrong.
_FEW, _MANY = 4, 64
#: Permitted difference of floats, as a multiple of the change caused by noise.
_FACTOR = 16.0


class Envelope:
    """Expected outputs of a graph, and the effect of rounding on them."""

    def __init__(self, graph: RandomGraph) -> None:
        self._graph = graph
        self._runs: list[list[Array]] = []
        self._failures = 0

    def may_fail(self) -> bool:
        """Returns True if rounding decides whether the graph runs.

        A computed shape may differ from the declared one.
        """
        self._noisy(_MANY)
        return self._failures > 0

    def difference(self, position: int, found: Array, *, is_exact: bool) -> str:
        """Describes what is wrong with an output, "" if nothing is.

        Args:
            position: the position of the output.
            found: the device's output.
            is_exact: whether the device runs references.
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
            # Noise that nearly overflows gives no information about the last step.
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
                # With noise a barely permitted value is refused: all outputs are maximally
                # unstable.
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
