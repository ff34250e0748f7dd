"""A model that the CPU device has prepared: its operations run one after another on their references."""

import time
from collections.abc import Sequence

import numpy as np

from neurald.hal.device import (
    LOOP_TIMEOUT_MAXIMUM_S,
    Artifact,
    Burst,
    ExecuteOptions,
    ExecutionResult,
    FencedExecution,
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
from neurald.hal.fence import Fence
from neurald.hal.in_process import InProcessBurst, start_fenced
from neurald.hal.inference import bind_operations, merge
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.call import Array, Call, UnknownValue
from neurald.hal.types import (
    Argument,
    Lifetime,
    Model,
    Operand,
    OperandType,
    Request,
    Subgraph,
    array_to_store,
    stored_array,
)


class CpuPreparedModel:
    """Implements `neurald.hal.device.PreparedModel`. Keeps no state between executions."""

    def __init__(self, model: Model) -> None:
        self._main = _PreparedGraph(model, model.main)
        self._referenced = [_PreparedGraph(model, graph) for graph in model.referenced]
        self._is_tolerant = all(graph.is_tolerant for graph in (self._main, *self._referenced))

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """What the model says of an input or output.

        Raises:
            BadData: there is none of that index.
        """
        graph = self._main.graph
        indexes = graph.outputs if is_output else graph.inputs
        if not 0 <= index < len(indexes):
            raise BadData(f"{'output' if is_output else 'input'} {index}; the model has {len(indexes)}")
        return graph.operands[indexes[index]]

    @property
    def tolerates_changing_inputs(self) -> bool:
        """See `PreparedModel.tolerates_changing_inputs`: true where references only calculate with what may change."""
        return self._is_tolerant

    def execute_fenced(
        self,
        request: Request,
        wait_for: Sequence[Fence],
        options: ExecuteOptions,
        after_fences_s: float | None = None,
    ) -> FencedExecution:
        """See `PreparedModel.execute_fenced`."""
        return start_fenced(self, request, wait_for, options, after_fences_s)

    def create_burst(self) -> Burst:
        """See `PreparedModel.create_burst`."""
        return InProcessBurst(self)

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`; references need no compiling."""
        return None

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`; deadlines are looked at before every operation."""
        started = time.monotonic_ns()
        if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
            raise MissedDeadlinePersistent("the deadline had passed before the execution started")
        graph = self._main.graph
        inputs = [
            None if argument.pool is None else _input_array(argument, graph.operands[index], request)
            for index, argument in zip(graph.inputs, request.inputs, strict=True)
        ]
        results = self._main.run(inputs, _Run(self._referenced, options))
        kinds = [graph.operands[index].type for index in graph.outputs]
        contents = [_to_store(result, kind) for result, kind in zip(results, kinds, strict=True)]
        shapes = tuple(
            OutputShape(
                dimensions=result.shape,
                sufficient=content.nbytes <= argument.length,
                length=content.nbytes if kind is OperandType.TENSOR_STRING else None,
            )
            for result, content, kind, argument in zip(results, contents, kinds, request.outputs, strict=True)
        )
        if all(shape.sufficient for shape in shapes):
            for content, argument in zip(contents, request.outputs, strict=True):
                _write(content, argument, request)
        elapsed = time.monotonic_ns() - started
        timing = Timing(on_device_ns=elapsed, in_driver_ns=elapsed) if options.measure else Timing()
        return ExecutionResult(output_shapes=shapes, timing=timing)


class _Run:
    """One execution; what control flow calls back (`neurald.hal.operations.call.GraphRunner`)."""

    def __init__(self, referenced: Sequence["_PreparedGraph"], options: ExecuteOptions) -> None:
        self._referenced = referenced
        self._options = options

    def run(self, graph: int, inputs: Sequence[Array]) -> list[Array]:
        return self._referenced[graph].run(inputs, self)

    def loop_deadline_s(self) -> float:
        return time.monotonic() + min(self._options.loop_timeout_s, LOOP_TIMEOUT_MAXIMUM_S)

    def require_time(self, where: str) -> None:
        """Raises where the execution is not to go on."""
        if self._options.cancellation is not None:
            self._options.cancellation.require_not_cancelled(f"before {where}")
        deadline_s = self._options.deadline_s
        if deadline_s is not None and time.monotonic() >= deadline_s:
            raise MissedDeadlineTransient(f"the deadline passed before {where}")


class _PreparedGraph:
    """A graph with what stays the same from run to run."""

    def __init__(self, model: Model, graph: Subgraph) -> None:
        self.graph = graph
        self._model = model
        self._bindings = bind_operations(graph)
        self._constants: dict[int, Array] = {
            index: value
            for index, operand in enumerate(graph.operands)
            if (value := model.constant(operand)) is not None
        }
        self._dead_after = self._last_uses()

    @property
    def is_tolerant(self) -> bool:
        """Whether all that is no constant is only calculated with; strings say themselves where they are."""
        return not any(operand.type is OperandType.TENSOR_STRING for operand in self.graph.operands) and all(
            index in self._constants or name in DEFINITIONS[binding.type].arithmetic
            for binding in self._bindings
            for name, indexes in binding.inputs.items()
            for index in indexes
            if self.graph.operands[index].lifetime is not Lifetime.NO_VALUE
        )

    def _last_uses(self) -> list[list[int]]:
        """For each operation the operands whose values nobody reads after it."""
        last: dict[int, int] = {}
        for position, operation in enumerate(self.graph.operations):
            for index in (*operation.inputs, *operation.outputs):
                last[index] = position
        dead: list[list[int]] = [[] for _ in self.graph.operations]
        for index, position in last.items():
            if index not in self.graph.outputs and index not in self._constants:
                dead[position].append(index)
        return dead

    def run(self, inputs: Sequence[Array | None], run: _Run) -> list[Array]:
        """The outputs for these inputs, None where one is omitted."""
        values = dict(self._constants)
        omitted = []
        for index, value in zip(self.graph.inputs, inputs, strict=True):
            if value is None:
                omitted.append(index)
            else:
                values[index] = value
        for position in range(len(self._bindings)):
            self._run_operation(position, values, frozenset(omitted), run)
        return [values[index] for index in self.graph.outputs]

    def _run_operation(
        self, position: int, values: dict[int, Array], omitted: frozenset[int], run: _Run
    ) -> None:
        operation = self.graph.operations[position]
        operands = self.graph.operands
        where = f"operation {position} {operation.type.name}"
        run.require_time(where)

        def shape_of(index: int) -> tuple[int, ...] | None:
            value = values.get(index)
            return None if value is None else value.shape

        call = Call(
            self._bindings[position],
            operands,
            shape_of,
            values.get,
            omitted,
            self._model.referenced,
            run,
        )
        try:
            results = self._results(call)
            for index, result in zip(operation.outputs, results, strict=True):
                merge(operands[index].dimensions, result.shape, f"operand {index} (output)")
        except BadData as error:
            raise OpFailed(f"{where}: {error}") from None
        except UnknownValue as error:
            raise OpFailed(f"{where}: its argument {error} is omitted") from None
        except MemoryError as error:
            raise OutOfMemory(f"{where}: {error}") from None
        values.update(zip(operation.outputs, results, strict=True))
        for index in self._dead_after[position]:
            values.pop(index, None)

    def _results(self, call: Call) -> list[Array]:
        definition = DEFINITIONS[call.binding.type]
        definition.check(call)
        try:
            shapes = definition.output_shapes(call)
        except UnknownValue:
            # Control flow: only running it tells.
            return list(definition.reference(call))
        outputs = [index for indexes in call.binding.outputs.values() for index in indexes]
        for index, shape in zip(outputs, shapes, strict=True):
            merge(self.graph.operands[index].dimensions, shape, f"operand {index} (output)")
        return [
            np.ascontiguousarray(result, self.graph.operands[index].type.dtype).reshape(shape)
            for index, shape, result in zip(outputs, shapes, definition.reference(call), strict=True)
        ]


def _input_array(argument: Argument, operand: Operand, request: Request) -> Array:
    shape = operand.dimensions if argument.dimensions is None else argument.dimensions
    assert argument.pool is not None  # noqa: S101 - validated
    view = request.pools[argument.pool].view(argument.offset, argument.length)
    return stored_array(view, operand.type, shape or ())


def _to_store(result: Array, kind: OperandType) -> Array:
    try:
        return array_to_store(result, kind)
    except BadData as error:
        raise OpFailed(str(error)) from None


def _write(result: Array, argument: Argument, request: Request) -> None:
    assert argument.pool is not None  # noqa: S101 - validated
    view = request.pools[argument.pool].view(argument.offset, result.nbytes)
    np.frombuffer(view, result.dtype)[:] = result.reshape(-1)
