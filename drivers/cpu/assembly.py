"""Assembles an executable from the routines of a step and the places of its values."""

from collections.abc import Mapping
from itertools import accumulate

from neurald.drivers.compiler.ir.expression import Expression, Load
from neurald.drivers.compiler.ir.extents.extent import estimate
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.graph import Attention
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.memory.buffer_assignment import BufferAssignment
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.cpu.bands import scratch_of
from neurald.drivers.cpu.program.step import Step
from neurald.drivers.cpu.target.executable import WORD_BYTES, Executable, LengthWords
from neurald.drivers.cpu.target.kernel_calls import KernelCall, KernelCalls
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.model.model import Model


def assembled(
    model: Model,
    target: Target,
    assignment: BufferAssignment,
    step: Step,
    scope: ExtentScope | None,
    strings: tuple[bytes, ...],
) -> Executable:
    """Returns the executable of a step.

    Args:
        model: the model of the step.
        target: the target of its code.
        assignment: where its values are.
        step: its calls.
        scope: the scope of its extents; None if it has none.
        strings: its constant strings.
    """
    extents: list[int] = []
    if scope is not None and step.program:
        extents += [0] * LengthWords(len(scope.symbols), 0).count

    def locations(routine: Routine) -> tuple[BufferLocation, ...]:
        found = assignment.of(routine.arguments)
        if routine.extents:
            found += (BufferLocation(Base.EXTENTS, WORD_BYTES * len(extents)),)
            extents.extend(each.hint for each in routine.extents)
        if routine.reads_program:
            found += (BufferLocation(Base.PROGRAM, 0),)
        if routine.reads_strings:
            found += (BufferLocation(Base.STRINGS, 0),)
        return found

    calls = tuple(
        KernelCall(
            function=each.routine.name,
            locations=locations(each.routine),
            work_items=estimate(each.routine.work_items),
            cost_ns=each.routine.cost_ns,
            messages=each.reasons
            or tuple(f"{each.names.text(each.kernel)}: {text}" for _, text in each.kernel.requirements),
            label=each.routine.label + (", in every turn of a loop" if number in step.repeated else ""),
            operations=each.names.positions(each.routine.operations or each.kernel.operations),
        )
        for number, each in enumerate(step.calls)
    )
    inputs, outputs = assignment.ports(model)
    instructions = step.instructions(assignment)
    users, written = _users(step), _written(step)
    return Executable(
        target=target.name,
        calls=KernelCalls.of(calls),
        inputs=inputs,
        outputs=outputs,
        input_arguments=tuple(tuple(users.get(value, ())) for value in assignment.graph.inputs),
        output_arguments=tuple(
            tuple(used) if written.issuperset(used := users.get(value, ())) else ()
            for value in assignment.graph.outputs
        ),
        arena_bytes=assignment.arena_bytes,
        constants_bytes=assignment.constants.nbytes,
        scratch_bytes=max(
            (scratch_of(step.banded), *(estimate(each.routine.scratch_bytes) for each in step.calls))
        ),
        unshared_bytes=assignment.unshared_bytes,
        is_tolerant=all(_is_tolerant(each.kernel) for each in step.calls),
        extents=tuple(extents),
        instructions=instructions,
        loops=step.loops,
        bounded=step.bounded,
        strings=strings,
        banded=step.banded,
    )


def _users(step: Step) -> Mapping[Value, list[int]]:
    """Maps each value to its arguments, numbered over all calls, then over the instructions."""
    users: dict[Value, list[int]] = {}
    number = 0
    for each in step.calls:
        for argument in each.routine.arguments:
            users.setdefault(step.graph.aliases.get(argument, argument), []).append(number)
            number += 1
        number += each.routine.pointers - len(each.routine.arguments)
    for values in step.accessed:
        for value in values:
            users.setdefault(step.graph.aliases.get(value, value), []).append(number)
            number += 1
    return users


def _written(step: Step) -> frozenset[int]:
    """Returns the arguments that are written: the first of each call and of each copy."""
    counts = [*(each.routine.pointers for each in step.calls), *map(len, step.accessed)]
    starts = accumulate(counts, initial=0)
    calls = len(step.calls)
    return frozenset(
        start
        for number, (start, count) in enumerate(zip(starts, counts, strict=False))
        if number < calls or count > 1
    )


def _is_tolerant(kernel: Kernel) -> bool:
    """Returns True if indices that depend on data are clamped, so no load leaves its value."""
    node = kernel.contraction
    roots = (*kernel.roots, *node.roots) if isinstance(node, Attention) else kernel.roots
    return all(
        index.low >= 0 and index.high < length
        for each in walk(*roots)
        if isinstance(each, Load)
        for index, length in zip(each.index, each.value.shape, strict=True)
        if _follows_from_data(index)
    )


def _follows_from_data(index: Expression) -> bool:
    return any(isinstance(each, Load) and each.value.constant is None for each in walk(index))
