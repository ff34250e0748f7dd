"""The choices of the other policies for a graph without control flow, as arrays.

They are what `neurald.runtime.partitioning.placement` and `policy_tengine` choose, without reasons
and in much less time, so that plans can be compared with them.
"""

from collections.abc import Collection, Mapping, Sequence

from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.graph import Operation
from neurald.runtime.partitioning.min_cost.problem import Steps
from neurald.runtime.partitioning.policy_tengine import MIN_COMPLEXITY, is_too_little


class OtherPolicies:
    """The operations of a graph, as the rules of other policies see them.

    Args:
        operations: the operations of the graph.
        scores: by operation and device.
        able: by operation and device, whether it can run there.
        preferred: by position, the device that a rule prefers for an operation that can run there.
        demoted: positions of operations that the CPU device must run if it can.
        cpu: the CPU device, if there is one.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        scores: Array,
        able: Array,
        preferred: Mapping[int, int],
        demoted: Collection[int],
        cpu: int | None,
    ) -> None:
        self._operations = operations
        self._able = able
        self._preferred = preferred
        self._demoted = demoted
        self._cpu = cpu
        # Operations of types that no device lists are still better where they can run.
        self._scores = np.where(able, np.minimum(scores, np.finfo(np.float64).max), np.inf)

    def android(self) -> Array:
        """Returns the device of each operation by Android's rule."""
        order = list(range(self._able.shape[1]))
        if self._cpu is not None:
            order.remove(self._cpu)
            order.insert(0, self._cpu)
        chosen: Array = np.array(order)[self._scores[:, order].argmin(axis=1)]
        for position, device in self._preferred.items():
            if position not in self._demoted:
                chosen[position] = device
        return self._demote(chosen)

    def tengine(self) -> tuple[Array, Steps]:
        """Returns the device of each operation by Tengine's rule, and the steps."""
        able, cpu = self._able, self._cpu
        counts = able.sum(axis=0)
        others = [n for n in range(able.shape[1]) if n != cpu]
        main = max(others, key=lambda n: (counts[n], -n), default=0)
        scores = self._scores.copy()
        if cpu is not None:
            scores[able[:, cpu], cpu] = -1.0
        scores[able[:, main], main] = -2.0
        chosen: Array = scores.argmin(axis=1)
        for position, device in self._preferred.items():
            chosen[position] = device
        if cpu is not None:
            is_covered = np.zeros(len(chosen), bool)
            starts = np.flatnonzero(chosen != main) + 1
            ends = np.append(starts[1:] - 1, len(chosen))
            # The range that follows the others is empty, or long enough.
            is_near = (starts < ends) & (ends - starts < MIN_COMPLEXITY)
            for start, end in zip(starts[is_near].tolist(), ends[is_near].tolist(), strict=True):
                is_covered[start:end] = is_too_little(self._operations, start, end)
            is_covered[list(self._preferred)] = False
            chosen[is_covered & able[:, cpu]] = cpu
        self._demote(chosen)
        last = [*(np.flatnonzero(np.diff(chosen)) + 1).tolist(), len(chosen)]
        devices = chosen[np.array(last) - 1].tolist()
        return chosen, list(zip(devices, map(range, [0, *last[:-1]], last), strict=True))

    def _demote(self, chosen: Array) -> Array:
        if self._cpu is not None:
            for position in self._demoted:
                if self._able[position, self._cpu]:
                    chosen[position] = self._cpu
        return chosen
