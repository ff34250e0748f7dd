"""A model that the CPU device has compiled as a whole: an execution is one call of native code."""

import threading
import time
from collections.abc import Callable, Sequence

from neurald.drivers.compiler.placement import Port
from neurald.drivers.cpu.artifact import write_artifact
from neurald.drivers.cpu.native_model import NativeModel
from neurald.drivers.cpu.reference_model import ReferenceModel
from neurald.hal.device import (
    Artifact,
    Burst,
    ExecuteOptions,
    ExecutionResult,
    FencedExecution,
    KernelTime,
    OutputShape,
    Timing,
)
from neurald.hal.errors import BadData, MissedDeadlinePersistent, OpFailed
from neurald.hal.fence import Fence
from neurald.hal.in_process import InProcessBurst, start_fenced
from neurald.hal.types import Operand, Request


class CpuPreparedModel:
    """Implements `neurald.hal.device.PreparedModel`.

    Args:
        native: the compiled model.
        references: makes what runs executions that leave out an input; None: the model is not at hand.
        keeps_artifact: whether `artifact` will be asked for.
    """

    def __init__(
        self,
        native: NativeModel,
        references: Callable[[], ReferenceModel] | None = None,
        *,
        keeps_artifact: bool = False,
    ) -> None:
        self.native = native
        self._executable = native.executable
        self._make_references = references
        self._references: ReferenceModel | None = None
        self._making = threading.Lock()
        self._keeps_artifact = keeps_artifact
        self._sizes = tuple(port.size_bytes for port in native.executable.inputs)
        self._output_sizes = tuple(port.size_bytes for port in native.executable.outputs)
        self._result = ExecutionResult(
            output_shapes=tuple(OutputShape(dimensions=port.dimensions) for port in native.executable.outputs)
        )

    @property
    def tolerates_changing_inputs(self) -> bool:
        """See `PreparedModel.tolerates_changing_inputs`."""
        return self._executable.is_tolerant

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """What the model says of an input or output.

        Raises:
            BadData: there is none of that index.
        """
        ports: tuple[Port, ...] = self._executable.outputs if is_output else self._executable.inputs
        if not 0 <= index < len(ports):
            raise BadData(f"{'output' if is_output else 'input'} {index}; the model has {len(ports)}")
        return ports[index].operand

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`. What has been started is run to its end."""
        started = time.monotonic_ns()
        deadline_s = options.deadline_s
        if deadline_s is not None and time.monotonic() >= deadline_s:
            raise MissedDeadlinePersistent("the deadline had passed before the execution started")
        if options.cancellation is not None:
            options.cancellation.require_not_cancelled("before it began")
        pools = request.pools
        inputs, outputs = [], []
        for size, argument in zip(self._sizes, request.inputs, strict=True):
            if argument.pool is None:
                return self._on_references(request, options)
            memory = pools[argument.pool]
            if not 0 <= argument.offset <= memory.size - size:
                raise BadData(f"{size} bytes at {argument.offset} do not lie in memory of {memory.size}")
            inputs.append(memory.address + argument.offset)
        for size, argument in zip(self._output_sizes, request.outputs, strict=True):
            if argument.length < size:
                return self._insufficient(request)
            assert argument.pool is not None  # noqa: S101 - validated
            memory = pools[argument.pool]
            if not 0 <= argument.offset <= memory.size - size:
                raise BadData(f"{size} bytes at {argument.offset} do not lie in memory of {memory.size}")
            outputs.append(memory.address + argument.offset)
        if not options.measure:
            self.native.run(inputs, outputs, deadline_s)
            return self._result
        launched = time.monotonic_ns()
        self.native.run(inputs, outputs, deadline_s)
        ended = time.monotonic_ns()
        return ExecutionResult(
            output_shapes=self._result.output_shapes,
            timing=Timing(on_device_ns=ended - launched, in_driver_ns=ended - started),
        )

    def _insufficient(self, request: Request) -> ExecutionResult:
        return ExecutionResult(
            output_shapes=tuple(
                OutputShape(dimensions=port.dimensions, sufficient=port.size_bytes <= argument.length)
                for port, argument in zip(self._executable.outputs, request.outputs, strict=True)
            )
        )

    def _on_references(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """An execution without one of the inputs, for which the code is not made."""
        if self._make_references is None:
            number = next(n for n, argument in enumerate(request.inputs) if argument.pool is None)
            raise OpFailed(f"input {number} is omitted, and no operation can do without it")
        with self._making:
            if self._references is None:
                self._references = self._make_references()
        return self._references.execute(request, options)

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
        """See `PreparedModel.artifact`."""
        return write_artifact(self.native) if self._keeps_artifact else None

    def profile(self) -> tuple[KernelTime, ...]:
        """See `PreparedModel.profile`: on whatever was there last."""
        return self.native.profile()
