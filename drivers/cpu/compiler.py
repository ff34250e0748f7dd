"""Compiles a step model to an executable, its object code, and its constants.

The stages are: building the graph, transformations, fusion, generation of a routine for each
kernel, assignment of memory, and compilation to object code.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import accumulate
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    BasicBlock,
    StructuredModel,
    Update,
)
from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.ir.expression import Expression, Load
from neurald.drivers.compiler.ir.extents.extent import MIN_LENGTH, estimate
from neurald.drivers.compiler.ir.extents.scope import ExtentScope, Guard
from neurald.drivers.compiler.ir.graph import Attention, Graph, MatrixProduct
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.string_references import StringConstants
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.memory.buffer_assignment import BufferAssignment, assign_buffers
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.concatenation.concat_elimination import Alignment, eliminate_concat
from neurald.drivers.compiler.passes.concatenation.in_place_concat import concat_in_place
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.compiler.passes.pair_joining import join_pairs
from neurald.drivers.cpu.bands import banded_calls, scratch_of, uses_of
from neurald.drivers.cpu.codegen.run_time_extents import reads_extents
from neurald.drivers.cpu.constant_folding import ConstantFolding, Generate
from neurald.drivers.cpu.kernels.row_wise.rows import is_row_by_row
from neurald.drivers.cpu.kernels.select import has_attention, stores_runs
from neurald.drivers.cpu.native.objects.llvm import CompilationFailed
from neurald.drivers.cpu.native.objects.object_code import (
    GENERATION_SHARE,
    ObjectCompilation,
    callers_unit,
    routine_unit,
)
from neurald.drivers.cpu.native.programs.step_program import COMMON_ARGUMENTS
from neurald.drivers.cpu.program.block_model import BlockModel
from neurald.drivers.cpu.program.step import CompiledBlock, KernelRoutine, Step, StepBuilder
from neurald.drivers.cpu.schedule.lookup_tables import use_lookup_tables
from neurald.drivers.cpu.schedule.short_sums import use_short_sums, use_short_sums_of_pairs
from neurald.drivers.cpu.schedule.storage_order import choose_storage_order
from neurald.drivers.cpu.target.executable import (
    WORD_BYTES,
    BandedCalls,
    BoundedPort,
    Executable,
    LengthWords,
)
from neurald.drivers.cpu.target.kernel_calls import KernelCall, KernelCalls
from neurald.drivers.cpu.target.open_executable import OpenExecutable
from neurald.drivers.cpu.target.routine import ALIGNMENT, Routine, Subroutine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.accounting.account import charge
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operations_name
from neurald.hal.records import replace
from neurald.hal.sync.progress import report_progress

#: Functions that get kernels of their own behind a contraction. They branch for large angles, and
#: an epilogue has a branch for each vector, whose instructions then wait for each other. Other
#: kernels have one for several vectors.
_APART: Final = frozenset((Op.SIN, Op.COS, Op.TAN))


class Compiled(Struct, frozen=True, kw_only=True):
    """An executable with its object code and the contents of its constants.

    Attributes:
        opened: the executable for other lengths of open dimensions; None if there are none.
    """

    executable: Executable
    constants: np.ndarray
    codes: tuple[bytes, ...]
    opened: OpenExecutable | None = None


class KernelFailed(Exception):
    """Reports that no code could be generated for a kernel.

    Attributes:
        operations: positions of the operations that the kernel implements.
    """

    def __init__(self, message: str, operations: tuple[int, ...]) -> None:
        super().__init__(message)
        self.operations = operations


def compile_model(
    model: Model,
    generate: Generate,
    compilation: ObjectCompilation,
    *,
    input_shapes: Mapping[int, Shape] | None = None,
    positions: Sequence[int] | None = None,
    structured: StructuredModel | None = None,
    scope: ExtentScope | None = None,
) -> Compiled:
    """Compiles a model.

    Args:
        model: every operation has a lowering, apart from control flow.
        generate: makes the routine of a kernel.
        compilation: compiles the routines for its target; it is finished here.
        input_shapes: shapes of inputs that the model leaves open, by operand.
        positions: positions of the model's operations in the model that it is a part of, for
            messages; None if it is the whole model.
        structured: the model's program, if it has control flow.
        scope: the scope of the extents in `input_shapes`; None if there are none.

    Raises:
        BadData: an operation has no lowering.
        KernelFailed: code generation failed for a kernel.
    """
    if structured is not None:
        scope = structured.scope if structured.has_changing_lengths else None
    compiler = _Compiler(replace(compilation.target, is_relaxed=model.relaxed), generate, compilation, scope)
    if structured is None:
        names = _Names(model.main, positions)
        step = compiler.straight(model, names, input_shapes)
    else:
        model = structured.model
        charge(sum(pool.size for pool in model.pools), "compiling a model")
        block = partial(compiler.block, structured)
        step = StepBuilder(structured, block, compiler.update, compiler.strings).step()
    counts = {call.routine.pointers for call in step.calls}
    rare = {count for count in counts if count > COMMON_ARGUMENTS}
    if rare:
        compilation.add(callers_unit(rare))
    assignment = assign_buffers(step.graph, step.uses, alignment=ALIGNMENT, members=step.members)
    if scope is not None:
        step = step.with_sizings(scope)
        for number in step.sizings:
            compilation.add(routine_unit(step.calls[number].routine))
    try:
        found = compilation.finish()
    except CompilationFailed as error:
        for call in step.calls:
            routine = call.routine
            if error.unit in (routine.name, *(each.name for each in routine.subroutines)):
                raise call.names.failed(call.kernel, error) from error
        raise
    executable = _assembled(model, compilation.target, assignment, step, scope, compiler.strings.strings)
    opened = None
    if scope is not None:
        from neurald.drivers.cpu.opened_executable import opened_executable  # few have any

        opened = opened_executable(executable, assignment, step, scope)
    codes = tuple(found.values())
    return Compiled(executable=executable, constants=assignment.constants, codes=codes, opened=opened)


class _Compiler:
    """Compiles parts of a step to routines.

    Args:
        target: the target to generate code for.
        generate, compilation, scope: see `compile_model`.

    Attributes:
        strings: the constant strings of the step.
    """

    def __init__(
        self, target: Target, generate: Generate, compilation: ObjectCompilation, scope: ExtentScope | None
    ) -> None:
        self._target, self._generate, self._compilation = target, generate, compilation
        self._scope = scope
        self._folding = ConstantFolding(target, generate)
        self._called: set[Subroutine] = set()
        self.strings = StringConstants()

    def straight(self, model: Model, names: "_Names", input_shapes: Mapping[int, Shape] | None) -> "Step":
        """Compiles a model without control flow."""
        graph = self._graph(model, input_shapes, has_bounds=True, expects_inputs=True)
        fused, calls = self._fused(graph, names)
        uses: Sequence[Sequence[Value]] = [call.routine.arguments for call in calls]
        banded: tuple[BandedCalls, ...] = ()
        if self._scope is None and not graph.bounded:
            banded = banded_calls(calls, fused)
            uses = uses_of(uses, banded, fused)
        return Step(
            graph=fused,
            calls=calls,
            uses=uses,
            banded=banded,
            bounded=tuple(
                BoundedPort(output=each.output, dimension=each.dimension, count=each.count)
                for each in graph.bounded
            ),
        )

    def block(self, structured: StructuredModel, block: BasicBlock, part: BlockModel) -> "CompiledBlock":
        """Compiles the model of a block."""
        names = _StructuredNames(structured, block.operations)
        with self._assuming():
            graph = self._graph(
                part.model, part.empty, charges_constants=False, has_all_rows=True, lengths=part.lengths
            )
            fused, calls = self._fused(graph, names)
        return CompiledBlock(graph=fused, calls=calls, guards=self._guards())

    def update(
        self, structured: StructuredModel, update: Update, kernel: Kernel
    ) -> tuple["KernelRoutine", tuple[Guard, ...]]:
        """Compiles the kernel of an update."""
        with self._assuming():
            call = self._call(kernel, _StructuredNames(structured, (update.operation,)))
        return call, self._guards()

    def _assuming(self) -> AbstractContextManager[None]:
        """Decides as if no length were 0 or 1; see `neurald.drivers.cpu.program.sizing`."""
        if self._scope is None:
            return nullcontext()
        self._scope.estimates = False
        return self._scope.assuming(MIN_LENGTH)

    def _guards(self) -> tuple[Guard, ...]:
        return () if self._scope is None else self._scope.recorded()

    def _graph(
        self,
        model: Model,
        input_shapes: Mapping[int, Shape] | None,
        *,
        charges_constants: bool = True,
        has_bounds: bool = False,
        has_all_rows: bool = False,
        expects_inputs: bool = False,
        lengths: Mapping[int, np.ndarray] | None = None,
    ) -> Graph:
        graph = build_graph(
            model,
            input_shapes,
            self._folding.graph,
            charges_constants=charges_constants,
            has_bounds=has_bounds,
            has_all_rows=has_all_rows,
            expects_inputs=expects_inputs,
            lengths=lengths,
            strings=self.strings,
        )
        transform(graph, self._folding.node)
        if self._scope is not None:
            self._scope.estimates = True
        return graph

    def _fused(
        self, graph: Graph, names: "_Names | _StructuredNames"
    ) -> "tuple[FusedGraph, tuple[KernelRoutine, ...]]":
        folding, target = self._folding, self._target
        joined = eliminate_concat(
            join_pairs(fuse(graph, is_row_wise=is_row_by_row, apart=_APART)), Alignment()
        )
        placed = concat_in_place(joined, stores_runs)
        if _may_have_attention(placed):
            from neurald.drivers.compiler.passes.contraction.attention_merging import merge_attention

            placed = merge_attention(placed, lambda kernel: has_attention(kernel, target))
        fused = choose_storage_order(placed, target)
        kernels = [kernel for kernel in fused.kernels if kernel.output.count]
        calls = []
        for number, kernel in enumerate(kernels, 1):
            # Kernels of contractions do so, unless they add residuals.
            is_short = kernel.contraction is None
            quick = use_short_sums_of_pairs(kernel, target) if is_short else kernel
            quick = use_lookup_tables(quick, target, folding.node)
            calls.append(self._call(use_short_sums(quick, target) if is_short else quick, names))
            report_progress(number / len(kernels) * GENERATION_SHARE)
        return fused, tuple(calls)

    def _call(self, kernel: Kernel, names: "_Names | _StructuredNames") -> "KernelRoutine":
        try:
            routine = self._generate(kernel, self._target)
            if self._scope is not None:
                routine = reads_extents(routine, self._scope)
        except MemoryError:
            raise
        except Exception as error:
            raise names.failed(kernel, error) from error
        charge(_packed_bytes(kernel, routine), "packed constants")
        for subroutine in sorted(routine.subroutines - self._called, key=lambda each: each.name):
            self._compilation.add(routine_unit(subroutine))
        self._compilation.add(routine_unit(routine))
        self._called |= routine.subroutines
        return KernelRoutine(kernel=kernel, routine=routine, names=names)


def _packed_bytes(kernel: Kernel, routine: Routine) -> int:
    """Returns the size of the constants that were packed for a routine."""
    own = {value for value in routine.arguments if value.constant is not None}.difference(kernel.inputs)
    return sum(value.size_bytes for value in own)


def _assembled(
    model: Model,
    target: Target,
    assignment: BufferAssignment,
    step: Step,
    scope: ExtentScope | None,
    strings: tuple[bytes, ...],
) -> Executable:
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


class _Names:
    """Names and positions of a kernel's operations for messages."""

    def __init__(self, graph: Subgraph, positions: Sequence[int] | None) -> None:
        self._graph = graph
        self._positions = positions

    def positions(self, operations: Sequence[int]) -> tuple[int, ...]:
        if self._positions is None:
            return tuple(operations)
        return tuple(self._positions[each] for each in operations)

    def text(self, kernel: Kernel) -> str:
        return operations_name(self._graph, kernel.operations)

    def failed(self, kernel: Kernel, error: Exception) -> KernelFailed:
        """Returns the error for a kernel that cannot be compiled."""
        return _failed(self, kernel, error)


