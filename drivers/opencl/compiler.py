"""From a step model to an executable: graph, transformations, fusion, choice of kernels, places in memory, program."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.memory.buffer_assignment import (
    Base,
    BufferAssignment,
    BufferLocation,
    assign_buffers,
)
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.concat_elimination import Alignment, eliminate_concat
from neurald.drivers.compiler.passes.fusion import fuse
from neurald.drivers.compiler.passes.top_k_expansion import expand_top_k
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.program_text import KernelTexts, argument_text, kernel_name, program_text
from neurald.drivers.opencl.codegen.render import render
from neurald.drivers.opencl.kernels import candidates
from neurald.drivers.opencl.kernels.fused.chains import Chain, chains_of
from neurald.drivers.opencl.kernels.gemm.split_k import zeros
from neurald.drivers.opencl.kernels.kernel_set import KernelSet
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.precision import Precision, lower_precision, suited
from neurald.drivers.opencl.runtime.executable import FLAGS, Call, Executable, image_uses
from neurald.drivers.opencl.runtime.persistent_kernel import (
    SYNC_BYTES,
    Phase,
    Region,
    is_offered,
    kernel_text,
    local_size,
    meeting_text,
)
from neurald.hal.model.numbering import operations_name
from neurald.hal.model.types import Model

_LOG = logging.getLogger(__name__)

#: Values begin at multiples of so many bytes, for vectors and for whole cache lines.
ALIGNMENT = 256
#: Kernels read 16 bytes at a time, and store up to four elements.
_ALIGNED = Alignment(read_bytes=16, written_elements=4)

#: Of outputs that are placed behind all other values.
_MOST_MOVED_BYTES = 1 << 20

#: The parameters of a persistent kernel that its phases' pointers name.
BUFFERS = "__global uchar *arena, __global const uchar *constants"

#: Picks one of the sources of each kernel; none for those of a chain that is taken, but for the last one, which gets the chain's.
Choose = Callable[[Sequence[Sequence[Source]], Sequence[Chain]], Sequence[Source | None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """An executable, and the contents of its constants.

    Attributes:
        persistent: a call that may be faster than all of the executable's, if the device has it; its groups are still to be
            found.
        persistent_text: the program of its kernel.
        kernels: those of the executable's calls.
    """

    executable: Executable
    constants: np.ndarray
    persistent: Call | None
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
    """Compiles a model, every operation of which has a lowering.

    Args:
        model: of which a graph can be made.
        input_shapes: of inputs, by operand, where the model leaves them open.
        facts: the device.
        precision: of what is computed in floating point; None: the one that suits a relaxed model.
        choose: picks among the sources of each kernel.
        is_fused: whether nodes are joined to larger kernels.
        kernel_set: the kinds of kernels that may be used.
        require_wanted: called before each kernel; raises to end the compilation.

    Raises:
        BadData: an operation has no lowering.
        Error: what `require_wanted` raises.
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
        # Only where images are of whole buffers, whose sizes are not known before.
        _LOG.info("kernels read buffers, and no images: %s", reason)
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
    """What `compile_model` gives, and why the images that it reads cannot be made; "" if they can."""
    graph = build_graph(model, input_shapes)
    require_wanted("before the graph was transformed")
    transform(graph)
    require_wanted("before kernels were fused")
    precision = precision or suited(facts)
    lower_precision(graph, precision)
    expand_top_k(graph)
    fused = fuse(graph, enabled=is_fused, is_row_wise=lambda _: True)
    if is_fused:
        fused = eliminate_concat(fused, _ALIGNED)
    kernels = tuple(kernel for kernel in fused.kernels if kernel.output.count)
    sources: list[Sequence[Source]] = []
    for number, kernel in enumerate(kernels):
        require_wanted(f"before the code of kernel {number} of {len(kernels)}")
        special = kernel_set is not KernelSet.GENERIC and candidates(
            kernel, facts, relaxed=precision is Precision.F16, has_workspace=True
        )
        sources.append(special or (render(kernel),))
    chosen = choose(
        sources,
        chains_of(fused, kernels, facts) if kernel_set is KernelSet.ALL else (),
    )
    used = [(kernel, source) for kernel, source in zip(kernels, chosen, strict=True) if source is not None]
    used, held = _with_zeros(used)
    assignment = assign_buffers(
        fused,
        [(*source.arguments, *more) for (_, source), more in zip(used, held, strict=True)],
        alignment=max(ALIGNMENT, facts.alignment_bytes),
    )
    compiled = _assembled(model, assignment, used, facts)
    return compiled, _objection(compiled.executable, facts)


