"""A prepared model whose operations run on references, except for compiled segments."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from neurald.hal.device import (
    Artifact,
    ExecuteOptions,
    ExecutionResult,
    KernelTime,
    Timing,
)
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.execution.array_model import (
    ExecutionLimits,
    OutputArrays,
    input_arrays,
    repeated_input_arrays,
    write_outputs,
)
from neurald.hal.execution.in_process import InProcessModel
from neurald.hal.execution.reference_graph import ExecutionState, ReferenceGraph, Step
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.ports import port_at
from neurald.hal.model.request import Request
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array
from neurald.hal.sync.cancellation import Cancellation


class ReferenceModel(InProcessModel):
    """Implements `neurald.hal.device.PreparedModel`.

    It remembers nothing of an execution but its duration and the shapes of its inputs.

    Attributes:
        latest_ns: duration of the latest call of `execute`.

    Args:
        model: each of its operations has a reference.
        steps: the steps of the main graph and of each graph that control flow refers to, see
            `ReferenceGraph`; None if nothing is compiled.
    """

    def __init__(self, model: Model, steps: Sequence[Sequence[Step] | None] | None = None) -> None:
        self._model = model
        graphs = (model.main, *model.referenced)
        self._main, *self._referenced = (
            ReferenceGraph(model, graph, own)
            for graph, own in zip(graphs, steps or [None] * len(graphs), strict=True)
        )
        self._is_tolerant = all(graph.is_tolerant for graph in (self._main, *self._referenced))
        self._shapes = self._declared_shapes()
        self._result = ExecutionResult(output_shapes=())
        self.latest_ns = 0

    def _declared_shapes(self) -> tuple[tuple[int, ...] | None, ...] | None:
        """Returns the shapes of the inputs; None if one is not fully specified."""
        operands = [self._main.graph.operands[index] for index in self._main.graph.inputs]
        if not all(operand.is_fully_specified for operand in operands):
            return None
        return tuple(operand.dimensions for operand in operands)

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """Returns the declared operand of an input or output.

        Raises:
            BadData: the index is out of range.
        """
        graph = self._main.graph
        indexes = graph.outputs if is_output else graph.inputs
        return graph.operands[port_at(indexes, index, is_output=is_output)]

    @property
    def tolerates_changing_inputs(self) -> bool:
        """See `PreparedModel.tolerates_changing_inputs`: True if inputs only affect arithmetic."""
        return self._is_tolerant

    @property
    def steps(self) -> list[Sequence[Step]]:
        """Steps of the main graph and of each that control flow refers to."""
        return [graph.steps for graph in (self._main, *self._referenced)]

    @property
    def compiled_operations(self) -> frozenset[int]:
        """The compiled operations of the main graph."""
        return frozenset(position for segment in self._main.segments for position in segment.operations)

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`. Returns None, since references need the model itself."""
        return None

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`. The deadline is checked before every operation."""
        started = time.monotonic_ns()
        options.require_time()
        inputs = input_arrays(self._model, request)
        self._shapes = tuple(None if each is None else each.shape for each in inputs)
        results = self.results(inputs, ExecutionLimits(options))
        shapes = write_outputs(self._model, request, results)
        self.latest_ns = elapsed = time.monotonic_ns() - started
        if options.measure:
            timing = Timing(on_device_ns=elapsed, in_driver_ns=elapsed, queued_ns=0)
            return ExecutionResult(output_shapes=shapes, timing=timing)
        # The same object for the same shapes, which is validated once.
        if self._result.output_shapes != shapes:
            self._result = ExecutionResult(output_shapes=shapes)
        return self._result

    def create_reusable_execution(self, request: Request) -> Callable[[Cancellation], None] | None:
        """See `ReusesExecutions.create_reusable_execution`: spares all but the operations."""
        outputs = self.output_arrays(request)
        if outputs is None:
            return None
        inputs = repeated_input_arrays(self._model, request)

        def run(cancellation: Cancellation) -> None:
            limits = ExecutionLimits(ExecuteOptions(cancellation=cancellation))
            results = self.results(inputs(), limits)
            if not outputs.write(results):
                raise OpFailed("the outputs have other shapes than in the last execution")

        return run

    def results(self, inputs: Sequence[Array | None], limits: ExecutionLimits) -> Sequence[Array]:
        """Computes the outputs for these inputs."""
        return self._main.run(inputs, ExecutionState(self._referenced, limits))

    def output_arrays(self, request: Request) -> OutputArrays | None:
        """Returns the outputs of a request like the last one as arrays, if that is possible."""
        shapes = [shape.dimensions for shape in self._result.output_shapes]
        if len(shapes) != len(self._main.graph.outputs):
            return None
        try:
            return OutputArrays(self._model, request, shapes)
        except BadData:
            return None

    def profile(self) -> tuple[KernelTime, ...]:
        """See `PreparedModel.profile`: measures a run on zeros with the latest input shapes.

        Compiled segments are measured kernel by kernel.

        Raises:
            OpFailed: an operation does not support zeros.
        """
        graph = self._main.graph
        kinds = [graph.operands[index].type for index in graph.inputs]
        if self._shapes is None or OperandType.TENSOR_STRING in kinds:
            return ()
        inputs = [
            None if shape is None else np.zeros(shape, kind.dtype)
            for shape, kind in zip(self._shapes, kinds, strict=True)
        ]
        times: list[KernelTime] = []
        self._main.run(inputs, ExecutionState(self._referenced, ExecutionLimits(ExecuteOptions()), times))
        return tuple(times)
