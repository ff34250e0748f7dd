"""The base class of prepared models that compute with arrays, with the part that all drivers need.

A driver's prepared model derives from `ArrayModel` and implements one method:

    class MyPreparedModel(ArrayModel):
        def run(self, inputs: Sequence[Array | None], limits: ExecutionLimits) -> Sequence[Array]:
            ...

The rest of `neurald.hal.device.PreparedModel` follows: deadlines, cancellation, outputs whose shape
is only known after an execution, outputs that do not fit, bursts and fenced executions.
`neurald.hal.execution.reference_executor.ReferenceExecutor` computes operations one by one, with
kernels of the driver, or with their references where it has none.
"""

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np

from neurald.hal.accounting.pacing import step
from neurald.hal.api_arguments import shown
from neurald.hal.device import (
    Artifact,
    ExecuteOptions,
    ExecutionResult,
    KernelTime,
    OutputShape,
    Timing,
)
from neurald.hal.errors import (
    BadData,
    MissedDeadlineTransient,
    OpFailed,
)
from neurald.hal.execution.in_process import InProcessModel
from neurald.hal.memory.string_memory import StringMemory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.elements import array_to_store, stored_array
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Dimensions, OperandType, byte_size
from neurald.hal.operations.machinery.call import Array
from neurald.hal.validation.shape_inference import merge
from neurald.hal.wording import counted


