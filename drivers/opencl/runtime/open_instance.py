"""Memory and kernels of a step with open dimensions, which executions of all lengths share.

A new length must not take longer than a small model runs. So nothing is created for it: the kernels
get other arguments, which native code sets, and the buffers only grow.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from neurald.drivers.compiler.memory.buffer_location import Base, Port
from neurald.drivers.opencl.platform.completion import wait_for_all
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.executable import FLAGS
from neurald.drivers.opencl.runtime.instance import allocate, bound_launch, clear, raise_failure
from neurald.drivers.opencl.runtime.launcher import SizedCommands
from neurald.drivers.opencl.runtime.native_kernel import NativeArguments
from neurald.drivers.opencl.runtime.open_executable import LaunchSizes, OpenExecutable, SizedLaunches
from neurald.drivers.opencl.runtime.portions import Portions
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.runtime.staging import BufferRange, Staging
from neurald.hal.accounting.account import reserve
from neurald.hal.errors import Error

if TYPE_CHECKING:
    import pyopencl as cl

#: Arguments of a kernel before those of its call; the first is the arena.
_LEADING_ARGUMENTS = 4
_HANDLE_BYTES = 8


class OpenInstance:
    """The memory and the kernels of one step. One execution at a time uses it.

    Args:
        device: the device to run on.
        opened: the step.
        sized: the sized of the step.
        program: the program with the kernels.
        constants: the buffer of constants, which all instances share.
    """

    def __init__(
        self,
        device: DeviceContext,
        opened: OpenExecutable,
        sized: SizedLaunches,
        program: BuiltProgram,
        constants: cl.Buffer,
    ) -> None:
        self._device = device
        self._executable = opened.template
        self._max_bytes = device.facts.max_allocation_bytes
        self._queue = device.queue()
        self._capacity = opened.template.zeros_bytes
        self._reservation = reserve(self._capacity, "values of a compiled step")
        self._arena = self._allocated(self._capacity)
        buffers = {Base.ARENA: self._arena, Base.CONSTANTS: constants}
        launches = [
            bound_launch(device, program, call, buffers, FLAGS + 4 * call.status)
            for call in opened.template.calls
        ]
        self._commands = SizedCommands(device, launches)
        kernels = [launch.kernel for launch in launches]
        self._arenas = NativeArguments(device, [(kernel, 0, _HANDLE_BYTES) for kernel in kernels])
        self._arguments = NativeArguments(
            device,
            [
                (kernels[call], _LEADING_ARGUMENTS + position, size_bytes)
                for call, position, size_bytes in sized.changing
            ],
        )
        self._flags = (ctypes.c_int32 * (opened.template.flags_bytes // 4))()
        self._flags_address = ctypes.addressof(self._flags)
        #: Value of the flags after a successful run.
        self._success_flags = bytes(opened.template.flags_bytes)
        self._staging = Staging(device, self._queue, [], [])
        #: The sizes that the kernels and commands were made for.
        self._sizes: LaunchSizes | None = None

    def run(
        self,
        sizes: LaunchSizes,
        inputs: Sequence[int],
        outputs: Sequence[int],
        portions: Portions | None,
        stops: Callable[[], bool],
    ) -> int | None:
        """Runs the step; see `Instance.run`.

        Args:
            sizes: the sizes of this execution.
            inputs: the addresses of all inputs.
            outputs: those of all outputs.
            portions: how the commands are divided, if the execution may be stopped.
            stops: whether to stop; then the result is None and the outputs are undefined.

        Raises:
            OpFailed: a requirement of an operation is violated; the outputs are undefined.
            OutOfMemory: the device lacks memory for these sizes.
            Error: the device failed.
        """
        if sizes is not self._sizes:
            self._fit(sizes)
        staging = self._staging
        used = [
            address for address, port in zip(inputs, sizes.inputs, strict=True) if port.offset is not None
        ]
        try:
            for slot, address in enumerate(used):
                staging.set_input(slot, address)
            for slot, address in enumerate(outputs):
                staging.set_output(slot, address)
            staging.set_output(len(outputs), self._flags_address)
            started = time.monotonic_ns()
            if portions is None:
                self._commands.run(self._queue)
            elif not self._commands.run_in_portions(self._queue, portions, stops):
                staging.forget()
                self._clear_zeros()
                return None
            elapsed = time.monotonic_ns() - started
            staging.complete()
        except BaseException:
            # Enqueued commands use the caller's memory.
            with contextlib.suppress(Error), self._device.state.guard("running kernels", after_launch=True):
                wait_for_all(self._queue)
            staging.forget()
            raise
        if bytes(self._flags) != self._success_flags:
            self._clear_zeros()
            raise_failure(self._flags, sizes.make().calls)
        return elapsed

    def _fit(self, sizes: LaunchSizes) -> None:
        """Gives the kernels and commands other sizes."""
        self._sizes = None
        if sizes.arena_bytes > self._capacity:
            self._grow(sizes.arena_bytes)
        self._arguments.set(sizes.arguments.ctypes.data)
        flags = BufferRange(buffer=self._arena, size_bytes=self._executable.flags_bytes, offset_bytes=FLAGS)
        self._staging.place(
            [self._range(port) for port in sizes.inputs if port.offset is not None],
            [*map(self._range, sizes.outputs), flags],
        )
        self._commands.resize(self._staging.writes, sizes.items, self._staging.reads)
        self._sizes = sizes

    def _range(self, port: Port) -> BufferRange:
        return BufferRange(buffer=self._arena, size_bytes=port.size_bytes, offset_bytes=port.offset or 0)

    def _grow(self, size_bytes: int) -> None:
        """Replaces the arena by one that is a little larger than needed, for the next lengths."""
        capacity = min(self._max_bytes, size_bytes + size_bytes // 4)
        reservation = reserve(capacity, "values of a compiled step")
        try:
            arena = self._allocated(capacity)
        except BaseException:
            reservation.release()
            raise
        self._reservation.release()
        self._arena, self._capacity, self._reservation = arena, capacity, reservation
        handles = (ctypes.c_uint64 * len(self._executable.calls))(
            *[arena.int_ptr] * len(self._executable.calls)
        )
        self._arenas.set(handles)

    def _allocated(self, size_bytes: int) -> cl.Buffer:
        """Allocates an arena, whose zeros are cleared."""
        arena = allocate(self._device, size_bytes)
        clear(self._device, self._queue, arena, 0, self._executable.zeros_bytes)
        return arena

    def _clear_zeros(self) -> None:
        clear(self._device, self._queue, self._arena, 0, self._executable.zeros_bytes)
