"""Turns IF and WHILE into branches and loops around blocks of operations; see `structured_model`.

Each graph that control flow runs is inlined where it runs, with operands of its own:

- A value of a loop that the body returns unchanged is the same operand inside and outside. If it is
  a constant, it is one in the loop too, and so are the shapes that follow from it. Which values
  these are is found by trying: at first all are taken as unchanged, and the loop is inlined again
  with a variable for each value that did change.
- The variables of a loop have the same shape in every turn, except for dimensions that change
  between turns. These lengths are symbols (`neurald.drivers.compiler.ir.extent`), which the program
  sets for each turn; so are lengths that follow from data, and those of the results of an IF whose
  sides have different ones.
- Slices that begin at a counter get a known length (`symbolic_integers`). A concatenation of the
  elements before a slice, new elements, and the elements after it, as TensorFlow writes an element
  of a list, becomes an update of that slice.
- Operations that depend on nothing that changes in the loop move out of it.
- Loops with a short trip count that follows from constants are unrolled: their counters and
  slices are then constants. The same is done, within wider limits, if the shapes change in every
  turn.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, repeat
from math import prod
from typing import Any

import numpy as np

from neurald.drivers.compiler.frontend.graph_builder import EvaluateGraph, constant_results
from neurald.drivers.compiler.frontend.open_lengths import as_objects, lengths_of
from neurald.drivers.compiler.frontend.structured_model import (
    BasicBlock,
    Branch,
    Copy,
    Element,
    Item,
    LengthUpdate,
    StructuredModel,
    Update,
    WhileLoop,
)
from neurald.drivers.compiler.frontend.symbolic_integers import (
    INTEGER_TYPES,
    MAX_ELEMENTS,
    Sum,
    Sums,
    constant_sums,
    sums_of_result,
    unknown_sums,
)
from neurald.drivers.compiler.ir.complex_numbers import is_complex
from neurald.drivers.compiler.ir.extent import (
    MIN_LENGTH,
    Extent,
    ExtentScope,
    Guard,
    Relation,
    has_extents,
    number_of,
    same_length,
    same_shape,
    symbols_of,
)
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.errors import BadData
from neurald.hal.model.numbering import operand_name, operation_number
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import (
    FusedActivation,
    Lifetime,
    Model,
    Operand,
    OperandType,
    Operation,
    Subgraph,
    array_to_store,
)
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.arguments import slice_range
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.operations.movement.concatenation import concatenation_axis
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import declared_shape, merge

CONTROL_FLOW = frozenset((OperationType.IF, OperationType.WHILE))
#: Limits on unrolling a loop, and on unrolling one whose shapes change in every turn, which are known
#: then. Each turn adds kernels to compile.
_MAX_TURNS, _MAX_OPERATIONS = 4, 128
_MAX_CHANGING_TURNS, _MAX_CHANGING_OPERATIONS = 128, 1024
#: Limits on the dimensions of a loop's values that change, and on the lengths in an operand.
_MAX_OPENED, _MAX_LENGTHS = 64, 16
#: Lengths for which code is generated: those of a loop's values are at least the first one, and those
#: that follow from data are less, because the latter are often limited by the former. Where this is
#: wrong, the others are tried.
_HINT, _DATA_HINTS = 129, (127, 9, 3, 2)
#: Number of attempts to find the unchanged values of a loop before all count as changed.
_MAX_ATTEMPTS = 3
#: Limit on inlined operations, including those of attempts: nested loops multiply them. It grows
#: with the number of operations.
_MAX_INLINED, _MAX_INLINED_PER_OPERATION = 20_000, 8

#: Operations whose results follow from the shape of their input.
_SHAPE_QUERIES = (OperationType.TFLITE_SHAPE, OperationType.RANK, OperationType.TFLITE_RANK)
_RESHAPES = (OperationType.RESHAPE, OperationType.TFLITE_RESHAPE)
_SLICES = (OperationType.SLICE, OperationType.TFLITE_SLICE)
_STRIDED_SLICES = (OperationType.STRIDED_SLICE, OperationType.TFLITE_STRIDED_SLICE)
_CONCATENATIONS = (OperationType.CONCATENATION, OperationType.TFLITE_CONCATENATION)


class _NotStructured(Exception):
    """The control flow cannot be compiled; the message says why."""


class _ShapeChanges(_NotStructured):
    """A shape depends on data or differs from turn to turn, in a way that is not supported."""


class _NotUnrolled(_NotStructured):
    """A loop cannot be unrolled within the limits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """A slice of an operand, whose length is not known.

    Attributes:
        source: the sliced operand.
        begins, lengths: of the slice, along each dimension.
        operation: the slice.
        place: the number of its original graph, and its origin.
    """

    source: int
    begins: tuple[Sum, ...]
    lengths: tuple[Sum, ...]
    operation: Operation
    place: tuple[int, int]


@dataclass(slots=True)
class _Region:
    """Items that run together: the main graph, a part of a loop, or a side of a branch.

    Attributes:
        items: operations in consecutive positions form a block, a list of them.
        repeats: True for the condition and the body of a loop.
    """

    items: list[list[int] | Copy | Update | LengthUpdate | WhileLoop | Branch]
    repeats: bool = False

    def append(self, position: int) -> None:
        """Adds an operation to the last block, or to a new one."""
        if self.items and isinstance(self.items[-1], list):
            self.items[-1].append(position)
        else:
            self.items.append([position])

    def finished(self) -> tuple[Item, ...]:
        return tuple(
            BasicBlock(operations=tuple(each)) if isinstance(each, list) else each for each in self.items
        )


def structure_control_flow(
    model: Model,
    input_shapes: Mapping[int, Shape] | None = None,
    evaluate: EvaluateGraph | None = None,
    positions: Sequence[int] | None = None,
    scope: ExtentScope | None = None,
) -> StructuredModel:
    """Returns the model with its control flow as a program.

    Args:
        model: a valid model.
        input_shapes: shapes of inputs that the model leaves open, by operand.
        evaluate: computes float arithmetic on constants, see `build_graph`.
        positions: positions of the model's operations in the model that it is a part of; None if it
            is the whole model.
        scope: of the extents in `input_shapes`; None if there are none.

    Raises:
        BadData: the control flow cannot be compiled, or the model has an error, which its execution
            reports.
    """
    try:
        return _Structurer(model, input_shapes or {}, evaluate, scope).result(positions)
    except UnknownValue as error:
        raise BadData(f"control flow: {error} is not known before execution") from None
    except _NotStructured as error:
        raise BadData(f"control flow: {error}") from None


