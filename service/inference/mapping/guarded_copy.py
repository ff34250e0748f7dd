"""Copies memory of mapped files that their owners may truncate at any time.

Touching a page that a file has lost raises SIGBUS, which ends a process. To read and write the file
instead takes twice the time of a copy. So files are mapped here, and the native code of
`guarded_copy.ll` handles the signal: it puts memory of this process in the place of the lost pages,
and notes that the range was cut. Whoever copies looks at the note afterwards.

The handler belongs to the whole process, and others may have one. What does not concern the ranges
here is passed on to the handler that was there before; one that is for a single signal takes the
place of this one again. One that is installed later is left alone:
each copy examines whether the handler here is still in place, and nothing is copied if it is not.

Code that cannot ask before each access, such as kernels of a model, may use the memory of a range
as it is, and looks at the note afterwards.

Layout of the memory of the handler, in 64-bit words, since machine code in an image has no
variables:

    guard     `struct sigaction` of before (19 words), page size, number of slots, slots
    slot      start of the range, its end, 1 if it was cut
"""

import ctypes
import mmap
import os
import signal
import threading
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any, Final

import numpy as np

from neurald.drivers.cpu.native.objects.image import LoadedImage, decoded
from neurald.drivers.cpu.target.processor import MACHINE
from neurald.hal.digests import DIGEST_BYTES
from neurald.hal.errors import Error
from neurald.hal.memory.private_memory import buffer_address
from neurald.hal.process.memory.mappings import MAP_FIXED, map_anonymous, map_memory, unmap_memory

#: Lie beside this module, by architecture: the digest of the text, and an image.
FILES: Final = {machine: f"guarded_copy.{machine}.image" for machine in ("x86_64", "aarch64")}
HANDLER, COPY = FUNCTIONS = ("neurald_on_bus_error", "neurald_guarded_copy")
#: The name by which the code refers to its memory.
GUARD: Final = "neurald_guard"
#: Reads files of the package, which may be in a zip file.
_LOADER: Final[Any] = __spec__.loader

#: The handler looks through all of them. As many regions can be registered at a time; any further
#: ones are read and written as files.
_MAX_RANGES: Final = 1024
_SA_SIGINFO, _SA_ONSTACK, _SA_RESTART, _SA_RESETHAND = 4, 0x08000000, 0x10000000, 0x80000000
_SIG_IGN: Final = 1
#: The start of a slot without a range: no address is behind it.
_NO_START: Final = (1 << 64) - 1


class _Action(ctypes.Structure):
    """`struct sigaction` of 64-bit Linux, in glibc and musl."""

    _fields_ = (
        ("handler", ctypes.c_size_t),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_uint),
        ("restorer", ctypes.c_void_p),
    )


class _Slot(ctypes.Structure):
    _fields_ = (("start", ctypes.c_uint64), ("end", ctypes.c_uint64), ("is_cut", ctypes.c_uint64))


class _State(ctypes.Structure):
    _fields_ = (
        ("previous", _Action),
        ("page_bytes", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("slots", _Slot * _MAX_RANGES),
    )


class CopyOutcome(IntEnum):
    """The outcome of a copy."""

    COPIED = 0
    #: A page was missing: the file was truncated, or there was no memory for the page.
    CUT = 1
    #: Another handler of SIGBUS was installed. Nothing was copied.
    UNGUARDED = 2


class MappedRange:
    """A range of a file, which is mapped for the lifetime of this object. Any thread may use it."""

    def __init__(self, handler: "BusErrorHandler", descriptor: int, offset: int, size: int) -> None:
        self._handler = handler
        before = self._before = offset % mmap.PAGESIZE
        self._offset = offset - before
        self._size = before + size
        self._slot = handler.take_slot()
        try:
            self._start = map_memory(
                None,
                self._size,
                mmap.PROT_READ | mmap.PROT_WRITE,
                mmap.MAP_SHARED,
                descriptor,
                self._offset,
            )
        except OSError:
            handler.give_slot(self._slot)
            raise
        self._slot.is_cut = 0
        self._slot.start = self._start
        # The handler may read one of them before the other is written; the slot has no range then.
        self._slot.end = self._start + self._size

    def __del__(self) -> None:
        if hasattr(self, "_start"):
            self._slot.start, self._slot.end = _NO_START, 0
            unmap_memory(self._start, self._size)
            self._handler.give_slot(self._slot)

    @property
    def memory(self) -> memoryview:
        """The range. It is mapped for as long as anybody refers to this."""
        exposed = _Exposed(self, self._start + self._before, self._size - self._before)
        array: np.ndarray[Any, np.dtype[np.uint8]] = np.asarray(exposed)
        return array.data

    @property
    def cut_note(self) -> "np.ndarray[Any, np.dtype[np.uint8]]":
        """The bytes of the note whether the range was cut, a number of 64 bits."""
        return np.frombuffer(memoryview(self._slot).cast("B"), np.uint8)[_Slot.is_cut.offset :]

    @property
    def is_guarded(self) -> bool:
        """True if the handler is still in place."""
        return self._copy(self._start, self._start, 0) is not CopyOutcome.UNGUARDED

    def cut(self) -> None:
        """Puts memory of this process in the place of the file.

        Any thread may call it, also while others use the range.
        """
        map_memory(
            self._start,
            self._size,
            mmap.PROT_READ | mmap.PROT_WRITE,
            mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED,
            -1,
            0,
        )
        self._slot.is_cut = 1

    def read(self, target: memoryview, offset: int) -> CopyOutcome:
        """Copies bytes from an offset in the file."""
        return self._copy(buffer_address(target), self._place(offset, target.nbytes), target.nbytes)

    def write(self, data: memoryview, offset: int) -> CopyOutcome:
        """Copies bytes to an offset in the file."""
        return self._copy(self._place(offset, data.nbytes), buffer_address(data), data.nbytes)

    def _place(self, offset: int, size: int) -> int:
        at = offset - self._offset
        if not 0 <= at <= at + size <= self._size:
            raise ValueError(f"bytes {at} to {at + size} are outside of a range of {self._size}")
        return self._start + at

    def _copy(self, target: int, source: int, size: int) -> CopyOutcome:
        return CopyOutcome(self._handler.copy(target, source, size, ctypes.addressof(self._slot)))


class _Exposed:
    """Memory of a range, which keeps the range."""

    def __init__(self, owner: MappedRange, address: int, size: int) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }


