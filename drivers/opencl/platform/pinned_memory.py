"""Lets a device read and write memory of applications and clients itself.

A device transfers pinned memory of the host by itself, and all other memory by way of a copy in
pinned memory. Pinning memory takes 0.1 ms and more, so it pays for what many executions use.

NVIDIA's OpenCL pins the memory that a buffer is created over (`CL_MEM_USE_HOST_PTR`) for as long as
the buffer exists. The buffer itself is not used, and gets no memory on the device.
"""

from __future__ import annotations

import contextlib
import os
import re
import weakref
from typing import TYPE_CHECKING, Any, Final

from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.errors import DeviceState
from neurald.hal.errors import Error
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.hal.process.fork import forkable_lock, keep_in_children

if TYPE_CHECKING:
    import pyopencl as cl

#: Limit on the memory that is pinned for a device: it cannot be swapped out.
MAX_PINNED_BYTES: Final = 256 << 20
#: Less is copied past the caches in the time in which a device reads it from a processor's cache.
MIN_PINNED_BYTES: Final = 1 << 18
#: Before this version of Linux, a process that has forked gets new pages for private memory that it
#: writes, while devices keep the old ones. Shared memory keeps its pages.
_FORKS_KEEP_PINNED_PAGES: Final = 5, 12

#: The buffers over ranges of memories, by the identities of these and by offset and size.
_Buffers = dict[int, dict[tuple[int, int], Any]]


class PinnedAddress(int):
    """Address of memory of the host that the device transfers by itself."""


class PinnedMemory:
    """Pins ranges of memories for a device. Thread-safe.

    A range stays pinned for as long as the object of its memory exists.

    Args:
        facts: the device.
        state: whether it is usable.
        context: pyopencl's context with this device only.
    """

    def __init__(self, facts: DeviceFacts, state: DeviceState, context: cl.Context) -> None:
        self._is_supported = facts.is_nvidia
        self._state = state
        self._context = context
        self._buffers: _Buffers = {}
        self._lock = forkable_lock()
        # A child must not release the buffers.
        keep_in_children(self)

    def pin(self, memory: Memory, offset: int, size_bytes: int) -> bool:
        """Returns True if a range of a memory is pinned from now on.

        Returns False if that is not possible or does not pay.

        Args:
            memory: the memory, which must not change its place while it exists.
            offset, size_bytes: the range, which lies in the memory.
        """
        if not self._is_supported or memory.readonly or size_bytes < MIN_PINNED_BYTES:
            return False
        if not isinstance(memory, SharedMemory) and not _forks_keep_pinned_pages():
            return False
        with self._lock:
            of_memory = self._buffers.get(id(memory))
            if of_memory is not None and (offset, size_bytes) in of_memory:
                return True
            if self._pinned_bytes() + size_bytes > MAX_PINNED_BYTES:
                return False
            buffer = self._over(memory.view(offset, size_bytes))
            if buffer is None:
                return False
            if of_memory is None:
                of_memory = self._buffers[id(memory)] = {}
                # References to this object would keep it as long as the memory.
                ending = weakref.finalize(memory, _release, self._buffers, id(memory), os.getpid())
                ending.atexit = False
            of_memory[offset, size_bytes] = buffer
            return True

    def _over(self, content: memoryview) -> cl.Buffer | None:
        import pyopencl as cl

        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        # Executions go on without pinned memory.
        with contextlib.suppress(Error), self._state.guard(f"pinning {content.nbytes} bytes of memory"):
            return cl.Buffer(self._context, flags, hostbuf=content)
        return None

    def _pinned_bytes(self) -> int:
        # Memories may become garbage meanwhile.
        return sum(size for each in tuple(self._buffers.values()) for _, size in tuple(each))


def _release(buffers: _Buffers, key: int, process: int) -> None:
    """Releases the buffers over a memory, at any time in any thread, so that it takes no lock."""
    if os.getpid() == process:
        buffers.pop(key, None)


def _forks_keep_pinned_pages() -> bool:
    version = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return version is not None and tuple(map(int, version.groups())) >= _FORKS_KEEP_PINNED_PAGES
