"""Compiles a step model to an executable, its object code, and its constants.

The stages are: building the graph, transformations, fusion, generation of a routine for each
kernel, assignment of memory, and compilation to object code.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    BasicBlock,
    StructuredModel,
    Update,
)
from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.frontend.lowering_options import LoweringOptions
from neurald.drivers.compiler.ir.extents.extent import MIN_LENGTH
from neurald.drivers.compiler.ir.extents.scope import ExtentScope, Guard
from neurald.drivers.compiler.ir.graph import Graph, MatrixProduct
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.string_references import StringConstants
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.memory.buffer_assignment import assign_buffers
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.concatenation.concat_elimination import Alignment, eliminate_concat
from neurald.drivers.compiler.passes.concatenation.in_place_concat import concat_in_place
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.compiler.passes.pair_joining import join_pairs
from neurald.drivers.cpu.assembly import assembled
from neurald.drivers.cpu.bands import banded_calls, uses_of
from neurald.drivers.cpu.codegen.run_time_extents import reads_extents
from neurald.drivers.cpu.constant_folding import ConstantFolding, Generate
from neurald.drivers.cpu.kernel_names import GraphNames, StructuredNames
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
    BandedCalls,
    BoundedPort,
    Executable,
)
from neurald.drivers.cpu.target.open_executable import OpenExecutable
from neurald.drivers.cpu.target.routine import ALIGNMENT, Routine, Subroutine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.accounting.account import charge
from neurald.hal.model.model import Model
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
        names = GraphNames(model.main, positions)
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
    executable = assembled(model, compilation.target, assignment, step, scope, compiler.strings.strings)
    opened = None
    if scope is not None:
        from neurald.drivers.cpu.open_assembly import assembled_open  # few have any

        opened = assembled_open(executable, assignment, step, scope)
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

    def straight(self, model: Model, names: "GraphNames", input_shapes: Mapping[int, Shape] | None) -> "Step":
        """Compiles a model without control flow."""
        graph = self._graph(
            model, LoweringOptions(has_bounds=True, expects_inputs=True, strings=self.strings), input_shapes
        )
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
        names = StructuredNames(structured, block.operations)
        with self._assuming():
            graph = self._graph(
                part.model,
                LoweringOptions(has_all_rows=True, strings=self.strings),
                part.empty,
                charges_constants=False,
                lengths=part.lengths,
            )
            fused, calls = self._fused(graph, names)
        return CompiledBlock(graph=fused, calls=calls, guards=self._guards())

    def update(
        self, structured: StructuredModel, update: Update, kernel: Kernel
    ) -> tuple["KernelRoutine", tuple[Guard, ...]]:
        """Compiles the kernel of an update."""
        with self._assuming():
            call = self._call(kernel, StructuredNames(structured, (update.operation,)))
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
        options: LoweringOptions,
        input_shapes: Mapping[int, Shape] | None,
        *,
        charges_constants: bool = True,
        lengths: Mapping[int, np.ndarray] | None = None,
    ) -> Graph:
        graph = build_graph(
            model,
            input_shapes,
            self._folding.graph,
            options=options,
            charges_constants=charges_constants,
            lengths=lengths,
        )
        transform(graph, self._folding.node)
        if self._scope is not None:
            self._scope.estimates = True
        return graph

    def _fused(
        self, graph: Graph, names: "GraphNames | StructuredNames"
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

    def _call(self, kernel: Kernel, names: "GraphNames | StructuredNames") -> "KernelRoutine":
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


def _may_have_attention(graph: FusedGraph) -> bool:
    """Returns True if there are matrix products, and a reduction that may lie between two."""
    kernels = graph.kernels
    return any(isinstance(each.contraction, MatrixProduct) for each in kernels) and any(
        each.contraction is None and each.has_reduction for each in kernels
    )
