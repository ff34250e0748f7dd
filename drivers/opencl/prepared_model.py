"""A model that the OpenCL device has compiled: its program, its constants, and as many instances as run at the same time."""

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from neurald.drivers.opencl.artifact import write_artifact
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.buffer import OpenClBuffer
from neurald.drivers.opencl.runtime.executable import Executable
from neurald.drivers.opencl.runtime.instance import Instance, allocate
from neurald.drivers.opencl.runtime.portions import Portions
from neurald.drivers.opencl.runtime.program import Program
from neurald.drivers.opencl.runtime.staging import upload
from neurald.hal.accounting.account import reserve
from neurald.hal.device import (
    Artifact,
    ExecuteOptions,
    ExecutionResult,
    KernelTime,
    OutputShape,
    Timing,
)
from neurald.hal.errors import BadData, MissedDeadlinePersistent, MissedDeadlineTransient
from neurald.hal.execution.in_process import InProcessModel
from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Argument, Operand, Request
from neurald.hal.process.fork import keep_in_children
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.lending_pool import Pool

#: Requests whose addresses are kept.
_BINDINGS = 8
#: Executions that run at the same time, each with buffers of its own; more wait, first come, first served.
_INSTANCES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Binding:
    """Where each input and output lies: an address of the host, or a buffer of the device; None for an omitted input."""

    inputs: tuple[int | OpenClBuffer | None, ...]
    outputs: tuple[int | OpenClBuffer, ...]


