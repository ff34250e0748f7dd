"""What every driver does in an execution, whatever it computes with: a request becomes arrays, and arrays become its outputs.

A driver's prepared model derives from `ArrayModel`, and says what it computes in one method:

    class MyPreparedModel(ArrayModel):
        def run(self, inputs: Sequence[Array | None], limits: Limits) -> Sequence[Array]:
            ...

The rest of `neurald.hal.device.PreparedModel` follows: deadlines, cancellation, outputs whose shape only an execution tells,
outputs that do not fit, bursts and fenced executions. `ReferenceExecutor` computes operations one by one: with kernels of the
driver's, and on their references where it has none.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from neurald.hal.accounting.account import Reservation, reserve
from neurald.hal.accounting.pacing import step
from neurald.hal.device import (
    MAX_LOOP_TIMEOUT_S,
    Artifact,
    ExecuteOptions,
    ExecutionResult,
    KernelTime,
    OutputShape,
    Timing,
)
from neurald.hal.errors import (
    BadData,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    OpFailed,
    OutOfMemory,
)
from neurald.hal.execution.in_process import InProcessModel
from neurald.hal.model.numbering import operand_name, operation_name
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import (
    Argument,
    Model,
    Operand,
    OperandType,
    Request,
    Subgraph,
    array_to_store,
    byte_size,
    stored_array,
)
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, GraphRunner, UnknownValue
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.working_memory import reference_working_bytes
from neurald.hal.validation.shape_inference import bind_operations, merge


class Limits:
    """When an execution must end. A driver asks between operations, and more often where one takes long.

    Attributes:
        options: of the execution.
    """

    def __init__(self, options: ExecuteOptions) -> None:
        self.options = options

    def check(self, where: str) -> None:
        """Raises where the execution is not to go on; `where` is for the message: "before operation 3 CONV_2D".

        In a daemon it gives way to other clients there, see `neurald.hal.accounting.pacing`.

        Raises:
            Cancelled: it was cancelled.
            MissedDeadlineTransient: its deadline has passed.
        """
        step(stops=self._must_stop)
        if self.options.cancellation is not None:
            self.options.cancellation.require_not_cancelled(where)
        deadline_s = self.options.deadline_s
        if deadline_s is not None and time.monotonic() >= deadline_s:
            raise MissedDeadlineTransient(f"the deadline passed {where}")

    def _must_stop(self) -> bool:
        cancellation, deadline_s = self.options.cancellation, self.options.deadline_s
        is_cancelled = cancellation is not None and cancellation.is_cancelled
        return is_cancelled or (deadline_s is not None and time.monotonic() >= deadline_s)

    def loop_deadline_s(self) -> float:
        """When a WHILE that begins now must have ended, on the clock of `time.monotonic()`."""
        return time.monotonic() + min(self.options.loop_timeout_s, MAX_LOOP_TIMEOUT_S)


class ArrayModel(InProcessModel):
    """A prepared model that computes with arrays. Executions may overlap: `run` keeps nothing between them.

    Args:
        model: a valid one, every operation of which the device supports.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    @abstractmethod
    def run(self, inputs: Sequence[Array | None], limits: Limits) -> Sequence[Array]:
        """Computes the outputs of the main graph.

        Args:
            inputs: one for each input of the graph, read-only views of the request's memory; None for an omitted one.
            limits: asked between operations.

        Raises:
            Error: what went wrong. Nothing has been written to the request's outputs then.
        """

    @property
    def tolerates_changing_inputs(self) -> bool:
        """See `PreparedModel.tolerates_changing_inputs`: only a driver that knows why says yes."""
        return False

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`."""
        started = time.monotonic_ns()
        if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
            raise MissedDeadlinePersistent("the deadline had passed before the execution started")
        limits = Limits(options)
        limits.check("before the execution started")
        results = self.run(input_arrays(self.model, request), limits)
        shapes = write_outputs(self.model, request, results)
        elapsed = time.monotonic_ns() - started
        timing = Timing(on_device_ns=elapsed, in_driver_ns=elapsed) if options.measure else Timing()
        return ExecutionResult(output_shapes=shapes, timing=timing)

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`; None: it keeps nothing in a cache."""
        return None

    def profile(self) -> Sequence[KernelTime]:
        """See `PreparedModel.profile`; a driver whose hardware cannot tell gives none."""
        return ()


def input_arrays(model: Model, request: Request) -> list[Array | None]:
    """The inputs of a request as read-only views of its memory, None where one is omitted.

    Args:
        model: with the types and shapes of its inputs.
        request: a valid one for the model.
    """
    graph = model.main
    return [
        None if argument.pool is None else _input_array(argument, graph.operands[index], request)
        for index, argument in zip(graph.inputs, request.inputs, strict=True)
    ]


def _input_array(argument: Argument, operand: Operand, request: Request) -> Array:
    shape = operand.dimensions if argument.dimensions is None else argument.dimensions
    view = request.pools[argument.pool or 0].view(argument.offset, argument.length)
    array = stored_array(view.toreadonly(), operand.type, shape or ())
    array.flags.writeable = False
    return array


def write_outputs(model: Model, request: Request, results: Sequence[Array]) -> tuple[OutputShape, ...]:
    """Writes the outputs of an execution to its request, unless one does not fit: then only their shapes are told.

    Args:
        model: with the types and shapes of its outputs.
        request: a valid one for the model.
        results: one array for each output of the model, of any layout.

    Returns:
        The shape of each output, and whether its memory is large enough.

    Raises:
        OpFailed: a result has another shape than the model declares, or strings that cannot be stored.
    """
    graph = model.main
    if len(results) != len(graph.outputs):
        raise OpFailed(f"{len(results)} results; the model has {len(graph.outputs)} outputs")
    contents, shapes = [], []
    for number, (index, result, argument) in enumerate(
        zip(graph.outputs, results, request.outputs, strict=True)
    ):
        operand = graph.operands[index]
        try:
            merge(operand.dimensions, result.shape, f"output {number}")
            content = array_to_store(np.asarray(result, operand.type.dtype), operand.type)
        except BadData as error:
            raise OpFailed(str(error)) from None
        contents.append(content)
        is_text = operand.type is OperandType.TENSOR_STRING
        shapes.append(
            OutputShape(
                dimensions=result.shape,
                sufficient=content.nbytes <= argument.length,
                length=content.nbytes if is_text else None,
            )
        )
    if all(shape.sufficient for shape in shapes):
        for content, argument in zip(contents, request.outputs, strict=True):
            view = request.pools[argument.pool or 0].view(argument.offset, content.nbytes)
            np.frombuffer(view, content.dtype)[:] = content.reshape(-1)
    return tuple(shapes)


#: Computes the outputs of one operation from its arguments, see `neurald.hal.operations.machinery.call.Call`.
Kernel = Callable[[Call], Sequence[Array]]


class ReferenceExecutor:
    """Computes the operations of a model one after another: with a driver's kernels, or on their references.

    Args:
        model: a valid one, every operation of which has a definition.
        kernels: what computes operations of a type; a reference computes those of all others.
        definitions: of operations that `neurald.hal.operations` does not define.
    """

    def __init__(
        self,
        model: Model,
        kernels: Mapping[OperationType, Kernel] = MappingProxyType({}),
        definitions: Mapping[OperationType, Definition] = MappingProxyType({}),
    ) -> None:
        self._graphs = [
            _Graph(model, graph, kernels, definitions) for graph in (model.main, *model.referenced)
        ]

    def run(self, inputs: Sequence[Array | None], limits: Limits) -> list[Array]:
        """See `ArrayModel.run`."""
        return self._graphs[0].run(inputs, _Run(self._graphs[1:], limits))

    def profile(self, inputs: Sequence[Array | None], limits: Limits) -> list[int]:
        """Runs the model and returns the nanoseconds of each operation of the main graph."""
        times_ns: list[int] = []
        self._graphs[0].run(inputs, _Run(self._graphs[1:], limits), times_ns)
        return times_ns


class _Run:
    """Implements `neurald.hal.operations.machinery.call.GraphRunner` for one execution."""

    def __init__(self, referenced: Sequence["_Graph"], limits: Limits) -> None:
        self._referenced = referenced
        self.limits = limits

    def run(self, graph: int, inputs: Sequence[Array]) -> list[Array]:
        return self._referenced[graph].run(inputs, self)

    def loop_deadline_s(self) -> float:
        return self.limits.loop_deadline_s()


class Values(dict[int, Array]):
    """The values of operands in an execution, by index, and the memory that is reserved for those that it computes."""

    def __init__(self, *given: Mapping[int, Array]) -> None:
        super().__init__()
        for each in given:
            self.update(each)
        self._reservations: dict[int, Reservation] = {}

    def keep(self, index: int, array: Array, reservation: Reservation) -> None:
        """Adds a value for which memory was reserved."""
        self[index] = array
        self._reservations[index] = reservation

    def drop(self, index: int) -> None:
        """Lets go of a value, if it is there."""
        self.pop(index, None)
        self._reservations.pop(index, None)


class GraphOperations:
    """The operations of a graph, which compute their outputs one at a time.

    Attributes:
        graph: whose operations they are.
        definitions, bindings: of each operation, by position.
        constants: the values of constant operands, by index.

    Args:
        model: that has the graph.
        graph: every operation of which has a definition.
        kernels, definitions: see `ReferenceExecutor`.
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

    def start(self, inputs: Sequence[Array | None]) -> tuple[Values, frozenset[int]]:
        """The values that an execution begins with, by operand, and the inputs that it omits.

        Args:
            inputs: one for each input of the graph; None for an omitted one.
        """
        given = dict(zip(self.graph.inputs, inputs, strict=True))
        values = Values(self.constants, {index: value for index, value in given.items() if value is not None})
        return values, frozenset(index for index, value in given.items() if value is None)

    def compute(
        self,
        position: int,
        values: Values,
        omitted: frozenset[int],
        run: GraphRunner,
        limits: Limits,
    ) -> None:
        """Computes an operation, whose outputs are added to `values`.

        Args:
            position: of the operation.
            values: of operands, by index.
            omitted: the inputs of the graph that the execution leaves out.
            run: runs the graphs that control flow refers to.
            limits: asked before the operation.

        Raises:
            OpFailed: its arguments are none that the operation takes, or its outputs none that the model declares.
            OutOfMemory: there is not enough for it.
            ResourceExhaustedPersistent, ResourceExhaustedTransient: the current account may not have what it needs.
            Error: the execution is not to go on, or a graph that control flow refers to failed.
        """
        where = operation_name(self.graph, position)
        limits.check(f"before {where}")
        try:
            self._compute(position, values, omitted, run, where)
        except BadData as error:
            raise OpFailed(f"{where}: {error}") from None
        except UnknownValue as error:
            raise OpFailed(f"{where}: its argument {error} is omitted") from None
        except MemoryError as error:
            raise OutOfMemory(f"{where}: {error}") from None

    def _compute(
        self, position: int, values: Values, omitted: frozenset[int], run: GraphRunner, where: str
    ) -> None:
        operation, operands = self.graph.operations[position], self.graph.operands
        definition = self.definitions[position]

        def shape_of(index: int) -> tuple[int, ...] | None:
            return None if (value := values.get(index)) is None else value.shape

        call = Call(self.bindings[position], operands, shape_of, values.get, omitted, self._referenced, run)
        definition.check(call)
        shapes: Sequence[tuple[int, ...] | None]
        try:
            shapes = definition.output_shapes(call)
        except UnknownValue:
            # Control flow: only running it tells.
            shapes = [None] * len(operation.outputs)
        for index, shape in zip(operation.outputs, shapes, strict=True):
            if shape is not None:
                self._require_declared(index, shape)
        # What it is to give and what it needs meanwhile is reserved first, as far as shapes tell; the rest once they do.
        what = f"{where} on its reference"
        reservations = [
            None if shape is None else reserve(byte_size(operands[index].type, shape), what)
            for index, shape in zip(operation.outputs, shapes, strict=True)
        ]
        given = [values[index] for index in operation.inputs if index in values]
        working = reserve(reference_working_bytes(given, shapes), what)
        found = []
        compute = self._kernels.get(operation.type, definition.reference)
        for index, shape, result in zip(operation.outputs, shapes, compute(call), strict=True):
            array = np.ascontiguousarray(result, operands[index].type.dtype)
            array = array.reshape(result.shape if shape is None else shape)
            self._require_declared(index, array.shape)
            found.append(array)
        working.release()
        for index, array, reservation in zip(operation.outputs, found, reservations, strict=True):
            values.keep(index, array, reservation or reserve(array.nbytes, what))

    def _require_declared(self, index: int, shape: tuple[int, ...]) -> None:
        operands = self.graph.operands
        merge(operands[index].dimensions, shape, f"{operand_name(operands, index)} (output)")


class _Graph:
    def __init__(
        self,
        model: Model,
        graph: Subgraph,
        kernels: Mapping[OperationType, Kernel],
        definitions: Mapping[OperationType, Definition],
    ) -> None:
        self._graph = graph
        self._operations = GraphOperations(model, graph, kernels, definitions)

    def run(
        self, inputs: Sequence[Array | None], run: _Run, times_ns: list[int] | None = None
    ) -> list[Array]:
        values, omitted = self._operations.start(inputs)
        for position in range(len(self._graph.operations)):
            started = time.perf_counter_ns()
            self._operations.compute(position, values, omitted, run, run.limits)
            if times_ns is not None:
                times_ns.append(time.perf_counter_ns() - started)
        return [values[index] for index in self._graph.outputs]
