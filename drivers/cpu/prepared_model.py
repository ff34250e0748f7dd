"""A model compiled as a whole: an execution is a single call of native code."""

import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from neurald.drivers.compiler.memory.buffer_location import Port
from neurald.drivers.cpu.artifact import write_artifact
from neurald.drivers.cpu.native.instances.argument_binding import ArgumentBinding
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.hal.device import (
    Artifact,
    ExecuteOptions,
    ExecutionResult,
    KernelTime,
    OutputShape,
    Timing,
)
from neurald.hal.errors import OpFailed
from neurald.hal.execution.direct_calls import ArrayFunction, ShortExecution
from neurald.hal.execution.in_process import InProcessModel
from neurald.hal.execution.native_serving import NativeCall
from neurald.hal.execution.reusable import ReusableExecution
from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand
from neurald.hal.model.ports import port_at
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.fork import forkable_lock

if TYPE_CHECKING:
    from neurald.hal.execution.reference_graph import Step
    from neurald.hal.execution.reference_model import ReferenceModel

#: Number of requests whose addresses are cached.
_BINDING_CACHE_SIZE: Final = 8


class CpuPreparedModel(InProcessModel):
    """Implements `neurald.hal.device.PreparedModel`.

    Args:
        native: the compiled model.
        references: creates the fallback for executions that omit an input; None if the model is not
            available.
        keeps_artifact: True if `artifact` will be called and represents the whole model.
        artifact: the artifact from which the model was restored; None if it was not.
    """

    def __init__(
        self,
        native: NativeModel,
        references: "Callable[[], ReferenceModel] | None" = None,
        *,
        keeps_artifact: bool = False,
        artifact: Artifact | None = None,
    ) -> None:
        self.native = native
        self._executable = native.executable
        self._make_references = references
        self._references: ReferenceModel | None = None
        self._making = forkable_lock()
        self.keeps_artifact = keeps_artifact
        self._artifact = artifact if keeps_artifact else None
        self._sizes = tuple(port.size_bytes for port in native.executable.inputs)
        self._output_sizes = tuple(port.size_bytes for port in native.executable.outputs)
        self._bindings: dict[int, tuple[weakref.ref[Request], ArgumentBinding]] = {}
        self._result = ExecutionResult(
            output_shapes=tuple(OutputShape(dimensions=port.dimensions) for port in native.executable.outputs)
        )

    @property
    def tolerates_changing_inputs(self) -> bool:
        """See `PreparedModel.tolerates_changing_inputs`."""
        return self._executable.is_tolerant

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """Returns the declared operand of an input or output.

        Raises:
            BadData: the index is out of range.
        """
        ports: tuple[Port, ...] = self._executable.outputs if is_output else self._executable.inputs
        return port_at(ports, index, is_output=is_output).operand

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`. Deadlines and cancellation also interrupt long kernels."""
        started = time.monotonic_ns() if options.measure else 0
        options.require_start()
        deadline_s, cancellation = options.deadline_s, options.cancellation
        known = self._bindings.get(id(request))
        if known is not None and known[0]() is request:
            binding = known[1]
        else:
            if any(argument.pool is None for argument in request.inputs):
                return self.on_references(request, options)
            sizes = zip(self._output_sizes, request.outputs, strict=True)
            if any(argument.length < size for size, argument in sizes):
                return self._insufficient(request)
            binding = self._bind(request)
        if not options.measure:
            self.native.run(binding, deadline_s, cancellation, loop_timeout_s=options.loop_timeout_s)
            return self._result
        asked = time.monotonic_ns()
        taken: list[int] = []
        self.native.run(binding, deadline_s, cancellation, taken, options.loop_timeout_s)
        return timed(self._result, started, asked, taken[0])

    def create_reusable_execution(self, request: Request) -> ReusableExecution | None:
        """See `ReusesExecutions.create_reusable_execution`."""
        known = self._bindings.get(id(request))
        if known is None or known[0]() is not request:
            return None
        return self.native.repeating(known[1])

    def create_native_call(self, request: Request) -> NativeCall | None:
        """See `CallsNatively.create_native_call`."""
        if not self._is_complete(request):
            return None
        return self.native.native_call(self._binding(request), request)

    def create_short_execution(self, request: Request) -> ShortExecution | None:
        """See `CallsDirectly.create_short_execution`."""
        if not self._is_complete(request):
            return None
        return self.native.short_call(self._binding(request), request)

    def _is_complete(self, request: Request) -> bool:
        """Returns True if a request has all inputs, and enough memory for all outputs."""
        sizes = zip((*self._sizes, *self._output_sizes), (*request.inputs, *request.outputs), strict=True)
        return all(argument.pool is not None and argument.length >= size for size, argument in sizes)

    def create_array_function(
        self, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """See `CallsDirectly.create_array_function`."""
        given = len(shapes)
        visible = len(self._output_sizes) - len(variables)
        stored = tuple(memory.size for memory in variables)
        if (
            tuple(shapes) != tuple(port.dimensions for port in self._executable.inputs[:given])
            or stored != self._sizes[given:]
            or stored != self._output_sizes[visible:]
        ):
            return None
        addresses = [memory.address for memory in variables]
        inputs = [*[None] * given, *addresses]
        outputs = [*[None] * visible, *addresses]
        return self.native.array_function(
            ArgumentBinding(self._executable, inputs, outputs), tuple(variables)
        )

    def _bind(self, request: Request) -> ArgumentBinding:
        """Caches the addresses of a request's arguments; the request keeps its memory alive."""
        binding = self._binding(request)
        if len(self._bindings) >= _BINDING_CACHE_SIZE:
            self._bindings.clear()
        self._bindings[id(request)] = weakref.ref(request), binding
        return binding

    def _binding(self, request: Request) -> ArgumentBinding:
        return ArgumentBinding(
            self._executable,
            [
                address_of(request, argument, size)
                for size, argument in zip(self._sizes, request.inputs, strict=True)
            ],
            [
                address_of(request, argument, size)
                for size, argument in zip(self._output_sizes, request.outputs, strict=True)
            ],
        )

    def _insufficient(self, request: Request) -> ExecutionResult:
        return ExecutionResult(
            output_shapes=tuple(
                OutputShape(dimensions=port.dimensions, sufficient=port.size_bytes <= argument.length)
                for port, argument in zip(self._executable.outputs, request.outputs, strict=True)
            )
        )

    def on_references(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs an execution that compiled code does not support, such as without an input."""
        if self._make_references is None:
            number = next(n for n, argument in enumerate(request.inputs) if argument.pool is None)
            raise OpFailed(f"input {number} is omitted, but every operation that reads it requires it")
        return self.references().execute(request, options)

    def references(self) -> "ReferenceModel":
        """Returns the model on references, which there must be."""
        with self._making:
            if self._references is None and self._make_references is not None:
                self._references = self._make_references()
        assert self._references is not None  # noqa: S101 - the caller knows
        return self._references

    @property
    def steps(self) -> "Sequence[Sequence[Step]] | None":
        """The steps of each graph of a model that is kept in parts, see `parts`; None of others."""
        return None

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`."""
        if self._artifact is not None:
            return self._artifact
        return write_artifact(self.native) if self.keeps_artifact else None

    def profile(self) -> tuple[KernelTime, ...]:
        """See `PreparedModel.profile`: covers the latest execution."""
        return self.native.profile()


def timed(result: ExecutionResult, started_ns: int, asked_ns: int, launched_ns: int) -> ExecutionResult:
    """Returns the result of an execution that has just ended, with its timing.

    Args:
        result: the result without timing.
        started_ns: when the driver got the execution; moments are of `time.monotonic_ns()`.
        asked_ns: when the execution began to wait for others to end.
        launched_ns: when the device began to compute.
    """
    ended_ns = time.monotonic_ns()
    queued_ns = launched_ns - asked_ns
    return ExecutionResult(
        output_shapes=result.output_shapes,
        timing=Timing(
            on_device_ns=ended_ns - launched_ns,
            in_driver_ns=ended_ns - started_ns - queued_ns,
            queued_ns=queued_ns,
        ),
    )


def address_of(request: Request, argument: Argument, size_bytes: int) -> int:
    """Returns the address of an argument of this size.

    Raises:
        BadData: it is outside its memory.
    """
    assert argument.pool is not None  # noqa: S101 - validated
    return argument.address_in(request.pools[argument.pool], size_bytes)
