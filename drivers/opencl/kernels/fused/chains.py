"""Which kernels of a step can be one: a depthwise convolution, the only kernel that reads it, and the one whose only reader it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_sources import LazySources
from neurald.drivers.opencl.kernels.fused import bottleneck, pair, tensor_bottleneck
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

#: Where nothing is measured, a pair is taken up to so many columns: what is computed again for each tile of them is little.
_MOST_COLUMNS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Chain:
    """Kernels, by their positions, each the only reader of the one before, that one may stand for: in the place of the last.

    Attributes:
        sources: every way to compute it, the best first.
        is_likely: whether it is expected to be faster than all of them.
    """

    members: tuple[int, ...]
    sources: Sequence[Source]
    is_likely: bool


def chains_of(graph: FusedGraph, kernels: Sequence[Kernel], facts: DeviceFacts) -> tuple[Chain, ...]:
    """The chains among the kernels of a graph, the longer ones last; no two pairs share a kernel.

    Args:
        graph: that has the kernels.
        kernels: in the order in which they run.
        facts: the device; those of CPUs compute each kernel on its own.
    """
    if facts.is_cpu:
        return ()
    readers = _only_readers(graph, kernels)
    pairs, blocks = [], []
    for position, following in readers.items():
        sources = _pair(kernels[position], kernels[following], facts)
        if sources:
            is_likely = kernels[following].output.shape[-1] <= _MOST_COLUMNS
            pairs.append(Chain(members=(position, following), sources=sources, is_likely=is_likely))
        for before in (each for each, reader in readers.items() if reader == position):
            members = (before, position, following)
            three = kernels[before], kernels[position], kernels[following]
            block = _either(tensor_bottleneck.candidates(*three, facts), bottleneck.candidates(*three, facts))
            if block:
                blocks.append(Chain(members=members, sources=block, is_likely=False))
    return (*pairs, *blocks)


def _pair(first: Kernel, second: Kernel, facts: DeviceFacts) -> Sequence[Source]:
    """Every way to compute two kernels as one."""
    return _either(
        tensor_bottleneck.candidates(None, first, second, facts),
        pair.candidates(first, second, facts, has_workspace=True),
    )


def _either(*ways: Sequence[Source]) -> Sequence[Source]:
    """Sources of several kinds, in turn."""
    turns = zip_longest(*ways)
    return LazySources(source for turn in turns for source in turn if source is not None)


def _only_readers(graph: FusedGraph, kernels: Sequence[Kernel]) -> dict[int, int]:
    """For each kernel whose output a single other one reads, and nobody else, that one; both by position."""
    readers: dict[Value, list[int]] = {}
    for position, kernel in enumerate(kernels):
        for value in {graph.aliases.get(value, value) for value in kernel.inputs}:
            readers.setdefault(value, []).append(position)
    kept = {graph.aliases.get(value, value) for value in graph.outputs}
    found = {}
    for position, kernel in enumerate(kernels):
        reading = readers.get(kernel.output, [])
        if kernel.output not in kept and not kernel.requirements and len(reading) == 1:
            found[position] = reading[0]
    return found