class _Structurer:
    """Structures one model.

    Operands of the main graph keep their indices. Operands of other graphs get new indices whenever
    their graph is inlined.
    """

    def __init__(
        self,
        model: Model,
        input_shapes: Mapping[int, Shape],
        evaluate: EvaluateGraph | None,
        scope: ExtentScope | None,
    ) -> None:
        self._model = model
        self._evaluate = evaluate
        self._operands: list[Operand] = []
        self._operations: list[Operation] = []
        self._origins: list[int] = []
        self._graphs: list[int] = []
        self._shapes: dict[int, Shape] = {}
        self._known: dict[int, Array] = {}
        self._given: set[int] = set()
        self._sums: dict[int, Sums] = {}
        self._parts: dict[int, _Part] = {}
        #: The number of the region, from the outermost, that computes an operand, or sets a symbol.
        self._levels: dict[int, int] = {}
        self._symbol_levels: dict[int, int] = {}
        self._scope = ExtentScope(()) if scope is None else scope
        self._scope.ignores_empty = True
        self._data_hint = _DATA_HINTS[0]
        #: The elements of operands that are lengths.
        self._extents: dict[int, Array] = {}
        #: The symbols for elements of operands, with the region that sets them.
        self._element_symbols: dict[tuple[int, int], tuple[_Region, Any]] = {}
        #: The dimensions of a loop's values that change, with what distinguishes their lengths.
        self._opened: dict[tuple[int, int], dict[tuple[int, int], Hashable]] = {}
        self._constants: dict[tuple[int, int], int] = {}
        #: The values that change in loops inlined before, by the graphs of the loop.
        self._changing: dict[tuple[int, int], set[int]] = {}
        self._regions = [_Region([])]
        graphs = (model.main, *model.referenced)
        self._left = _MAX_INLINED + _MAX_INLINED_PER_OPERATION * sum(len(each.operations) for each in graphs)
        for operand in model.main.operands:
            self._add_operand(operand)
        for index, shape in input_shapes.items():
            self._shapes[index] = merge(
                self._operands[index].dimensions, shape, operand_name(self._operands, index)
            )
            self._operands[index] = replace(self._operands[index], dimensions=shape)

    # ---------------------------------------------------------------- operands

    def _add_operand(self, operand: Operand) -> int:
        index = len(self._operands)
        self._operands.append(operand)
        shape, value = declared_shape(operand), self._model.constant(operand)
        if shape is not None:
            self._shapes[index] = shape
        if value is not None:
            self._known[index] = value
            self._given.add(index)
        return index

    def _variable(self, like: int, shape: Shape | None = None) -> int:
        """Adds a variable that has the type of an operand, and its shape unless another one is given."""
        shape = self._shape(like) if shape is None else shape
        index = self._add_operand(
            replace(
                self._operands[like],
                lifetime=Lifetime.TEMPORARY_VARIABLE,
                dimensions=shape,
                location=None,
                value=b"",
            )
        )
        self._levels[index] = len(self._regions) - 1
        return index

    def _loop_variable(self, like: int, shape: Shape) -> int:
        """Adds a variable of the loop that the current region gets."""
        index = self._variable(like, shape)
        self._levels[index] = len(self._regions)
        return index

    def _integers(self, values: Sequence[int], kind: OperandType = OperandType.TENSOR_INT32) -> int:
        """Adds a vector of integers, which may be lengths."""
        if any(isinstance(each, Extent) for each in values):
            return self._lengths(as_objects(tuple(values)), kind)
        try:
            array = np.array(values, kind.dtype)
        except OverflowError:
            raise _NotStructured(f"{list(values)} are no indices") from None
        return self._add_operand(
            Operand(type=kind, dimensions=array.shape, lifetime=Lifetime.CONSTANT_COPY, value=array.tobytes())
        )

    def _lengths(self, values: Array, kind: OperandType) -> int:
        """Adds an operand whose elements are lengths."""
        index = self._add_operand(Operand(type=kind, dimensions=values.shape))
        self._extents[index] = values
        return index

    def _value(self, index: int) -> Array | None:
        return self._extents[index] if index in self._extents else self._known.get(index)

    def _shape(self, index: int) -> Shape:
        shape = self._shapes.get(index)
        if shape is None:
            raise _NotStructured(f"the shape of {operand_name(self._operands, index)} is not known")
        return shape

    def _set_constant(self, index: int, value: Array) -> None:
        """Turns an operand into a constant."""
        operand = self._operands[index]
        if operand.type is OperandType.TENSOR_STRING:
            raise _NotStructured("it computes constant strings")
        self._operands[index] = replace(
            operand,
            lifetime=Lifetime.CONSTANT_COPY,
            dimensions=value.shape,
            value=array_to_store(value, operand.type).tobytes(),
        )
        self._known[index], self._shapes[index] = value, value.shape

    def _sums_of(self, index: int) -> Sums | None:
        """Returns the elements of a small operand of integers as sums."""
        if index in self._sums:
            return self._sums[index]
        shape = self._shapes.get(index)
        if self._operands[index].type not in INTEGER_TYPES or shape is None:
            return None
        if has_extents(shape) or index in self._extents or int(np.prod(shape)) > MAX_ELEMENTS:
            return None
        value = self._known.get(index)
        sums = unknown_sums(index, shape) if value is None else constant_sums(value)
        self._sums[index] = sums
        return sums

    # ----------------------------------------------------------------- regions

    @contextmanager
    def _region(self, *, repeats: bool) -> Iterator[_Region]:
        self._add_guards()
        region = _Region([], repeats)
        self._regions.append(region)
        try:
            yield region
            self._add_guards()
        finally:
            self._regions.pop()

    def _add_guards(self) -> None:
        """Adds the conditions by which shapes were found to the current region."""
        guards = self._scope.recorded()
        if guards:
            self._regions[-1].items.append(LengthUpdate(guards=guards))

    @contextmanager
    def _attempt(self) -> Iterator[Callable[[], None]]:
        """Yields a function that undoes everything since; an exception does so too.

        Everything that inlining adds belongs to new operands.
        """
        operands, operations = len(self._operands), len(self._operations)
        symbols, bounds = dict(self._element_symbols), self._scope.all_bounds()
        ends = [(region, len(region.items), _last_length(region)) for region in self._regions]

        def undo() -> None:
            for index in range(operands, len(self._operands)):
                self._given.discard(index)
                for table in (
                    self._shapes,
                    self._known,
                    self._sums,
                    self._parts,
                    self._levels,
                    self._extents,
                ):
                    table.pop(index, None)
            self._element_symbols = dict(symbols)
            self._scope.recorded()
            self._scope.restore(bounds)
            while self._constants and next(reversed(self._constants.values())) >= operands:
                self._constants.popitem()
            del self._operands[operands:], self._operations[operations:]
            del self._origins[operations:], self._graphs[operations:]
            for region, kept, length in ends:
                del region.items[kept:]
                if kept and isinstance(last := region.items[-1], list):
                    del last[length:]

        try:
            yield undo
        except BaseException:
            undo()
            raise

    # -------------------------------------------------------------- operations

    def result(self, positions: Sequence[int] | None) -> StructuredModel:
        """Structures the main graph; see `structure_control_flow`."""
        main = self._model.main
        origins = range(len(main.operations)) if positions is None else positions
        mapping = {index: index for index in range(len(main.operands))}
        for position, operation in enumerate(main.operations):
            self._add_operation(main, operation, position, mapping, origins[position])
        outputs = self._outputs(mapping)
        self._add_guards()
        graph = replace(
            main, operands=tuple(self._operands), operations=tuple(self._operations), outputs=outputs
        )
        return StructuredModel(
            model=replace(self._model, main=graph),
            items=self._regions[0].finished(),
            origins=tuple(self._origins),
            graphs=tuple(self._graphs),
            scope=self._scope,
            values=self._extents,
        )

    def _outputs(self, mapping: Mapping[int, int]) -> tuple[int, ...]:
        """Returns an operand of its own for each output of the main graph."""
        main = self._model.main
        outputs: list[int] = []
        names = [self._operands[old].name for old in main.outputs]
        computed = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT)
        for old in main.outputs:
            new = self._stored(mapping[old])
            if new in outputs or self._operands[new].lifetime not in computed:
                copy = self._variable(new)
                self._regions[0].items.append(Copy(target=copy, source=new))
                new = copy
            if self._operands[old].lifetime is Lifetime.SUBGRAPH_OUTPUT:
                self._operands[old] = replace(self._operands[old], lifetime=Lifetime.TEMPORARY_VARIABLE)
            outputs.append(new)
        for new, name in zip(outputs, names, strict=True):
            self._operands[new] = replace(self._operands[new], lifetime=Lifetime.SUBGRAPH_OUTPUT, name=name)
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
            raise _NotStructured("it is nested too deeply")
        moved = replace(
            operation,
            inputs=tuple(mapping[index] for index in operation.inputs),
            outputs=tuple(mapping[index] for index in operation.outputs),
            number=operation_number(graph, position),
        )
        if operation.type not in _CONCATENATIONS:
            moved = replace(moved, inputs=tuple(self._realized(each) for each in moved.inputs))
        call = self._call(moved)
        if operation.type in CONTROL_FLOW:
            results = (
                self._branch(call, origin) if operation.type is OperationType.IF else self._loop(call, origin)
            )
            mapping.update(zip(operation.outputs, results, strict=False))
            return
        if graph is not self._model.main and self._is_identity(moved, call):
            mapping[operation.outputs[0]] = moved.inputs[0]
            return
        if self._computes_lengths(call):
            return
        known = self._known_results(call)
        if known is not None:
            for index, result in zip(moved.outputs, known, strict=True):
                self._set_constant(index, result)
            return
        try:
            shapes = DEFINITIONS[operation.type].output_shapes(call)
        except UnknownValue:
            try:
                with self._attempt():
                    replaced = self._with_known_lengths(moved, call, graph, origin)
            except _ShapeChanges:
                self._with_lengths_of_data(moved, graph.number, origin)
                return
            if replaced is not None:
                mapping[operation.outputs[0]] = replaced
            return
        update = self._update_of(moved, call, graph, origin)
        if update is not None:
            mapping[operation.outputs[0]] = update
            return
        self._append(moved, shapes, graph.number, origin)
        if len(moved.outputs) == 1 and self._operands[moved.outputs[0]].type in INTEGER_TYPES:
            sums = sums_of_result(call, self._sums_of)
            if sums is not None and sums.shape == shapes[0]:
                self._sums[moved.outputs[0]] = sums

    def _known_results(self, call: Call) -> Sequence[Array] | None:
        """Returns the results of an operation if they follow from constants or shapes."""
        if call.binding.type in _SHAPE_QUERIES:
            (index,) = call.indexes("input")
            shape = self._shape(index)
            # The lengths of others are computed by `_computes_lengths`.
            lengths = tuple(1 if isinstance(each, Extent) else each for each in shape)
            any_values = np.broadcast_to(np.zeros((), np.int8), lengths)
            return DEFINITIONS[call.binding.type].reference(call.with_values({index: any_values}))
        return constant_results(call, self._operands, self._shapes, self._known, self._given, self._evaluate)

    def _call(self, operation: Operation) -> Call:
        binding = DEFINITIONS[operation.type].bind(operation, self._operands)
        return Call(binding, self._operands, self._shapes.get, self._value, referenced=self._model.referenced)

    def _append(self, operation: Operation, shapes: Sequence[Shape], graph: int, origin: int) -> None:
        """Adds an operation with operands of this model."""
        for index, shape in zip(operation.outputs, shapes, strict=True):
            self._shapes[index] = merge(
                self._operands[index].dimensions, shape, operand_name(self._operands, index)
            )
            if (
                not same_shape(self._operands[index].dimensions, shape)
                and self._operands[index].type.is_tensor
            ):
                self._operands[index] = replace(self._operands[index], dimensions=shape)
        operation = self._with_stored_inputs(operation)
        self._add_guards()
        level = self._level(operation)
        for index in operation.outputs:
            self._levels[index] = level
        position = len(self._operations)
        self._operations.append(operation)
        self._origins.append(origin)
        self._graphs.append(graph)
        self._regions[level].append(position)

    def _level(self, operation: Operation) -> int:
        """Returns the number of the region that an operation runs in: outside of loops if possible.

        An operation that may fail stays where it is, because the loop may not run at all.
        """
        level = len(self._regions) - 1
        if not self._regions[level].repeats:
            return level
        definition = DEFINITIONS[operation.type]
        arithmetic = {
            index
            for name, indexes in self._call(operation).binding.inputs.items()
            if name in definition.arithmetic
            for index in indexes
        }
        if definition.is_random or any(
            index not in arithmetic and index not in self._known for index in operation.inputs
        ):
            return level
        lowest = max((self._levels.get(index, 0) for index in operation.inputs), default=0)
        shapes = [self._shapes.get(index, ()) for index in (*operation.inputs, *operation.outputs)]
        lengths = (length for shape in shapes for length in shape)
        lowest = max(lowest, *(self._symbol_levels.get(each, 0) for each in symbols_of(lengths)), 0)
        while level > lowest and self._regions[level].repeats:
            level -= 1
        return level

    def _is_identity(self, operation: Operation, call: Call) -> bool:
        """Returns True if the only result of an operation equals its first input."""
        if operation.type not in (*_RESHAPES, *_SLICES):
            return False
        try:
            (shape,) = DEFINITIONS[operation.type].output_shapes(call)
        except (UnknownValue, BadData):
            return False
        source, result = self._operands[operation.inputs[0]], self._operands[operation.outputs[0]]
        return (
            same_shape(self._shapes.get(operation.inputs[0]), shape)
            and source.type is result.type
            and (source.scale, source.zero_point, source.channel_quant)
            == (result.scale, result.zero_point, result.channel_quant)
        )

    # ------------------------------------------------------------------ slices

    def _with_known_lengths(
        self, operation: Operation, call: Call, graph: Subgraph, origin: int
    ) -> int | None:
        """Adds an operation whose shape depends on integers that are not known.

        Returns:
            The operand that replaces its result; None if it keeps its own, or has none yet.
        """
        kind = operation.type
        if kind in _SLICES:
            return self._slice(operation, call, graph, origin)
        if kind in _STRIDED_SLICES:
            return self._strided_slice(operation, call, graph, origin)
        if kind in _CONCATENATIONS:
            return self._list_update(operation, call, graph, origin)
        raise _ShapeChanges(f"the shape of the result of {kind.name} depends on data")

    def _slice(self, operation: Operation, call: Call, graph: Subgraph, origin: int) -> int | None:
        source = call.index("input")
        shape = self._shape(source)
        begins, sizes = (self._sums_of(call.index(name)) for name in ("begin", "size"))
        if begins is None or sizes is None or begins.shape != (len(shape),) or sizes.shape != begins.shape:
            raise _ShapeChanges("a slice has a length that depends on data")
        lengths = tuple(
            Sum(length) - begin if size == Sum(-1) else size
            for length, begin, size in zip(shape, begins.tolist(), sizes.tolist(), strict=True)
        )
        if any(length.terms for length in lengths):
            self._parts[operation.outputs[0]] = _Part(
                source=source,
                begins=tuple(begins.tolist()),
                lengths=lengths,
                operation=operation,
                place=(graph.number, origin),
            )
            return None
        known = tuple(length.constant for length in lengths)
        if any(not 0 <= length <= whole for length, whole in zip(known, shape, strict=True)):
            raise BadData(f"a slice of {list(known)} elements does not fit into {list(shape)}")
        begin = self._vector(begins.tolist(), call, operation, graph, origin)
        inputs = (source, begin, self._integers(known))
        self._append(replace(operation, inputs=inputs), (known,), graph.number, origin)
        return None

    def _strided_slice(self, operation: Operation, call: Call, graph: Subgraph, origin: int) -> int | None:
        """Adds a slice of consecutive elements whose begin is not known, but whose length is."""
        source, output = call.index("input"), operation.outputs[0]
        shape = self._shape(source)
        begins, ends, strides = (self._sums_of(call.index(name)) for name in ("begin", "end", "strides"))
        if begins is None or ends is None or strides is None or begins.ndim != 1:
            raise _ShapeChanges("a slice has a length that depends on data")
        for mask in ("ellipsis_mask", "new_axis_mask", "offset"):
            if mask in call.binding.inputs and call.scalar(mask):
                raise _ShapeChanges(f"a slice with {mask} begins at an index that depends on data")
        if not len(begins) == len(ends) == len(strides) <= len(shape):
            raise BadData("begin, end and strides of a slice have different lengths")
        masks = [int(call.scalar(name)) for name in ("begin_mask", "end_mask", "shrink_axis_mask")]
        firsts, lengths, kept = [], [], []
        for axis, whole in enumerate(shape):
            if axis >= len(begins):
                firsts.append(Sum(0))
                lengths.append(whole)
                kept.append(whole)
                continue
            shrinks = bool(masks[2] >> axis & 1)
            first, length = _strided_axis(
                whole,
                None if masks[0] >> axis & 1 and not shrinks else begins[axis],
                None if masks[1] >> axis & 1 else ends[axis],
                strides[axis],
                shrinks=shrinks,
            )
            firsts.append(first)
            lengths.append(length)
            if not shrinks:
                kept.append(length)
        taken = tuple(lengths)
        result = tuple(kept) or ((1,) if operation.type is OperationType.STRIDED_SLICE else ())
        whole_slice = (
            output
            if taken == result
            else self._add_operand(
                replace(self._operands[output], lifetime=Lifetime.TEMPORARY_VARIABLE, dimensions=taken)
            )
        )
        begin = self._vector(firsts, call, operation, graph, origin)
        if operation.type is OperationType.TFLITE_STRIDED_SLICE and begin not in self._known:
            removed = int(call.scalar("shrink_axis_mask"))
            lengths_counted = [whole if removed >> axis & 1 else 0 for axis, whole in enumerate(shape)]
            begin = self._counted_from_end(begin, lengths_counted, operation, graph, origin)
        self._append(
            Operation(
                type=OperationType.TFLITE_SLICE,
                inputs=(source, begin, self._integers(taken)),
                outputs=(whole_slice,),
                number=operation.number,
            ),
            (taken,),
            graph.number,
            origin,
        )
        if whole_slice != output:
            self._append(
                Operation(
                    type=OperationType.TFLITE_RESHAPE,
                    inputs=(whole_slice, self._integers(result)),
                    outputs=(output,),
                    number=operation.number,
                ),
                (result,),
                graph.number,
                origin,
            )
        return None

    def _vector(
        self, sums: Sequence[Sum], call: Call, operation: Operation, graph: Subgraph, origin: int
    ) -> int:
        """Returns an INT32 vector of these sums; adds the operations that compute it."""
        if not any(each.terms for each in sums):
            return self._integers([each.constant for each in sums])
        for name in ("begin", "start"):
            if name in call.binding.inputs:
                index = call.index(name)
                existing = self._sums.get(index)
                is_vector = existing is not None and existing.ndim == 1
                is_int32 = self._operands[index].type is OperandType.TENSOR_INT32
                if existing is not None and is_vector and is_int32 and existing.tolist() == list(sums):
                    return index
        add = partial(self._add_integers, operation, graph.number, origin)
        vector, none, count = self._integers([each.constant for each in sums]), self._none(), len(sums)
        for element in dict.fromkeys(key for each in sums for key, _ in each.terms):
            factors = self._integers([dict(each.terms).get(element, 0) for each in sums])
            scaled = add(OperationType.MUL, (self._element(element, add), factors, none), count)
            vector = add(OperationType.ADD, (scaled, vector, none), count)
        return vector

    def _element(self, element: tuple[int, int], add: "Callable[..., int]") -> int:
        """Returns an element of an operand of integers as an INT32 vector; adds its operations.

        An element that does not fit is replaced by the closest one that does.
        """
        operand, number = element
        kind = self._operands[operand].type
        if not kind.is_tensor:
            raise _NotStructured("a slice begins at an index that is a scalar operand")
        count = int(np.prod(self._shape(operand)))
        found = add(OperationType.TFLITE_RESHAPE, (operand, self._integers([count])), count, kind)
        if count > 1:
            slicing = (found, self._integers([number]), self._integers([1]))
            found = add(OperationType.TFLITE_SLICE, slicing, 1, kind)
        if kind is OperandType.TENSOR_INT64:
            limits = np.iinfo(np.int32)
            for each, limit in (
                (OperationType.TFLITE_MINIMUM, limits.max),
                (OperationType.TFLITE_MAXIMUM, limits.min),
            ):
                found = add(each, (found, self._integers([limit], kind)), 1, kind)
            found = add(OperationType.TFLITE_CAST, (found,), 1)
        return found

    def _add_integers(
        self,
        operation: Operation,
        graph: int,
        origin: int,
        kind: OperationType,
        inputs: tuple[int, ...],
        length: int,
        result: OperandType = OperandType.TENSOR_INT32,
    ) -> int:
        """Adds an operation that computes a vector on behalf of another operation."""
        output = self._add_operand(Operand(type=result, dimensions=(length,)))
        added = Operation(type=kind, inputs=inputs, outputs=(output,), number=operation.number)
        self._append(added, ((length,),), graph, origin)
        return output

    def _counted_from_end(
        self, begin: int, lengths: Sequence[int], operation: Operation, graph: Subgraph, origin: int
    ) -> int:
        """Adds lengths to the negative elements of an INT32 vector."""
        add = partial(self._add_integers, operation, graph.number, origin)
        count, none = len(lengths), self._none()
        negative = add(OperationType.LESS, (begin, self._integers([0])), count, OperandType.TENSOR_BOOL8)
        ones = add(OperationType.TFLITE_CAST, (negative,), count)
        added = add(OperationType.MUL, (ones, self._integers(lengths), none), count)
        return add(OperationType.ADD, (added, begin, none), count)

    def _none(self) -> int:
        """Adds the constant for no fused activation."""
        return self._add_operand(
            Operand(
                type=OperandType.INT32,
                dimensions=(),
                lifetime=Lifetime.CONSTANT_COPY,
                value=np.int32(FusedActivation.NONE).tobytes(),
            )
        )

    def _list_update(self, operation: Operation, call: Call, graph: Subgraph, origin: int) -> int:
        """Adds a concatenation of a prefix, new elements, and the rest of the same operand."""
        parts = call.indexes("inputs")
        unknown = [index for index in parts if index in self._parts]
        shapes = [self._shapes.get(index) for index in parts if index not in self._parts]
        if (
            len(parts) != 3
            or len(shapes) != 1
            or shapes[0] is None
            or 0 in shapes[0]
            or parts[1] in self._parts
        ):
            raise _ShapeChanges("a concatenation has a length that depends on data")
        head, tail, new = self._parts[unknown[0]], self._parts[unknown[-1]], shapes[0]
        source, item = head.source, parts[1]
        shape = self._shape(source)
        axis = concatenation_axis(call.with_values({index: np.zeros(new, np.int8) for index in parts}))
        lengths = [*new]
        is_update = (
            tail.source == source
            and len(new) == len(shape)
            and head.begins == (Sum(0),) * len(shape)
            and tail.begins[axis] == head.lengths[axis] + Sum(new[axis])
            and tail.lengths[axis] == Sum(shape[axis]) - tail.begins[axis]
            and all(
                part.lengths[d] == Sum(shape[d]) and part.begins[d] == Sum(0) and lengths[d] == shape[d]
                for part in (head, tail)
                for d in range(len(shape))
                if d != axis
            )
            and self._is_plain_concatenation(operation, (source, item))
        )
        if not is_update:
            raise _ShapeChanges("a concatenation has a length that depends on data")
        starts = [Sum(0)] * len(shape)
        starts[axis] = head.lengths[axis]
        start = self._vector(starts, call, operation, graph, origin)
        slicing = head.operation
        return self._add_update(
            slicing,
            source,
            item,
            start,
            f"a slice of length {new[axis]} along axis {axis} exceeds the length {shape[axis]}",
            graph,
            origin,
        )

    def _is_plain_concatenation(self, operation: Operation, parts: Sequence[int]) -> bool:
        """Returns True if no element needs another scale."""
        result = self._operands[operation.outputs[0]]
        return all(
            (self._operands[each].scale, self._operands[each].zero_point) == (result.scale, result.zero_point)
            for each in parts
        )

    def _update_of(self, operation: Operation, call: Call, graph: Subgraph, origin: int) -> int | None:
        """Adds a DYNAMIC_UPDATE_SLICE as an update; None for other operations."""
        if operation.type is not OperationType.TFLITE_DYNAMIC_UPDATE_SLICE:
            return None
        source, part, start = (call.index(name) for name in ("input", "update", "start"))
        is_int32 = self._operands[start].type is OperandType.TENSOR_INT32
        if is_complex(self._operands[source].type) or not is_int32 or 0 in self._shape(part):
            return None
        if start in self._known or source in self._known:
            return None
        return self._add_update(operation, source, part, start, "", graph, origin)

    def _add_update(
        self,
        operation: Operation,
        source: int,
        part: int,
        start: int,
        message: str,
        graph: Subgraph,
        origin: int,
    ) -> int:
        """Adds an update; `operation` is named in messages."""
        target = self._variable(source)
        position = len(self._operations)
        # The operation is in no block; it is kept for its name.
        self._operations.append(operation)
        self._origins.append(origin)
        self._graphs.append(graph.number)
        self._regions[-1].items.append(
            Update(target=target, source=source, part=part, start=start, message=message, operation=position)
        )
        return target

    # ------------------------------------------------------------ control flow

    def _branch(self, call: Call, origin: int) -> Sequence[int]:
        condition, inputs = call.index("condition"), _inputs(call)
        inputs = [self._realized(each) for each in inputs]
        known = self._known.get(condition)
        if known is not None:
            name = "then" if self._holds(condition) else "else"
            return self._inline(call.graph_index(name), inputs, origin)
        self._require_bool(condition)
        with self._region(repeats=False) as then:
            first = [self._stored(each) for each in self._inline(call.graph_index("then"), inputs, origin)]
        with self._region(repeats=False) as otherwise:
            second = [self._stored(each) for each in self._inline(call.graph_index("else"), inputs, origin)]
        results: list[int] = []
        joined = [
            self._joined_shape(one, other) for one, other in zip(first, second, strict=True) if one != other
        ]
        symbols = {key: self._symbol() for shape in joined for key in shape if isinstance(key, tuple)}
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
            variable = self._variable(one, shape)
            then.items.append(Copy(target=variable, source=one))
            otherwise.items.append(Copy(target=variable, source=other))
            results.append(variable)
        self._regions[-1].items.append(
            Branch(condition=condition, then=then.finished(), otherwise=otherwise.finished(), origin=origin)
        )
        return results

    def _joined_shape(self, one: int, other: int) -> tuple[Any, ...]:
        """Returns the shape of a result of an IF; pairs of lengths where those of its sides differ."""
        first, second = self._shape(one), self._shape(other)
        if len(first) != len(second):
            raise _ShapeChanges("the sides of an IF have results of different ranks")
        return tuple(
            length if same_length(length, found) else (length, found)
            for length, found in zip(first, second, strict=True)
        )

    def _require_bool(self, index: int) -> None:
        if (
            self._operands[index].type is not OperandType.TENSOR_BOOL8
            or int(np.prod(self._shape(index))) != 1
        ):
            raise _NotStructured("a condition is not a single BOOL")

    def _loop(self, call: Call, origin: int) -> Sequence[int]:
        inputs = [self._realized(each) for each in _inputs(call)]
        if not self._is_nested(call):
            try:
                return self._unrolled(call, inputs, origin, _MAX_TURNS, _MAX_OPERATIONS)
            except (_NotUnrolled, _ShapeChanges):
                pass
        try:
            with self._attempt():
                stored = [self._stored(each) for each in inputs]
                return self._repeated(call, stored, origin, opens=False)
        except _ShapeChanges:
            pass
        try:
            return self._unrolled(call, inputs, origin, _MAX_CHANGING_TURNS, _MAX_CHANGING_OPERATIONS)
        except (_NotUnrolled, _ShapeChanges):
            pass
        with self._attempt():
            return self._repeated(call, [self._stored(each) for each in inputs], origin, opens=True)

    def _is_nested(self, call: Call) -> bool:
        """Returns True if there is control flow in a loop. Unrolling it would multiply the inner one."""
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
        first = len(self._operations)
        with self._attempt():
            for _ in range(max_turns + 1):
                with self._attempt() as undo:
                    (condition,) = self._inline(call.graph_index("condition"), values, origin)
                    if condition not in self._known:
                        raise _NotUnrolled("the condition of a loop depends on data")
                    holds = self._holds(condition)
                    undo()
                if not holds:
                    return values
                results = self._inline(call.graph_index("body"), values, origin)
                values[: len(results)] = results
                if len(self._operations) - first > max_operations:
                    raise _NotUnrolled("a loop has too many operations to be unrolled")
            raise _NotUnrolled("a loop has too many turns to be unrolled")

    def _repeated(self, call: Call, inputs: Sequence[int], origin: int, *, opens: bool) -> Sequence[int]:
        """Inlines a loop once.

        Raises:
            _ShapeChanges: a shape changes from turn to turn, and `opens` is False.
        """
        body_graph = call.graph_index("body")
        carried = len(self._model.referenced[body_graph].outputs)
        # What changed when the loop was last inlined changes again: without this, the attempts of
        # nested loops would multiply.
        graphs = call.graph_index("condition"), body_graph
        changing, opened = self._changing.setdefault(graphs, set()), self._opened.setdefault(graphs, {})
        attempts = 0
        while True:
            with self._attempt() as undo:
                attempts += 1
                symbols = self._loop_symbols(inputs, opened)
                values = [
                    self._loop_variable(index, self._opened_shape(n, index, opened, symbols))
                    if n in changing
                    else index
                    for n, index in enumerate(inputs)
                ]
                copies: list[Copy | LengthUpdate] = [
                    Copy(target=values[n], source=inputs[n]) for n in sorted(changing)
                ]
                try:
                    with self._region(repeats=True) as condition:
                        (test,) = self._inline(call.graph_index("condition"), values, origin)
                    with self._region(repeats=True) as body:
                        results = [self._stored(each) for each in self._inline(body_graph, values, origin)]
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
                if self._open_more(changing, values, results, opened):
                    if not opens:
                        opened.clear()
                        raise _ShapeChanges("a value of a loop changes its shape")
                    undo()
                    continue
                break
        self._require_bool(test)
        following = {
            opened[n, d]: self._shape(results[n])[d]
            for n in sorted(changing)
            for d in self._dimensions(n, opened)
        }
        first = {
            opened[n, d]: self._shape(inputs[n])[d]
            for n in sorted(changing)
            for d in self._dimensions(n, opened)
        }
        if first:
            copies = [
                LengthUpdate(lengths=tuple((number_of(symbols[key]), each) for key, each in first.items())),
                *copies,
            ]
        lengths = tuple((number_of(symbols[key]), each) for key, each in following.items())
        updates = tuple(
            Copy(target=values[n], source=results[n]) for n in sorted(changing) if results[n] != values[n]
        )
        for n in changing:
            self._levels[values[n]] = len(self._regions) - 1
        items = self._regions[-1].items
        items += copies
        items.append(
            WhileLoop(
                condition=condition.finished(),
                test=test,
                body=body.finished(),
                lengths=LengthUpdate(lengths=lengths),
                updates=updates,
                origin=origin,
            )
        )
        return values

    # ----------------------------------------------------------------- lengths

    def _symbol(self, *, is_data: bool = False) -> Any:
        """Adds a symbol that the current region sets."""
        used = set(self._scope.hints)
        below = chain(range(self._data_hint, MIN_LENGTH, -2), repeat(MIN_LENGTH))
        candidates = below if is_data else count(_HINT, 2)
        hint = next(each for each in candidates if each == MIN_LENGTH or each not in used)
        symbol = self._scope.add_symbol(hint, 0)
        self._symbol_levels[number_of(symbol)] = len(self._regions) - 1
        return symbol

    def _loop_symbols(
        self, inputs: Sequence[int], opened: Mapping[tuple[int, int], Hashable]
    ) -> dict[Hashable, Any]:
        """Adds the symbols of a loop, which the current region gets."""
        symbols = {key: self._symbol() for key in dict.fromkeys(opened.values())}
        for symbol in symbols.values():
            self._symbol_levels[number_of(symbol)] = len(self._regions)
        return symbols

    def _dimensions(self, n: int, opened: Mapping[tuple[int, int], Hashable]) -> list[int]:
        return [dimension for number, dimension in opened if number == n]

    def _opened_shape(
        self,
        n: int,
        index: int,
        opened: Mapping[tuple[int, int], Hashable],
        symbols: Mapping[Hashable, Any],
    ) -> Shape:
        """Returns the shape of a value of a loop."""
        return tuple(
            symbols[opened[n, dimension]] if (n, dimension) in opened else length
            for dimension, length in enumerate(self._shape(index))
        )

    def _open_more(
        self,
        changing: Collection[int],
        values: Sequence[int],
        results: Sequence[int],
        opened: dict[tuple[int, int], Hashable],
    ) -> bool:
        """Opens the dimensions of a loop's values that change; returns False if there are no others."""
        changed: dict[tuple[int, int], Any] = {}
        for n in sorted(changing):
            before, after = self._shape(values[n]), self._shape(results[n])
            if len(before) != len(after):
                raise _ShapeChanges("a value of a loop changes its rank")
            for dimension, (length, found) in enumerate(zip(before, after, strict=True)):
                if (n, dimension) in opened or not same_length(length, found):
                    changed[n, dimension] = found
        # Dimensions that have the same length now had the same one before.
        keys = {
            each: (opened.get(each, _name(self._shape(values[each[0]])[each[1]])), found)
            for each, found in changed.items()
        }
        groups: dict[Hashable, set[Hashable]] = {}
        for old, found in keys.values():
            groups.setdefault(old, set()).add(_name(found))
        if changed.keys() == opened.keys() and all(len(names) == 1 for names in groups.values()):
            return False
        if len(opened) > _MAX_OPENED:
            raise _ShapeChanges("too many lengths of a loop change")
        for each, (old, _) in keys.items():
            is_split = len(groups[old]) > 1
            opened[each] = (old, each) if is_split else old
        return True

    def _extent_of(self, value: Sum) -> Any:
        """Returns a sum as a length."""
        total: Any = value.constant
        for (operand, number), factor in value.terms:
            total = total + factor * self._element_symbol(operand, number)
        return total

    def _element_symbol(self, operand: int, number: int) -> Any:
        """Returns the symbol for an integer, which the program reads here or has read before."""
        key = operand, number
        known = self._element_symbols.get(key)
        if known is not None and any(known[0] is each for each in self._regions):
            return known[1]
        if not self._operands[operand].type.is_tensor:
            raise _NotStructured("a length is a scalar operand")
        symbol = self._symbol(is_data=True)
        region = self._regions[-1]
        update = LengthUpdate(lengths=((number_of(symbol), Element(operand=operand, number=number)),))
        region.items.append(update)
        self._element_symbols[key] = region, symbol
        return symbol

    def _computes_lengths(self, call: Call) -> bool:
        """Keeps the results of an operation on lengths, if it is one."""
        results = lengths_of(call, _Values(self._value))
        if results is None:
            return False
        outputs = (index for indexes in call.binding.outputs.values() for index in indexes)
        for index, result in zip(outputs, results, strict=True):
            if has_extents(result.reshape(-1).tolist()):
                self._extents[index], self._shapes[index] = result, result.shape
                self._operands[index] = replace(self._operands[index], dimensions=result.shape)
            else:
                self._set_constant(index, result.astype(self._operands[index].type.dtype))
        return True

    def _with_lengths_of_data(self, operation: Operation, graph: int, origin: int) -> None:
        """Adds an operation whose shape follows from integers that are data."""
        self._with_hints(lambda: self._with_symbols(operation, graph, origin))

    def _with_hints(self, add: Callable[[], None]) -> None:
        """Adds operations with lengths from data, for which several hints are tried."""
        for hint in _DATA_HINTS:
            self._data_hint = hint
            try:
                with self._attempt():
                    add()
                    return
            except BadData:
                if hint == _DATA_HINTS[-1]:
                    raise
            finally:
                self._data_hint = _DATA_HINTS[0]

    def _with_symbols(self, operation: Operation, graph: int, origin: int) -> None:
        operation = replace(operation, inputs=tuple(self._realized(each) for each in operation.inputs))
        call = self._call(operation)
        arithmetic = _arithmetic_inputs(call)
        inputs = list(operation.inputs)
        for position, index in enumerate(operation.inputs):
            if index in arithmetic or self._value(index) is not None:
                continue
            sums = self._sums_of(index)
            if sums is not None and sums.size <= _MAX_LENGTHS:
                values = np.empty(sums.shape, object)
                for at, each in np.ndenumerate(sums):
                    values[at] = self._extent_of(each)
                if operation.type in _RESHAPES:
                    self._complete(values, self._shape(call.index("input")))
                inputs[position] = self._lengths(values, self._operands[index].type)
        operation = replace(operation, inputs=tuple(inputs))
        try:
            shapes = DEFINITIONS[operation.type].output_shapes(self._call(operation))
        except UnknownValue:
            raise _ShapeChanges(f"the shape of the result of {operation.type.name} depends on data") from None
        self._append(operation, shapes, graph, origin)

    def _complete(self, lengths: Array, shape: Shape) -> None:
        """Replaces one of the lengths of a reshaped operand by the only one that it can have."""
        unknown = [at for at, each in np.ndenumerate(lengths) if isinstance(each, Extent)]
        if not unknown:
            return
        total, others, last = prod(shape), 1, unknown[-1]
        for at, each in np.ndenumerate(lengths):
            others = others if at == last else others * each
        given, lengths[last] = lengths[last], total // others
        guard = Guard(extent=given - lengths[last], relation=Relation.ZERO, holds=True)
        self._regions[-1].items.append(LengthUpdate(guards=(guard,)))

    def _with_stored_inputs(self, operation: Operation) -> Operation:
        """Returns an operation whose inputs are stored, except for those on which its shape depends."""
        inputs = list(operation.inputs)
        for position, index in enumerate(operation.inputs):
            if index in self._parts:
                inputs[position] = self._realized(index)
            elif index in self._extents and not self._has_shape_of(operation, index):
                inputs[position] = self._stored(index)
        return operation if inputs == list(operation.inputs) else replace(operation, inputs=tuple(inputs))

    def _has_shape_of(self, operation: Operation, index: int) -> bool:
        """Returns True if the shape of a result follows from the elements of an operand."""
        binding = DEFINITIONS[operation.type].bind(operation, self._operands)
        call = Call(
            binding,
            self._operands,
            self._shapes.get,
            lambda each: None if each == index else self._value(each),
            referenced=self._model.referenced,
        )
        try:
            DEFINITIONS[operation.type].output_shapes(call)
        except UnknownValue:
            return True
        return False

    def _stored(self, index: int) -> int:
        """Returns an operand that has memory: one whose elements are lengths gets it here."""
        index = self._realized(index)
        if index not in self._extents:
            return index
        variable, values = self._variable(index), self._extents[index]
        update = LengthUpdate(stores=((variable, tuple(values.reshape(-1).tolist())),))
        self._regions[-1].items.append(update)
        return variable

    def _realized(self, index: int) -> int:
        """Returns an operand that is computed: a slice with a length that depends on data is added."""
        part = self._parts.get(index)
        if part is None:
            return index
        output = self._add_operand(
            replace(self._operands[index], lifetime=Lifetime.TEMPORARY_VARIABLE, dimensions=None)
        )
        self._with_hints(lambda: self._add_part(part, output))
        return output

    def _add_part(self, part: _Part, output: int) -> None:
        begins, lengths = ([self._extent_of(each) for each in sums] for sums in (part.begins, part.lengths))
        operation = Operation(
            type=OperationType.TFLITE_SLICE,
            inputs=(part.source, self._integers(begins), self._integers(lengths)),
            outputs=(output,),
            number=part.operation.number,
        )
        shapes = DEFINITIONS[operation.type].output_shapes(self._call(operation))
        self._append(operation, shapes, *part.place)

    def _holds(self, condition: int) -> bool:
        value = self._known[condition]
        if value.size != 1:
            raise _NotStructured("a condition is not a single BOOL")
        return bool(value.reshape(-1)[0])

    def _inline(self, graph: int, inputs: Sequence[int], origin: int) -> Sequence[int]:
        """Inlines a graph with these inputs and returns its outputs, both as operand indices."""
        inner = self._model.referenced[graph]
        mapping = dict(zip(inner.inputs, inputs, strict=True))
        for index, operand in enumerate(inner.operands):
            if index in mapping:
                self._check_input(mapping[index], operand)
                continue
            if operand.lifetime.is_constant:
                key = graph, index
                if key not in self._constants:
                    self._constants[key] = self._add_operand(operand)
                mapping[index] = self._constants[key]
            elif operand.lifetime in (Lifetime.NO_VALUE, Lifetime.SUBGRAPH):
                mapping[index] = self._add_operand(operand)
            else:
                mapping[index] = self._add_operand(replace(operand, lifetime=Lifetime.TEMPORARY_VARIABLE))
        for position, operation in enumerate(inner.operations):
            self._add_operation(inner, operation, position, mapping, origin)
        return [mapping[index] for index in inner.outputs]

    def _check_input(self, given: int, declared: Operand) -> None:
        """Checks that a graph accepts the shape of an operand."""
        merge(declared.dimensions, self._shape(given), operand_name(self._operands, given))


