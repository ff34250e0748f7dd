"""Compiles a step model into an executable.

The stages are graph building, transformations, fusion, kernel selection, buffer assignment and
program text.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.value import Shape
from neurald.drivers.compiler.memory.buffer_assignment import assign_buffers
from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.concatenation.concat_elimination import Alignment, eliminate_concat
from neurald.drivers.compiler.passes.contraction.attention_merging import merge_attention
from neurald.drivers.compiler.passes.contraction.product_stacking import stack_products
from neurald.drivers.compiler.passes.expansion.key_search_expansion import expand_key_searches
from neurald.drivers.compiler.passes.expansion.running_sum_expansion import expand_running_sums
from neurald.drivers.compiler.passes.expansion.scatter_expansion import expand_scatters
from neurald.drivers.compiler.passes.expansion.top_k_expansion import expand_top_k
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.assembly import ALIGNMENT, Compiled, assembled
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.render import render
from neurald.drivers.opencl.kernels.attention import attention
from neurald.drivers.opencl.kernels.attention.appended import read_appended
from neurald.drivers.opencl.kernels.equal_kernels import EqualKernels
from neurald.drivers.opencl.kernels.fused.chains import KernelChain, chains_of
from neurald.drivers.opencl.kernels.gemm import warpgroup_pipeline
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
from neurald.drivers.opencl.reserved_values import with_clearing_kernels, with_values_of_neighbours
from neurald.drivers.opencl.runtime.executable import Executable
from neurald.drivers.opencl.runtime.persistent_kernel import (
    is_supported,
)
from neurald.hal.model.model import Model
from neurald.hal.records import replace

_LOG = logging.getLogger(__name__)

#: Kernels read 16 bytes at a time and store up to four elements.
_ALIGNED = Alignment(read_bytes=16, written_elements=4)

#: Picks one source for each kernel. The kernels of a selected chain get None, except the last one,
#: which gets the chain's source.
Choose = Callable[[Sequence[Sequence[Source]], Sequence[KernelChain]], Sequence[Source | None]]


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
    used, reserved = with_clearing_kernels(used)
    if is_supported(facts):
        reserved = with_values_of_neighbours(fused, [source for _, source in used], reserved)
    assignment = assign_buffers(
        fused,
        [(*source.arguments, *more) for (_, source), more in zip(used, reserved, strict=True)],
        alignment=max(ALIGNMENT, facts.alignment_bytes),
    )
    compiled = assembled(model, assignment, used, facts)
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
