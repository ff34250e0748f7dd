"""A model compiled as a whole in which lengths change while it runs, such as a list that grows."""

import ctypes
import time
from collections.abc import Callable, Sequence

from neurald.drivers.compiler.ir.string_references import stored_bytes
from neurald.drivers.cpu.native.growing_instance import GrowingBinding, LengthsRefused
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native_segment import whole_steps
from neurald.drivers.cpu.partly_compiled_model import stored_like
from neurald.drivers.cpu.prepared_model import CpuPreparedModel, address_of
from neurald.drivers.cpu.target.open_executable import OpenExecutable
from neurald.hal.device import ExecuteOptions, ExecutionResult, OutputShape, Timing
from neurald.hal.errors import Error
from neurald.hal.execution.direct_calls import ArrayFunction
from neurald.hal.execution.reference_graph import Step
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Model, Operand, Request
from neurald.hal.operations.machinery.call import Array
from neurald.hal.sync.cancellation import Cancellation


class GrowingModel(CpuPreparedModel):
    """Implements `neurald.hal.device.PreparedModel`.

    Executions with lengths for which the code is not valid run on references.

    Args:
        native: the compiled model.
        opened: its step.
        model: the model.
        lengths: of the inputs, see `OpenExecutable.input_lengths`; None if the model specifies
            them.
    """

    def __init__(
        self,
        native: NativeModel,
        opened: OpenExecutable,
        model: Model,
        lengths: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(native, lambda: ReferenceModel(model))
        self._model = model
        self._lengths = (0,) * len(opened.symbols) if lengths is None else lengths
        self._input_shapes = opened.input_shapes(self._lengths)
        self._input_sizes = [
            stored_bytes(port.operand.type, shape)
            for port, shape in zip(native.executable.inputs, self._input_shapes, strict=True)
        ]
        self._opened = opened
        one, other = (opened.output_shapes([length] * len(opened.symbols)) for length in (2, 3))
        #: The shapes of the outputs; lengths that may change are 0.
        self._shapes = [
            tuple(length if length == another else 0 for length, another in zip(*shapes, strict=True))
            for shapes in zip(one, other, strict=True)
        ]

    def steps(self) -> list[list[Step]]:
        """Returns the steps of each graph of the model that do the same; the compiled one is whole."""
        return whole_steps(self._model, self.native)

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """See `CpuPreparedModel.operand`."""
        operand = super().operand(index, is_output=is_output)
        return Operand(
            type=operand.type,
            dimensions=self._shapes[index] if is_output else self._input_shapes[index],
            scale=operand.scale,
            zero_point=operand.zero_point,
        )

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`. Deadlines and cancellation also interrupt long kernels."""
        started = time.monotonic_ns()
        options.require_time()
        if options.cancellation is not None:
            options.cancellation.require_not_cancelled("before it began")
        if any(argument.pool is None for argument in request.inputs):
            return self.on_references(request, options)
        shapes: list[OutputShape] = []

        def receive(found: Sequence[tuple[int, ...]], addresses: Sequence[int]) -> None:
            sizes = []
            for shape, port, argument in zip(
                found, self.native.executable.outputs, request.outputs, strict=True
            ):
                sizes.append(OutputShape(dimensions=shape).size_bytes(port.operand.type) or 0)
                shapes.append(OutputShape(dimensions=shape, sufficient=sizes[-1] <= argument.length))
            if all(each.sufficient for each in shapes):
                for size, address, argument in zip(sizes, addresses, request.outputs, strict=True):
                    ctypes.memmove(address_of(request, argument, size), address, size)

        binding = GrowingBinding(
            inputs=[
                (address_of(request, argument, size), size)
                for size, argument in zip(self._input_sizes, request.inputs, strict=True)
            ],
            lengths=self._lengths,
            receive=receive,
        )
        taken = [started]
        try:
            self.native.run(binding, options.deadline_s, options.cancellation, taken, options.loop_timeout_s)
        except LengthsRefused:
            return self.on_references(request, options)
        if not options.measure:
            return ExecutionResult(output_shapes=tuple(shapes))
        ended, launched = time.monotonic_ns(), taken[-1]
        return ExecutionResult(
            output_shapes=tuple(shapes),
            timing=Timing(
                on_device_ns=ended - launched, in_driver_ns=ended - started, queued_ns=launched - started
            ),
        )

    def create_reusable_execution(self, request: Request) -> Callable[[Cancellation], None] | None:
        """See `ReusesExecutions.create_reusable_execution`. Returns None: outputs have no fixed size."""
        return None

    def create_short_execution(self, request: Request) -> Callable[[], bool] | None:
        """See `CallsDirectly.create_short_execution`. Returns None: outputs have no fixed size."""
        return None

    def create_array_function(
        self, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """See `CallsDirectly.create_array_function`.

        The function creates outputs of the sizes that it finds, so that nothing is executed twice.
        """
        if variables or list(shapes) != self._input_shapes:
            return None
        ports = self.native.executable.inputs
        expected = [(port.operand.type.dtype, shape) for port, shape in zip(ports, shapes, strict=True)]

        def run(*arrays: Array) -> list[Array] | None:
            if not stored_like(arrays, expected):
                return None
            try:
                return self.native.run_arrays(arrays)
            except (Error, LengthsRefused, MemoryError):
                # The execution of a request raises the error, or runs on references.
                return None

        return run
