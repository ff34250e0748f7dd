"""A model compiled for the OpenCL device: its program, its constants and its instances."""

import ctypes
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from neurald.drivers.opencl.artifact import write_artifact
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.pinned_memory import PinnedAddress
from neurald.drivers.opencl.runtime.buffer import OpenClBuffer
from neurald.drivers.opencl.runtime.constants import DeviceConstants
from neurald.drivers.opencl.runtime.executable import Executable, Improvement
from neurald.drivers.opencl.runtime.instance import Instance
from neurald.drivers.opencl.runtime.instance_pool import InstancePool
from neurald.drivers.opencl.runtime.portions import Portions
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.hal.device import (
    Artifact,
    ExecuteOptions,
    ExecutionResult,
    KernelTime,
    OutputShape,
    Timing,
)
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.execution.in_process import InProcessModel
from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand
from neurald.hal.model.ports import port_at
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.exit import stop_at_exit
from neurald.hal.process.fork import forkable_lock, keep_in_children
from neurald.hal.sync.cancellation import Cancellation

#: Number of requests whose resolved addresses are cached.
_BINDING_CACHE_SIZE = 8
#: Executions of a request after which its memory is pinned: these save as much as that takes.
_RUNS_BEFORE_PINNING = 8


class PendingImprovement(Protocol):
    """An improvement whose program is being built."""

    improvement: Improvement

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the program is used, or cannot be; returns False if time was too short."""
        ...

    def close(self) -> None:
        """Ends the build."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """Holds what executions run the step by.

    Attributes:
        executable, program: the calls to run, and their kernels.
        pool: the instances of both.
    """

    executable: Executable
    program: BuiltProgram
    pool: InstancePool[Instance]


@dataclass(slots=True, kw_only=True)
class _Binding:
    """Resolved inputs and outputs: host addresses or device buffers; None for an omitted input.

    Attributes:
        request: what they were resolved from.
        inputs, outputs: the inputs, and the outputs.
        are_on_host: whether none of them is a device buffer.
        runs: how many executions have used them, up to `_RUNS_BEFORE_PINNING`.
    """

    request: weakref.ref[Request]
    inputs: tuple[int | OpenClBuffer | None, ...]
    outputs: tuple[int | OpenClBuffer, ...]
    are_on_host: bool
    runs: int = 0


class OpenClPreparedModel(InProcessModel):
    """Implements `neurald.hal.device.PreparedModel`.

    Args:
        device: the device that runs it.
        executable: the calls to run.
        program: the program with the kernels of an execution.
        constants: its constants, whose contents are kept if `artifact` will be called.
        is_launched: whether the kernels are launched now. That completes a binary, and tells how
            long they take.
        improvement: a faster way to run the step, with which `improve` will be called; None if
            there is none.

    Raises:
        OutOfMemory: the device lacks memory for the model.
        ResourceExhaustedPersistent, ResourceExhaustedTransient: the memory exceeds the limits of
            its account.
        Error: the device failed.
    """

    #: Inputs are copied to the device before they are read.
    tolerates_changing_inputs = True

    def __init__(
        self,
        device: DeviceContext,
        executable: Executable,
        program: BuiltProgram,
        constants: DeviceConstants,
        *,
        is_launched: bool = True,
        improvement: PendingImprovement | None = None,
    ) -> None:
        self.device = device
        self._constants = constants
        self._improvement = improvement
        self._when_improved: list[Callable[[OpenClPreparedModel], None]] = []
        self._is_improved = False
        self._profiled: BuiltProgram | None = program if executable.persistent is None else None
        self._result = ExecutionResult(
            output_shapes=tuple(OutputShape(dimensions=port.dimensions) for port in executable.outputs)
        )
        self._bindings: dict[int, _Binding] = {}
        self._running = self._made(executable, program, is_launched=is_launched)
        #: The instances that `improve` has replaced, for as long as executions use them.
        self._replaced: weakref.ref[InstancePool[Instance]] | None = None
        self._replacing = forkable_lock()
        self._ends = False
        keep_in_children(self)
        stop_at_exit(self)

    def _made(self, executable: Executable, program: BuiltProgram, *, is_launched: bool) -> _Running:
        # The finalizer must not refer to this object: all memory must be released with the last
        # reference, not later by the garbage collector.
        new_instance = partial(Instance, self.device, executable, program, self._constants.buffer)
        first = new_instance()
        call = executable.persistent
        if call is not None and not first.are_resident(call, call.groups):
            raise OpFailed(f"{call.groups} work-groups of the persistent kernel are not resident together")
        total_s = first.launch() / 1e9 if is_launched else 0.0
        pool = InstancePool([first], new_instance, total_s)
        return _Running(executable=executable, program=program, pool=pool)

    @property
    def executable(self) -> Executable:
        """The calls that executions run."""
        return self._running.executable

    def improve(self, executable: Executable, program: BuiltProgram) -> None:
        """Lets executions that begin from now on run the same step by another executable.

        Args:
            executable: has the same inputs, outputs and arena.
            program: the program with its kernels.

        Raises:
            OpFailed: the work-groups of its persistent kernel are not resident together.
            Error: the device failed, or lacks memory.
        """
        better = self._made(executable, program, is_launched=True)
        with self._replacing:
            if self._ends:
                return
            self._replaced = weakref.ref(self._running.pool)
            self._running, self._improvement = better, None
            self._is_improved = True
            callbacks, self._when_improved = self._when_improved, []
        for callback in callbacks:
            callback(self)

    def call_when_improved(self, callback: "Callable[[OpenClPreparedModel], None]") -> bool:
        """See `ImprovesLater.call_when_improved`."""
        with self._replacing:
            if not self._is_improved:
                is_pending = self._improvement is not None
                if is_pending:
                    self._when_improved.append(callback)
                return is_pending
        callback(self)
        return True

    def wait_until_improved(self, timeout_s: float | None = None) -> bool:
        """Waits until no faster program is being built; returns False if the time was too short."""
        improvement = self._improvement
        return improvement is None or improvement.wait(timeout_s)

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """Returns the operand of an input or output.

        Raises:
            BadData: there is no such input or output.
        """
        ports = self.executable.outputs if is_output else self.executable.inputs
        return port_at(ports, index, is_output=is_output).operand

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`.

        Commands that are already enqueued run to completion, but only few are enqueued ahead.
        """
        started = time.monotonic_ns()
        options.require_start()
        binding = self._known(request)
        if binding is None:
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
            # Returns the same object each time, so that the runtime need not inspect it again.
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
        binding = self._known(request)
        if binding is None:
            return None

        def execute(cancellation: Cancellation) -> None:
            self._run(binding, None, cancellation)

        return execute

    def _known(self, request: Request) -> "_Binding | None":
        """Returns the cached binding of a request; None if there is none."""
        binding = self._bindings.get(id(request))
        # Another request may have been at its address.
        return binding if binding is not None and binding.request() is request else None

    def _run(
        self, binding: "_Binding", deadline_s: float | None, cancellation: Cancellation | None
    ) -> tuple[int, int]:
        """Runs the step; see `InstancePool.run`."""
        if binding.runs < _RUNS_BEFORE_PINNING:
            binding.runs += 1
            if binding.runs == _RUNS_BEFORE_PINNING:
                self._pin(binding)

        def use(instance: Instance, portions: Portions | None, stops: Callable[[], bool]) -> int | None:
            return instance.run(
                binding.inputs, binding.outputs, portions, stops, are_on_host=binding.are_on_host
            )

        return self._running.pool.run(use, deadline_s, cancellation)

    def _bind(self, request: Request) -> "_Binding":
        """Resolves the inputs and outputs of a request; the result is cached with the request."""
        executable = self.executable
        inputs = tuple(
            None if argument.pool is None else self._place(request, argument, port.size_bytes)
            for port, argument in zip(executable.inputs, request.inputs, strict=True)
        )
        outputs = tuple(
            self._place(request, argument, port.size_bytes)
            for port, argument in zip(executable.outputs, request.outputs, strict=True)
        )
        binding = _Binding(
            request=weakref.ref(request),
            inputs=inputs,
            outputs=outputs,
            are_on_host=not any(isinstance(each, OpenClBuffer) for each in (*inputs, *outputs)),
        )
        if len(self._bindings) >= _BINDING_CACHE_SIZE:
            self._bindings.clear()
        self._bindings[id(request)] = binding
        return binding

    def _pin(self, binding: "_Binding") -> None:
        """Pins the inputs and outputs that lie in host memory, where possible."""
        request, executable = binding.request(), self.executable
        if request is None:
            return

        def pinned(place: int | OpenClBuffer, argument: Argument, size_bytes: int) -> int | OpenClBuffer:
            if not isinstance(place, int):
                return place
            is_pinned = self.device.pinned.pin(_memory(request, argument), argument.offset, size_bytes)
            return PinnedAddress(place) if is_pinned else place

        binding.inputs = tuple(
            None if place is None else pinned(place, argument, port.size_bytes)
            for place, argument, port in zip(binding.inputs, request.inputs, executable.inputs, strict=True)
        )
        binding.outputs = tuple(
            pinned(place, argument, port.size_bytes)
            for place, argument, port in zip(
                binding.outputs, request.outputs, executable.outputs, strict=True
            )
        )

    def _place(self, request: Request, argument: Argument, size_bytes: int) -> int | OpenClBuffer:
        """Returns the address of an argument, or its buffer on this device.

        Raises:
            BadData: the argument does not lie inside its memory, or is on another device.
        """
        memory = _memory(request, argument)
        if isinstance(memory, OpenClBuffer):
            if memory.device is not self.device or size_bytes > memory.size:
                raise BadData(
                    f"{size_bytes} bytes need device memory of that size on the same device; got {memory.size} bytes"
                )
            return memory
        return argument.address_in(memory, size_bytes)

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`."""
        contents = self._constants.contents
        if contents is None:
            return None
        with self._replacing:
            running, build = self._running, self._improvement
        improvement = None if build is None else build.improvement
        return write_artifact(running.executable, running.program.binary, contents, improvement)

    def launch(self) -> int:
        """Runs the kernels of an execution without transfers, on the present contents of the arena.

        Returns:
            The nanoseconds that the kernels took.

        Raises:
            Error: the device failed.
        """
        with self._running.pool.instances.using() as instance:
            return instance.launch()

    def stop(self, deadline_s: float) -> None:
        """See `Stoppable.stop`."""
        with self._replacing:
            self._ends = True
        improvement = self._improvement
        if improvement is not None:
            improvement.close()
            improvement.wait(max(0.0, deadline_s - time.monotonic()))
        replaced = None if self._replaced is None else self._replaced()
        pools = (self._running.pool,) if replaced is None else (replaced, self._running.pool)
        have_stopped = [pool.stop(deadline_s) for pool in pools]
        if not all(have_stopped):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def profile(self) -> tuple[KernelTime, ...]:
        """See `PreparedModel.profile`.

        Uses the device's events, on the present contents of the arena.
        """
        running = self._running
        with running.pool.instances.using() as instance:
            if self._profiled is None:
                self._profiled = BuiltProgram.from_source(self.device, running.executable.text)
            return instance.profile(self._profiled)


def _memory(request: Request, argument: Argument) -> Memory:
    assert argument.pool is not None  # noqa: S101 - validated
    return request.pools[argument.pool]


def _room(request: Request, argument: Argument) -> int:
    """Returns the size in bytes available for an output; device memory is used as a whole."""
    memory = _memory(request, argument)
    return memory.size if isinstance(memory, OpenClBuffer) else argument.length