class ExecutionLimits:
    """The deadline and the cancellation of an execution, which a driver checks regularly.

    Check between operations, and more often within an operation that takes long.

    Attributes:
        options: the options of the execution.
    """

    def __init__(self, options: ExecuteOptions) -> None:
        self.options = options

    def check(self, where: str) -> None:
        """Raises an error if the execution must stop.

        In a daemon, this is also where the execution gives way to other clients, see
        `neurald.hal.accounting.pacing`.

        Args:
            where: where the execution is, for messages: "before operation 3 CONV_2D".

        Raises:
            Cancelled: the execution was cancelled.
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
        """Returns the deadline of a WHILE that begins now, on the clock of `time.monotonic()`."""
        return time.monotonic() + self.options.loop_timeout_s


class ArrayModel(InProcessModel):
    """A prepared model that computes with arrays.

    Executions may overlap, so `run` must not keep anything between them.

    Args:
        model: a valid model. The device supports each of its operations.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    @abstractmethod
    def run(self, inputs: Sequence[Array | None], limits: ExecutionLimits) -> Sequence[Array]:
        """Computes the outputs of the main graph.

        Args:
            inputs: one for each input of the graph: read-only views of the request's memory, None
                for an omitted input.
            limits: to be checked between operations.

        Returns:
            One array for each output of the graph, of any memory layout. Elements of another type
            are converted as `numpy.ndarray.astype` does it.

        Raises:
            Error: the execution failed. Nothing is written to the request's outputs then.
        """

    @property
    def tolerates_changing_inputs(self) -> bool:
        """See `PreparedModel.tolerates_changing_inputs`; drivers that can prove it override it."""
        return False

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`."""
        started = time.monotonic_ns()
        options.require_time()
        limits = ExecutionLimits(options)
        limits.check("before the execution started")
        results = self.run(input_arrays(self.model, request), limits)
        shapes = write_outputs(self.model, request, results)
        elapsed = time.monotonic_ns() - started
        timing = Timing(on_device_ns=elapsed, in_driver_ns=elapsed) if options.measure else Timing()
        return ExecutionResult(output_shapes=shapes, timing=timing)

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`. Returns None; a driver that caches overrides this."""
        return None

    def profile(self) -> Sequence[KernelTime]:
        """See `PreparedModel.profile`. Returns nothing; a driver that measures overrides this."""
        return ()


def input_arrays(model: Model, request: Request, *, in_place: bool = False) -> list[Array | None]:
    """Returns the inputs of a request as read-only views of its memory, None for omitted inputs.

    Args:
        model: the model, with the types and shapes of the inputs.
        request: a valid request for the model.
        in_place: whether bools are views, too, in which any byte but 0 is true; else they are
            copied with a 1 for true.
    """
    graph = model.main
    return [
        None
        if argument.pool is None
        else _input_array(argument, graph.operands[index], request, in_place=in_place)
        for index, argument in zip(graph.inputs, request.inputs, strict=True)
    ]


def repeated_input_arrays(model: Model, request: Request) -> Callable[[], list[Array | None]]:
    """Returns a function that returns `input_arrays` of a request again and again."""
    graph = model.main
    are_views = all(
        graph.operands[index].type.dtype.kind not in "bO"
        or argument.pool is None
        or isinstance(request.pools[argument.pool], StringMemory)
        for index, argument in zip(graph.inputs, request.inputs, strict=True)
    )
    if not are_views:
        return partial(input_arrays, model, request)
    arrays = input_arrays(model, request)
    return lambda: arrays


def _input_array(argument: Argument, operand: Operand, request: Request, *, in_place: bool) -> Array:
    shape = operand.dimensions if argument.dimensions is None else argument.dimensions
    memory = request.pools[argument.pool or 0]
    if isinstance(memory, StringMemory) and memory.strings.size == math.prod(shape or ()):
        strings = memory.strings.reshape(shape or ())
        strings.flags.writeable = False
        return strings
    view = memory.view(argument.offset, argument.length)
    if in_place and operand.type.dtype.kind == "b":
        array = np.frombuffer(view, operand.type.dtype).reshape(shape or ())
    else:
        array = stored_array(view.toreadonly(), operand.type, shape or ())
    array.flags.writeable = False
    return array


def write_outputs(model: Model, request: Request, results: Sequence[Array]) -> tuple[OutputShape, ...]:
    """Writes the outputs of an execution to its request.

    If one of them does not fit, nothing is written.

    Args:
        model: the model, with the types and shapes of the outputs.
        request: a valid request for the model.
        results: one array for each output of the model, of any memory layout.

    Returns:
        The shape of each output, and whether its memory is large enough.

    Raises:
        OpFailed: the results are no list or tuple, or one of them is no array, has another shape
            than the model declares, or strings that cannot be stored.
    """
    graph = model.main
    # An array has a length, too, which says nothing about outputs.
    if not isinstance(results, list | tuple):
        raise OpFailed(
            f"the driver returned {shown(results)}; a list with an array for each output is expected"
        )
    if len(results) != len(graph.outputs):
        raise OpFailed(
            f"the driver returned {counted(len(results), 'result')}; the model has "
            f"{counted(len(graph.outputs), 'output')}"
        )
    contents, shapes, is_sufficient = [], [], True
    for number, (index, result, argument) in enumerate(
        zip(graph.outputs, results, request.outputs, strict=True)
    ):
        operand = graph.operands[index]
        if not isinstance(result, np.ndarray | np.generic):
            raise OpFailed(
                f"the driver returned {shown(result)} for output {number}; an array of {operand.type.dtype} is "
                "expected"
            )
        try:
            if result.shape != operand.dimensions:
                merge(operand.dimensions, result.shape, f"output {number}")
            content = array_to_store(np.asarray(result, operand.type.dtype), operand.type)
        except BadData as error:
            raise OpFailed(f"the driver returned a wrong result: {error}") from None
        contents.append(content)
        fits = content.nbytes <= argument.length
        is_sufficient = is_sufficient and fits
        is_text = operand.type is OperandType.TENSOR_STRING
        shapes.append(_output_shape(result.shape, fits, content.nbytes if is_text else None))
    if is_sufficient:
        for content, argument in zip(contents, request.outputs, strict=True):
            view = request.pools[argument.pool or 0].view(argument.offset, content.nbytes)
            np.frombuffer(view, content.dtype)[:] = content.reshape(-1)
    return tuple(shapes)


class OutputArrays:
    """The outputs of a request as arrays, for executions whose results have known shapes.

    Args:
        model: the model, with the types of the outputs.
        request: a valid request for the model.
        shapes: the shapes of the outputs.

    Attributes:
        targets: an array of the right shape for each output.

    Raises:
        BadData: an output has no memory of this process, or too little of it.
    """

    def __init__(self, model: Model, request: Request, shapes: Sequence[Dimensions]) -> None:
        graph = model.main
        self.targets: list[Array] = []
        for index, argument, shape in zip(graph.outputs, request.outputs, shapes, strict=True):
            kind = graph.operands[index].type
            memory = request.pools[argument.pool or 0]
            if shape is None or isinstance(memory, DeviceBuffer):
                raise BadData("an output has no memory of this process")
            if isinstance(memory, StringMemory):
                if math.prod(shape) > memory.strings.size:
                    raise BadData(f"an output of {math.prod(shape)} strings exceeds its array")
                self.targets.append(memory.strings[: math.prod(shape)].reshape(shape))
            elif kind is OperandType.TENSOR_STRING:
                raise BadData("an output has strings in a buffer, whose size is not known")
            else:
                view = memory.view(argument.offset, byte_size(kind, shape))
                self.targets.append(np.frombuffer(view, kind.dtype).reshape(shape))

    def write(self, results: Sequence[Array]) -> bool:
        """Writes the results of an execution, and returns True, if all have the expected shapes."""
        if any(result.shape != target.shape for result, target in zip(results, self.targets, strict=True)):
            return False
        for result, target in zip(results, self.targets, strict=True):
            target[...] = result
        return True


@lru_cache(maxsize=256)
def _output_shape(dimensions: tuple[int, ...], sufficient: bool, length: int | None) -> OutputShape:
    return OutputShape(dimensions=dimensions, sufficient=sufficient, length=length)
