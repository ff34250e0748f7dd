"""Compiles a step model into an executable.

The stages are graph building, transformations, fusion, kernel selection, buffer assignment and
program text.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.memory.buffer_assignment import BufferAssignment, assign_buffers
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.concatenation.concat_elimination import Alignment, eliminate_concat
from neurald.drivers.compiler.passes.contraction.attention_merging import merge_attention
from neurald.drivers.compiler.passes.contraction.product_stacking import stack_products
from neurald.drivers.compiler.passes.expansion.key_search_expansion import expand_key_searches
from neurald.drivers.compiler.passes.expansion.running_sum_expansion import expand_running_sums
from neurald.drivers.compiler.passes.expansion.scatter_expansion import expand_scatters
from neurald.drivers.compiler.passes.expansion.top_k_expansion import expand_top_k
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.program_text import KernelTexts, kernel_name, program_text
from neurald.drivers.opencl.codegen.render import render
from neurald.drivers.opencl.kernels.attention import attention
from neurald.drivers.opencl.kernels.attention.appended import read_appended
from neurald.drivers.opencl.kernels.equal_kernels import EqualKernels
from neurald.drivers.opencl.kernels.fused.chains import KernelChain, chains_of
from neurald.drivers.opencl.kernels.gemm import warpgroup_pipeline
from neurald.drivers.opencl.kernels.gemm.split_k import clearing_source
from neurald.drivers.opencl.kernels.kernel_set import KernelSet
from neurald.drivers.opencl.kernels.normalized.folding import fold_normalizations
from neurald.drivers.opencl.kernels.select import candidates, is_large_step
from neurald.drivers.opencl.platform.channel_padding import pad_channels
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.precision import (
    Precision,
    lower_precision,
    preferred_precision,
    round_beside,
    round_stored_only,
)
from neurald.drivers.opencl.runtime.cold_reads import ColdRead, cold_reads, may_fetch
from neurald.drivers.opencl.runtime.executable import FLAGS, Executable, KernelCall, image_uses
from neurald.drivers.opencl.runtime.persistent_kernel import (
    SYNC_BYTES,
    called_functions,
    grid_barrier_text,
    is_launched,
    is_supported,
    kernel_text,
    local_size,
)
from neurald.drivers.opencl.runtime.phase import Phase
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operations_name
from neurald.hal.records import replace

_LOG = logging.getLogger(__name__)

#: Alignment of values in bytes, for vector accesses and whole cache lines.
ALIGNMENT = 256
#: Kernels read 16 bytes at a time and store up to four elements.
_ALIGNED = Alignment(read_bytes=16, written_elements=4)

#: Limit on the total size of outputs that are placed behind all other values.
_MAX_MOVED_BYTES = 1 << 20

#: Limit on the values of kernels that may run at the same time, so that they share no memory.
_MAX_RESERVED_BYTES = 8 << 20

#: Picks one source for each kernel. The kernels of a selected chain get None, except the last one,
#: which gets the chain's source.
Choose = Callable[[Sequence[Sequence[Source]], Sequence[KernelChain]], Sequence[Source | None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """Executable and the contents of its constants.

    Attributes:
        persistent: one call that may be faster than all calls of the executable, if the device
            supports it; its number of groups is not set yet.
        persistent_text: the program text of that call's kernel.
        kernels: the texts of the kernels that the executable calls.
    """

    executable: Executable
    constants: np.ndarray
    persistent: KernelCall | None
    persistent_text: str
    kernels: KernelTexts


def compile_model(
    model: Model,
    input_shapes: Mapping[int, Shape],
    facts: DeviceFacts,
    *,
    precision: Precision | None,
    choose: Choose,
    is_fused: bool = True,
    kernel_set: KernelSet = KernelSet.ALL,
    require_wanted: Callable[[str], None] = lambda where: None,
) -> Compiled:
    """Compiles a model whose operations all have a lowering.

    Args:
        model: the step model.
        input_shapes: the shapes of inputs, by operand, that the model leaves unspecified.
        facts: the device.
        precision: the floating-point mode; None selects the device's mode for a relaxed model.
        choose: picks among the sources of each kernel.
        is_fused: whether nodes are fused into larger kernels.
        kernel_set: the kinds of kernels that may be used.
        require_wanted: called before each kernel; raises to abort the compilation.

    Raises:
        BadData: an operation has no lowering.
        Error: raised by `require_wanted`.
    """
    compiled, reason = _compiled(
        model,
        input_shapes,
        facts,
        precision,
        choose,
        is_fused=is_fused,
        kernel_set=kernel_set,
        require_wanted=require_wanted,
    )
    if reason:
        # This happens only on devices whose images cover whole buffers, because the sizes of the
        # buffers are not known earlier.
        _LOG.info("kernels read buffers instead of images: %s", reason)
        plain = replace(facts, images=None)
        compiled, _ = _compiled(
            model,
            input_shapes,
            plain,
            precision,
            choose,
            is_fused=is_fused,
            kernel_set=kernel_set,
            require_wanted=require_wanted,
        )
    return compiled


def _compiled(
    model: Model,
    input_shapes: Mapping[int, Shape],
    facts: DeviceFacts,
    precision: Precision | None,
    choose: Choose,
    *,
    is_fused: bool,
    kernel_set: KernelSet,
    require_wanted: Callable[[str], None],
) -> tuple[Compiled, str]:
    """Compiles a model once.

    Returns the result, and the reason why its images cannot be created; "" if they can.
    """
    precision = precision or preferred_precision(facts)
    graph = lowered_graph(
        model, input_shapes, facts, precision, kernel_set=kernel_set, require_wanted=require_wanted
    )
    equal = EqualKernels()
    fused = fused_graph(graph, facts, precision, is_fused=is_fused, kernel_set=kernel_set, equal=equal)
    kernels = tuple(kernel for kernel in fused.kernels if kernel.output.count)
    is_large = is_large_step(kernels)
    sources: list[Sequence[Source]] = []
    for number, kernel in enumerate(kernels):
        require_wanted(f"before the code of kernel {number} of {len(kernels)}")
        special = kernel_set is not KernelSet.GENERIC and equal.sources(
            "kernel",
            (kernel,),
            partial(
                candidates,
                kernel,
                facts,
                relaxed=precision is Precision.F16,
                has_workspace=True,
                is_large=is_large,
            ),
        )
        sources.append(special or equal.sources("generic kernel", (kernel,), partial(_generic, kernel)))
    chosen = choose(
        sources,
        chains_of(fused, kernels, facts, equal) if kernel_set is KernelSet.ALL else (),
    )
    used = [(kernel, source) for kernel, source in zip(kernels, chosen, strict=True) if source is not None]
    used, reserved = _with_clearing_kernels(used)
    if is_supported(facts):
        reserved = _with_values_of_neighbours(fused, [source for _, source in used], reserved)
    assignment = assign_buffers(
        fused,
        [(*source.arguments, *more) for (_, source), more in zip(used, reserved, strict=True)],
        alignment=max(ALIGNMENT, facts.alignment_bytes),
    )
    compiled = _assembled(model, assignment, used, facts)
    return compiled, _unsupported_reason(compiled.executable, facts)


def _generic(kernel: Kernel) -> Sequence[Source]:
    """Returns the only source of a kernel that has no special ones."""
    return (render(kernel),)


def lowered_graph(
    model: Model,
    input_shapes: Mapping[int, Shape],
    facts: DeviceFacts,
    precision: Precision,
    *,
    kernel_set: KernelSet,
    require_wanted: Callable[[str], None],
    scope: ExtentScope | None = None,
) -> Graph:
    """Returns the graph of a model before its nodes are fused to kernels.

    Args:
        model, input_shapes, facts, precision, kernel_set, require_wanted: see `compile_model`.
        scope: the scope of the extents in `input_shapes`; None if there are none. With it, passes
            that only save time are left out where they need lengths.

    Raises:
        BadData: an operation has no lowering.
        Error: raised by `require_wanted`.
    """
    graph = build_graph(model, input_shapes)
    expand_running_sums(graph)
    expand_key_searches(graph)
    expand_scatters(graph)
    require_wanted("before the graph was transformed")
    transform(graph)
    if scope is not None:
        scope.estimates = True
    require_wanted("before kernels were fused")
    lower_precision(graph, precision)
    if kernel_set is not KernelSet.GENERIC and scope is None:
        pad_channels(graph, facts)
    expand_top_k(graph)
    return graph


def fused_graph(
    graph: Graph,
    facts: DeviceFacts,
    precision: Precision,
    *,
    is_fused: bool,
    kernel_set: KernelSet,
    equal: EqualKernels,
    join: Callable[[FusedGraph], FusedGraph] | None = None,
) -> FusedGraph:
    """Returns the kernels of a graph.

    Args:
        graph: see `lowered_graph`.
        facts, precision, is_fused, kernel_set: see `compile_model`.
        equal: knows what was decided about equal kernels.
        join: computes parts of concatenations in place; None for a graph without extents.
    """
    fused = fuse(graph, enabled=is_fused, is_row_wise=lambda _: True, recomputes=True)
    if precision is not Precision.F32:
        fused = round_stored_only(fused)
    if is_fused and precision is Precision.F16:
        fused = round_beside(fused)
    if is_fused:
        fused = (join or joined)(fused)
    if not is_fused or kernel_set is KernelSet.GENERIC or join is not None:
        return fused
    if kernel_set is KernelSet.ALL and not facts.is_cpu and facts.images is None:
        fused = stack_products(fused, alignment=_ALIGNED.read_bytes)

    def is_attention(kernel: Kernel) -> bool:
        return attention.fits(kernel, facts)

    def is_product_of_rows(kernel: Kernel) -> bool:
        return warpgroup_pipeline.product_of_rows(kernel, facts) is not None

    fused = merge_attention(fused, lambda kernel: equal.verdict(kernel, is_attention))
    fused = read_appended(fused, lambda kernel: equal.verdict(kernel, is_attention))
    if kernel_set is KernelSet.ALL and is_large_step(fused.kernels):
        return fold_normalizations(fused, lambda kernel: equal.verdict(kernel, is_product_of_rows))
    return fused


def joined(graph: FusedGraph) -> FusedGraph:
    """Returns the graph with parts of concatenations that are computed in place."""
    return eliminate_concat(graph, _ALIGNED)


def _with_clearing_kernels(
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


def _with_values_of_neighbours(
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


def _unsupported_reason(executable: Executable, facts: DeviceFacts) -> str:
    """Returns the reason why the device cannot create the images of an executable; "" if it can."""
    if facts.images is None:
        return ""
    sizes = {Base.ARENA: executable.arena_bytes, Base.CONSTANTS: executable.constants_bytes}
    needed = {
        (call.locations[use.argument].base, use.type) for call in executable.calls for use in call.images
    }
    reasons = (
        facts.images.whole_buffer_unsupported_reason(sizes[base], kind)
        for base, kind in sorted(needed, key=str)
    )
    return next(filter(None, reasons), "")


def _label(source: Source, facts: DeviceFacts) -> str:
    """Describes how a source computes, and why arguments are not read as images."""
    if facts.images is None:
        return source.label
    refused = [
        f"a{position} from a buffer ({reason})"
        for position, value in enumerate(source.arguments)
        if position and (reason := facts.images.unsupported_reason(value))
    ]
    read = (
        [f"{', '.join(f'a{position}' for position in source.images)} through images"] if source.images else []
    )
    return "; ".join((source.label, *read, *refused))


def _assembled(
    model: Model, assignment: BufferAssignment, chosen: Sequence[tuple[Kernel, Source]], facts: DeviceFacts
) -> Compiled:
    alignment = max(ALIGNMENT, facts.alignment_bytes)
    assignment = _with_outputs_last(assignment, [kernel for kernel, _ in chosen], alignment)
    zeros = -(-assignment.arena_bytes // alignment) * alignment
    statuses = sum(1 for kernel, _ in chosen if kernel.requirements)
    workspace = zeros + -(-max(SYNC_BYTES, FLAGS + 4 * (1 + statuses)) // ALIGNMENT) * ALIGNMENT
    end = workspace + max((source.workspace_bytes for _, source in chosen), default=0)
    calls, uses, phases = [], [], []
    status = 0
    for kernel, source in chosen:
        locations = assignment.of(source.arguments)
        bases = tuple(each.base for each in locations)
        status += bool(kernel.requirements)
        call = KernelCall(
            kernel=kernel_name(source, bases),
            locations=locations,
            groups=source.groups,
            local_size=source.local_size,
            status=status if kernel.requirements else 0,
            workspace=workspace if source.workspace_bytes else None,
            messages=tuple(text for _, text in kernel.requirements),
            label=_label(source, facts),
            images=image_uses(source),
            operations=source.operations,
            where=operations_name(model.main, source.operations),
        )
        uses.append((source, bases))
        calls.append(call)
        phases.append(phase_of(source, call, zeros + FLAGS + 4 * call.status))
    inputs, outputs = assignment.ports(model)
    persistent = _persistent_call(phases, facts)
    return Compiled(
        executable=Executable(
            calls=tuple(calls),
            inputs=inputs,
            outputs=outputs,
            arena_bytes=end,
            constants_bytes=assignment.constants.nbytes,
            unshared_bytes=assignment.unshared_bytes,
            zeros=zeros,
            zeros_bytes=end - zeros,
            text=program_text(uses, has_fp64=facts.has_fp64),
        ),
        constants=assignment.constants,
        kernels=KernelTexts(uses=tuple(uses), has_fp64=facts.has_fp64),
        persistent=persistent,
        persistent_text=""
        if persistent is None
        else program_text(
            uses,
            has_fp64=facts.has_fp64,
            before=grid_barrier_text(is_nvidia=facts.is_nvidia),
            called=called_functions([source for source, _ in uses], facts),
            instead=kernel_text(
                persistent.kernel,
                phases,
                min_groups=facts.compute_units,
                reads=_cold_reads(assignment, phases),
            ),
        ),
    )


def _with_outputs_last(
    assignment: BufferAssignment, kernels: Sequence[Kernel], alignment: int
) -> BufferAssignment:
    """Moves small outputs to the end of the arena, to fetch them with the flags in one transfer."""
    graph = assignment.graph
    written = {graph.aliases.get(kernel.output, kernel.output) for kernel in kernels}
    outputs = [value for value in dict.fromkeys(graph.outputs) if value in written]
    if sum(value.size_bytes for value in outputs) > _MAX_MOVED_BYTES:
        return assignment
    locations, end = dict(assignment.locations), assignment.arena_bytes
    for value in outputs:
        locations[value] = BufferLocation(Base.ARENA, -(-end // alignment) * alignment)
        end = locations[value].offset + max(1, value.size_bytes)
    return replace(assignment, locations=locations, arena_bytes=end)


def phase_of(source: Source, call: KernelCall, status: int) -> Phase:
    """Describes a call as a phase of a persistent kernel.

    Args:
        source, call: the source, and its call as a separate kernel.
        status: the offset of its status word in the arena.
    """
    return Phase(source=source, locations=call.locations, status=status, workspace=call.workspace)


def _cold_reads(assignment: BufferAssignment, phases: Sequence[Phase]) -> list[tuple[ColdRead, ...]] | None:
    """Returns what phases read from memory; None if all that they read stays in caches."""
    if not may_fetch(assignment.constants.nbytes):
        return None
    graph = assignment.graph
    inputs = {graph.aliases.get(each, each) for each in graph.inputs}
    return [cold_reads(phase, inputs) for phase in phases]


def _persistent_call(phases: Sequence[Phase], facts: DeviceFacts) -> KernelCall | None:
    """Returns a call of a persistent kernel for all phases, without its number of groups.

    Returns None if the device or the phases do not support it, or are faster as separate kernels.
    """
    sources = [phase.source for phase in phases]
    size = local_size(sources)
    if size is None or len(phases) < 2 or not is_supported(facts) or is_launched(sources, facts):
        return None
    if any(source.is_retargeted for source in sources):
        return None
    operations = sorted({each for phase in phases for each in phase.source.operations})
    return KernelCall(
        kernel="run_all",
        locations=(),
        groups=0,
        local_size=size,
        label="persistent",
        operations=tuple(operations),
        where="all operations",
    )
