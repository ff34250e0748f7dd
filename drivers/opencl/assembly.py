"""Assembles an executable from the sources of a step's kernels and the places of its values."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neurald.drivers.compiler.ir.extents.extent import estimate
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.memory.buffer_assignment import BufferAssignment
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.program_text import KernelTexts, kernel_name, program_text
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
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

#: Alignment of values in bytes, for vector accesses and whole cache lines.
ALIGNMENT = 256

#: Limit on the total size of outputs that are placed behind all other values.
_MAX_MOVED_BYTES = 1 << 20


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


def assembled(
    model: Model, assignment: BufferAssignment, chosen: Sequence[tuple[Kernel, Source]], facts: DeviceFacts
) -> Compiled:
    """Returns the executable of a step, and the text of its program.

    Args:
        model: the model of the step.
        assignment: where its values are.
        chosen: its kernels, each with the source that computes it.
        facts: the device.
    """
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
        status += bool(kernel.requirements)
        call = kernel_call(
            model,
            kernel,
            source,
            locations,
            label=_label(source, facts),
            status=status if kernel.requirements else 0,
            workspace=workspace if source.workspace_bytes else None,
        )
        uses.append((source, tuple(each.base for each in locations)))
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


def kernel_call(
    model: Model,
    kernel: Kernel,
    source: Source,
    locations: tuple[BufferLocation, ...],
    *,
    label: str,
    status: int,
    workspace: int | None = None,
) -> KernelCall:
    """Returns the call of a kernel in an executable.

    Args:
        model: the model of the step.
        kernel, source: the kernel, and the source that computes it; where it has extents, the call
            is the one of their hints.
        locations: where the source's arguments are.
        label, status, workspace: see `KernelCall`.
    """
    return KernelCall(
        kernel=kernel_name(source, tuple(each.base for each in locations)),
        locations=locations,
        groups=estimate(source.groups),
        local_size=source.local_size,
        status=status,
        workspace=workspace,
        messages=tuple(text for _, text in kernel.requirements),
        label=label,
        operations=source.operations,
        images=image_uses(source),
        where=operations_name(model.main, source.operations),
        extents=tuple(extent.hint for extent in source.extents),
        numbers=source.numbers,
    )


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