class OpenClPreparedModel(InProcessModel):
    """Implements `neurald.hal.device.PreparedModel`.

    Args:
        device: that runs it.
        executable: what to run.
        program: the kernels that an execution launches.
        constants: the contents of its constants.
        keeps_artifact: whether `artifact` will be asked for.

    Raises:
        OutOfMemory: the device has no room for it.
        ResourceExhaustedPersistent, ResourceExhaustedTransient: its account may not have so much.
        Error: the device failed.
    """

    #: Inputs are copied to the device before anything looks at them.
    tolerates_changing_inputs = True

    def __init__(
        self,
        device: DeviceContext,
        executable: Executable,
        program: Program,
        constants: np.ndarray,
        *,
        keeps_artifact: bool,
    ) -> None:
        self.device = device
        self.executable = executable
        self._program = program
        self._contents = constants if keeps_artifact else None
        # They are on the device, and here too if they are kept.
        copies = 2 if keeps_artifact else 1
        self._reservation = reserve(copies * executable.constants_bytes, "constants of a compiled step")
        self._constants = allocate(device, executable.constants_bytes)
        upload(device, device.queue(), self._constants, constants)
        self._profiled: Program | None = program if executable.persistent is None else None
        self._result = ExecutionResult(
            output_shapes=tuple(OutputShape(dimensions=port.dimensions) for port in executable.outputs)
        )
        self._bindings: dict[int, tuple[weakref.ref[Request], _Binding]] = {}
        # It must not refer to this object: all memory is to go with the last reference to it, not some time later.
        new_instance = partial(Instance, device, executable, program, self._constants)
        first = new_instance()
        self._instances = Pool([first], new_instance, _INSTANCES)
        self._portions = Portions(first.launch() / 1e9)
        keep_in_children(self)

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """What the model says of an input or output.

        Raises:
            BadData: there is none of that index.
        """
        ports = self.executable.outputs if is_output else self.executable.inputs
        if not 0 <= index < len(ports):
            raise BadData(f"{'output' if is_output else 'input'} {index}; the model has {len(ports)}")
        return ports[index].operand

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`. What has been enqueued is run to its end, but little is enqueued ahead."""
        started = time.monotonic_ns()
        if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
            raise MissedDeadlinePersistent("the deadline had passed before the execution started")
        known = self._bindings.get(id(request))
        if known is not None and known[0]() is request:
            binding = known[1]
        else:
            shapes = tuple(
                OutputShape(
                    dimensions=port.dimensions, sufficient=port.size_bytes <= _room(request, argument)
                )
                for port, argument in zip(self.executable.outputs, request.outputs, strict=True)
            )
            if not all(shape.sufficient for shape in shapes):
                return ExecutionResult(output_shapes=shapes)
            binding = self._bind(request)
        on_device_ns, queued_ns = self._run(binding, options.deadline_s, options.cancellation)
        if not options.measure:
            # The same object, which the runtime then need not look at again.
            return self._result
        return ExecutionResult(
            output_shapes=self._result.output_shapes,
            timing=Timing(
                on_device_ns=on_device_ns,
                in_driver_ns=time.monotonic_ns() - started - queued_ns,
                queued_ns=queued_ns,
            ),
        )

    def create_reusable_execution(self, request: Request) -> Callable[[Cancellation], None] | None:
        """See `ReusesExecutions.create_reusable_execution`."""
        known = self._bindings.get(id(request))
        if known is None or known[0]() is not request:
            return None
        binding = known[1]

        def execute(cancellation: Cancellation) -> None:
            self._run(binding, None, cancellation)

        return execute

    def _run(
        self, binding: "_Binding", deadline_s: float | None, cancellation: Cancellation | None
    ) -> tuple[int, int]:
        """Runs the step; returns the nanoseconds of its commands, and of waiting for other executions before.

        Raises:
            MissedDeadlineTransient: the deadline passed before the end.
            Cancelled: it was cancelled before the end.
            Error: the device failed.
        """

        def stops() -> bool:
            return (cancellation is not None and cancellation.is_cancelled) or (
                deadline_s is not None and time.monotonic() >= deadline_s
            )

        asked = time.monotonic_ns()
        with self._instances.using(deadline_s, cancellation) as instance:
            queued_ns = time.monotonic_ns() - asked
            may_stop = deadline_s is not None or cancellation is not None
            elapsed_ns = instance.run(
                binding.inputs, binding.outputs, self._portions if may_stop else None, stops
            )
        if elapsed_ns is None and cancellation is not None:
            cancellation.require_not_cancelled("between kernels")
        if elapsed_ns is None or (deadline_s is not None and time.monotonic() >= deadline_s):
            raise MissedDeadlineTransient("the deadline passed while its kernels ran")
        return elapsed_ns, queued_ns

    def _bind(self, request: Request) -> "_Binding":
        """The places of a request's inputs and outputs, kept for when it comes again; its memories last as long as it does."""
        executable = self.executable
        binding = _Binding(
            inputs=tuple(
                None if argument.pool is None else self._place(request, argument, port.size_bytes)
                for port, argument in zip(executable.inputs, request.inputs, strict=True)
            ),
            outputs=tuple(
                self._place(request, argument, port.size_bytes)
                for port, argument in zip(executable.outputs, request.outputs, strict=True)
            ),
        )
        if len(self._bindings) >= _BINDINGS:
            self._bindings.clear()
        self._bindings[id(request)] = weakref.ref(request), binding
        return binding

    def _place(self, request: Request, argument: Argument, size_bytes: int) -> int | OpenClBuffer:
        """Where an argument of so many bytes is: its address, or its buffer on this device.

        Raises:
            BadData: it does not lie in its memory, or on another device.
        """
        memory = _memory(request, argument)
        if isinstance(memory, OpenClBuffer):
            if memory.device is not self.device or size_bytes > memory.size:
                raise BadData(
                    f"device memory of {memory.size} bytes cannot hold {size_bytes} bytes of this device"
                )
            return memory
        if not 0 <= argument.offset <= memory.size - size_bytes:
            raise BadData(f"{size_bytes} bytes at {argument.offset} do not lie in memory of {memory.size}")
        return memory.address + argument.offset

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`."""
        if self._contents is None:
            return None
        return write_artifact(self.executable, self._program.binary, self._contents)

    def launch(self) -> int:
        """Runs the kernels of an execution without transfers, on whatever is in the arena; returns the nanoseconds.

        Raises:
            Error: the device failed.
        """
        with self._instances.using() as instance:
            return instance.launch()

    def profile(self) -> tuple[KernelTime, ...]:
        """See `PreparedModel.profile`: events of the device tell, on whatever is in the arena."""
        with self._instances.using() as instance:
            if self._profiled is None:
                self._profiled = Program.from_source(self.device, self.executable.text)
            return instance.profile(self._profiled)


def _memory(request: Request, argument: Argument) -> Memory:
    assert argument.pool is not None  # noqa: S101 - validated
    return request.pools[argument.pool]


def _room(request: Request, argument: Argument) -> int:
    """The bytes that an output may have; device memory is used as a whole."""
    memory = _memory(request, argument)
    return memory.size if isinstance(memory, OpenClBuffer) else argument.length
