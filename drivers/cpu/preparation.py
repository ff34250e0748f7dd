"""Prepares models: compiled as a whole if possible, else in parts, else on references."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from neurald.drivers.compiler.frontend.control_flow.inlining.inlining_budget import InliningBudget
from neurald.drivers.compiler.frontend.control_flow.sequence_loops import SEQUENCES, may_have_loops
from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    CONTROL_FLOW,
    BasicBlock,
    StructuredModel,
    each_item,
)
from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.frontend.lowering_options import LoweringOptions
from neurald.drivers.compiler.frontend.supported_operations import supported_operations
from neurald.drivers.compiler.frontend.variants.open_dimensions import (
    compiled_for_lengths,
    is_specified,
    with_shapes,
)
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.string_references import StringConstants, is_string
from neurald.drivers.compiler.ir.value import Shape
from neurald.drivers.cpu.compiler import Compiled, compile_model
from neurald.drivers.cpu.constant_folding import ConstantFolding
from neurald.drivers.cpu.data_dependent.bounded_model import on_references, whole_model
from neurald.drivers.cpu.kernel_names import KernelFailed
from neurald.drivers.cpu.kernels.select import generate
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native.objects.compile_helper import CompileHelper, process_count
from neurald.drivers.cpu.native.objects.kernel_store import KernelStore
from neurald.drivers.cpu.native.objects.llvm import link_image
from neurald.drivers.cpu.native.objects.object_code import ObjectCompilation
from neurald.drivers.cpu.native.python_calls.python_call import python_table
from neurald.drivers.cpu.native.thread_pool import Team, process, step_program_unit
from neurald.drivers.cpu.parts.native_segment import NativeSegment, whole_steps
from neurald.drivers.cpu.parts.partly_compiled_model import PartlyCompiledModel, has_string_ports
from neurald.drivers.cpu.parts.segment import Segment, segments, sub_model
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.program.block_model import BlockModels
from neurald.drivers.cpu.target.target import Target
from neurald.hal.accounting.account import temporary
from neurald.hal.errors import BadData, Error, OutOfMemory
from neurald.hal.execution.reference_graph import Step, only_calculates
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operations_name
from neurald.hal.model.types import Lifetime
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import bind_operations

if TYPE_CHECKING:
    # Few models have lengths that are only known at run time.
    from neurald.drivers.cpu.open_model import CpuOpenModel

_LOG = logging.getLogger(__name__)

#: Number of failed kernels after which a whole graph runs on references.
_MAX_ATTEMPTS = 8


class Preparation:
    """Prepares models for a target.

    Args:
        target: the target to generate code for.
        threads: used by an execution.
        keeps_artifact: True if `PreparedModel.artifact` will be called.
        helper: a compiling process that was started for the first model.
        store: kernels that are kept; None if there are none.
    """

    def __init__(
        self,
        target: Target,
        threads: int,
        *,
        keeps_artifact: bool,
        helper: CompileHelper | None = None,
        store: KernelStore | None = None,
    ) -> None:
        self._store = store
        self._target = target
        self._threads = threads
        self._keeps_artifact = keeps_artifact
        self._helper = helper
        self._folding = ConstantFolding(target, generate)
        self._inlining = InliningBudget()

    def prepare(
        self, model: Model, shapes: Mapping[int, Shape] | None = None
    ) -> CpuPreparedModel | ReferenceModel:
        """Prepares a model.

        Args:
            model: every operation has a reference.
            shapes: shapes of inputs that the model leaves open, by operand.
        """
        if not model.main.operations:
            return ReferenceModel(model)
        started = time.monotonic()
        failed: frozenset[int] = frozenset()
        try:
            native = self._native(model, None, shapes)
        except BadData as error:
            _LOG.info("the model is not compiled as a whole: %s", error)
        except KernelFailed as error:
            _warn(error)
            failed = frozenset(error.operations)
        else:
            executable = native.executable
            _LOG.info(
                "%d operations as %d kernels for %s, %d bytes of values (%d without sharing), in %.0f ms",
                len(model.main.operations),
                len(executable.calls),
                executable.target,
                executable.arena_bytes,
                executable.unshared_bytes,
                (time.monotonic() - started) * 1e3,
            )
            if has_string_ports(model):
                return PartlyCompiledModel(model, whole_steps(model, native))
            if native.opened is not None:
                from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel

                return GrowingModel(native, native.opened, model)
            return whole_model(
                native,
                on_references(model),
                keeps_artifact=self._keeps_artifact and not _can_omit(model),
            )
        return self._in_parts(model, shapes, failed)

    @temporary()
    def open(self, model: Model, shapes: Mapping[int, Shape]) -> "CpuOpenModel | None":
        """Prepares a model for any lengths of its open dimensions.

        Args:
            model: every operation has a reference.
            shapes: shapes of inputs that the model leaves open, by operand; code is generated so
                that it is fast for these.

        Returns:
            None if the model cannot be compiled as a whole, or only for these shapes.
        """
        if not model.main.operations:
            return None
        started = time.monotonic()

        def compiled_with(scope: ExtentScope, symbolic: Mapping[int, Shape]) -> Compiled:
            helper, self._helper = self._helper, None
            return self._compiled(model, symbolic, helper=helper, scope=scope)

        found = compiled_for_lengths(model, shapes, compiled_with, _LOG)
        if found is None:
            return None
        scope, compiled = found
        places = () if compiled.opened is None else compiled.opened.symbols
        pinned = [
            symbol for symbol, each in enumerate(places) if each and len(set(scope.bounds(symbol))) == 1
        ]
        if pinned or compiled.opened is None:
            _LOG.info("the code is only valid for these lengths: %s", scope.pins)
            return None
        _LOG.info(
            "%d operations for lengths %s in %.0f ms",
            len(model.main.operations),
            [scope.bounds(symbol) for symbol, _ in enumerate(scope.hints)],
            (time.monotonic() - started) * 1e3,
        )
        native = self._linked(model, compiled)
        opened = msgspec.structs.replace(compiled.opened, template=native.executable)
        from neurald.drivers.cpu.open_model import CpuOpenModel

        return CpuOpenModel(model, native, opened)

    def _in_parts(
        self, model: Model, shapes: Mapping[int, Shape] | None, failed: frozenset[int]
    ) -> ReferenceModel:
        started = time.monotonic()
        steps = [self._steps(model, model.main, shapes, failed)]
        steps += [list(range(len(graph.operations))) for graph in model.referenced]
        # Only graphs that control flow on references runs are compiled on their own.
        pending = [*_interpreted(model.main, steps[0])]
        done: set[int] = set()
        while pending:
            number = pending.pop()
            if number not in done:
                done.add(number)
                graph = model.referenced[number]
                steps[1 + number] = self._steps(model, graph)
                pending += _interpreted(graph, steps[1 + number])
        prepared = PartlyCompiledModel(model, steps)
        compiled = prepared.compiled_operations
        _LOG.info(
            "%d of %d operations are compiled, in %.0f ms; on references: %s",
            len(compiled),
            len(model.main.operations),
            (time.monotonic() - started) * 1e3,
            operations_name(model.main, (n for n in range(len(model.main.operations)) if n not in compiled)),
        )
        return prepared

    def _steps(
        self,
        model: Model,
        graph: Subgraph,
        shapes: Mapping[int, Shape] | None = None,
        failed: frozenset[int] = frozenset(),
    ) -> list[Step]:
        """Returns the steps of a graph, with compiled segments where possible.

        Args:
            model: the model of the graph.
            graph: its main graph, or one that control flow refers to.
            shapes: shapes of inputs that the graph leaves open, by operand.
            failed: operations of kernels without code.
        """
        references: list[Step] = list(range(len(graph.operations)))
        if failed.issuperset(range(len(graph.operations))):
            return references
        try:
            known = with_shapes(replace(model, main=graph), {} if shapes is None else shapes)
            if not is_specified(known):
                return references
            supported = [
                self._is_compiled(known, n)
                if known.main.operations[n].type in CONTROL_FLOW
                else verdict.ok
                or (known.main.operations[n].type in SEQUENCES and self._is_compiled(known, n))
                for n, verdict in enumerate(
                    supported_operations(
                        known,
                        options=LoweringOptions(
                            has_bounds=True, expects_inputs=True, strings=_string_constants()
                        ),
                    )
                )
            ]
        except BadData:
            # The execution reports the error.
            return references
        for _ in range(_MAX_ATTEMPTS):
            is_native = [ok and n not in failed for n, ok in enumerate(supported)]
            try:
                return [
                    step
                    for each in _closed_segments(known.main, is_native)
                    for step in self._parts(known, each)
                ]
            except KernelFailed as error:
                _warn(error)
                failed = failed.union(error.operations)
        return references

    @temporary()
    def _is_compiled(self, model: Model, position: int) -> bool:
        """Returns True if IF, WHILE or a long sequence, and all in its graphs, compiles."""
        try:
            own = sub_model(model, model.main, (position,))
            if not is_specified(own):
                return False
            structured = self._structured(own)
            blocks = BlockModels(structured)
            for item in each_item(structured.items):
                if isinstance(item, BasicBlock):
                    part = blocks.of(item)
                    build_graph(
                        part.model,
                        part.empty,
                        options=LoweringOptions(has_all_rows=True, strings=_string_constants()),
                        charges_constants=False,
                        lengths=part.lengths,
                    )
        except BadData as error:
            _LOG.info("%s is interpreted: %s", operations_name(model.main, (position,)), error)
            return False
        except (Error, MemoryError):
            raise
        except Exception:
            # Compiling the whole model has failed likewise, and said why.
            _LOG.debug("%s is interpreted", operations_name(model.main, (position,)), exc_info=True)
            return False
        return True

    def _structured(
        self,
        model: Model,
        shapes: Mapping[int, Shape] | None = None,
        positions: Sequence[int] | None = None,
        scope: ExtentScope | None = None,
    ) -> StructuredModel:
        """See `structure_control_flow`, but raises no errors that concern single operations."""
        from neurald.drivers.compiler.frontend.control_flow.structuring import (
            structure_control_flow,  # few have any
        )

        try:
            return structure_control_flow(
                model, shapes, self._folding.graph, positions, scope, budget=self._inlining
            )
        except (Error, MemoryError):
            raise
        except Exception as error:
            text = f"control flow cannot be compiled: {type(error).__name__}: {error}"
            _LOG.warning("%s; it runs on references", text)
            _LOG.debug("the error was raised here:", exc_info=error)
            raise BadData(text) from error

    def _parts(self, model: Model, segment: Segment) -> Sequence[Step]:
        """Returns the steps that run a segment."""
        operations = segment.operations
        if not segment.is_native:
            return operations
        part = sub_model(model, model.main, operations)
        try:
            native = self._native(part, operations)
        except BadData as error:
            _LOG.info("%s: on references: %s", operations_name(model.main, operations), error)
            return operations
        return [
            NativeSegment(
                operations=operations, inputs=part.main.inputs, outputs=part.main.outputs, native=native
            )
        ]

    @temporary()
    def _native(
        self,
        model: Model,
        positions: Sequence[int] | None = None,
        shapes: Mapping[int, Shape] | None = None,
    ) -> NativeModel:
        helper, self._helper = self._helper, None
        try:
            compiled = self._compiled(model, shapes, positions=positions, helper=helper)
            return self._linked(model, compiled)
        except (Error, KernelFailed):
            raise
        except MemoryError as error:
            raise OutOfMemory(f"the model cannot be compiled: {error}") from None
        except Exception as error:
            everything_here = range(len(model.main.operations))
            everything = everything_here if positions is None else positions
            text = f"{operations_name(model.main, everything_here)}: {type(error).__name__}: {error}"
            raise KernelFailed(text, tuple(everything)) from error

    def _compiled(
        self,
        model: Model,
        shapes: Mapping[int, Shape] | None,
        *,
        positions: Sequence[int] | None = None,
        helper: CompileHelper | None,
        scope: ExtentScope | None = None,
    ) -> Compiled:
        if not python_table() and any(is_string(each.type) for each in model.main.operands):
            raise BadData("native code cannot read the strings of this interpreter of Python")

        def compiled(structured: StructuredModel | None) -> Compiled:
            with ObjectCompilation(
                self._target, processes=process_count(), helper=helper, store=self._store
            ) as compilation:
                if not process.load_step_program():
                    compilation.add_to_cache(step_program_unit())
                return compile_model(
                    model,
                    generate,
                    compilation,
                    input_shapes=shapes,
                    positions=positions,
                    scope=scope,
                    structured=structured,
                )

        if any(operation.type in CONTROL_FLOW for operation in model.main.operations):
            return compiled(self._structured(model, shapes, positions, scope))
        if scope is None and may_have_loops(model.main):
            structured = self._structured(model, shapes, positions)
            if structured.has_loops:
                return compiled(structured)
        decisions = None if scope is None else scope.decisions()
        try:
            return compiled(None)
        except BadData:
            # Lengths may follow from data, such as the number of elements of a RANGE, or indices,
            # such as those of a slice of known length.
            if scope is not None and decisions is not None:
                scope.undo(decisions)
            helper = None
            structured = self._structured(model, shapes, positions, scope)
            before, after = (
                [each.type for each in graph.operations] for graph in (model.main, structured.model.main)
            )
            if before == after and not structured.has_changing_lengths:
                raise
        return compiled(structured)

    def _linked(self, model: Model, compiled: Compiled) -> NativeModel:
        executable = compiled.executable
        if not only_calculates(model, model.main, bind_operations(model.main)):
            executable = msgspec.structs.replace(executable, is_tolerant=False)
        team = Team(process.step_program(self._target), self._threads)
        opened = compiled.opened
        if opened is not None:
            opened = msgspec.structs.replace(opened, template=executable) if opened.sizings else None
        return NativeModel(executable, link_image(compiled.codes), compiled.constants, team, opened=opened)


def _string_constants() -> StringConstants | None:
    """Returns what numbers constant strings; None if native code cannot read strings."""
    return StringConstants() if python_table() else None


def _closed_segments(graph: Subgraph, is_native: Sequence[bool]) -> list[Segment]:
    """Splits a graph into segments; shapes that are only known at execution stay inside of them."""
    is_native = list(is_native)
    while True:
        found = segments(graph, is_native)
        opened = [
            position
            for each in found
            if each.is_native
            for position in each.operations
            if any(
                not graph.operands[index].is_fully_specified and _is_from_outside(graph, index, each)
                for index in graph.operations[position].inputs
            )
        ]
        if not opened:
            return found
        for position in opened:
            is_native[position] = False


def _is_from_outside(graph: Subgraph, index: int, segment: Segment) -> bool:
    """Returns True if the operations of other segments compute an operand."""
    if graph.operands[index].lifetime not in (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT):
        return False
    return all(index not in graph.operations[position].outputs for position in segment.operations)


def _warn(error: KernelFailed) -> None:
    runs = "it runs" if len(error.operations) == 1 else "they run"
    _LOG.warning("%s; %s on references", error, runs)
    _LOG.debug("the error was raised here:", exc_info=error)


def _interpreted(graph: Subgraph, steps: Sequence[Step]) -> Iterator[int]:
    """Yields the graphs that operations on references run."""
    for step in steps:
        if isinstance(step, int):
            for index in graph.operations[step].inputs:
                number = graph.operands[index].subgraph
                if graph.operands[index].lifetime is Lifetime.SUBGRAPH and number is not None:
                    yield number


def _can_omit(model: Model) -> bool:
    """Returns True if an execution may omit an input, which requires references.

    Whether an operation inside of IF or WHILE may is not considered: these pass values on.
    """
    inputs = set(model.main.inputs)
    for binding in bind_operations(model.main):
        if binding.type in CONTROL_FLOW:
            continue
        optional = {parameter.name for parameter in binding.form.inputs if parameter.optional}
        if any(index in inputs for name in optional for index in binding.inputs.get(name, ())):
            return True
    return False