def _inputs(call: Call) -> Sequence[int]:
    return call.indexes("inputs") if "inputs" in call.binding.inputs else ()


def _name(length: "int | Extent | Hashable") -> Hashable:
    """Returns what distinguishes a length from others."""
    return length.key if isinstance(length, Extent) else length


def _arithmetic_inputs(call: Call) -> set[int]:
    """Returns the inputs whose elements affect neither shapes nor addresses."""
    arithmetic = DEFINITIONS[call.binding.type].arithmetic
    return {index for name, indexes in call.binding.inputs.items() if name in arithmetic for index in indexes}


class _Values(Mapping[int, Array]):
    """The known values of operands."""

    def __init__(self, value: Callable[[int], Array | None]) -> None:
        self._value = value

    def __getitem__(self, index: int) -> Array:
        value = self._value(index)
        if value is None:
            raise KeyError(index)
        return value

    def __iter__(self) -> Iterator[int]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _last_length(region: _Region) -> int:
    last = region.items[-1] if region.items else None
    return len(last) if isinstance(last, list) else 0


def _strided_axis(
    whole: int, begin: Sum | None, end: Sum | None, stride: Sum, *, shrinks: bool
) -> tuple[Sum, int]:
    """Returns the first index and the number of elements of a strided slice along an axis.

    An index that depends on data must be valid: the kernel does not count it from the end.

    Raises:
        _ShapeChanges: the number of elements depends on data.
    """
    known = [each is None or not each.terms for each in (begin, end)]
    if not stride.terms and all(known):
        if not stride.constant:
            raise BadData("the stride of a slice is 0")
        part = slice(
            None if begin is None else begin.constant, None if end is None else end.constant, stride.constant
        )
        if shrinks and begin is not None:
            return Sum(begin.constant + (whole if begin.constant < 0 else 0)), 1
        taken, length, step = slice_range(part, whole)
        if step != 1 and length:
            raise _ShapeChanges("a slice with steps begins at an index that depends on data")
        return Sum(taken), length
    if stride != Sum(1):
        raise _ShapeChanges("a slice with steps begins at an index that depends on data")
    first = Sum(0) if begin is None else begin
    if shrinks:
        return first, 1
    length = (Sum(whole) if end is None else end) - first
    if length.terms:
        raise _ShapeChanges("a slice has a length that depends on data")
    return first, max(0, length.constant)
