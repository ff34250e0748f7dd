"""Decides whether a step on another host is worth the transfer of its inputs and outputs.

Android's scores are relative and know no transfers. So the time of a step on the CPU device is
estimated from its multiplications and the speed of this host, which is measured once; that on the
other device follows from the scores. If the time that is saved is shorter than the round trip and
the transfer, the CPU device runs the step.
"""

import math
import time
from collections.abc import Sequence
from functools import cache
from typing import Final

from neurald.hal.lazy_numpy import np
from neurald.hal.model.types import Lifetime, Model, Operation, Preference, Subgraph, value_size
from neurald.runtime.model.boundary import boundaries
from neurald.runtime.model.branches import Nesting, graph_of, is_control_flow
from neurald.runtime.partitioning.groups import StepGroup
from neurald.runtime.partitioning.placement import Candidate, DeviceScores

#: An element of an operation without multiplications takes as long as that many of them, because it
#: is read and written.
_ELEMENT_WORK: Final = 16
_SIZE: Final = 192
_ROUNDS: Final = 5
_CONSTANTS: Final = (Lifetime.CONSTANT_COPY, Lifetime.CONSTANT_POOL)


class LinkCosts:
    """Compares the transfers of steps with the time that their devices save.

    Args:
        model: a valid model.
        candidates: of the partitioning.
    """

    def __init__(self, model: Model, candidates: Sequence[Candidate]) -> None:
        self._model = model
        self._candidates = candidates
        nesting = Nesting(model)
        self._scores = [
            DeviceScores(model, nesting, each.capabilities, Preference.FAST_SINGLE_ANSWER)
            for each in candidates
        ]
        self._cpu = next((n for n, each in enumerate(candidates) if each.is_cpu), None)

    def excess(self, step: StepGroup) -> str:
        """Returns why the CPU device had better run a step; empty if its device may."""
        candidate = self._candidates[step.device]
        if candidate.link is None or self._cpu is None:
            return ""
        graph = graph_of(self._model, step.graph)
        size_bytes = _boundary_bytes(graph, step.operations)
        saved_s = self._saved_s(graph, step)
        if size_bytes is None or saved_s is None:
            return ""
        link = candidate.link
        needed_s = link.latency_s + size_bytes / link.bytes_per_s
        if needed_s < saved_s:
            return ""
        return (
            f"the link to {candidate.name} needs {needed_s * 1e3:.3g} ms for {size_bytes} bytes, and the "
            f"device would save about {max(0.0, saved_s) * 1e3:.3g} ms"
        )

    def _saved_s(self, graph: Subgraph, step: StepGroup) -> float | None:
        """Returns how much sooner a step's device computes; None if that is not known."""
        assert self._cpu is not None  # noqa: S101 - the caller has checked it
        saved = 0.0
        for position in step.operations:
            operation = graph.operations[position]
            work = _multiplications(graph, operation)
            ours, theirs = (
                self._scores[device].operation(graph, operation) for device in (self._cpu, step.device)
            )
            if work is None or not 0 < ours < math.inf or not theirs < math.inf:
                return None
            saved += work * (1 - theirs / ours)
        return saved / multiplications_per_s()


def _boundary_bytes(graph: Subgraph, operations: Sequence[int]) -> int | None:
    """Returns the bytes of a step's inputs and outputs; None if they are not known."""
    (boundary,) = boundaries(graph, [operations])
    total = 0
    for index in (*boundary.inputs, *boundary.outputs):
        size = value_size(graph.operands[index].type, graph.operands[index].dimensions)
        if size is None:
            return None
        total += size
    return total


def _multiplications(graph: Subgraph, operation: Operation) -> float | None:
    """Estimates the multiplications of an operation; None for control flow and unknown sizes.

    Each weight of a convolution is used for each output position, other constants once.
    """
    if is_control_flow(operation):
        return None
    written = _elements(graph, operation.outputs)
    read = _elements(graph, [n for n in operation.inputs if graph.operands[n].lifetime not in _CONSTANTS])
    if written is None or read is None:
        return None
    name = operation.type.name
    weights = max(
        (
            graph.operands[n].dimensions or ()
            for n in operation.inputs[1:]
            if len(graph.operands[n].dimensions or ()) >= 2
        ),
        key=math.prod,
        default=(),
    )
    count = math.prod(weights) if weights else 0
    if "CONV" in name and weights:
        depth = weights[-1] if "DEPTHWISE" in name else weights[0]
        return float(written * count / max(1, depth))
    if ("FULLY_CONNECTED" in name or "MATMUL" in name) and weights:
        return float(written * (weights[-1] if "FULLY" in name else weights[-2]))
    return float(max(_ELEMENT_WORK * (written + read), count))


def _elements(graph: Subgraph, operands: Sequence[int]) -> int | None:
    total = 0
    for index in operands:
        dimensions = graph.operands[index].dimensions
        if dimensions is None or 0 in dimensions:
            return None
        total += math.prod(dimensions)
    return total


@cache
def multiplications_per_s() -> float:
    """Returns how many multiplications and additions this host computes in a second."""
    matrix = np.ones((_SIZE, _SIZE), np.float32)
    best_s = math.inf
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        np.matmul(matrix, matrix)
        best_s = min(best_s, time.perf_counter() - started)
    return float(_SIZE**3 / max(best_s, 1e-9))
