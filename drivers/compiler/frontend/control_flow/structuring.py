"""Turns IF and WHILE into branches and loops around blocks of operations; see `structured_model`.

Each graph that control flow runs is inlined where it runs, with operands of its own:

- A value of a loop that the body returns unchanged is the same operand inside and outside. If it is
  a constant, it is one in the loop too, and so are the shapes that follow from it. Which values
  these are is found by trying: at first all are taken as unchanged, and the loop is inlined again
  with a variable for each value that did change.
- The variables of a loop have the same shape in every turn, except for dimensions that change
  between turns. These lengths are symbols (`neurald.drivers.compiler.ir.extents.extent`), which the
  program sets for each turn; so are lengths that follow from data, and those of the results of an
  IF whose sides have different ones.
- Slices that begin at a counter get a known length (`symbolic_integers`). A concatenation of the
  elements before a slice, new elements, and the elements after it, as TensorFlow writes an element
  of a list, becomes an update of that slice.
- Operations that depend on nothing that changes in the loop move out of it.
- Loops with a short trip count that follows from constants are unrolled: their counters and
  slices are then constants. The same is done, within wider limits, if the shapes change in every
  turn.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neurald.drivers.compiler.frontend.control_flow.counted_slices import CountedSlices
from neurald.drivers.compiler.frontend.control_flow.data_lengths import DataLengths
from neurald.drivers.compiler.frontend.control_flow.flat_graph import (
    CONCATENATIONS,
    RESHAPES,
    SLICES,
    FlatGraph,
    NotStructured,
    ShapeChanges,
)
from neurald.drivers.compiler.frontend.control_flow.loop_counters import (
    changing_values,
    has_more_turns,
    loop_counter,
)
from neurald.drivers.compiler.frontend.control_flow.loop_lengths import LoopLengths
from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    CONTROL_FLOW,
    Branch,
    Copy,
    LengthUpdate,
    StructuredModel,
    WhileLoop,
)
from neurald.drivers.compiler.frontend.lengths.symbolic_integers import (
    INTEGER_TYPES,
    sums_of_result,
)
from neurald.drivers.compiler.ir.extents.extent import number_of, same_length
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_name, operation_number
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import merge

if TYPE_CHECKING:
    from neurald.drivers.compiler.frontend.graph_builder import EvaluateGraph

#: Limits on unrolling a loop, and on unrolling one whose shapes change in every turn, which are
#: known then. Each turn adds kernels to compile.
_MAX_TURNS, _MAX_OPERATIONS = 4, 128
_MAX_CHANGING_TURNS, _MAX_CHANGING_OPERATIONS = 128, 1024
#: The types of counters of loops.
_COUNTED = (np.dtype(np.int32), np.dtype(np.int64))
#: Number of attempts to find the unchanged values of a loop before all count as changed.
_MAX_ATTEMPTS = 3
#: Limit on inlined operations, including those of attempts: nested loops multiply them. It grows
#: with the number of operations.
_MAX_INLINED, _MAX_INLINED_PER_OPERATION = 20_000, 8


class _NotUnrolled(NotStructured):
    """A loop cannot be unrolled within the limits."""


def structure_control_flow(
    model: Model,
    input_shapes: Mapping[int, Shape] | None = None,
    evaluate: "EvaluateGraph | None" = None,
    positions: Sequence[int] | None = None,
    scope: ExtentScope | None = None,
    *,
    splits_sequences: bool = True,
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

    Raises:
        BadData: the control flow cannot be compiled, or the model has an error, which its execution
            reports.
    """
    try:
        structurer = _Structurer(
            model, input_shapes or {}, evaluate, scope, splits_sequences=splits_sequences
        )
        return structurer.result(positions)
    except UnknownValue as error:
        raise BadData(f"control flow: {error} is not known before execution") from None
    except NotStructured as error:
        raise BadData(f"control flow: {error}") from None


