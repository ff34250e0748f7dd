"""A step that is ready to run: its buffers, and kernels with their arguments bound.

One execution at a time uses an instance.
"""

import contextlib
import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation, Port
from neurald.drivers.opencl.platform.completion import wait_for_all
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.images import image_over
from neurald.drivers.opencl.runtime.buffer import OpenClBuffer
from neurald.drivers.opencl.runtime.executable import FLAGS, Executable, ImageUse, KernelCall
from neurald.drivers.opencl.runtime.launcher import CommandList, HostTransfer, Launch
from neurald.drivers.opencl.runtime.persistent_kernel import FETCHES, SYNC_BYTES
from neurald.drivers.opencl.runtime.portions import Portions
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.runtime.staging import BufferRange, Staging
from neurald.hal.accounting.account import reserve
from neurald.hal.device import COPY_IN, COPY_OUT, KernelTime
from neurald.hal.errors import Error, OpFailed

if TYPE_CHECKING:
    import pyopencl as cl

#: OpenCL has no empty buffers.
_MIN_BUFFER_BYTES = 256
#: How often copies are timed; the first time may be the first use of memory.
_TIMED_COPIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Route:
    """Commands for executions whose inputs and outputs lie in the same kinds of memory.

    Attributes:
        inputs: the numbers of the inputs that come from the host.
        outputs: the numbers of the outputs that go to the host; the others stay on the device.
        staging: transfers both.
        commands: the commands of an execution.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    staging: Staging
    commands: CommandList


class Instance:
    """Buffers and bound kernels of an executable.

    Args:
        device: the device to run on.
        executable: the calls to run.
        program: the program with their kernels.
        constants: the buffer of constants, which all instances share.

    Raises:
        OutOfMemory: the device lacks memory for another arena.
        ResourceExhaustedPersistent, ResourceExhaustedTransient: the memory exceeds the limits of
            its account.
    """

    def __init__(
        self, device: DeviceContext, executable: Executable, program: BuiltProgram, constants: "cl.Buffer"
    ) -> None:
        self._device = device
        self._executable = executable
        self._queue = device.queue()
        self._reservation = reserve(executable.arena_bytes, "values of a compiled step")
        self._arena = allocate(device, executable.arena_bytes)
        self._clear_zeros()
        self._buffers: dict[Base, Any] = {Base.ARENA: self._arena, Base.CONSTANTS: constants}
        self._program = program
        self._flags = (ctypes.c_int32 * (executable.flags_bytes // 4))()
        self._flags_address = ctypes.addressof(self._flags)
        #: Value of the flags after a successful run.
        self._success_flags = bytes(executable.flags_bytes)
        self._input_numbers = [
            number for number, port in enumerate(executable.inputs) if port.offset is not None
        ]
        calls = executable.calls if executable.persistent is None else (executable.persistent,)
        self._launches = [self._launch(program, call) for call in calls]
        everything = range(len(executable.outputs))
        self._on_host = self._route(tuple(self._input_numbers), tuple(everything))
        self._routes: dict[tuple[tuple[int, ...], tuple[int, ...]], _Route] = {}

    @cached_property
    def _sync(self) -> "cl.Buffer":
        """Part of the arena with the counters of a persistent kernel."""
        return self._arena_part(self._executable.zeros, SYNC_BYTES)

    @cached_property
    def _kernels(self) -> CommandList:
        """The kernels without transfers."""
        return CommandList(self._device, self._launches)

    def _route(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> "_Route":
        """Returns the commands for executions in which these inputs and outputs lie on the host."""
        executable = self._executable
        flags = BufferRange(
            buffer=self._arena, size_bytes=executable.flags_bytes, offset_bytes=executable.zeros + FLAGS
        )
        staging = Staging(
            self._device,
            self._queue,
            [self._port_range(executable.inputs[number]) for number in inputs],
            [*(self._port_range(executable.outputs[number]) for number in outputs), flags],
        )
        commands = CommandList(self._device, [*staging.writes, *self._launches, *staging.reads])
        return _Route(inputs=inputs, outputs=outputs, staging=staging, commands=commands)

    def _port_range(self, port: Port) -> BufferRange:
        return BufferRange(buffer=self._arena, size_bytes=port.size_bytes, offset_bytes=port.offset or 0)

    def _route_for(
        self, inputs: "Sequence[int | OpenClBuffer | None]", outputs: "Sequence[int | OpenClBuffer]"
    ) -> "_Route":
        used = tuple(n for n in self._input_numbers if not isinstance(inputs[n], OpenClBuffer))
        wanted = tuple(n for n, place in enumerate(outputs) if not isinstance(place, OpenClBuffer))
        if len(used) == len(self._on_host.inputs) and len(wanted) == len(self._on_host.outputs):
            return self._on_host
        found = self._routes.get((used, wanted))
        if found is None:
            found = self._routes[used, wanted] = self._route(used, wanted)
        return found

    def _copy_buffers(
        self, places: "Sequence[int | OpenClBuffer | None]", ports: Sequence[Port], *, to_arena: bool
    ) -> None:
        """Enqueues the copies between the arena and those of the places that are device buffers."""
        import pyopencl as cl

        for place, port in zip(places, ports, strict=True):
            if not isinstance(place, OpenClBuffer) or port.offset is None or not port.size_bytes:
                continue
            with self._device.state.guard("copying device memory"):
                source, target = (place.handle, self._arena) if to_arena else (self._arena, place.handle)
                cl.enqueue_copy(
                    self._queue,
                    target,
                    source,
                    byte_count=port.size_bytes,
                    src_offset=0 if to_arena else port.offset,
                    dst_offset=port.offset if to_arena else 0,
                )

    def _finish(self) -> None:
        with self._device.state.guard("running kernels", after_launch=True):
            wait_for_all(self._queue)

    def _launch(self, program: BuiltProgram, call: KernelCall) -> Launch:
        if call is self._executable.persistent:
            phases = len(self._executable.calls) | (FETCHES if self._executable.fetches else 0)
            return self._persistent_launch(call, call.groups, phases)
        status = self._executable.zeros + FLAGS + 4 * call.status
        return bound_launch(self._device, program, call, self._buffers, status)

    def _persistent_launch(self, call: KernelCall, groups: int, phases: int) -> Launch:
        arguments = self._arena, self._buffers[Base.CONSTANTS], self._sync, np.int32(phases)
        kernel = self._program.kernel(call.kernel, arguments)
        return Launch(kernel=kernel, name=call.kernel, groups=groups, local_size=call.local_size)

    def _arena_part(self, offset: int, size_bytes: int) -> "cl.Buffer":
        """Returns a part of the arena.

        The caller must keep it: kernels do not keep their arguments alive.
        """
        with self._device.state.guard("creating a sub-buffer of the arena"):
            return self._arena.get_sub_region(offset, size_bytes)

    def are_resident(self, call: KernelCall, groups: int) -> bool:
        """Returns True if this many work-groups are resident on the device together.

        Raises:
            Error: the device failed.
        """
        flag = np.zeros(1, np.uint32)
        seen = HostTransfer(self._arena, 4, offset_bytes=self._executable.zeros + FLAGS, to_device=False)
        seen.address = flag.ctypes.data
        CommandList(self._device, [self._persistent_launch(call, groups, 0), seen]).run(self._queue)
        if flag[0]:
            self._clear_zeros()
        return not flag[0]

    def _clear_zeros(self) -> None:
        executable = self._executable
        clear(self._device, self._queue, self._arena, executable.zeros, executable.zeros_bytes)

    def run(
        self,
        inputs: "Sequence[int | OpenClBuffer | None]",
        outputs: "Sequence[int | OpenClBuffer]",
        portions: Portions | None = None,
        stops: Callable[[], bool] = lambda: False,
        *,
        are_on_host: bool = False,
    ) -> int | None:
        """Runs the step; returns the nanoseconds from the first command to the end of the last.

        Args:
            inputs: the address of each input, which has exactly the input's size, or the buffer
                that holds it.
            outputs: the destination address of each output, or its buffer.
            portions: how the commands are divided, if the execution may be stopped.
            stops: whether to stop; then the result is None and the outputs are undefined.
            are_on_host: whether no input or output is known to be a buffer, which saves a look at
                each of them.

        Raises:
            OpFailed: a requirement of an operation is violated; the outputs are undefined.
            Error: the device failed.
        """
        route = self._on_host if are_on_host else self._route_for(inputs, outputs)
        staging = route.staging
        has_buffers = route is not self._on_host
        try:
            for slot, number in enumerate(route.inputs):
                source = inputs[number]
                if source is None or isinstance(source, OpenClBuffer):
                    raise OpFailed(f"input {number} is omitted; the compiled model requires it")
                staging.set_input(slot, source)
            for slot, number in enumerate(route.outputs):
                target = outputs[number]
                if not isinstance(target, OpenClBuffer):
                    staging.set_output(slot, target)
            staging.set_output(len(route.outputs), self._flags_address)
            started = time.monotonic_ns()
            if has_buffers:
                self._copy_buffers(inputs, self._executable.inputs, to_arena=True)
            if portions is None:
                route.commands.run(self._queue, finish=not has_buffers)
            elif not route.commands.run_in_portions(self._queue, portions, stops):
                staging.forget()
                self._clear_zeros()
                return None
            if has_buffers:
                self._copy_buffers(outputs, self._executable.outputs, to_arena=False)
                self._finish()
            elapsed = time.monotonic_ns() - started
            staging.complete()
            self._check_flags()
        except BaseException:
            # Enqueued commands use the caller's memory.
            with contextlib.suppress(Error):
                self._finish()
            staging.forget()
            raise
        return elapsed

    def _check_flags(self) -> None:
        if bytes(self._flags) == self._success_flags:
            return
        self._clear_zeros()
        raise_failure(self._flags, self._executable.calls)

    def launch(self) -> int:
        """Runs the kernels of `run` without transfers, on the present contents of the arena.

        Returns:
            The nanoseconds that the kernels took.

        Raises:
            Error: the device failed.
        """
        with self._device.state.guard("running kernels"):
            wait_for_all(self._queue)
        started = time.monotonic_ns()
        self._kernels.run(self._queue)
        elapsed = time.monotonic_ns() - started
        # The present contents may violate requirements of operations.
        self._clear_zeros()
        return elapsed

    def profile(self, program: BuiltProgram | None = None) -> tuple[KernelTime, ...]:
        """Measures the copies, and each kernel on the present contents of the arena, one by one.

        Args:
            program: a program with a kernel for each call, if the instance's own has none.

        Raises:
            Error: the device failed.
        """
        calls = [call for call in self._executable.calls if call.groups]
        if not calls:
            return ()
        commands = CommandList(self._device, [self._launch(program or self._program, call) for call in calls])
        try:
            times = commands.profile(self._device.queue(profiling=True))
        finally:
            self._clear_zeros()
        copies_in_ns, copies_out_ns = self._time_copies()
        return (
            KernelTime(name="inputs", duration_ns=copies_in_ns, operations=(), label=COPY_IN),
            *(
                KernelTime(
                    name=call.kernel,
                    duration_ns=launch.duration_ns,
                    operations=call.operations,
                    label=call.label,
                )
                for call, launch in zip(calls, times, strict=True)
            ),
            KernelTime(name="outputs", duration_ns=copies_out_ns, operations=(), label=COPY_OUT),
        )

    def _time_copies(self) -> tuple[int, int]:
        """Returns the shortest time of writing zeros to inputs and reading outputs, in ns."""
        staging = self._on_host.staging
        ports = [self._executable.inputs[number] for number in self._input_numbers]
        inputs = [np.zeros(port.size_bytes, np.uint8) for port in ports]
        outputs = [np.zeros(port.size_bytes, np.uint8) for port in self._executable.outputs]
        writes, reads = CommandList(self._device, staging.writes), CommandList(self._device, staging.reads)
        found: list[tuple[int, int]] = []
        try:
            for _ in range(_TIMED_COPIES):
                started = time.monotonic_ns()
                for slot, array in enumerate(inputs):
                    staging.set_input(slot, array.ctypes.data)
                writes.run(self._queue)
                written = time.monotonic_ns()
                for slot, array in enumerate(outputs):
                    staging.set_output(slot, array.ctypes.data)
                staging.set_output(len(outputs), self._flags_address)
                reads.run(self._queue)
                staging.complete()
                found.append((written - started, time.monotonic_ns() - written))
        finally:
            staging.forget()
        return min(each[0] for each in found), min(each[1] for each in found)

    def close(self) -> None:
        """Releases pinned memory."""
        for route in (self._on_host, *self._routes.values()):
            route.staging.close()


def raise_failure(flags: "ctypes.Array[ctypes.c_int32]", calls: Sequence[KernelCall]) -> None:
    """Raises OpFailed for what the flags of an execution tell.

    Args:
        flags: the abort flag and the status words.
        calls: the calls that were executed.
    """
    if flags[0]:
        raise OpFailed(
            "a grid barrier of the persistent kernel timed out: not all of its work-groups were resident on "
            "the device"
        )
    for call in calls:
        code = flags[call.status] if call.status else 0
        if code:
            raise OpFailed(f"{call.where}: {call.messages[code - 1]}")


def allocate(device: DeviceContext, size_bytes: int) -> "cl.Buffer":
    """Allocates a device buffer; the caller has reserved the memory.

    Raises:
        OutOfMemory: there is not enough memory.
    """
    import pyopencl as cl

    with device.state.guard(f"allocating {size_bytes} bytes"):
        return cl.Buffer(device.context, cl.mem_flags.READ_WRITE, max(_MIN_BUFFER_BYTES, size_bytes))


def clear(
    device: DeviceContext, queue: "cl.CommandQueue", buffer: "cl.Buffer", offset: int, size_bytes: int
) -> None:
    """Fills a range of a buffer with zeros, before commands that are enqueued later."""
    import pyopencl as cl

    with device.state.guard("clearing a buffer"):
        cl.enqueue_fill_buffer(queue, buffer, np.zeros(1, np.uint8), offset, size_bytes)


def bound_launch(
    device: DeviceContext, program: BuiltProgram, call: KernelCall, buffers: dict[Base, Any], status: int
) -> Launch:
    """Creates a kernel with bound arguments, in the order that `program_text.kernel_text` defines.

    Args:
        device: the device to run on.
        program: the program with the kernel.
        call: the call whose arguments are bound.
        buffers: the arena and the constants.
        status: the offset of the call's status word in the arena.
    """
    images = {use.argument: use for use in call.images}
    kept: list[Any] = []
    arguments: list[Any] = []
    with device.state.guard("creating images", kernel=call.kernel):
        for position, place in enumerate(call.locations):
            if position in images:
                image, first = _image(device, buffers[place.base], place, images[position])
                kept.append(image)
                arguments += [image, np.int32(first)]
            else:
                arguments.append(np.uint64(place.offset))
    kernel = program.kernel(
        call.kernel,
        [
            buffers[Base.ARENA],
            buffers[Base.CONSTANTS],
            np.uint64(status),
            np.uint64(call.workspace or 0),
            *arguments,
            *map(np.int32, (*call.extents, *call.numbers)),
        ],
    )
    name = f"{call.kernel} of {call.where}" if call.where else call.kernel
    return Launch(
        kernel=kernel, name=name, groups=call.groups, local_size=call.local_size, images=tuple(kept)
    )


def _image(
    device: DeviceContext, buffer: "cl.Buffer", place: BufferLocation, use: ImageUse
) -> tuple["cl.Image", int]:
    """Creates an image that contains a value of a buffer.

    Returns it and the index of the value's first texel.
    """
    images = device.facts.images
    if images is None:
        raise OpFailed(f"{device.facts.name} does not read images, but the compiled model requires them")
    part = images.range_of(place.offset, use.size_bytes, buffer.size, use.type)
    image = image_over(
        device.context, buffer, part, use.type, supports_sub_buffers=images.supports_sub_buffers
    )
    return image, part.first
