"""Runs a step's commands (transfers and kernels) from native code.

Python calls the loop of `native_loop` once per execution, without holding the GIL.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from neurald.drivers.opencl.platform.completion import wait_for_all
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.errors import SUCCESS
from neurald.drivers.opencl.runtime.native_kernel import NativeKernel
from neurald.drivers.opencl.runtime.native_loop import EncodedCommand, native_loop
from neurald.drivers.opencl.runtime.native_loop_module import KERNEL, READ, WRITE
from neurald.drivers.opencl.runtime.portions import PORTION_S, Portions
from neurald.hal.lazy_numpy import Array, np

if TYPE_CHECKING:
    import pyopencl as cl


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Kernel with all arguments bound. The creator must keep the buffers that are its arguments.

    Attributes:
        kernel: the kernel; one execution at a time may use it.
        name: the name for messages and profiles.
        groups: the number of work-groups; 0 launches nothing.
        local_size: work-items per group.
        images: its image arguments, which are kept alive here.
    """

    kernel: NativeKernel
    name: str
    groups: int
    local_size: int
    images: tuple[cl.Image, ...] = ()


class HostTransfer:
    """Copy between host memory, which may differ for each execution, and a range of a buffer.

    Attributes:
        address: the address of the host memory, which must remain valid until the queue has
            finished; 0 if it is not set, which is an error.
    """

    __slots__ = ("_address", "buffer", "offset_bytes", "size_bytes", "to_device")

    def __init__(self, buffer: cl.Buffer, size_bytes: int, *, offset_bytes: int = 0, to_device: bool) -> None:
        self.buffer = buffer
        self.size_bytes = size_bytes
        self.offset_bytes = offset_bytes
        self.to_device = to_device
        self._address = ctypes.c_void_p()

    def move(self, buffer: cl.Buffer, offset_bytes: int, size_bytes: int) -> None:
        """Copies another range from now on, by lists that are encoded later."""
        self.buffer, self.offset_bytes, self.size_bytes = buffer, offset_bytes, size_bytes

    @property
    def address(self) -> int:
        """The address in the memory of the host; see the class."""
        return self._address.value or 0

    @address.setter
    def address(self, address: int) -> None:
        self._address.value = address

    @property
    def cell(self) -> int:
        """Address of the cell from which native code reads the host address."""
        return ctypes.addressof(self._address)


#: The words of an encoded command, and the one with the number of work-items.
_COMMAND_WORDS: Final = 5
_ITEMS: Final = 2
#: Commands of a `CommandList`.
Command: TypeAlias = Launch | HostTransfer


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTime:
    """Time that one launch of a kernel took on the device, in nanoseconds."""

    name: str
    duration_ns: int


