"""Describes a compiled step for all lengths of its open dimensions."""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.extent_scope import ExtentScope
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.memory.buffer_assignment import BufferAssignment
from neurald.drivers.compiler.memory.extent_program import ProgramBuilder
from neurald.drivers.compiler.memory.open_step import OpenLocation, OpenPort, OpenValue
from neurald.drivers.cpu.program.step import Step
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.open_executable import OpenExecutable


def opened_executable(
    executable: Executable,
    assignment: BufferAssignment,
    step: Step,
    scope: ExtentScope,
) -> OpenExecutable:
    """Returns the executable for other lengths than those that it was compiled for.

    Args:
        executable: the executable for the hints of the scope.
        assignment: its values.
        step: the step.
        scope: the open dimensions.
    """
    graph, program = assignment.graph, ProgramBuilder(scope)
    routines = [call.routine for call in step.calls]
    numbers = {value: number for number, value in enumerate(assignment.spans)}
    values = tuple(
        OpenValue(tuple(map(program.number, assignment.sizes[value])), first, last)
        for value, (first, last) in assignment.spans.items()
    )

    def location(value: Value) -> OpenLocation | None:
        owner = graph.aliases.get(value, value)
        if owner.constant is not None:
            return None
        offset = graph.starts.get(value, 0) * value.type.size_bytes
        return OpenLocation(numbers[owner], program.number(offset))

    def ports(found: Sequence[Value], dimensions: Sequence[int]) -> tuple[OpenPort, ...]:
        return tuple(
            OpenPort(
                value=numbers.get(value, -1),
                size_bytes=program.number(value.size_bytes),
                # A complex number is a pair, which is no dimension of the operand.
                dimensions=tuple(program.number(length) for length in value.shape[:rank]),
            )
            for value, rank in zip(found, dimensions, strict=True)
        )

    names = {
        name: program.number(extent)
        for name, extent in scope.named.items()
        if any(name in message for call in executable.calls for message in call.messages)
    }
    places = [
        [
            (number, dimension)
            for number, value in enumerate(graph.inputs)
            for dimension, length in enumerate(value.shape)
            if length is symbol
        ]
        for symbol in scope.symbols
    ]
    work_items = tuple(program.number(routine.work_items) for routine in routines)
    locations = tuple(
        (*map(location, routine.arguments), *((None,) * (routine.pointers - len(routine.arguments))))
        for routine in routines
    )
    instructions = tuple(tuple(map(location, accessed)) for accessed in step.accessed)
    inputs = ports(graph.inputs, [len(port.dimensions) for port in executable.inputs])
    outputs = ports(graph.outputs, [len(port.dimensions) for port in executable.outputs])
    extents = tuple(program.number(each) for routine in routines for each in routine.extents)
    scratch = dict.fromkeys(program.number(routine.scratch_bytes) for routine in routines)
    return OpenExecutable(
        # Guards are complete only now.
        program=program.result(),
        template=executable,
        symbols=tuple(map(tuple, places)),
        values=values,
        work_items=work_items,
        locations=locations,
        instructions=instructions,
        sizings=tuple(step.sizings),
        inputs=inputs,
        outputs=outputs,
        extents=extents,
        scratch_bytes=tuple(scratch),
        names=names,
    )
