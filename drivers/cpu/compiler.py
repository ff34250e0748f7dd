"""Compiles a step model to an executable, its object code, and its constants.

The stages are: building the graph, transformations, fusion, generation of a routine for each
kernel, assignment of memory, and compilation to object code.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import msgspec
import numpy as np

from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.ir.expression import Expression, Load
from neurald.drivers.compiler.ir.extent import ExtentScope, estimate
from neurald.drivers.compiler.ir.graph import Attention
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.traversal import walk
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
from neurald.drivers.compiler.passes.in_place_concat import concat_in_place
from neurald.drivers.cpu.codegen.run_time_extents import reads_extents
from neurald.drivers.cpu.constant_folding import ConstantFolding, Generate
from neurald.drivers.cpu.kernels.row_wise.rows import is_row_by_row
from neurald.drivers.cpu.kernels.select import has_attention, stores_runs
from neurald.drivers.cpu.native.compile_helper import CompileHelper
from neurald.drivers.cpu.native.llvm import CompilationFailed
from neurald.drivers.cpu.native.object_code import ObjectCompilation, callers_unit, routine_unit
from neurald.drivers.cpu.native.unit_queue import Unit
from neurald.drivers.cpu.opening import opened_executable
from neurald.drivers.cpu.schedule.attention_merging import merge_attention
from neurald.drivers.cpu.schedule.lookup_tables import use_lookup_tables
from neurald.drivers.cpu.schedule.storage_order import choose_storage_order
from neurald.drivers.cpu.target.executable import WORD_BYTES, BoundedPort, Executable, KernelCall
from neurald.drivers.cpu.target.open_executable import OpenExecutable
from neurald.drivers.cpu.target.routine import ALIGNMENT, Routine, Subroutine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.accounting.account import charge
from neurald.hal.model.numbering import operations_name
from neurald.hal.model.types import Model

#: Number of operations that a message names. The log has all of them at level DEBUG.
_MAX_LISTED = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """An executable with its object code and the contents of its constants.

    Attributes:
        opened: the executable for other lengths of open dimensions; None if there are none.
    """

    executable: Executable
    constants: np.ndarray
    codes: tuple[bytes, ...]
    opened: OpenExecutable | None = None


def listed(operations: Iterable[str]) -> str:
    """Names operations for a message: the first few, and the number of others."""
    names = list(dict.fromkeys(operations))
    noun = "operation" if len(names) == 1 else "operations"
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{noun} {', '.join(names[:_MAX_LISTED])}{more}"


class KernelFailed(Exception):
    """No code could be generated for a kernel.

    Attributes:
        operations: positions of the operations that the kernel implements.
    """

    def __init__(self, message: str, operations: tuple[int, ...]) -> None:
        super().__init__(message)
        self.operations = operations


def compile_model(
    model: Model,
    target: Target,
    generate: Generate,
    *,
    input_shapes: Mapping[int, Shape] | None = None,
    positions: Sequence[int] | None = None,
    processes: int = 1,
    helper: CompileHelper | None = None,
    first: Sequence[Unit] = (),
    scope: ExtentScope | None = None,
) -> Compiled:
    """Compiles a model.

    Args:
        model: every operation has a lowering.
        target: the target to generate code for.
        generate: makes the routine of a kernel.
        input_shapes: shapes of inputs that the model leaves open, by operand.
        positions: positions of the model's operations in the model that it is a part of, for
            messages; None if it is the whole model.
        processes: maximum number of processes that compile at the same time.
        helper: a compiling process that was already started; it is ended.
        first: further units, compiled before those of the model. Their code stays in the object
            code cache and is not part of the result.
        scope: of the extents in `input_shapes`; None if there are none.

    Raises:
        BadData: an operation has no lowering.
        KernelFailed: code generation failed for a kernel.
    """
    names = _Names(model, positions)
    with ObjectCompilation(target, processes=processes, helper=helper) as compilation:
        for unit in first:
            compilation.add(unit)
        folding = ConstantFolding(target, generate)
        graph = build_graph(model, input_shapes, folding.graph, has_bounds=True)
        transform(graph, folding.node)
        if scope is not None:
            scope.estimates = True
        joined = eliminate_concat(fuse(graph, is_row_wise=is_row_by_row), Alignment())
        merged = merge_attention(
            concat_in_place(joined, stores_runs), lambda kernel: has_attention(kernel, target)
        )
        fused = choose_storage_order(merged, target)
        kernels = tuple(
            use_lookup_tables(kernel, target, folding.node) for kernel in fused.kernels if kernel.output.count
        )
        routines: list[Routine] = []
        called: set[Subroutine] = set()
        for kernel in kernels:
            try:
                routine = generate(kernel, target)
                routines.append(routine if scope is None else reads_extents(routine, scope))
            except MemoryError:
                raise
            except Exception as error:
                raise _failed(names, kernel, error) from error
            charge(_packed_bytes(kernel, routines[-1]), "packed constants")
            for subroutine in sorted(routines[-1].subroutines - called, key=lambda each: each.name):
                compilation.add(routine_unit(subroutine))
            compilation.add(routine_unit(routines[-1]))
            called |= routines[-1].subroutines
        compilation.add(callers_unit({routine.pointers for routine in routines}))
        assignment = assign_buffers(fused, [routine.arguments for routine in routines], alignment=ALIGNMENT)
        try:
            found = compilation.finish()
        except CompilationFailed as error:
            for kernel, routine in zip(kernels, routines, strict=True):
                if error.unit in (routine.name, *(each.name for each in routine.subroutines)):
                    raise _failed(names, kernel, error) from error
            raise
    bounded = tuple(
        BoundedPort(output=each.output, dimension=each.dimension, count=each.count) for each in graph.bounded
    )
    executable = msgspec.structs.replace(
        _assembled(model, target, assignment, kernels, routines, names), bounded=bounded
    )
    opened = None
    if scope is not None:
        opened = opened_executable(executable, assignment, routines, scope)
    codes = tuple(code for name, code in found.items() if name not in {unit.name for unit in first})
    return Compiled(executable=executable, constants=assignment.constants, codes=codes, opened=opened)


def _packed_bytes(kernel: Kernel, routine: Routine) -> int:
    """Returns the size of the constants that were packed for a routine."""
    own = {value for value in routine.arguments if value.constant is not None}.difference(kernel.inputs)
    return sum(value.size_bytes for value in own)


def _failed(names: "_Names", kernel: Kernel, error: Exception) -> KernelFailed:
    text = f"{names.text(kernel)}: {type(error).__name__}: {error}"
    return KernelFailed(text, names.positions(kernel.operations))


def _assembled(
    model: Model,
    target: Target,
    assignment: BufferAssignment,
    kernels: Sequence[Kernel],
    routines: Sequence[Routine],
    names: "_Names",
) -> Executable:
    extents: list[int] = []

    def locations(routine: Routine) -> tuple[BufferLocation, ...]:
        found = assignment.of(routine.arguments)
        if routine.extents:
            found += (BufferLocation(Base.EXTENTS, WORD_BYTES * len(extents)),)
            extents.extend(each.hint for each in routine.extents)
        return found

    calls = tuple(
        KernelCall(
            function=routine.name,
            locations=locations(routine),
            work_items=estimate(routine.work_items),
            cost_ns=routine.cost_ns,
            messages=tuple(f"{names.text(kernel)}: {text}" for _, text in kernel.requirements),
            label=routine.label,
            operations=names.positions(routine.operations or kernel.operations),
        )
        for kernel, routine in zip(kernels, routines, strict=True)
    )
    inputs, outputs = assignment.ports(model)
    users, written = _users(assignment.graph, routines), _written(routines)
    return Executable(
        target=target.name,
        calls=calls,
        inputs=inputs,
        outputs=outputs,
        input_arguments=tuple(tuple(users.get(value, ())) for value in assignment.graph.inputs),
        output_arguments=tuple(
            tuple(used) if written.issuperset(used := users.get(value, ())) else ()
            for value in assignment.graph.outputs
        ),
        arena_bytes=assignment.arena_bytes,
        constants_bytes=assignment.constants.nbytes,
        scratch_bytes=max((estimate(routine.scratch_bytes) for routine in routines), default=0),
        unshared_bytes=assignment.unshared_bytes,
        is_tolerant=all(_is_tolerant(kernel) for kernel in kernels),
        extents=tuple(extents),
    )


class _Names:
    """Names and positions of a kernel's operations for messages."""

    def __init__(self, model: Model, positions: Sequence[int] | None) -> None:
        self._graph = model.main
        self._positions = positions

    def positions(self, operations: Sequence[int]) -> tuple[int, ...]:
        if self._positions is None:
            return tuple(operations)
        # Several inlined operations may originate from one.
        return tuple(dict.fromkeys(self._positions[each] for each in operations))

    def text(self, kernel: Kernel) -> str:
        return operations_name(self._graph, kernel.operations)


def _users(graph: FusedGraph, routines: Sequence[Routine]) -> Mapping[Value, list[int]]:
    """Maps each value to its arguments, numbered over all routines."""
    users: dict[Value, list[int]] = {}
    number = 0
    for routine in routines:
        for argument in routine.arguments:
            users.setdefault(graph.aliases.get(argument, argument), []).append(number)
            number += 1
        number += routine.pointers - len(routine.arguments)
    return users


def _written(routines: Sequence[Routine]) -> frozenset[int]:
    """Returns the arguments that routines write (their first), numbered over all routines."""
    return frozenset(accumulate((routine.pointers for routine in routines), initial=0))


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
