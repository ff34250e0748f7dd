"""Turns IF and WHILE into branches and loops around blocks of operations; see `structured_model`.

Each graph that control flow runs is inlined where it runs, with operands of its own:

- An IF becomes a branch (`branches`), and a WHILE a loop (`repeated_loops`).
- Lengths that change between the turns of a loop are symbols
  (`neurald.drivers.compiler.ir.extents.extent`), which the program sets for each turn. So are
  lengths that follow from data, and those of the results of an IF whose sides have different ones.
- Slices that begin at a counter get a known length (`symbolic_integers`). A concatenation of the
  elements before a slice, new elements, and the elements after it, as TensorFlow writes an element
  of a list, becomes an update of that slice.
- Operations that depend on nothing that changes in the loop move out of it.
- Loops with a short trip count that follows from constants are unrolled (`unrolled_loops`), and,
  within wider limits, loops whose shapes change in every turn.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import (
    CONCATENATIONS,
    STRIDED_SLICES,
    FlatGraph,
    NotStructured,
    Place,
    ShapeChanges,
)
from neurald.drivers.compiler.frontend.control_flow.graph.length_symbols import LengthSymbols
from neurald.drivers.compiler.frontend.control_flow.graph.stored_operands import StoredOperands
from neurald.drivers.compiler.frontend.control_flow.inlining.branches import add_branch, inputs_of
from neurald.drivers.compiler.frontend.control_flow.inlining.inlining_budget import InliningBudget
from neurald.drivers.compiler.frontend.control_flow.inlining.loop_counters import LoopCounter
from neurald.drivers.compiler.frontend.control_flow.inlining.repeated_loops import RepeatedLoops
from neurald.drivers.compiler.frontend.control_flow.inlining.unrolled_loops import NotUnrolled, UnrolledLoops
from neurald.drivers.compiler.frontend.control_flow.slices.counted_slices import CountedSlices
from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    CONTROL_FLOW,
    Copy,
    StructuredModel,
)
from neurald.drivers.compiler.frontend.lengths.symbolic_integers import (
    INTEGER_TYPES,
    sums_of_result,
)
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_name, operation_name, operation_number
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Call, UnknownValue
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import merge

if TYPE_CHECKING:
    from neurald.drivers.compiler.frontend.constant_lowering import EvaluateGraph
    from neurald.drivers.compiler.frontend.control_flow.data_lengths.data_lengths import DataLengths
    from neurald.drivers.compiler.ir.extents.scope import ExtentScope


def structure_control_flow(
    model: Model,
    input_shapes: Mapping[int, Shape] | None = None,
    evaluate: "EvaluateGraph | None" = None,
    positions: Sequence[int] | None = None,
    scope: "ExtentScope | None" = None,
    *,
    splits_sequences: bool = True,
    budget: InliningBudget | None = None,
) -> StructuredModel:
    """Returns the model with its control flow as a program.

    Args:
        model: a valid model.
        input_shapes: shapes of inputs that the model leaves open, by operand.
        evaluate: computes float arithmetic on constants, see `build_graph`.
        positions: positions of the model's operations in the model that it is a part of; None if it
            is the whole model.
        scope: the scope of the extents in `input_shapes`; None if there are none.
        splits_sequences: whether operations over long sequences become loops, see `sequence_loops`.
        budget: what it shares with other parts of the same model; None for one of its own.

    Raises:
        BadData: the control flow cannot be compiled, or the model has an error, which its execution
            reports.
    """
    shared = InliningBudget() if budget is None else budget
    most = shared.begin(model)
    structurer: _Structurer | None = None
    try:
        structurer = _Structurer(
            model, input_shapes or {}, evaluate, scope, most, splits_sequences=splits_sequences
        )
        return structurer.result(positions)
    except NotStructured as error:
        raise BadData(f"control flow: {error}") from None
    finally:
        if structurer is not None:
            shared.spend(most - structurer.left)


class _Structurer:
    """Inlines the control flow of one model.

    Args:
        model: the model.
        input_shapes, evaluate, scope, splits_sequences: see `structure_control_flow`.
        most: how many operations it may inline.

    Attributes:
        left: how many of these it has not inlined.
    """

    def __init__(
        self,
        model: Model,
        input_shapes: Mapping[int, Shape],
        evaluate: "EvaluateGraph | None",
        scope: "ExtentScope | None",
        most: int,
        *,
        splits_sequences: bool,
    ) -> None:
        self._splits_sequences = splits_sequences
        self._flat = FlatGraph(model, input_shapes, evaluate, scope)
        self._symbols = LengthSymbols(self._flat)
        self._operands = StoredOperands(self._flat, self._symbols)
        self._slices = CountedSlices(self._flat, self._operands)
        self._unrolled = UnrolledLoops(self._flat, self._operands, self)
        self._repeated = RepeatedLoops(self._flat, self._symbols, self._operands, self)
        #: The model's own graphs; those of loops over sequences are added.
        self._referenced = model.referenced
        self.left = most

    def result(self, positions: Sequence[int] | None) -> StructuredModel:
        """Structures the main graph; see `structure_control_flow`."""
        main = self._flat.model.main
        origins = range(len(main.operations)) if positions is None else positions
        mapping = {index: index for index in range(len(main.operands))}
        for position, operation in enumerate(main.operations):
            try:
                self._add_operation(main, operation, position, mapping, origins[position])
            except (BadData, NotStructured, UnknownValue) as error:
                reason = (
                    f"{error} is not known before execution"
                    if isinstance(error, UnknownValue)
                    else str(error)
                )
                raise BadData(f"{operation_name(main, position)}: {self._flat.readable(reason)}") from None
        outputs = self._outputs(mapping)
        self._flat.add_guards()
        graph = replace(
            main,
            operands=tuple(self._flat.operands),
            operations=tuple(self._flat.operations),
            outputs=outputs,
        )
        structured = StructuredModel(
            model=replace(self._flat.model, main=graph, referenced=self._referenced),
            items=self._flat.regions[0].finished(),
            origins=tuple(self._flat.origins),
            graphs=tuple(self._flat.graphs),
            scope=self._flat.known_scope,
            values=self._flat.extents,
        )
        if not structured.has_changing_lengths:
            return structured  # No list grows.
        from neurald.drivers.compiler.frontend.control_flow.lists.growing_layouts import grow_outermost
        from neurald.drivers.compiler.frontend.control_flow.lists.list_appends import append_in_place

        return append_in_place(grow_outermost(structured))

    def _outputs(self, mapping: Mapping[int, int]) -> tuple[int, ...]:
        """Returns an operand of its own for each output of the main graph."""
        main = self._flat.model.main
        outputs: list[int] = []
        names = [self._flat.operands[old].name for old in main.outputs]
        computed = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)
        for old in main.outputs:
            new = self._operands.stored(mapping[old])
            if new in outputs or self._flat.operands[new].lifetime not in computed:
                copy = self._flat.variable(new)
                self._flat.regions[0].items.append(Copy(target=copy, source=new))
                new = copy
            if self._flat.operands[old].lifetime is Lifetime.SUBGRAPH_OUTPUT:
                self._flat.operands[old] = replace(
                    self._flat.operands[old], lifetime=Lifetime.TEMPORARY_VARIABLE
                )
            outputs.append(new)
        for new, name in zip(outputs, names, strict=True):
            self._flat.operands[new] = replace(
                self._flat.operands[new], lifetime=Lifetime.SUBGRAPH_OUTPUT, name=name
            )
        return tuple(outputs)

    def _add_operation(
        self, graph: Subgraph, operation: Operation, position: int, mapping: dict[int, int], origin: int
    ) -> None:
        """Adds an operation, whose operands get new indices from `mapping`.

        Args:
            graph: the graph of the operation.
            operation: the operation.
            position: its position in the graph.
            mapping: the new index of each operand of that graph. Those of results may be replaced.
            origin: the position of the operation in the original main graph that it comes from.
        """
        if not self.left:
            raise NotStructured("it is nested too deeply")
        self.left -= 1
        inputs = [mapping[index] for index in operation.inputs]
        if operation.type not in CONCATENATIONS:
            inputs = list(map(self._operands.realized, inputs))
        moved = replace(
            operation,
            inputs=tuple(inputs),
            outputs=tuple([mapping[index] for index in operation.outputs]),
            number=operation_number(graph, position),
        )
        call = self._flat.call(moved)
        if operation.type in CONTROL_FLOW:
            if operation.type is OperationType.IF:
                results = add_branch(self._flat, self._symbols, self._operands, self, call, origin)
            else:
                results = self._loop(call, origin)
            mapping.update(zip(operation.outputs, results, strict=False))
            return
        made = self._over_sequence(moved, call, origin) if self._splits_sequences else None
        if made is not None:
            mapping.update(zip(operation.outputs, made, strict=True))
            return
        if graph is not self._flat.model.main and self._flat.is_identity(moved, call):
            mapping[operation.outputs[0]] = moved.inputs[0]
            return
        if self._operands.computes_lengths(call):
            return
        known = self._flat.known_results(call)
        if known is not None:
            for index, result in zip(moved.outputs, known, strict=True):
                self._flat.set_constant(index, result)
            return
        place = graph.number, origin
        if self._is_limited(moved, place):
            return
        try:
            shapes = DEFINITIONS[operation.type].output_shapes(call)
        except UnknownValue:
            try:
                with self._flat.attempt():
                    replaced = self._slices.add(moved, call, place)
            except ShapeChanges:
                self._lengths().add(moved, place)
                return
            if replaced is not None:
                mapping[operation.outputs[0]] = replaced
            return
        update = self._slices.update_of(moved, call, place)
        if update is not None:
            mapping[operation.outputs[0]] = update
            return
        self._operands.append(moved, shapes, place)
        if len(moved.outputs) == 1 and self._flat.operands[moved.outputs[0]].type in INTEGER_TYPES:
            sums = sums_of_result(call, self._flat.sums_of)
            if sums is not None and sums.shape == shapes[0]:
                self._flat.sums[moved.outputs[0]] = sums

    def _is_limited(self, operation: Operation, place: Place) -> bool:
        """Adds an operation if it is a slice that the length of a list may limit."""
        if operation.type not in STRIDED_SLICES or not self._symbols.has_data:
            return False
        # Few models have lengths that are data.
        from neurald.drivers.compiler.frontend.control_flow.slices.limited_slices import add_limited_slice

        return add_limited_slice(operation, self._flat, self._symbols, self._operands, place)

    def _lengths(self) -> "DataLengths":
        """Returns what adds operations whose shapes follow from data, which few models have."""
        from neurald.drivers.compiler.frontend.control_flow.data_lengths.data_lengths import DataLengths

        return DataLengths(self._flat, self._symbols, self._operands)

    def _loop(self, call: Call, origin: int) -> Sequence[int]:
        """Adds a loop in the first form that is possible, and returns its results."""
        inputs = [self._operands.realized(each) for each in inputs_of(call)]
        if not self._is_nested(call):
            try:
                return self._unrolled.add_short(call, inputs, origin)
            except (NotUnrolled, ShapeChanges):
                pass
        try:
            return self._repeated_once(call, inputs, origin, opens=False)
        except ShapeChanges:
            pass
        try:
            return self._unrolled.add_changing(call, inputs, origin)
        except (NotUnrolled, ShapeChanges):
            pass
        while True:
            try:
                return self._repeated_once(call, inputs, origin, opens=True)
            except BadData:
                if not self._symbols.shorten():
                    raise

    def _repeated_once(self, call: Call, inputs: Sequence[int], origin: int, *, opens: bool) -> Sequence[int]:
        graphs = call.graph_index("condition"), call.graph_index("body")
        with self._flat.attempt():
            return self._repeated.add(graphs, inputs, origin, opens=opens)

    def _over_sequence(self, operation: Operation, call: Call, origin: int) -> Sequence[int] | None:
        """Adds loops for an operation over a long sequence, and returns its results, or None."""
        # The first tier runs such operations in one piece.
        from neurald.drivers.compiler.frontend.control_flow.sequence_loops import (
            sequence_loop,
            two_directions,
        )

        apart = two_directions(operation, call, self._flat.operands, self._flat.shape)
        if apart is not None:
            both, given = apart
            inputs = [self._operands.stored(each) for each in given]
            return self.inline(self._referenced_graphs(both), inputs, origin)
        loop = sequence_loop(operation, call, self._flat.operands, self._flat.shape)
        if loop is None:
            return None
        graphs = (loop.condition, loop.body) if loop.rest is None else (loop.condition, loop.body, loop.rest)
        first = self._referenced_graphs(*graphs)
        inputs = [self._flat.add_operand(each) for each in (loop.index, loop.results)]
        inputs += [self._operands.stored(each) for each in loop.inputs]
        with self._flat.attempt():
            values = self._repeated.add((first, first + 1), inputs, origin, opens=False)
            if loop.rest is not None:
                values = self.inline(first + 2, values, origin)
        return [values[position] for position in loop.outputs]

    def _referenced_graphs(self, *graphs: Subgraph) -> int:
        """Adds graphs to those of the model, and returns the number of the first."""
        first = len(self._flat.model.referenced)
        self._flat.model = replace(self._flat.model, referenced=(*self._flat.model.referenced, *graphs))
        return first

    def _is_nested(self, call: Call) -> bool:
        """Returns True if there is control flow in a loop.

        Unrolling it would multiply the inner one.
        """
        graphs = (call.graph("condition"), call.graph("body"))
        return any(each.type in CONTROL_FLOW for graph in graphs for each in graph.operations)

    def inline(self, graph: int, inputs: Sequence[int], origin: int) -> Sequence[int]:
        """See `InlinesGraphs.inline`."""
        inner = self._flat.model.referenced[graph]
        mapping = self._mapping(graph, inputs)
        for position, operation in enumerate(inner.operations):
            self._add_operation(inner, operation, position, mapping, origin)
        return [mapping[index] for index in inner.outputs]

    def inline_counter(
        self, graph: int, inputs: Sequence[int], counter: LoopCounter, origin: int
    ) -> Mapping[int, int]:
        """See `InlinesGraphs.inline_counter`."""
        inner = self._flat.model.referenced[graph]
        mapping = self._mapping(graph, inputs, counter.operands)
        for position in counter.operations:
            self._add_operation(inner, inner.operations[position], position, mapping, origin)
        return mapping

    def _mapping(
        self, graph: int, inputs: Sequence[int], used: Collection[int] | None = None
    ) -> dict[int, int]:
        """Adds the operands of a graph that is inlined; returns the new index of each.

        Args:
            graph: the number of the graph.
            inputs: its inputs.
            used: those of its operands that are needed besides the inputs; None for all.
        """
        inner = self._flat.model.referenced[graph]
        mapping = dict(zip(inner.inputs, inputs, strict=True))
        for index, operand in enumerate(inner.operands):
            if index in mapping:
                self._check_input(mapping[index], operand)
                continue
            if used is not None and index not in used:
                continue
            if operand.lifetime.is_constant:
                key = graph, index
                if key not in self._flat.constants:
                    self._flat.constants[key] = self._flat.add_operand(operand)
                mapping[index] = self._flat.constants[key]
            elif operand.lifetime in (Lifetime.NO_VALUE, Lifetime.SUBGRAPH):
                mapping[index] = self._flat.add_operand(operand)
            else:
                mapping[index] = self._flat.add_operand(
                    replace(operand, lifetime=Lifetime.TEMPORARY_VARIABLE)
                )
        return mapping

    def _check_input(self, given: int, declared: Operand) -> None:
        """Checks that a graph accepts the shape of an operand."""
        merge(declared.dimensions, self._flat.shape(given), operand_name(self._flat.operands, given))
