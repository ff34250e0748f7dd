"""The operations of a graph, which compute one at a time with references or a driver's kernels."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, TypeVar

import numpy as np
from msgspec import Struct

from neurald.hal.accounting.account import Reservation, reserve
from neurald.hal.errors import BadData, OpFailed, OutOfMemory
from neurald.hal.execution.array_model import ExecutionLimits
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_name, operation_name
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import byte_size
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, GraphRunner, UnknownValue
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.working_memory import reference_working_bytes
from neurald.hal.validation.shape_inference import bind_operations, merge

#: Computes the outputs of one operation from its arguments, see
#: `neurald.hal.operations.machinery.call.Call`.
Kernel = Callable[[Call], Sequence[Array]]


#: Shapes of the inputs of an operation; None for an omitted one.
_Shapes: TypeAlias = tuple[tuple[int, ...] | None, ...]
_Kept = TypeVar("_Kept")

#: Number of combinations of input shapes for which an operation's output shapes are kept.
_SHAPE_CACHE_SIZE = 16


class OperandValues(dict[int, Array]):
    """The values of operands in an execution, by index, with the memory reserved for them."""

    def __init__(self, given: Mapping[int, Array]) -> None:
        super().__init__(given)
        self._reservations: dict[int, Reservation] = {}

    def keep(self, index: int, array: Array, reservation: Reservation) -> None:
        """Adds a computed value, with the reservation of its memory."""
        self[index] = array
        self._reservations[index] = reservation

    def drop(self, index: int) -> None:
        """Removes a value, if there is one, and releases its memory."""
        self.pop(index, None)
        self._reservations.pop(index, None)


class _KnownShapes(Struct, frozen=True, kw_only=True):
    """The properties of an operation that follow from the shapes of its inputs alone.

    Attributes:
        shapes: the shapes of the outputs; None for an unknown one.
        sizes: the sizes of the outputs, in bytes; None for an unknown one.
        working_bytes: the memory that the reference needs besides.
    """

    shapes: Sequence[tuple[int, ...] | None]
    sizes: Sequence[int | None]
    working_bytes: int


class GraphOperations:
    """The operations of a graph, which compute their outputs one at a time.

    Attributes:
        graph: as given.
        definitions: the definitions of each operation, by position.
        bindings: the bindings of each operation, by position.
        constants: the values of constant operands, by index.

    Args:
        model: the model of the graph.
        graph: each of its operations has a definition.
        kernels: compute the operations of a type. References compute all others.
        definitions: the definitions of operations that `neurald.hal.operations` does not define.
    """

    def __init__(
        self,
        model: Model,
        graph: Subgraph,
        kernels: Mapping[OperationType, Kernel] = MappingProxyType({}),
        definitions: Mapping[OperationType, Definition] = MappingProxyType({}),
    ) -> None:
        self.graph = graph
        self._referenced = model.referenced
        self._kernels = kernels
        self.definitions = [definitions.get(each.type) or DEFINITIONS[each.type] for each in graph.operations]
        self.bindings = [
            definitions[each.type].bind(each, graph.operands) if each.type in definitions else known
            for each, known in zip(graph.operations, bind_operations(graph), strict=True)
        ]
        self.constants: dict[int, Array] = {
            index: value
            for index, operand in enumerate(graph.operands)
            if (value := model.constant(operand)) is not None
        }
        self._names: list[str] = [""] * len(graph.operations)
        #: The known shapes of each operation, by the shapes of its inputs.
        self._known_shapes: list[dict[_Shapes, _KnownShapes]] = [{} for _ in graph.operations]
        #: Shapes of inputs that passed checks which depend on them and on constants only.
        self._checked_shapes: list[dict[_Shapes, _Shapes]] = [{} for _ in graph.operations]

    def start(self, inputs: Sequence[Array | None]) -> tuple[OperandValues, frozenset[int]]:
        """Returns the values that an execution begins with, and the inputs that it omits.

        Args:
            inputs: one for each input of the graph; None for an omitted input.
        """
        values, omitted = OperandValues(self.constants), []
        for index, value in zip(self.graph.inputs, inputs, strict=True):
            if value is None:
                omitted.append(index)
            else:
                values[index] = value
        return values, frozenset(omitted)

    def compute(
        self,
        position: int,
        values: OperandValues,
        omitted: frozenset[int],
        run: GraphRunner,
        limits: ExecutionLimits,
    ) -> None:
        """Computes an operation and adds its outputs to `values`.

        Args:
            position: the position of the operation.
            values: the values of operands, by index.
            omitted: the inputs of the graph that the execution omits.
            run: runs the graphs that control flow refers to.
            limits: the limits that are checked before the operation.

        Raises:
            OpFailed: the operation does not take these arguments, or an output has another shape
                than the model declares.
            OutOfMemory: the process has too little memory for it.
            ResourceExhaustedPersistent, ResourceExhaustedTransient: the current account may not
                have the memory that it takes.
            Error: the execution must stop, or a graph that control flow refers to failed.
        """
        where = self.name(position)
        limits.check(f"before {where}")
        try:
            self._compute(position, values, omitted, run, where)
        except BadData as error:
            raise OpFailed(f"{where}: {error}") from None
        except UnknownValue as error:
            raise OpFailed(f"{where}: its argument {error} is omitted but required") from None
        except MemoryError as error:
            raise OutOfMemory(f"{where}: {error}") from None

    def name(self, position: int) -> str:
        """Returns the name of an operation for messages, which takes a while to make."""
        name = self._names[position]
        if not name:
            name = self._names[position] = operation_name(self.graph, position)
        return name

    def _compute(
        self, position: int, values: OperandValues, omitted: frozenset[int], run: GraphRunner, where: str
    ) -> None:
        operation, operands = self.graph.operations[position], self.graph.operands
        definition, constants = self.definitions[position], self.constants
        reads_data = False

        def shape_of(index: int) -> tuple[int, ...] | None:
            return None if (value := values.get(index)) is None else value.shape

        def value_of(index: int) -> Array | None:
            nonlocal reads_data
            reads_data = reads_data or index not in constants
            return values.get(index)

        call = Call(self.bindings[position], operands, shape_of, value_of, omitted, self._referenced, run)
        given = tuple([shape_of(index) for index in operation.inputs])
        cache = self._known_shapes[position]
        known = None if omitted else cache.get(given)
        if known is None:
            checked = self._checked_shapes[position]
            if omitted or given not in checked:
                definition.check(call)
                if not reads_data and not omitted:
                    _keep(checked, given, given)
            known = self._shapes_of(position, call, values)
            if not reads_data and not omitted and None not in known.shapes:
                _keep(cache, given, known)
        # Memory for outputs and working memory is reserved first, as far as shapes are known; the
        # rest afterwards.
        what = f"{where} on its reference"
        reservations = [None if size is None else reserve(size, what) for size in known.sizes]
        working = reserve(known.working_bytes, what)
        arrays = []
        compute = self._kernels.get(operation.type, definition.reference)
        for index, shape, result in zip(operation.outputs, known.shapes, compute(call), strict=True):
            array = np.ascontiguousarray(result, operands[index].type.dtype)
            if shape is None:
                array = array.reshape(result.shape)
                self._require_declared(index, array.shape)
            elif array.shape != shape:
                array = array.reshape(shape)
            arrays.append(array)
        working.release()
        for index, array, reservation in zip(operation.outputs, arrays, reservations, strict=True):
            values.keep(index, array, reservation or reserve(array.nbytes, what))

    def _shapes_of(self, position: int, call: Call, values: OperandValues) -> _KnownShapes:
        """Returns the shapes of an operation's outputs, which are those that the model declares."""
        operation, operands = self.graph.operations[position], self.graph.operands
        shapes: Sequence[tuple[int, ...] | None]
        try:
            shapes = self.definitions[position].output_shapes(call)
        except UnknownValue:
            # The shapes that control flow computes are only known after it ran.
            shapes = [None] * len(operation.outputs)
        for index, shape in zip(operation.outputs, shapes, strict=True):
            if shape is not None:
                self._require_declared(index, shape)
        given = [values[index] for index in operation.inputs if index in values]
        return _KnownShapes(
            shapes=shapes,
            sizes=[
                None if shape is None else byte_size(operands[index].type, shape)
                for index, shape in zip(operation.outputs, shapes, strict=True)
            ],
            working_bytes=reference_working_bytes(given, shapes),
        )

    def _require_declared(self, index: int, shape: tuple[int, ...]) -> None:
        operands = self.graph.operands
        declared = operands[index].dimensions
        # To make the name takes longer than to compare.
        if declared is not None and declared != shape:
            merge(declared, shape, f"{operand_name(operands, index)} (output)")


def _keep(cache: dict[_Shapes, _Kept], shapes: _Shapes, value: _Kept) -> None:
    """Adds to a cache of limited size."""
    if len(cache) >= _SHAPE_CACHE_SIZE:
        cache.clear()
    cache[shapes] = value