class _StructuredNames:
    """Names and positions of the operations of a part of a structured model."""

    def __init__(self, structured: StructuredModel, operations: Sequence[int]) -> None:
        self._structured = structured
        self._operations = operations

    def positions(self, operations: Sequence[int]) -> tuple[int, ...]:
        # Several inlined operations may originate from one.
        origins = self._structured.origins
        return tuple(dict.fromkeys(origins[self._operations[each]] for each in operations))

    def text(self, kernel: Kernel) -> str:
        graphs: dict[int, list[int]] = {}
        for each in kernel.operations:
            position = self._operations[each]
            graphs.setdefault(self._structured.graphs[position], []).append(position)
        main = self._structured.model.main
        return ", ".join(
            operations_name(replace(main, number=number), positions) for number, positions in graphs.items()
        )

    def failed(self, kernel: Kernel, error: Exception) -> KernelFailed:
        """Returns the error for a kernel that cannot be compiled."""
        return _failed(self, kernel, error)


def _failed(names: _Names | _StructuredNames, kernel: Kernel, error: Exception) -> KernelFailed:
    text = f"{names.text(kernel)}: {type(error).__name__}: {error}"
    return KernelFailed(text, names.positions(kernel.operations))


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


def _may_have_attention(graph: FusedGraph) -> bool:
    """Returns True if there are matrix products, and a reduction that may lie between two."""
    kernels = graph.kernels
    return any(isinstance(each.contraction, MatrixProduct) for each in kernels) and any(
        each.contraction is None and each.has_reduction for each in kernels
    )


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
