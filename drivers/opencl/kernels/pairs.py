"""Which kernels of a step can be one: a depthwise convolution and the only kernel that reads it."""

from collections.abc import Sequence
from dataclasses import dataclass

from neurald.drivers.compiler.graph import Value
from neurald.drivers.compiler.kernel import FusedGraph, Kernel
from neurald.drivers.opencl.kernels import pair
from neurald.drivers.opencl.platform import DeviceFacts
from neurald.drivers.opencl.source import Source

#: Where nothing is measured, a pair is taken up to so many columns: what is computed again for each tile of them is little.
_MOST_COLUMNS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two kernels, by their positions, that one may stand for: in the place of the second.

    Attributes:
        sources: every way to compute it, the best first.
        is_likely: whether it is expected to be faster than both.
    """

    first: int
    second: int
    sources: Sequence[Source]
    is_likely: bool


def pairs_of(graph: FusedGraph, kernels: Sequence[Kernel], facts: DeviceFacts) -> tuple[Pair, ...]:
    """The pairs among the kernels of a graph; no kernel is in two of them.

    Args:
        graph: that has the kernels.
        kernels: in the order in which they run.
        facts: the device; those of CPUs compute each kernel on its own.
    """
    if facts.is_cpu:
        return ()
    readers: dict[Value, list[int]] = {}
    for position, kernel in enumerate(kernels):
        for value in {graph.aliases.get(value, value) for value in kernel.inputs}:
            readers.setdefault(value, []).append(position)
    kept = {graph.aliases.get(value, value) for value in graph.outputs}
    found = []
    for position, kernel in enumerate(kernels):
        reading = readers.get(kernel.output, [])
        if kernel.output in kept or kernel.requirements or len(reading) != 1:
            continue
        following = kernels[reading[0]]
        sources = pair.candidates(kernel, following, facts, has_workspace=True)
        if sources:
            found.append(
                Pair(
                    first=position,
                    second=reading[0],
                    sources=sources,
                    is_likely=following.output.shape[-1] <= _MOST_COLUMNS,
                )
            )
    return tuple(found)
