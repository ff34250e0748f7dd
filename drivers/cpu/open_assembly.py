"""Assembles an executable for all lengths of the open dimensions of a step."""

from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.memory.buffer_assignment import BufferAssignment
from neurald.drivers.compiler.memory.open_numbering import OpenNumbering
from neurald.drivers.cpu.program.step import Step
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.open_executable import OpenExecutable


def assembled_open(
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
    graph, open_numbers = assignment.graph, OpenNumbering(assignment, scope)
    program, location = open_numbers.program, open_numbers.location
    routines = [call.routine for call in step.calls]
    values = open_numbers.values()
    names = open_numbers.names([message for call in executable.calls for message in call.messages])
    work_items = tuple(program.number(routine.work_items) for routine in routines)
    locations = tuple(
        (*map(location, routine.arguments), *((None,) * (routine.pointers - len(routine.arguments))))
        for routine in routines
    )
    instructions = tuple(tuple(map(location, accessed)) for accessed in step.accessed)
    inputs = open_numbers.ports(graph.inputs, [len(port.dimensions) for port in executable.inputs])
    outputs = open_numbers.ports(graph.outputs, [len(port.dimensions) for port in executable.outputs])
    extents = tuple(program.number(each) for routine in routines for each in routine.extents)
    scratch = dict.fromkeys(program.number(routine.scratch_bytes) for routine in routines)
    return OpenExecutable(
        # Guards are complete only now.
        program=program.result(),
        template=executable,
        symbols=open_numbers.symbols(),
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