def _with_zeros(
    used: Sequence[tuple[Kernel, Source]],
) -> tuple[list[tuple[Kernel, Source]], list[tuple[Value, ...]]]:
    """The same with kernels that make zero what others add to, and for each the values that it keeps others out of.

    An output is made zero before the kernel that comes before the one that adds to it, and nothing else lies there since the kernel
    before that: so these two run side by side, and where all kernels are one nobody waits for zeros.
    """
    found: list[tuple[Kernel, Source]] = []
    held: list[tuple[Value, ...]] = []
    for position, pair in enumerate(used):
        following = used[position + 1 : position + 2] if position else used[:2]
        cleared = [
            (kernel, zeros(kernel.output, kernel.operations)) for kernel, source in following if source.adds
        ]
        if found and cleared:
            held[-1] += tuple(kernel.output for kernel, _ in cleared)
        found += [*cleared, pair]
        held += [()] * (1 + len(cleared))
    return found, held


def _objection(executable: Executable, facts: DeviceFacts) -> str:
    """Why a device has not all images that an executable reads; "" if it has."""
    if facts.images is None:
        return ""
    sizes = {Base.ARENA: executable.arena_bytes, Base.CONSTANTS: executable.constants_bytes}
    needed = {(call.places[use.argument].base, use.type) for call in executable.calls for use in call.images}
    reasons = (facts.images.objection_to_whole(sizes[base], kind) for base, kind in sorted(needed, key=str))
    return next(filter(None, reasons), "")


def _label(source: Source, facts: DeviceFacts) -> str:
    """How a source computes, and where kernels read images, which arguments it reads as buffers all the same because of limits."""
    if facts.images is None:
        return source.label
    refused = [
        f"a{position} from a buffer ({reason})"
        for position, value in enumerate(source.arguments)
        if position and (reason := facts.images.objection(value))
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
        places = assignment.of(source.arguments)
        bases = tuple(each.base for each in places)
        status += bool(kernel.requirements)
        call = Call(
            kernel=kernel_name(source, bases),
            places=places,
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
    together = _together(phases, facts)
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
        persistent=together,
        persistent_text=""
        if together is None
        else program_text(
            uses,
            has_fp64=facts.has_fp64,
            before=meeting_text(is_nvidia=facts.is_nvidia),
            instead=kernel_text(together.kernel, BUFFERS, phases, least_groups=facts.compute_units),
        ),
    )


def _with_outputs_last(
    assignment: BufferAssignment, kernels: Sequence[Kernel], alignment: int
) -> BufferAssignment:
    """The same with small outputs at the end, where one transfer brings them together with what lies behind the values."""
    graph = assignment.graph
    written = {graph.aliases.get(kernel.output, kernel.output) for kernel in kernels}
    outputs = [value for value in dict.fromkeys(graph.outputs) if value in written]
    if sum(value.size_bytes for value in outputs) > _MOST_MOVED_BYTES:
        return assignment
    places, end = dict(assignment.locations), assignment.arena_bytes
    for value in outputs:
        places[value] = BufferLocation(Base.ARENA, -(-end // alignment) * alignment)
        end = places[value].offset + max(1, value.size_bytes)
    return replace(assignment, locations=places, arena_bytes=end)


def phase_of(source: Source, call: Call, status: int) -> Phase:
    """What a call does, as a phase of a persistent kernel; its status is at that place of the arena."""
    pointers, regions = [], []
    for position, (value, where) in enumerate(zip(source.arguments, call.places, strict=True)):
        pointers.append(argument_text(source, position, where.base, f"{where.offset}UL"))
        is_written = where.base is Base.ARENA
        regions.append(
            Region(base="arena", start=where.offset, stop=where.offset + value.size_bytes)
            if is_written
            else None
        )
    workspace = call.workspace
    return Phase(
        source=source,
        pointers=tuple(pointers),
        regions=tuple(regions),
        status=f"(__global int *)(arena + {status}UL)",
        workspace="" if workspace is None else f"arena + {workspace}UL",
        workspace_region=None
        if workspace is None
        else Region(base="arena", start=workspace, stop=workspace + source.workspace_bytes),
    )


def _together(phases: Sequence[Phase], facts: DeviceFacts) -> Call | None:
    """A call of a kernel that runs all phases, its groups still to be found; None where the device or the phases allow none."""
    size = local_size([phase.source for phase in phases])
    if size is None or len(phases) < 2 or not is_offered(facts):
        return None
    operations = sorted({each for phase in phases for each in phase.source.operations})
    return Call(
        kernel="run_all",
        places=(),
        groups=0,
        local_size=size,
        label="persistent",
        operations=tuple(operations),
        where="all operations",
    )
