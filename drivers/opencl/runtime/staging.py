"""Transfers the inputs and outputs of executions between the host and a device's buffers.

A copy from pinned host memory takes a third of the time of one from pageable memory, so small
inputs and outputs pass through a pinned area that is mapped once. Large ones would need as much
memory again, and CPU devices would only copy twice: these are transferred directly.

Memory that is pinned itself (`PinnedAddress`) is transferred directly, too.

Several threads copy large inputs and outputs, since one copies slower than devices transfer. They
do so in pieces and without the interpreter; those of an input are transferred as soon as they are
copied.

The start-up time of a transfer exceeds that of copying some kilobytes, so outputs that lie near
each other in a buffer and pass through the pinned area share one transfer, gaps included.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import weakref
from collections.abc import Sequence
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from neurald.drivers.opencl.platform.completion import wait_for_all
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.errors import SUCCESS
from neurald.drivers.opencl.platform.pinned_memory import MIN_PINNED_BYTES, PinnedAddress
from neurald.drivers.opencl.runtime.launcher import CommandList, HostTransfer
from neurald.drivers.opencl.runtime.native_loop import native_copy, native_pieces, native_write
from neurald.drivers.opencl.runtime.native_loop_module import WRITTEN_ALIGNMENT
from neurald.hal.accounting.account import Reservation, reserve
from neurald.hal.errors import OutOfMemory, ResourceExhaustedPersistent, ResourceExhaustedTransient
from neurald.hal.process.threads.workers import WorkerThreads

if TYPE_CHECKING:
    import pyopencl as cl

#: Limit on the pinned memory of one `Staging`: pinned memory is scarce.
MAX_PINNED_BYTES: Final = 64 << 20
_ALIGNMENT_BYTES: Final = 4 * WRITTEN_ALIGNMENT
#: Outputs with at most this distance share a transfer.
_MAX_GAP_BYTES: Final = 2048
#: Inputs of at least this size are copied past the caches.
_MIN_PAST_CACHES_BYTES: Final = 1 << 17
#: Inputs and outputs of at least this size are copied by several threads, in pieces.
_LARGE_BYTES: Final = 2 << 20
_PIECE_BYTES: Final = 2 << 20
_MAX_COPIERS: Final = 3
#: How long copying threads wait for work, and the interpreter at most for the last one of them.
_COPIERS_IDLE_S: Final = 0.25


class BufferRange(NamedTuple):
    """Range of a device buffer that holds one input or output."""

    buffer: cl.Buffer
    size_bytes: int
    offset_bytes: int = 0


class _StagedPort:
    """Path of one input or output: through a slot of the pinned area, or direct.

    Attributes:
        slot: the address of the slot; 0 if the transfer is always direct.
        is_alone: whether no other one shares the transfer.
        is_large: whether several threads copy it, in pieces.
    """

    __slots__ = ("is_alone", "is_large", "size_bytes", "slot", "transfer")

    def __init__(self, size_bytes: int, transfer: HostTransfer, slot: int, *, is_alone: bool) -> None:
        self.is_alone = is_alone
        self.is_large = bool(slot) and size_bytes >= _LARGE_BYTES
        self.size_bytes = size_bytes
        self.transfer = transfer
        self.slot = slot


class _PinnedArea(NamedTuple):
    """Pinned memory, which is mapped at an address."""

    buffer: cl.Buffer
    mapping: cl.MemoryMap
    address: int


class Staging:
    """Transfers the inputs and outputs of one execution at a time. Reusable.

    `writes` and `reads` belong into the `CommandList` of the execution, before and after its
    kernels. Each execution calls `set_input` for every input and `set_output` for every output,
    runs the list to its end, and calls `complete`.

    Attributes:
        writes: the transfers of the inputs, in their order.
        reads: the transfers of the outputs.
    """

    def __init__(
        self,
        device: DeviceContext,
        queue: cl.CommandQueue,
        inputs: Sequence[BufferRange],
        outputs: Sequence[BufferRange],
        *,
        max_pinned_bytes: int = MAX_PINNED_BYTES,
    ) -> None:
        """Allocates pinned memory up to the limit, unless the device is a CPU or none is available.

        Raises:
            Error: the device failed.
        """
        self._device = device
        self._queue = queue
        self._copy = native_copy()
        self._write = native_write()
        self._max_copiers = min(_MAX_COPIERS, len(os.sched_getaffinity(0)))
        self._copiers: WorkerThreads | None = None
        self._area: _PinnedArea | None = None
        self._reservation: Reservation | None = None
        self._limit = 0 if device.facts.is_cpu else max_pinned_bytes
        self._inputs: tuple[_StagedPort, ...] = ()
        self._outputs: tuple[_StagedPort, ...] = ()
        #: What this execution transfers directly, and where it wants the other outputs.
        self._direct: list[_StagedPort] = []
        self._wanted: dict[_StagedPort, int] = {}
        self._whole: dict[int, CommandList] = {}
        self.place(inputs, outputs)

    def place(self, inputs: Sequence[BufferRange], outputs: Sequence[BufferRange]) -> None:
        """Replaces the ranges, between two executions. The pinned memory only grows.

        Raises:
            Error: the device failed.
        """
        limit = self._limit
        if not limit and (len(inputs), len(outputs)) == (len(self._inputs), len(self._outputs)):
            # New objects for each size would take longer than some kernels.
            for port, each in zip((*self._inputs, *self._outputs), (*inputs, *outputs), strict=True):
                port.size_bytes = each.size_bytes
                port.transfer.move(each.buffer, each.offset_bytes, each.size_bytes)
            return
        ways = [[number] for number in range(len(inputs))], _adjacent(outputs) if limit else _single(outputs)
        slots: list[list[int | None]] = []
        used = 0
        for ranges, spans in zip((inputs, outputs), ways, strict=True):
            slots.append([])
            for span in spans:
                start, end = _bounds([ranges[number] for number in span])
                fits = 0 < end - start <= limit - used
                slots[-1].append(used if fits else None)
                used += -(-(end - start) // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES if fits else 0
        area = 0
        if used:
            with contextlib.suppress(OutOfMemory, ResourceExhaustedPersistent, ResourceExhaustedTransient):
                area = self._pinned(used)
        self._inputs, writes = _staged_ports(inputs, ways[0], slots[0], area, to_device=True)
        self._outputs, reads = _staged_ports(outputs, ways[1], slots[1], area, to_device=False)
        in_pieces = {port.transfer for port in self._inputs if port.is_large}
        self.writes = tuple(each for each in writes if each not in in_pieces)
        self.reads = reads
        #: Write large inputs as a whole, by their numbers.
        self._whole = {
            number: CommandList(self._device, (port.transfer,))
            for number, port in enumerate(self._inputs)
            if port.is_large
        }

    def set_input(self, index: int, address: int) -> None:
        """Sets the address of an input. Its bytes must not change before `complete`.

        The transfer of a large one may be under way afterwards, also if an error is raised.
        """
        port = self._inputs[index]
        if not port.slot or isinstance(address, PinnedAddress):
            self._direct.append(port)
            port.transfer.address = address
            if port.is_large:
                self._whole[index].run(self._queue, finish=False)
        elif port.is_large:
            self._copy_pieces(port, address)
        elif port.size_bytes < _MIN_PAST_CACHES_BYTES:
            self._copy(port.slot, address, port.size_bytes)
        else:
            self._write(port.slot, address, port.size_bytes)

    def set_output(self, index: int, address: int) -> None:
        """Sets the destination of an output.

        Its contents are undefined until `complete` returns.
        """
        port = self._outputs[index]
        if not port.slot or (port.is_alone and isinstance(address, PinnedAddress)):
            self._direct.append(port)
            port.transfer.address = address
        else:
            self._wanted[port] = address

    def complete(self) -> None:
        """Completes the outputs after the queue has finished, and drops the addresses."""
        for port, host in self._wanted.items():
            if port.is_large:
                self._copy_pieces(port, host)
            else:
                self._copy(host, port.slot, port.size_bytes)
        self.forget()

    def _copy_pieces(self, port: _StagedPort, host: int) -> None:
        """Copies a large input or output; the transfers of an input may be under way afterwards."""
        transfer = port.transfer
        function = native_pieces(to_device=transfer.to_device)
        count = min(self._max_copiers, -(-port.size_bytes // _PIECE_BYTES))
        taken = ctypes.c_int64(0)
        place = transfer.buffer.int_ptr, transfer.offset_bytes, port.slot, host, port.size_bytes
        call = self._queue.int_ptr, *place, _PIECE_BYTES, ctypes.addressof(taken)
        self._device.state.check()
        threads = self._threads()
        futures = [threads.submit(function, *call) for _ in range(count - 1)]
        try:
            codes = [function(*call)]
        finally:
            wait(futures)
        codes += [future.result() for future in futures]
        for code in codes:
            if code != SUCCESS:
                raise self._device.state.error(code, "writing to a buffer", after_launch=True)

    def _threads(self) -> WorkerThreads:
        if self._copiers is None:
            # The calling thread copies, too.
            count = max(1, self._max_copiers - 1)
            self._copiers = WorkerThreads(count, "neurald copies", idle_s=_COPIERS_IDLE_S)
            # The threads would outlive an object that is not closed.
            weakref.finalize(self, self._copiers.end_when_idle).atexit = False
        return self._copiers

    def forget(self) -> None:
        """Drops the addresses of a failed execution. Its outputs are undefined."""
        for port in self._direct:
            port.transfer.address = port.slot
        self._direct.clear()
        self._wanted.clear()

    def close(self) -> None:
        """Releases the pinned memory. The object cannot be used again."""
        if self._copiers is not None:
            self._copiers.shutdown()
        for port in (*self._inputs, *self._outputs):
            port.slot = 0
            port.transfer.address = 0
        self.forget()
        self._release_area()

    def _release_area(self) -> None:
        area, self._area = self._area, None
        if area is not None and not self._device.state.is_lost:
            with self._device.state.guard("releasing pinned memory"):
                area.mapping.release(self._queue)
                wait_for_all(self._queue)
                area.buffer.release()
        if self._reservation is not None:
            self._reservation.release()
            self._reservation = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pinned(self, size_bytes: int) -> int:
        """Returns the address of pinned memory of at least this size, which may be allocated."""
        import pyopencl as cl

        if self._area is not None:
            if size_bytes <= self._area.buffer.size:
                return self._area.address
            # For the next ranges, too, which may be a little larger.
            size_bytes = min(self._limit, size_bytes + size_bytes // 4)
            self._release_area()
        self._reservation = reserve(size_bytes, "staged inputs and outputs")
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        access: Any = cl.map_flags.READ | cl.map_flags.WRITE
        area: Any
        try:
            with self._device.state.guard(f"allocating {size_bytes} bytes of pinned memory"):
                buffer = cl.Buffer(self._device.context, flags, size_bytes)
                area, _ = cl.enqueue_map_buffer(
                    self._queue,
                    buffer,
                    access,
                    0,
                    (size_bytes,),
                    np.dtype(np.uint8),
                    is_blocking=True,
                )
        except BaseException:
            self._reservation.release()
            self._reservation = None
            raise
        self._area = _PinnedArea(buffer, area.base, int(np.asarray(area).ctypes.data))
        return self._area.address


def _single(ranges: Sequence[BufferRange]) -> list[list[int]]:
    return [[number] for number in range(len(ranges))]


def _adjacent(ranges: Sequence[BufferRange]) -> list[list[int]]:
    """Groups the numbers of ranges that share a transfer."""
    order = sorted(
        range(len(ranges)), key=lambda number: (ranges[number].buffer.int_ptr, ranges[number].offset_bytes)
    )
    spans: list[list[int]] = []
    for number in order:
        current = ranges[number]
        others = [ranges[each] for each in spans[-1]] if spans else []
        if (
            others
            # Larger ones may be pinned themselves.
            and max(each.size_bytes for each in (current, *others)) < MIN_PINNED_BYTES
            and others[0].buffer == current.buffer
            and current.offset_bytes <= _bounds(others)[1] + _MAX_GAP_BYTES
        ):
            spans[-1].append(number)
        else:
            spans.append([number])
    return spans


def _bounds(ranges: Sequence[BufferRange]) -> tuple[int, int]:
    """Returns the first byte of ranges of a buffer, and the one after the last."""
    return min(each.offset_bytes for each in ranges), max(
        each.offset_bytes + each.size_bytes for each in ranges
    )


def _staged_ports(
    ranges: Sequence[BufferRange],
    spans: Sequence[Sequence[int]],
    slots: Sequence[int | None],
    area: int,
    *,
    to_device: bool,
) -> tuple[tuple[_StagedPort, ...], tuple[HostTransfer, ...]]:
    """Creates the staged ports of ranges, in their order, and their transfers.

    Args:
        ranges: the ranges of all inputs, or of all outputs.
        spans: the groups of ranges that share a transfer.
        slots: the offset of each group in the pinned area; None for direct transfers.
        area: the address of the pinned area; 0 if there is none, so that all transfers are direct.
        to_device: whether they are inputs.
    """
    found: dict[int, _StagedPort] = {}
    transfers = []
    for span, slot in zip(spans, slots, strict=True):
        is_direct = slot is None or not area
        for part in [[number] for number in span] if is_direct else [span]:
            start, end = _bounds([ranges[number] for number in part])
            transfer = HostTransfer(
                ranges[part[0]].buffer, end - start, offset_bytes=start, to_device=to_device
            )
            transfers.append(transfer)
            if slot is not None and area:
                transfer.address = area + slot
            for number in part:
                place = 0 if is_direct else transfer.address + ranges[number].offset_bytes - start
                found[number] = _StagedPort(
                    ranges[number].size_bytes, transfer, place, is_alone=len(part) == 1
                )
    return tuple(found[number] for number in range(len(ranges))), tuple(transfers)


def upload(device: DeviceContext, queue: cl.CommandQueue, buffer: cl.Buffer, data: Any) -> None:
    """Copies constants to a buffer, and waits for completion.

    Args:
        device: the buffer's device.
        queue: a queue of that device.
        buffer: the destination.
        data: a contiguous object with the buffer protocol.

    Raises:
        OutOfMemory, DeadObject, OpFailed: the device failed.
    """
    import pyopencl as cl

    if memoryview(data).nbytes:
        with device.state.guard("writing to a buffer"):
            cl.enqueue_copy(queue, buffer, data, is_blocking=True)
