"""A step made ready to run: buffers, and kernels with their arguments set once. One execution at a time uses an instance."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neurald.drivers.compiler.placement import Base, Place
from neurald.drivers.opencl.executable import Call, Executable
from neurald.drivers.opencl.launcher import CommandList, KernelTime, Launch, Transfer
from neurald.drivers.opencl.platform import DeviceContext
from neurald.drivers.opencl.program import Program
from neurald.drivers.opencl.staging import Region, Staging
from neurald.hal.errors import OpFailed

if TYPE_CHECKING:
    import pyopencl as cl

#: Buffers of no bytes do not exist.
_LEAST_BYTES = 256


class Instance:
    """Buffers and bound kernels of an executable.

    Args:
        device: to run on.
        executable: what to run.
        program: its kernels.
        constants: the buffer of constants, which all instances share.

    Raises:
        OutOfMemory: the device has no room for another arena.
    """

    def __init__(
        self, device: DeviceContext, executable: Executable, program: Program, constants: "cl.Buffer"
    ) -> None:
        self._device = device
        self._executable = executable
        self._queue = device.queue()
        self._arena = allocate(device, executable.arena_bytes)
        if executable.workspace_bytes:
            clear(device, self._queue, self._arena, executable.workspace, executable.workspace_bytes)
        self._buffers: dict[Base, Any] = {Base.ARENA: self._arena, Base.CONSTANTS: constants}
        self._program = program
        used = [port for port in executable.inputs if port.offset is not None]
        self._staging = Staging(
            device,
            self._queue,
            [Region(buffer=self._arena, size_bytes=p.size_bytes, offset_bytes=p.offset or 0) for p in used],
            [
                Region(buffer=self._arena, size_bytes=p.size_bytes, offset_bytes=p.offset or 0)
                for p in executable.outputs
            ],
        )
        self._input_numbers = [
            number for number, port in enumerate(executable.inputs) if port.offset is not None
        ]
        calls = executable.calls if executable.persistent is None else (executable.persistent,)
        self._launches = [self._launch(call) for call in calls]
        before, after = self._status_transfers()
        self._commands = CommandList(
            device, [*self._staging.writes, *before, *self._launches, *self._staging.reads, *after]
        )

    def _launch(self, call: Call) -> Launch:
        return bound_launch(self._device, self._program, call, self._buffers)

    def _status_transfers(self) -> tuple[list[Transfer], list[Transfer]]:
        """Before and after the kernels: what they say of their requirements is 0, and is read."""
        self._checked = [call for call in self._executable.calls if call.status is not None]
        self._status = np.zeros(len(self._checked), np.int32)
        self._zero = np.zeros(1, np.int32)
        before, after = [], []
        for number, call in enumerate(self._checked):
            write = Transfer(self._arena, 4, offset_bytes=call.status or 0, to_device=True)
            write.address = self._zero.ctypes.data
            read = Transfer(self._arena, 4, offset_bytes=call.status or 0, to_device=False)
            read.address = self._status.ctypes.data + 4 * number
            before.append(write)
            after.append(read)
        return before, after

    def run(self, inputs: Sequence[memoryview | None], outputs: Sequence[memoryview]) -> int:
        """Runs the step; returns the nanoseconds from the first command to the end of the last.

        Args:
            inputs: the bytes of each input, exactly.
            outputs: where each output goes, exactly as many bytes as it has.

        Raises:
            OpFailed: a requirement of an operation does not hold; the outputs are undefined.
            Error: the device failed.
        """
        for slot, number in enumerate(self._input_numbers):
            source = inputs[number]
            if source is None:
                raise OpFailed(f"input {number} is omitted, which the compiled model does not foresee")
            self._staging.put(slot, source)
        for number, target in enumerate(outputs):
            self._staging.expect(number, target)
        try:
            started = time.monotonic_ns()
            self._commands.run(self._queue)
            elapsed = time.monotonic_ns() - started
            self._require()
            self._staging.collect()
        except BaseException:
            self._staging.forget()
            raise
        return elapsed

    def _require(self) -> None:
        for call, code in zip(self._checked, self._status, strict=True):
            if code:
                where = ", ".join(str(operation) for operation in call.operations)
                raise OpFailed(f"operation {where}: {call.messages[int(code) - 1]}")

    def warm(self) -> None:
        """Launches every kernel once, on whatever is in the arena.

        Raises:
            Error: the device failed.
        """
        calls = [self._launch(call) for call in self._executable.calls]
        CommandList(self._device, calls).run(self._queue)

    def profile(self) -> tuple[KernelTime, ...]:
        """The time of each kernel in a run on whatever is in the arena."""
        calls = [self._launch(call) for call in self._executable.calls]
        return CommandList(self._device, calls).profile(self._device.queue(profiling=True))

    def close(self) -> None:
        """Gives pinned memory back."""
        self._staging.close()


def allocate(device: DeviceContext, size_bytes: int) -> "cl.Buffer":
    """A buffer of the device.

    Raises:
        OutOfMemory: there is not enough memory.
    """
    import pyopencl as cl

    with device.state.guard(f"allocating {size_bytes} bytes"):
        return cl.Buffer(device.context, cl.mem_flags.READ_WRITE, max(_LEAST_BYTES, size_bytes))


def clear(
    device: DeviceContext, queue: "cl.CommandQueue", buffer: "cl.Buffer", offset: int, size_bytes: int
) -> None:
    """Makes a range of a buffer 0, before what is enqueued later."""
    import pyopencl as cl

    with device.state.guard("clearing a buffer"):
        cl.enqueue_fill_buffer(queue, buffer, np.zeros(1, np.uint8), offset, size_bytes)


def bound_launch(device: DeviceContext, program: Program, call: Call, buffers: dict[Base, Any]) -> Launch:
    """A kernel with its arguments set, as `program_text.kernel_text` takes them."""
    kernel = program.new_kernel(call.kernel)
    places: tuple[Place, ...] = call.places
    with device.state.guard("setting arguments", kernel=call.kernel):
        kernel.set_args(
            buffers[Base.ARENA],
            buffers[Base.CONSTANTS],
            np.uint64(call.status or 0),
            np.uint64(call.workspace or 0),
            *(np.uint64(place.offset) for place in places),
        )
    name = f"{call.kernel} of operation {', '.join(map(str, call.operations))}"
    return Launch(kernel=kernel, name=name, groups=call.groups, local_size=call.local_size)
