"""Values that kernels do not use, and that share no memory with those they use nevertheless.

So kernels that do not depend on each other may run at the same time.
"""

from collections.abc import Iterator, Sequence

from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels.gemm.split_k import clearing_source

#: Limit on the values of kernels that may run at the same time, so that they share no memory.
_MAX_RESERVED_BYTES = 8 << 20


def with_clearing_kernels(
    used: Sequence[tuple[Kernel, Source]],
) -> tuple[list[tuple[Kernel, Source]], list[tuple[Value, ...]]]:
    """Inserts kernels that clear the outputs which split-K kernels add to.

    An output is cleared before the kernel that precedes the accumulating one, and no other value
    uses its memory since the kernel before that. The clearing kernel and its successor can
    therefore run concurrently, and a persistent kernel needs no extra barrier for it.

    Returns the kernels, and for each kernel the values that must not share memory with what it
    uses.
    """
    kernels: list[tuple[Kernel, Source]] = []
    reserved: list[tuple[Value, ...]] = []
    for position, pair in enumerate(used):
        following = used[position + 1 : position + 2] if position else used[:2]
        cleared = [
            (kernel, clearing_source(kernel.output, kernel.operations))
            for kernel, source in following
            if source.adds
        ]
        if kernels and cleared:
            reserved[-1] += tuple(kernel.output for kernel, _ in cleared)
        kernels += [*cleared, pair]
        reserved += [()] * (1 + len(cleared))
    return kernels, reserved


def with_values_of_neighbours(
    graph: FusedGraph, sources: Sequence[Source], reserved: Sequence[tuple[Value, ...]]
) -> list[tuple[Value, ...]]:
    """Returns values that must not share memory with what each kernel uses, as `reserved`.

    Successive kernels that do not read what another of them writes are phases without a barrier
    between them, unless one writes to where another reads. If they use little memory, none of their
    values shares it.
    """
    found = list(reserved)
    for positions in _independent_kernels(graph, sources):
        used = (each for position in positions for each in sources[position].arguments)
        values = dict.fromkeys(graph.aliases.get(each, each) for each in used)
        own = tuple(each for each in values if each.constant is None)
        if len(positions) > 1 and sum(each.size_bytes for each in own) <= _MAX_RESERVED_BYTES:
            for position in positions:
                found[position] += own
    return found


def _independent_kernels(graph: FusedGraph, sources: Sequence[Source]) -> Iterator[range]:
    """Yields the positions of successive kernels that do not read what another of them writes."""
    start = 0
    written: set[Value] = set()
    for position, source in enumerate(sources):
        values = [graph.aliases.get(each, each) for each in source.arguments]
        if not written.isdisjoint(values[1:]):
            yield range(start, position)
            start = position
            written.clear()
        written.update(values[each] for each in source.written)
    yield range(start, len(sources))
