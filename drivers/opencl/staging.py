"""How the inputs and outputs of executions get into and out of a device's buffers.

A copy from pinned host memory takes a third of the time of one from ordinary memory, so small inputs and outputs pass through
a pinned area that is mapped once. Large ones would need as much memory again, and those of CPU devices would only be copied
twice: they go directly.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from neurald.drivers.opencl.launcher import Transfer
from neurald.drivers.opencl.platform import DeviceContext
from neurald.hal.errors import BadData, OutOfMemory

if TYPE_CHECKING:
    import pyopencl as cl

#: Of pinned memory in one `Staging`: the system can spare little of it.
PINNED_LIMIT_BYTES: Final = 32 << 20
_ALIGNMENT_BYTES: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A range of a device's buffer that holds one input or output."""

    buffer: cl.Buffer
    size_bytes: int
    offset_bytes: int = 0


class _Passage:
    """The way of one input or output: through a slot of the pinned area, or directly."""

    __slots__ = ("host", "slot", "transfer")

    def __init__(self, region: Region, slot: np.ndarray[Any, Any] | None, *, to_device: bool) -> None:
        self.transfer = Transfer(
            region.buffer, region.size_bytes, offset_bytes=region.offset_bytes, to_device=to_device
        )
        self.slot = slot
        #: The host's side, kept while the device uses it.
        self.host: np.ndarray[Any, Any] | None = None
        if slot is not None:
            self.transfer.address = slot.ctypes.data


class Staging:
    """The inputs and outputs of one execution at a time, over and over.

    `writes` and `reads` go into the `CommandList` of the execution, before and after its kernels. Then, for each execution:
    `put` every input, `expect` every output, run the list to its end, `collect`.

    Attributes:
        writes: the transfers of the inputs, in their order.
        reads: the transfers of the outputs, in their order.
    """

    def __init__(
        self,
        device: DeviceContext,
        queue: cl.CommandQueue,
        inputs: Sequence[Region],
        outputs: Sequence[Region],
        *,
        pinned_limit_bytes: int = PINNED_LIMIT_BYTES,
    ) -> None:
        """Takes pinned memory, at most so much, unless the device is a CPU or has none to spare.

        Raises:
            Error: the device failed.
        """
        self._device = device
        self._queue = queue
        self._area: tuple[cl.Buffer, cl.MemoryMap] | None = None
        limit = 0 if device.facts.is_cpu else pinned_limit_bytes
        slots: list[tuple[int, int] | None] = []
        used = 0
        for region in (*inputs, *outputs):
            end = used + region.size_bytes
            if region.size_bytes and end <= limit:
                slots.append((used, end))
                used = -(-end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
            else:
                slots.append(None)
        area = None
        if used:
            with contextlib.suppress(OutOfMemory):
                area = self._pinned(used)
        passages = [
            _Passage(
                region,
                None if slot is None or area is None else area[slot[0] : slot[1]],
                to_device=number < len(inputs),
            )
            for number, (region, slot) in enumerate(zip((*inputs, *outputs), slots, strict=True))
        ]
        self._inputs, self._outputs = passages[: len(inputs)], passages[len(inputs) :]
        self.writes = tuple(one.transfer for one in self._inputs)
        self.reads = tuple(one.transfer for one in self._outputs)

    def put(self, index: int, source: memoryview) -> None:
        """Says where input number `index` is; it may change, or go, only after `collect`.

        Raises:
            BadData: it has another size than its region.
        """
        passage = self._inputs[index]
        host = _bytes_of(passage, source, f"input {index}")
        if passage.slot is not None:
            passage.slot[...] = host
        else:
            passage.host, passage.transfer.address = host, host.ctypes.data

    def expect(self, index: int, target: memoryview) -> None:
        """Says where output number `index` goes; what is there is undefined until `collect` has returned.

        Raises:
            BadData: it has another size than its region, or is read-only.
        """
        passage = self._outputs[index]
        if target.readonly:
            raise BadData(f"output {index} is read-only")
        passage.host = _bytes_of(passage, target, f"output {index}")
        if passage.slot is None:
            passage.transfer.address = passage.host.ctypes.data

    def collect(self) -> None:
        """Completes the outputs once the queue has finished, and lets go of the memories of the execution."""
        for passage in self._outputs:
            if passage.slot is not None and passage.host is not None:
                passage.host[...] = passage.slot
        self.forget()

    def forget(self) -> None:
        """Lets go of the memories of an execution that failed. Its outputs are undefined."""
        for passage in (*self._inputs, *self._outputs):
            passage.host = None
            if passage.slot is None:
                passage.transfer.address = 0

    def close(self) -> None:
        """Gives the pinned memory back; the staging is not used again."""
        self.forget()
        for passage in (*self._inputs, *self._outputs):
            passage.slot = None
            passage.transfer.address = 0
        if self._area is not None:
            buffer, mapping = self._area
            self._area = None
            if not self._device.state.is_lost:
                with self._device.state.guard("giving pinned memory back"):
                    mapping.release(self._queue)
                    self._queue.finish()
                    buffer.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pinned(self, size_bytes: int) -> np.ndarray[Any, Any]:
        import pyopencl as cl

        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        access: Any = cl.map_flags.READ | cl.map_flags.WRITE
        area: Any
        with self._device.state.guard(f"taking {size_bytes} bytes of pinned memory"):
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
        self._area = (buffer, area.base)
        return np.asarray(area)


def upload(
    device: DeviceContext, queue: cl.CommandQueue, buffer: cl.Buffer, data: Any, offset_bytes: int = 0
) -> None:
    """Copies constants to a buffer, and returns when they are there.

    Args:
        device: that the buffer is of.
        queue: of that device.
        buffer: to write to.
        data: with the buffer protocol; contiguous.
        offset_bytes: where in the buffer.

    Raises:
        OutOfMemory, DeadObject, OpFailed: the device failed.
    """
    import pyopencl as cl

    if memoryview(data).nbytes:
        with device.state.guard("writing to a buffer"):
            cl.enqueue_copy(queue, buffer, data, dst_offset=offset_bytes, is_blocking=True)


def _bytes_of(passage: _Passage, view: memoryview, what: str) -> np.ndarray[Any, Any]:
    if view.nbytes != passage.transfer.size_bytes:
        raise BadData(f"{what} has {view.nbytes} bytes; {passage.transfer.size_bytes} are expected")
    return np.frombuffer(view if view.nbytes else b"", np.uint8)
