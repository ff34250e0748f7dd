"""Finds chains of kernels that one kernel may replace.

A chain is a depthwise convolution with the kernel that is the only reader of its output, and
optionally the kernel that computes its input; or a kernel of rows, such as a normalisation, with
the product of few rows that is its only reader; or a product with the moments of its rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise, zip_longest

from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_sources import LazySources
from neurald.drivers.opencl.kernels.equal_kernels import EqualKernels
from neurald.drivers.opencl.kernels.fused import bottleneck, pair, tensor_bottleneck
from neurald.drivers.opencl.kernels.gemm import gemv_stream, warpgroup_pipeline
from neurald.drivers.opencl.kernels.normalized.row_moments import measured_matrix
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.hal.records import replace

#: Without measurements, pairs are fused up to this number of columns: then few tiles recompute the
#: depthwise convolution.
_MAX_COLUMNS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelChain:
    """Kernels that one kernel may replace, which then takes the place of the last one.

    Each member is the only reader of the output of the previous one, or follows it immediately and
    the kernel that replaces both computes both outputs.

    Attributes:
        members: the positions of the kernels.
        sources: the candidates for the kernel that replaces them.
        is_likely: whether the replacement is used without measurements.
    """

    members: tuple[int, ...]
    sources: Sequence[Source]
    is_likely: bool


def chains_of(
    graph: FusedGraph, kernels: Sequence[Kernel], facts: DeviceFacts, equal: EqualKernels
) -> tuple[KernelChain, ...]:
    """Returns the chains among the kernels of a graph, the longer ones last.

    No two pairs share a kernel.

    Args:
        graph: the graph with the kernels.
        kernels: the kernels in the order in which they run.
        facts: the device; on CPUs there are no chains.
        equal: knows the sources of equal kernels.
    """
    if facts.is_cpu:
        return ()
    readers = _only_readers(graph, kernels)
    pairs, blocks = [*_products_with_moments(graph, kernels, facts, equal)], []
    for position, following in readers.items():
        streamed = _streamed(graph, kernels[position], kernels[following], facts, equal)
        if streamed:
            pairs.append(KernelChain(members=(position, following), sources=streamed, is_likely=True))
            continue
        sources = _pair(kernels[position], kernels[following], facts)
        if sources:
            is_likely = kernels[following].output.shape[-1] <= _MAX_COLUMNS
            pairs.append(KernelChain(members=(position, following), sources=sources, is_likely=is_likely))
        for before in (each for each, reader in readers.items() if reader == position):
            members = (before, position, following)
            three = kernels[before], kernels[position], kernels[following]
            block = _either(tensor_bottleneck.candidates(*three, facts), bottleneck.candidates(*three, facts))
            if block:
                blocks.append(KernelChain(members=members, sources=block, is_likely=False))
    return (*pairs, *blocks)


def _products_with_moments(
    graph: FusedGraph, kernels: Sequence[Kernel], facts: DeviceFacts, equal: EqualKernels
) -> Iterator[KernelChain]:
    """Yields the chains of a product and the kernel behind it that computes moments of its rows."""
    for position, (first, second) in enumerate(pairwise(kernels)):
        matrix = measured_matrix(second)
        if matrix is None or graph.aliases.get(matrix, matrix) is not first.output:
            continue
        sources = equal.sources(
            "product with moments", (first, second), partial(_with_moments, first, second, facts)
        )
        if sources:
            yield KernelChain(members=(position, position + 1), sources=sources, is_likely=True)


def _with_moments(first: Kernel, second: Kernel, facts: DeviceFacts) -> Sequence[Source]:
    """Returns the best ways to compute a product together with the moments of its rows."""
    product = warpgroup_pipeline.product_of_rows(first, facts)
    if product is None or product.batches > 1:
        return ()
    operations = tuple(sorted({*first.operations, *second.operations}))
    sources = warpgroup_pipeline.candidates(
        replace(first, operations=operations),
        product,
        facts,
        relaxed=True,
        has_workspace=True,
        moments=second.output,
    )
    return LazySources(islice(sources, warpgroup_pipeline.MAX_CANDIDATES))


def _streamed(
    graph: FusedGraph, first: Kernel, second: Kernel, facts: DeviceFacts, equal: EqualKernels
) -> Sequence[Source]:
    """Returns every way to compute a product of rows together with these rows."""
    if second.contraction is None:
        return ()
    left = second.contraction.inputs[0]
    if graph.aliases.get(left, left) is not first.output or graph.starts.get(left, 0):
        return ()
    return equal.sources("streamed", (first, second), lambda: gemv_stream.chained(first, second, facts))


def _pair(first: Kernel, second: Kernel, facts: DeviceFacts) -> Sequence[Source]:
    """Returns every way to compute two kernels as one."""
    return _either(
        tensor_bottleneck.candidates(None, first, second, facts),
        pair.candidates(first, second, facts, has_workspace=True),
    )


def _either(*ways: Sequence[Source]) -> Sequence[Source]:
    """Interleaves sources of several kinds."""
    turns = zip_longest(*ways)
    return LazySources(source for turn in turns for source in turn if source is not None)


def _only_readers(graph: FusedGraph, kernels: Sequence[Kernel]) -> dict[int, int]:
    """Maps each kernel whose output has a single reader to that reader, by positions."""
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