class CommandList:
    """Sequence of commands that can be run any number of times.

    Several threads may run different lists at the same time, each with its own queue.
    """

    def __init__(self, device: DeviceContext, commands: Sequence[Command]) -> None:
        """Encodes the commands; empty ones do nothing.

        Args:
            device: the device of all kernels and buffers.
            commands: kept alive, with their kernels and buffers.

        Raises:
            UnavailableDevice: pyopencl's OpenCL library does not export the functions.
        """
        self._device = device
        self._commands = tuple(commands)
        self._native = (EncodedCommand * len(self._commands))(*map(_encoded, self._commands))
        self._loop = native_loop()

    def run(self, queue: cl.CommandQueue, *, finish: bool = True) -> None:
        """Enqueues all commands in order, with the flushes that the device needs.

        Args:
            queue: an in-order queue that no other thread uses at the same time.
            finish: whether to wait for completion. Otherwise the caller must wait, and keep all
                host memory until then.

        Raises:
            DeadObject: the device is lost, or was lost earlier.
            OutOfMemory, OpFailed: a command failed; the message names its kernel. No command is
                running any more.
        """
        self._device.state.check()
        self._run(queue, 0, len(self._commands), finish=finish)

    def run_in_portions(self, queue: cl.CommandQueue, portions: Portions, stops: Callable[[], bool]) -> bool:
        """Runs like `run`, but enqueues only little ahead of the device.

        Args:
            queue: see `run`.
            portions: how the commands are divided; updated by this run.
            stops: whether to skip what is not enqueued yet; called before each portion.

        Returns:
            True if all commands have run. In either case no command is running any more.

        Raises:
            Error: see `run`.
        """
        self._device.state.check()
        bounds = portions.bounds(len(self._commands))
        taken_s: list[float] = []
        under_way: cl.Event | None = None
        if stops():
            return False
        since = time.monotonic()
        if len(bounds) == 2:
            self._run(queue, 0, bounds[-1], finish=True)
            taken = time.monotonic() - since
            if taken > PORTION_S:
                portions.learn(bounds, [taken])
            return True
        try:
            for first, last in pairwise(bounds):
                if first and stops():
                    self._finish(queue)
                    return False
                is_last = last == bounds[-1]
                self._run(queue, first, last - first, finish=False)
                following = None if is_last else self._marker(queue)
                if under_way is not None:
                    self._wait(under_way)
                    now = time.monotonic()
                    taken_s.append(now - since)
                    since = now
                under_way = following
        except BaseException:
            # Enqueued commands use the caller's memory.
            self._finish(queue)
            raise
        self._finish(queue)
        taken_s.append(time.monotonic() - since)
        portions.learn(bounds, taken_s)
        return True

    def _marker(self, queue: cl.CommandQueue) -> cl.Event:
        import pyopencl as cl

        with self._device.state.guard("enqueueing a marker", after_launch=True):
            marker = cl.enqueue_marker(queue)
            queue.flush()
        return marker

    def _wait(self, marker: cl.Event) -> None:
        with self._device.state.guard("running kernels", after_launch=True):
            marker.wait()

    def _finish(self, queue: cl.CommandQueue) -> None:
        with self._device.state.guard("running kernels", after_launch=True):
            wait_for_all(queue)

    def profile(self, queue: cl.CommandQueue) -> tuple[LaunchTime, ...]:
        """Runs all commands like `run`; returns the time of each kernel, in order.

        Args:
            queue: created with `profiling=True`.

        Raises:
            Error: see `run`.
        """
        self._device.state.check()
        try:
            events = self._enqueue_with_events(queue)
        finally:
            # Also after a failure: commands enqueued before it use the caller's memory.
            with self._device.state.guard("running kernels", after_launch=True):
                wait_for_all(queue)
        with self._device.state.guard("reading kernel times"):
            return tuple(
                LaunchTime(name=name, duration_ns=event.profile.end - event.profile.start)
                for name, event in events
            )

    def _enqueue_with_events(self, queue: cl.CommandQueue) -> list[tuple[str, cl.Event]]:
        """Enqueues all commands; returns the name and the event of each kernel."""
        events: list[tuple[str, cl.Event]] = []
        for index, command in enumerate(self._commands):
            if isinstance(command, HostTransfer):
                self._run(queue, index, 1, finish=False)
                continue
            if not command.groups:
                continue
            event = command.kernel.enqueue(queue, command.groups * command.local_size, command.local_size)
            events.append((command.name, event))
        return events

    def _run(self, queue: cl.CommandQueue, first: int, count: int, *, finish: bool) -> None:
        code = ctypes.c_int32(SUCCESS)
        failed = self._loop(
            queue.int_ptr,
            count,
            ctypes.byref(self._native, first * ctypes.sizeof(EncodedCommand)),
            self._device.facts.flush_every,
            finish,
            ctypes.byref(code),
        )
        if code.value == SUCCESS:
            return
        state = self._device.state
        if failed == count:
            raise state.error(code.value, "running kernels", after_launch=True)
        # Commands enqueued before the failure use the caller's memory, and may be what lost the
        # device.
        with state.guard("running kernels", after_launch=True):
            wait_for_all(queue)
        command = self._commands[first + failed]
        if isinstance(command, Launch):
            raise state.error(code.value, "launching", kernel=command.name)
        raise state.error(code.value, "writing to a buffer" if command.to_device else "reading a buffer")


class SizedCommands(CommandList):
    """Launches of kernels whose sizes change, between transfers.

    Args:
        device: see `CommandList`.
        launches: see `CommandList`.
    """

    def __init__(self, device: DeviceContext, launches: Sequence[Launch]) -> None:
        super().__init__(device, launches)
        self._launches = tuple(launches)
        self._local_sizes = np.array([each.local_size for each in launches], np.int64)

    def resize(self, writes: Sequence[HostTransfer], items: Array, reads: Sequence[HostTransfer]) -> None:
        """Changes the sizes, between two runs.

        Args:
            writes: transfers before the kernels.
            items: the number of work-items of each kernel.
            reads: transfers after them.
        """
        first, count = len(writes), len(self._launches)
        commands: tuple[Command, ...] = (*writes, *self._launches, *reads)
        if len(commands) != len(self._commands) or self._commands[first : first + count] != self._launches:
            self._native = (EncodedCommand * len(commands))()
            self._native[first : first + count] = [_encoded(each) for each in self._launches]
        self._commands = commands
        for position, transfer in enumerate(writes):
            self._native[position] = _encoded(transfer)
        for position, transfer in enumerate(reads, first + count):
            self._native[position] = _encoded(transfer)
        words = np.frombuffer(memoryview(self._native), np.int64).reshape(-1, _COMMAND_WORDS)[
            first : first + count
        ]
        words[:, _ITEMS] = items
        # A launch without work-items does nothing.
        words[:, _ITEMS + 1] = self._local_sizes * (items > 0)


def _encoded(command: Command) -> EncodedCommand:
    if isinstance(command, Launch):
        return EncodedCommand(
            KERNEL,
            command.kernel.int_ptr,
            command.groups * command.local_size,
            command.local_size if command.groups else 0,
            None,
        )
    return EncodedCommand(
        WRITE if command.to_device else READ,
        command.buffer.int_ptr,
        command.offset_bytes,
        command.size_bytes,
        command.cell,
    )
