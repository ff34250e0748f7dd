"""Assembles the executable of a step for any lengths of its open dimensions."""

from collections.abc import Iterable, Sequence

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.memory.buffer_assignment import BufferAssignment
from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.compiler.memory.open_numbering import OpenNumbering
from neurald.drivers.opencl.assembly import ALIGNMENT, kernel_call
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.runtime.executable import FLAGS, Executable, KernelCall
from neurald.drivers.opencl.runtime.open_executable import OpenCall, OpenExecutable
from neurald.drivers.opencl.runtime.persistent_kernel import SYNC_BYTES
from neurald.hal.model.model import Model


def assembled_open(
    model: Model,
    assignment: BufferAssignment,
    chosen: Sequence[tuple[Kernel, Source]],
    counts: Iterable[int],
    scope: ExtentScope,
    alignment: int,
) -> tuple[OpenExecutable, tuple[tuple[Source, tuple[Base, ...]], ...]]:
    """Returns the executable of a step, and the sources of its kernels with the bases of arguments.

    Args:
        model: the model of the step.
        assignment: where its values are.
        chosen: its kernels, each with the source that computes it.
        counts: the numbers of elements of all values, also of those that are not stored.
        scope: the open dimensions.
        alignment: the alignment of values in bytes.
    """
    open_numbers = OpenNumbering(assignment, scope)
    program = open_numbers.program
    calls, opened, uses = [], [], []
    status = 0
    for kernel, source in chosen:
        locations = assignment.of(source.arguments)
        status += bool(kernel.requirements)
        calls.append(
            kernel_call(
                model,
                kernel,
                source,
                locations,
                label=f"{source.label}, for any lengths" if source.extents else source.label,
                status=status if kernel.requirements else 0,
            )
        )
        opened.append(
            OpenCall(
                groups=program.number(source.groups),
                locations=tuple(map(open_numbers.location, source.arguments)),
                extents=tuple(map(program.number, source.extents)),
            )
        )
        uses.append((source, tuple(each.base for each in locations)))
    template = _template(model, assignment, calls, status, alignment)
    names = open_numbers.names([message for call in calls for message in call.messages])
    values = open_numbers.values()
    numbered_counts = tuple(program.number(count) for count in counts if isinstance(count, Extent))
    inputs = open_numbers.ports(assignment.graph.inputs, [len(port.dimensions) for port in template.inputs])
    outputs = open_numbers.ports(
        assignment.graph.outputs, [len(port.dimensions) for port in template.outputs]
    )
    launches = OpenExecutable(
        # Guards are complete only now.
        program=program.result(),
        symbols=open_numbers.symbols(),
        values=values,
        inputs=inputs,
        outputs=outputs,
        template=template,
        calls=tuple(opened),
        counts=numbered_counts,
        alignment=alignment,
        names=names,
    )
    return launches, tuple(uses)


def _template(
    model: Model, assignment: BufferAssignment, calls: Sequence[KernelCall], statuses: int, alignment: int
) -> Executable:
    """Returns the executable of the example's lengths; the zeros lie behind its arena."""
    inputs, outputs = assignment.ports(model)
    zeros = -(-assignment.arena_bytes // alignment) * alignment
    zeros_bytes = -(-max(SYNC_BYTES, FLAGS + 4 * (1 + statuses)) // ALIGNMENT) * ALIGNMENT
    return Executable(
        calls=tuple(calls),
        inputs=inputs,
        outputs=outputs,
        arena_bytes=zeros + zeros_bytes,
        constants_bytes=assignment.constants.nbytes,
        unshared_bytes=assignment.unshared_bytes,
        zeros=zeros,
        zeros_bytes=zeros_bytes,
    )
