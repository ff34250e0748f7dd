"""The graph into which control flow is inlined: operands, operations, and the regions they run in.

Operands of the main graph keep their indices. Operands of other graphs get new indices whenever
their graph is inlined.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.frontend.constant_operations import fold_constant_operation
from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    BasicBlock,
    Branch,
    Copy,
    Item,
    LengthUpdate,
    SliceIndex,
    Update,
    WhileLoop,
)
from neurald.drivers.compiler.frontend.lengths.open_lengths import as_objects
from neurald.drivers.compiler.frontend.lengths.symbolic_integers import (
    INTEGER_TYPES,
    MAX_ELEMENTS,
    Sum,
    Sums,
    constant_sums,
    unknown_sums,
)
from neurald.drivers.compiler.ir.extents.extent import (
    Extent,
    has_extents,
    may_change,
    same_shape,
    symbols_of,
)
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.errors import BadData
from neurald.hal.model.elements import array_to_store
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_name, operand_number
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import declared_shape, merge

if TYPE_CHECKING:
    # The first tier does not import what lowers operations.
    from neurald.drivers.compiler.frontend.constant_lowering import EvaluateGraph
    from neurald.drivers.compiler.ir.extents.scope import ExtentScope

#: Operations whose results follow from the shape of their input.
SHAPE_QUERIES = (OperationType.TFLITE_SHAPE, OperationType.RANK, OperationType.TFLITE_RANK)
RESHAPES = (OperationType.RESHAPE, OperationType.TFLITE_RESHAPE)
SLICES = (OperationType.SLICE, OperationType.TFLITE_SLICE)
STRIDED_SLICES = (OperationType.STRIDED_SLICE, OperationType.TFLITE_STRIDED_SLICE)
CONCATENATIONS = (OperationType.CONCATENATION, OperationType.TFLITE_CONCATENATION)


class NotStructured(Exception):
    """The control flow cannot be compiled; the message says why."""


class ShapeChanges(NotStructured):
    """A shape depends on data or differs from turn to turn, in a way that is not supported."""


#: The place of an operation in its model: the number of its graph, and its origin, see
#: `InlinesGraphs.inline`.
Place: TypeAlias = tuple[int, int]


class Part(Struct, frozen=True, kw_only=True):
    """A slice of an operand, whose length is not known.

    Attributes:
        source: the sliced operand.
        begins, lengths: the begins and lengths of the slice, along each dimension.
        operation: the slice.
        place: its place in the model.
    """

    source: int
    begins: tuple[Sum, ...]
    lengths: tuple[Sum, ...]
    operation: Operation
    place: Place


class Region(Struct):
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
        """Returns the items of a structured model."""
        return tuple(
            BasicBlock(operations=tuple(each)) if isinstance(each, list) else each for each in self.items
        )


class FlatGraph:
    """Operands and operations of all graphs that a model runs, each in its own operands.

    Args:
        model: the model.
        input_shapes, evaluate, scope: see `structure_control_flow`.

    Attributes:
        operations, origins, graphs: see `StructuredModel`.
        operands: the operands of the flat graph.
        shapes, known: shapes and values of operands, as far as they are known.
        extents: the elements of operands that are lengths.
        parts: slices with lengths that depend on data, which are only computed where they are read.
        levels, symbol_levels: the number of the region, from the outermost, that computes an
            operand, or sets a symbol.
        element_symbols: the symbols for sums of elements of operands, for indices of slices, and
            for the keys of extents, with the region that sets them.
        constants: the operands of constants of inlined graphs.
        regions: the current region and those around it, from the outermost.
    """

    def __init__(
        self,
        model: Model,
        input_shapes: Mapping[int, Shape],
        evaluate: "EvaluateGraph | None",
        scope: "ExtentScope | None",
    ) -> None:
        self.model = model
        self.evaluate = evaluate
        self.operands: list[Operand] = []
        self.operations: list[Operation] = []
        self.origins: list[int] = []
        self.graphs: list[int] = []
        self.shapes: dict[int, Shape] = {}
        self.known: dict[int, Array] = {}
        self.given: set[int] = set()
        self.sums: dict[int, Sums] = {}
        self.parts: dict[int, Part] = {}
        #: The number of the region, from the outermost, that computes an operand, or sets a symbol.
        self.levels: dict[int, int] = {}
        self.symbol_levels: dict[int, int] = {}
        #: None until a length is open.
        self.known_scope = scope
        if scope is not None:
            scope.ignores_empty = True
        #: The elements of operands that are lengths.
        self.extents: dict[int, Array] = {}
        self.element_symbols: dict[Sum | SliceIndex | str, tuple[Region, Any]] = {}
        #: What counts the rows by an operand, with the region that computes it.
        self.counts: dict[int, tuple[Region, int]] = {}
        #: The variables that store operands of lengths, with the region that does so.
        self.stored_lengths: dict[int, tuple[Region, int]] = {}
        self.constants: dict[tuple[int, int], int] = {}
        self.regions = [Region([])]
        for operand in model.main.operands:
            self.add_operand(operand)
        for index, shape in input_shapes.items():
            self.shapes[index] = merge(
                self.operands[index].dimensions, shape, operand_name(self.operands, index)
            )
            self.operands[index] = replace(self.operands[index], dimensions=shape)

    @property
    def scope(self) -> "ExtentScope":
        """The scope of lengths that are not known."""
        if self.known_scope is None:
            from neurald.drivers.compiler.ir.extents.scope import ExtentScope  # Few models have any.

            self.known_scope = ExtentScope(())
            self.known_scope.ignores_empty = True
        return self.known_scope

    @property
    def decided(self) -> int:
        """The number of relations that were decided by the hints of lengths so far."""
        return 0 if self.known_scope is None else self.known_scope.decided

    def readable(self, message: object) -> str:
        """See `ExtentScope.readable`."""
        return str(message) if self.known_scope is None else self.known_scope.readable(message)

    def add_operand(self, operand: Operand) -> int:
        """Adds an operand, and returns its index."""
        index = len(self.operands)
        self.operands.append(operand)
        shape, value = declared_shape(operand), self.model.constant(operand)
        if shape is not None:
            self.shapes[index] = shape
        if value is not None:
            self.known[index] = value
            self.given.add(index)
        return index

    def variable(self, like: int, shape: Shape | None = None) -> int:
        """Adds a variable with the type of an operand, and its shape unless another is given."""
        shape = self.shape(like) if shape is None else shape
        index = self.add_operand(
            replace(
                self.operands[like],
                lifetime=Lifetime.TEMPORARY_VARIABLE,
                dimensions=shape,
                location=None,
                value=b"",
            )
        )
        # A length of 0 is known here, while operands of models leave it open.
        self.shapes[index] = shape
        self.levels[index] = len(self.regions) - 1
        return index

    def loop_variable(self, like: int, shape: Shape) -> int:
        """Adds a variable of the loop that the current region gets."""
        index = self.variable(like, shape)
        self.levels[index] = len(self.regions)
        return index

    def integers(self, values: Sequence[int] | Array, kind: OperandType = OperandType.TENSOR_INT32) -> int:
        """Adds an operand of integers, which may be lengths."""
        given = as_objects(tuple(values)) if not isinstance(values, np.ndarray) else values
        if any(isinstance(each, Extent) for each in given.flat):
            return self.length_operand(given, kind)
        try:
            array = given.astype(kind.dtype)
        except OverflowError:
            raise NotStructured(f"{given.tolist()} are not indices") from None
        return self.add_operand(
            Operand(type=kind, dimensions=array.shape, lifetime=Lifetime.CONSTANT_COPY, value=array.tobytes())
        )

    def length_operand(self, values: Array, kind: OperandType) -> int:
        """Adds an operand whose elements are lengths."""
        index = self.add_operand(Operand(type=kind, dimensions=values.shape))
        self.extents[index] = values
        return index

    def name_like(self, index: int, other: int) -> None:
        """Gives an operand the number of another one, whose place it takes, for messages."""
        self.operands[index] = replace(self.operands[index], number=operand_number(self.operands, other))

    def value(self, index: int) -> Array | None:
        """Returns the elements of an operand if they are known: numbers, or lengths."""
        return self.extents[index] if index in self.extents else self.known.get(index)

    def shape(self, index: int) -> Shape:
        """Returns the shape of an operand.

        Raises:
            NotStructured: it is not known.
        """
        shape = self.shapes.get(index)
        if shape is None:
            raise NotStructured(f"the shape of {operand_name(self.operands, index)} is not known")
        return shape

    def set_constant(self, index: int, value: Array) -> None:
        """Turns an operand into a constant."""
        operand = self.operands[index]
        self.operands[index] = replace(
            operand,
            lifetime=Lifetime.CONSTANT_COPY,
            dimensions=value.shape,
            value=array_to_store(value, operand.type).tobytes(),
        )
        self.known[index], self.shapes[index] = value, value.shape

    def sums_of(self, index: int) -> Sums | None:
        """Returns the elements of a small operand of integers as sums.

        Lengths that do not change while the model runs are constants.
        """
        if index in self.sums:
            return self.sums[index]
        shape = self.shapes.get(index)
        if self.operands[index].type not in INTEGER_TYPES or shape is None:
            return None
        if has_extents(shape) or int(np.prod(shape)) > MAX_ELEMENTS:
            return None
        value = self.value(index)
        if value is not None and any(map(may_change, value.flat)):
            return None
        sums = unknown_sums(index, shape) if value is None else constant_sums(value)
        self.sums[index] = sums
        return sums

    @contextmanager
    def region(self, *, repeats: bool) -> Iterator[Region]:
        """Makes a new region the current one."""
        self.add_guards()
        region = Region([], repeats)
        self.regions.append(region)
        try:
            yield region
            self.add_guards()
        finally:
            self.regions.pop()

    def add_guards(self) -> None:
        """Adds the conditions by which shapes were found to the current region."""
        guards = () if self.known_scope is None else self.known_scope.recorded()
        if guards:
            self.regions[-1].items.append(LengthUpdate(guards=guards))

    @contextmanager
    def attempt(self) -> Iterator[Callable[[], None]]:
        """Yields a function that undoes everything since; an exception does so too.

        Everything that inlining adds belongs to new operands. What was found since is only valid
        where what was decided by the hints of lengths holds, and that is undone, too: who uses it
        asks `decided` whether there was anything.
        """
        operands, operations = len(self.operands), len(self.operations)
        symbols, counts, scope = dict(self.element_symbols), dict(self.counts), self.known_scope
        stored = dict(self.stored_lengths)
        decisions = None if scope is None else scope.decisions()
        ends = [(region, len(region.items), _last_length(region)) for region in self.regions]

        def undo() -> None:
            for index in range(operands, len(self.operands)):
                self.given.discard(index)
                for table in (
                    self.shapes,
                    self.known,
                    self.sums,
                    self.parts,
                    self.levels,
                    self.extents,
                ):
                    table.pop(index, None)
            self.element_symbols, self.counts = dict(symbols), dict(counts)
            self.stored_lengths = dict(stored)
            if self.known_scope is not None:
                self.known_scope.undo(decisions)
            while self.constants and next(reversed(self.constants.values())) >= operands:
                self.constants.popitem()
            del self.operands[operands:], self.operations[operations:]
            del self.origins[operations:], self.graphs[operations:]
            for region, kept, length in ends:
                del region.items[kept:]
                if kept and isinstance(last := region.items[-1], list):
                    del last[length:]

        try:
            yield undo
        except BaseException:
            undo()
            raise

    def known_results(self, call: Call) -> Sequence[Array] | None:
        """Returns the results of an operation if they follow from constants or shapes."""
        if call.binding.type in SHAPE_QUERIES:
            (index,) = call.indexes("input")
            shape = self.shape(index)
            # The lengths of others are computed by `StoredOperands.computes_lengths`.
            lengths = tuple(1 if isinstance(each, Extent) else each for each in shape)
            any_values = np.broadcast_to(np.zeros((), np.int8), lengths)
            return DEFINITIONS[call.binding.type].reference(call.with_values({index: any_values}))
        if self.evaluate is None:
            return fold_constant_operation(call, self.known)
        from neurald.drivers.compiler.frontend.constant_lowering import constant_results

        return constant_results(call, self.operands, self.shapes, self.known, self.given, self.evaluate)

    def call(self, operation: Operation) -> Call:
        """Returns an operation with what is known about its operands."""
        binding = DEFINITIONS[operation.type].bind(operation, self.operands)
        return Call(binding, self.operands, self.shapes.get, self.value, referenced=self.model.referenced)

    def append(self, operation: Operation, shapes: Sequence[Shape], place: Place) -> None:
        """Adds an operation with operands of this model."""
        for index, shape in zip(operation.outputs, shapes, strict=True):
            self.shapes[index] = merge(
                self.operands[index].dimensions, shape, operand_name(self.operands, index)
            )
            if not same_shape(self.operands[index].dimensions, shape) and self.operands[index].type.is_tensor:
                self.operands[index] = replace(self.operands[index], dimensions=shape)
        self.add_guards()
        level = self._level(operation)
        for index in operation.outputs:
            self.levels[index] = level
        self.regions[level].append(self.listed(operation, place))

    def listed(self, operation: Operation, place: Place) -> int:
        """Lists an operation that is in no block yet, and returns its position."""
        graph, origin = place
        self.operations.append(operation)
        self.origins.append(origin)
        self.graphs.append(graph)
        return len(self.operations) - 1

    def _level(self, operation: Operation) -> int:
        """Returns the number of the region that an operation runs in: outside of loops if possible.

        An operation that may fail stays where it is, because the loop may not run at all.
        """
        level = len(self.regions) - 1
        if not self.regions[level].repeats:
            return level
        lowest = max((self.levels.get(index, 0) for index in operation.inputs), default=0)
        if lowest >= level:
            return level  # So it is with most: they read what the turn has computed.
        definition = DEFINITIONS[operation.type]
        arithmetic = arithmetic_inputs(self.call(operation)) if definition.arithmetic else set()
        if definition.is_random or any(
            index not in arithmetic and index not in self.known for index in operation.inputs
        ):
            return level
        shapes = [self.shapes.get(index, ()) for index in (*operation.inputs, *operation.outputs)]
        lengths = (length for shape in shapes for length in shape)
        return self.outermost_level(max(lowest, self.symbol_level(lengths)))

    def symbol_level(self, lengths: Iterable[object]) -> int:
        """Returns the number of the innermost region that sets a symbol of lengths."""
        return max((self.symbol_levels.get(each, 0) for each in symbols_of(lengths)), default=0)

    def outermost_level(self, lowest: int) -> int:
        """Returns the number of the region that repeats least and can read what `lowest` sets."""
        level = len(self.regions) - 1
        while level > lowest and self.regions[level].repeats:
            level -= 1
        return level

    def is_identity(self, operation: Operation, call: Call) -> bool:
        """Returns True if the only result of an operation equals its first input."""
        if operation.type not in (*RESHAPES, *SLICES):
            return False
        try:
            (shape,) = DEFINITIONS[operation.type].output_shapes(call)
        except (UnknownValue, BadData):
            return False
        source, result = self.operands[operation.inputs[0]], self.operands[operation.outputs[0]]
        return (
            same_shape(self.shapes.get(operation.inputs[0]), shape)
            and source.type is result.type
            and (source.scale, source.zero_point, source.channel_quant)
            == (result.scale, result.zero_point, result.channel_quant)
        )


def arithmetic_inputs(call: Call) -> set[int]:
    """Returns the inputs whose elements affect neither shapes nor addresses."""
    arithmetic = DEFINITIONS[call.binding.type].arithmetic
    return {index for name, indexes in call.binding.inputs.items() if name in arithmetic for index in indexes}


def _last_length(region: Region) -> int:
    last = region.items[-1] if region.items else None
    return len(last) if isinstance(last, list) else 0
