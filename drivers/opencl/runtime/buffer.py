"""Memory of an OpenCL device that holds values between executions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import Memory
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.types import Dimensions
from neurald.hal.process.fork import forkable_lock, keep_in_children


class OpenClBuffer(DeviceBuffer):
    """Implements `DeviceBuffer` on an OpenCL device.

    Executions copy it to and from their arena on the device. Its bytes reach the host only through
    `read`: when the application copies it, or a step on another device needs it.

    Args:
        device: the device that holds it.
        size_bytes: the size of the largest value that it can hold.

    Raises:
        OutOfMemory: the device lacks memory for it.
        Error: the device failed.
    """

    def __init__(self, device: DeviceContext, size_bytes: int) -> None:
        import pyopencl as cl

        super().__init__(size_bytes)
        self.device = device
        self._lock = forkable_lock()
        with device.state.guard(f"allocating {size_bytes} bytes"):
            self.handle = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, max(1, size_bytes))
        self._queue = device.queue()
        keep_in_children(self)

    @property
    def is_lost(self) -> bool:
        """See `DeviceBuffer.is_lost`."""
        return self.device.state.is_lost

    def write(self, source: Memory, dimensions: Dimensions = None) -> None:
        """See `DeviceBuffer.write`."""
        import pyopencl as cl

        self._require_room(source.size)
        if not source.size:
            return
        self._run(
            lambda: cl.enqueue_copy(self._queue, self.handle, np.asarray(source.view()), is_blocking=True)
        )

    def read(self, target: Memory) -> None:
        """See `DeviceBuffer.read`."""
        import pyopencl as cl

        self._require_room(target.size)
        if target.readonly:
            raise BadData("device memory cannot be copied to read-only memory")
        if not target.size:
            return
        self._run(
            lambda: cl.enqueue_copy(self._queue, np.asarray(target.view()), self.handle, is_blocking=True)
        )

    def _require_room(self, size_bytes: int) -> None:
        if size_bytes > self.size:
            raise BadData(
                f"a value of {size_bytes} bytes does not fit into device memory of {self.size} bytes"
            )

    def _run(self, copy: Callable[[], object]) -> None:
        with self._lock, self.device.state.guard("copying device memory"):
            copy()