class _Structurer:
    """Inlines the control flow of one model.

    Args:
        model: the model.
        input_shapes, evaluate, scope, splits_sequences: see `structure_control_flow`.
    """

    def __init__(
        self,
        model: Model,
        input_shapes: Mapping[int, Shape],
        evaluate: "EvaluateGraph | None",
        scope: ExtentScope | None,
        *,
        splits_sequences: bool,
    ) -> None:
        self._splits_sequences = splits_sequences
        self._flat = FlatGraph(model, input_shapes, evaluate, scope)
        self._lengths = DataLengths(self._flat)
        self._slices = CountedSlices(self._flat, self._lengths)
        #: The values that change in loops inlined before, and lengths that do, by the graphs of the
        #: loop.
        self._changing: dict[tuple[int, int], set[int]] = {}
        self._loop_lengths: dict[tuple[int, int], LoopLengths] = {}
        #: The model's own graphs; those of loops over sequences are added.
        self._referenced = model.referenced
        graphs = (model.main, *model.referenced)
        self._left = _MAX_INLINED + _MAX_INLINED_PER_OPERATION * sum(len(each.operations) for each in graphs)

    def result(self, positions: Sequence[int] | None) -> StructuredModel:
        """Structures the main graph; see `structure_control_flow`."""
        main = self._flat.model.main
        origins = range(len(main.operations)) if positions is None else positions
        mapping = {index: index for index in range(len(main.operands))}
        for position, operation in enumerate(main.operations):
            self._add_operation(main, operation, position, mapping, origins[position])
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
            scope=self._flat.scope,
            values=self._flat.extents,
        )
        if not structured.has_changing_lengths:
            return structured  # No list grows.
        from neurald.drivers.compiler.frontend.control_flow.growing_layouts import grow_outermost
        from neurald.drivers.compiler.frontend.control_flow.list_appends import append_in_place

        return append_in_place(grow_outermost(structured))

    def _outputs(self, mapping: Mapping[int, int]) -> tuple[int, ...]:
        """Returns an operand of its own for each output of the main graph."""
        main = self._flat.model.main
        outputs: list[int] = []
        names = [self._flat.operands[old].name for old in main.outputs]
        computed = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)
        for old in main.outputs:
            new = self._lengths.stored(mapping[old])
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
        self._left -= 1
        if self._left < 0:
            raise NotStructured("it is nested too deeply")
        moved = replace(
            operation,
            inputs=tuple(mapping[index] for index in operation.inputs),
            outputs=tuple(mapping[index] for index in operation.outputs),
            number=operation_number(graph, position),
        )
        if operation.type not in CONCATENATIONS:
            moved = replace(moved, inputs=tuple(self._lengths.realized(each) for each in moved.inputs))
        call = self._flat.call(moved)
        if operation.type in CONTROL_FLOW:
            results = (
                self._branch(call, origin) if operation.type is OperationType.IF else self._loop(call, origin)
            )
            mapping.update(zip(operation.outputs, results, strict=False))
            return
        made = self._over_sequence(moved, call, origin) if self._splits_sequences else None
        if made is not None:
            mapping.update(zip(operation.outputs, made, strict=True))
            return
        if graph is not self._flat.model.main and self._flat.is_identity(moved, call):
            mapping[operation.outputs[0]] = moved.inputs[0]
            return
        if self._lengths.computes_lengths(call):
            return
        known = self._flat.known_results(call)
        if known is not None:
            for index, result in zip(moved.outputs, known, strict=True):
                self._flat.set_constant(index, result)
            return
        try:
            shapes = DEFINITIONS[operation.type].output_shapes(call)
        except UnknownValue:
            try:
                with self._flat.attempt():
                    replaced = self._slices.add(moved, call, graph, origin)
            except ShapeChanges:
                self._lengths.add(moved, graph.number, origin)
                return
            if replaced is not None:
                mapping[operation.outputs[0]] = replaced
            return
        update = self._slices.update_of(moved, call, graph, origin)
        if update is not None:
            mapping[operation.outputs[0]] = update
            return
        self._lengths.append(moved, shapes, graph.number, origin)
        if len(moved.outputs) == 1 and self._flat.operands[moved.outputs[0]].type in INTEGER_TYPES:
            sums = sums_of_result(call, self._flat.sums_of)
            if sums is not None and sums.shape == shapes[0]:
                self._flat.sums[moved.outputs[0]] = sums

    def _branch(self, call: Call, origin: int) -> Sequence[int]:
        condition, inputs = call.index("condition"), _inputs(call)
        inputs = [self._lengths.realized(each) for each in inputs]
        known = self._flat.known.get(condition)
        if known is not None:
            name = "then" if self._holds(condition) else "else"
            return self._inline(call.graph_index(name), inputs, origin)
        self._require_bool(condition)
        with self._flat.region(repeats=False) as then:
            first = [
                self._lengths.stored(each) for each in self._inline(call.graph_index("then"), inputs, origin)
            ]
        with self._flat.region(repeats=False) as otherwise:
            second = [
                self._lengths.stored(each) for each in self._inline(call.graph_index("else"), inputs, origin)
            ]
        results: list[int] = []
        joined = [
            self._joined_shape(one, other) for one, other in zip(first, second, strict=True) if one != other
        ]
        symbols = {key: self._lengths.symbol() for shape in joined for key in shape if isinstance(key, tuple)}
        numbers = [(number_of(symbol), key) for key, symbol in symbols.items()]
        if numbers:
            then.items.append(LengthUpdate(lengths=tuple((each, one) for each, (one, _) in numbers)))
            otherwise.items.append(LengthUpdate(lengths=tuple((each, two) for each, (_, two) in numbers)))
        shapes = iter(joined)
        for one, other in zip(first, second, strict=True):
            if one == other:
                results.append(one)
                continue
            shape = tuple(symbols[each] if isinstance(each, tuple) else each for each in next(shapes))
            variable = self._flat.variable(one, shape)
            then.items.append(Copy(target=variable, source=one))
            otherwise.items.append(Copy(target=variable, source=other))
            results.append(variable)
        self._flat.regions[-1].items.append(
            Branch(condition=condition, then=then.finished(), otherwise=otherwise.finished(), origin=origin)
        )
        return results

    def _joined_shape(self, one: int, other: int) -> tuple[Any, ...]:
        """Returns the shape of a result of an IF; pairs of lengths where its sides differ."""
        first, second = self._flat.shape(one), self._flat.shape(other)
        if len(first) != len(second):
            raise ShapeChanges("the sides of an IF have results of different ranks")
        return tuple(
            length if same_length(length, found) else (length, found)
            for length, found in zip(first, second, strict=True)
        )

    def _require_bool(self, index: int) -> None:
        if (
            self._flat.operands[index].type is not OperandType.TENSOR_BOOL8
            or int(np.prod(self._flat.shape(index))) != 1
        ):
            raise NotStructured("a condition is not a single BOOL")

    def _loop(self, call: Call, origin: int) -> Sequence[int]:
        inputs = [self._lengths.realized(each) for each in _inputs(call)]
        if not self._is_nested(call):
            try:
                self._require_few_turns(call, inputs, origin)
                return self._unrolled(call, inputs, origin, _MAX_TURNS, _MAX_OPERATIONS)
            except (_NotUnrolled, ShapeChanges):
                pass
        try:
            with self._flat.attempt():
                stored = [self._lengths.stored(each) for each in inputs]
                return self._repeated(_graphs(call), stored, origin, opens=False)
        except ShapeChanges:
            pass
        try:
            return self._unrolled(call, inputs, origin, _MAX_CHANGING_TURNS, _MAX_CHANGING_OPERATIONS)
        except (_NotUnrolled, ShapeChanges):
            pass
        with self._flat.attempt():
            stored = [self._lengths.stored(each) for each in inputs]
            return self._repeated(_graphs(call), stored, origin, opens=True)

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
            inputs = [self._lengths.stored(each) for each in given]
            return self._inline(self._referenced_graphs(both), inputs, origin)
        loop = sequence_loop(operation, call, self._flat.operands, self._flat.shape)
        if loop is None:
            return None
        graphs = (loop.condition, loop.body) if loop.rest is None else (loop.condition, loop.body, loop.rest)
        first = self._referenced_graphs(*graphs)
        inputs = [self._flat.add_operand(each) for each in (loop.index, loop.results)]
        inputs += [self._lengths.stored(each) for each in loop.inputs]
        with self._flat.attempt():
            values = self._repeated((first, first + 1), inputs, origin, opens=False)
            if loop.rest is not None:
                values = self._inline(first + 2, values, origin)
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

    def _unrolled(
        self, call: Call, inputs: Sequence[int], origin: int, max_turns: int, max_operations: int
    ) -> Sequence[int]:
        """Inlines every turn of a loop whose condition follows from constants.

        Raises:
            _NotUnrolled: it does not, or the limits do not suffice.
        """
        values = [*inputs]
        first = len(self._flat.operations)
        with self._flat.attempt():
            for _ in range(max_turns + 1):
                if not self._has_turn(call, values, origin):
                    return values
                results = self._inline(call.graph_index("body"), values, origin)
                values[: len(results)] = [self._lengths.realized(each) for each in results]
                if len(self._flat.operations) - first > max_operations:
                    raise _NotUnrolled("a loop has too many operations to be unrolled")
            raise _NotUnrolled("a loop has too many turns to be unrolled")

    def _has_turn(self, call: Call, values: Sequence[int], origin: int) -> bool:
        """Returns the condition of a loop for some values.

        Raises:
            _NotUnrolled: it does not follow from constants.
        """
        decided = self._flat.scope.decided
        with self._flat.attempt() as undo:
            (condition,) = self._inline(call.graph_index("condition"), values, origin)
            if condition not in self._flat.known:
                raise _NotUnrolled("the condition of a loop depends on data")
            if self._flat.scope.decided != decided:
                raise _NotUnrolled("the condition of a loop may depend on lengths")
            holds = self._holds(condition)
            undo()
        return holds

    def _require_few_turns(self, call: Call, inputs: Sequence[int], origin: int) -> None:
        """Counts the turns of a loop by inlining only what counts them.

        Raises:
            _NotUnrolled: there are too many to unroll it, or they do not follow from constants.
        """
        body = call.graph("body")
        counter = loop_counter(call.graph("condition"), body)
        if counter is None:
            return
        first = [
            None if each not in self._flat.known else _integer(self._flat.known[each]) for each in inputs
        ]
        if has_more_turns(call.graph("condition"), body, first, self._constant_integer, _MAX_TURNS):
            raise _NotUnrolled("a loop has too many turns to be unrolled")
        values, number = [*inputs], call.graph_index("body")
        with self._flat.attempt() as undo:
            for _ in range(_MAX_TURNS + 1):
                if not self._has_turn(call, values, origin):
                    undo()
                    return
                mapping = self._mapping(number, values, counter.operands)
                for position in counter.operations:
                    self._add_operation(body, body.operations[position], position, mapping, origin)
                for each in counter.values:
                    values[each] = self._lengths.realized(mapping[body.outputs[each]])
            raise _NotUnrolled("a loop has too many turns to be unrolled")

    def _constant_integer(self, operand: Operand) -> int | None:
        """Returns the value of an operand that is a constant integer; None for others."""
        value = self._flat.model.constant(operand) if operand.lifetime.is_constant else None
        return None if value is None else _integer(value)

    def _repeated(
        self, graphs: tuple[int, int], inputs: Sequence[int], origin: int, *, opens: bool
    ) -> Sequence[int]:
        """Inlines a loop once.

        Args:
            graphs: the numbers of its condition and its body.
            inputs: its first values.
            origin: see `_add_operation`.
            opens: whether shapes may change, which become lengths then.

        Raises:
            ShapeChanges: a shape changes from turn to turn, and `opens` is False.
        """
        condition_graph, body_graph = graphs
        inner = self._flat.model.referenced[body_graph]
        carried = len(inner.outputs)
        # Values that changed when the loop was last inlined change again: without this, the
        # attempts of nested loops would multiply.
        changing = self._changing.setdefault(graphs, changing_values(inner, (*RESHAPES, *SLICES)))
        lengths = self._loop_lengths.setdefault(graphs, LoopLengths(self._flat, self._lengths))
        attempts = 0
        while True:
            with self._flat.attempt() as undo:
                attempts += 1
                symbols = lengths.symbols()
                values = [
                    self._flat.loop_variable(index, lengths.shape(n, self._flat.shape(index), symbols))
                    if n in changing
                    else index
                    for n, index in enumerate(inputs)
                ]
                copies: list[Copy | LengthUpdate] = [
                    Copy(target=values[n], source=inputs[n]) for n in sorted(changing)
                ]
                try:
                    with self._flat.region(repeats=True) as condition:
                        (test,) = self._inline(condition_graph, values, origin)
                    with self._flat.region(repeats=True) as body:
                        results = [
                            self._lengths.stored(each) for each in self._inline(body_graph, values, origin)
                        ]
                except BadData:
                    # Values that are taken as constants need not be ones.
                    if len(changing) == carried:
                        raise
                    undo()
                    changing.update(range(carried))
                    continue
                found = {n for n in range(carried) if results[n] != values[n]} - changing
                if found:
                    undo()
                    changing |= found if attempts < _MAX_ATTEMPTS else set(range(carried))
                    continue
                if lengths.open_more(changing, values, results):
                    if not opens:
                        lengths.opened.clear()
                        raise ShapeChanges("a value of a loop changes its shape")
                    undo()
                    continue
                break
        self._require_bool(test)
        first = lengths.update(inputs, symbols)
        if first.lengths:
            copies = [first, *copies]
        updates = tuple(
            Copy(target=values[n], source=results[n]) for n in sorted(changing) if results[n] != values[n]
        )
        for n in changing:
            self._flat.levels[values[n]] = len(self._flat.regions) - 1
        items = self._flat.regions[-1].items
        items += copies
        items.append(
            WhileLoop(
                condition=condition.finished(),
                test=test,
                body=body.finished(),
                lengths=lengths.update(results, symbols),
                updates=updates,
                origin=origin,
            )
        )
        return values

    def _holds(self, condition: int) -> bool:
        value = self._flat.known[condition]
        if value.size != 1:
            raise NotStructured("a condition is not a single BOOL")
        return bool(value.reshape(-1)[0])

    def _inline(self, graph: int, inputs: Sequence[int], origin: int) -> Sequence[int]:
        """Inlines a graph with these inputs and returns its outputs, both as operand indices."""
        inner = self._flat.model.referenced[graph]
        mapping = self._mapping(graph, inputs)
        for position, operation in enumerate(inner.operations):
            self._add_operation(inner, operation, position, mapping, origin)
        return [mapping[index] for index in inner.outputs]

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


def _integer(value: Array) -> int | None:
    """Returns the number in an array of a single integer; None for others."""
    return int(value.reshape(-1)[0]) if value.size == 1 and value.dtype in _COUNTED else None


def _graphs(call: Call) -> tuple[int, int]:
    return call.graph_index("condition"), call.graph_index("body")


def _inputs(call: Call) -> Sequence[int]:
    return call.indexes("inputs") if "inputs" in call.binding.inputs else ()