class BusErrorHandler:
    """The handler of SIGBUS of this process, and the slots of its ranges.

    Raises:
        Error: the code cannot be loaded, or the handler cannot be installed.
    """

    def __init__(self) -> None:
        self._state = _State.from_address(map_anonymous(ctypes.sizeof(_State)))
        self._state.page_bytes = mmap.PAGESIZE
        self._state.count = _MAX_RANGES
        self._free: list[_Slot] = [*self._state.slots]
        for slot in self._free:
            slot.start = _NO_START
        content: bytes = _LOADER.get_data(_beside(FILES[MACHINE]))
        code = LoadedImage(decoded(content[DIGEST_BYTES:]), FUNCTIONS, {GUARD: ctypes.addressof(self._state)})
        # Other threads may be in the handler at any time.
        code.keep_forever()
        copy = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p
        )
        #: Copies bytes: target, source, size and the address of the slot. Returns a `CopyOutcome`.
        self.copy: Callable[[int, int, int, int], int] = copy(code.addresses[COPY])
        self._install(code.addresses[HANDLER])

    def take_slot(self) -> _Slot:
        """Returns a slot that no range has.

        Raises:
            OSError: there is none.
        """
        try:
            return self._free.pop()
        except IndexError:
            raise OSError("all ranges are in use") from None

    def give_slot(self, slot: _Slot) -> None:
        """Takes a slot back."""
        self._free.append(slot)

    def _install(self, handler: int) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        previous = self._state.previous
        if library.sigaction(int(signal.SIGBUS), None, ctypes.byref(previous)):
            raise OSError(ctypes.get_errno(), "the handler of SIGBUS is unknown")
        is_function = previous.handler > _SIG_IGN
        # It is called in the same circumstances as before.
        flags = previous.flags & ~_SA_RESETHAND if is_function else _SA_ONSTACK | _SA_RESTART
        action = _Action(handler=handler, mask=previous.mask, flags=flags | _SA_SIGINFO)
        if library.sigaction(int(signal.SIGBUS), ctypes.byref(action), None):
            raise OSError(ctypes.get_errno(), "cannot handle SIGBUS")


def text() -> str:
    """Returns the code as LLVM IR, of which the files are made."""
    content: bytes = _LOADER.get_data(_beside("guarded_copy.ll"))
    return content.decode()


def _beside(name: str) -> str:
    """Returns the path of a file beside this module."""
    return os.path.join(os.path.dirname(__file__), name)  # noqa: PTH118, PTH120 - it may be in a zip file


_lock = threading.Lock()


@cache
def _handler() -> BusErrorHandler | None:
    """Returns the handler of this process; None if it can have none."""
    try:
        return BusErrorHandler() if MACHINE in FILES else None
    except (Error, OSError):
        return None


def mapped_range(descriptor: int, offset: int, size: int) -> MappedRange | None:
    """Maps a range of a file, which exists; returns None if that is not possible."""
    with _lock:
        handler = _handler()
    try:
        return None if handler is None else MappedRange(handler, descriptor, offset, size)
    except OSError:
        return None
