"""Breadcrumbs: the current work of a driver process, in memory that outlives the process.

The process that supervises a driver creates the memory and keeps a descriptor of it. The driver's
process has a slot for each thread that calls the device, and writes what the call is before it
begins. What does not change from call to call, such as the pattern of the model, is in a record
that the slot names, so that an execution writes 32 bytes twice.

    page 0                    a header, the version of the driver, and the deaths of helpers
    from `SLOTS_AT`           slots: phase, flags, record, generation, thread, session
    from `RECORDS_AT`         records: generation, length and checksum, then a `CrumbRecord`

A driver that runs wild may write anything here. The reader (`neurald.hal.crashes.trail`) checks
every byte.
"""

import contextlib
import fcntl
import hashlib
import mmap
import os
import struct
import threading
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final, Self

import msgspec

from neurald.hal.crashes.pattern import CrashPattern
from neurald.hal.memory.private_memory import buffer_address
from neurald.hal.wording import printable

#: The environment variable with the descriptor of the memory.
VARIABLE: Final = "NEURALD_BREADCRUMBS"

MAGIC: Final = b"nrldcrm1"
#: magic, number of helper deaths, length of the version.
HEADER: Final = struct.Struct("<8sII")
VERSION_AT: Final = 64
MAX_VERSION_BYTES: Final = 400
#: Deaths of helper processes: record, generation, signal.
HELPER: Final = struct.Struct("<III")
HELPERS_AT: Final = 512
HELPERS: Final = 64
SLOT: Final = struct.Struct("<HHIIxxxxQQ")
SLOTS_AT: Final = mmap.PAGESIZE
SLOTS: Final = 512
#: generation, length, checksum.
RECORD: Final = struct.Struct("<III")
RECORD_BYTES: Final = 64 << 10
RECORDS_AT: Final = SLOTS_AT + (SLOTS + 1) * SLOT.size + -(SLOTS + 1) * SLOT.size % mmap.PAGESIZE
RECORDS: Final = 256
MEMORY_BYTES: Final = RECORDS_AT + RECORDS * RECORD_BYTES
#: A flag of a slot: the execution has exceeded its limit.
HANGS: Final = 1
_IDLE: Final = bytes(SLOT.size)
_NOWHERE: Final = 0xFFFFFFFF


class CrashPhase(IntEnum):
    """The work of a driver on a model."""

    QUERY = 1
    PREPARE = 2
    LOAD = 3
    COMPILE = 4
    EXECUTE = 5
    PROFILE = 6

    @property
    def text(self) -> str:
        """The phase in words."""
        return _TEXTS[self]


_TEXTS: Final = {
    CrashPhase.QUERY: "answering which operations it supports",
    CrashPhase.PREPARE: "preparing it",
    CrashPhase.LOAD: "loading it from a cache",
    CrashPhase.COMPILE: "compiling it",
    CrashPhase.EXECUTE: "executing it",
    CrashPhase.PROFILE: "profiling it",
}


class CrumbRecord(msgspec.Struct, frozen=True, array_like=True):
    """The content of the record of a model.

    Attributes:
        pattern: the pattern of the model.
        model: its digest, in hexadecimal.
        step: the operations of the application's model that it consists of.
        outline: see `neurald.hal.crashes.outline`; empty if it is too large or not known.
    """

    pattern: CrashPattern
    model: str
    step: str = ""
    outline: bytes = b""


class Crumb:
    """The record of one model; the last reference gives its place to another one.

    Attributes:
        pattern: the pattern of the model.
    """

    def __init__(
        self, pattern: CrashPattern, number: int, generation: int, release: "Callable[[int], None] | None"
    ) -> None:
        self.pattern = pattern
        self._number = number
        self._generation = generation
        self._release = release

    def entry(self, phase: CrashPhase, session: int) -> bytes:
        """Returns what a slot of the calling thread says while it does this.

        Args:
            phase: what is done with the model.
            session: see `session_number`.
        """
        return SLOT.pack(phase, 0, self._number, self._generation, threading.get_ident(), session)

    @property
    def place(self) -> tuple[int, int]:
        """The number of the record, and its generation."""
        return self._number, self._generation

    def __del__(self) -> None:
        if self._release is not None:
            self._release(self._number)


class ActivitySlot:
    """The slot of one thread. `begin` and `end` are fast."""

    __slots__ = ("_end", "_start", "_view", "number")

    def __init__(self, view: memoryview, number: int) -> None:
        self.number = number
        self._view = view
        self._start = SLOTS_AT + number * SLOT.size
        self._end = self._start + SLOT.size

    @property
    def address(self) -> int:
        """The address of the slot, for native code that writes entries to it."""
        return buffer_address(self._view) + self._start

    def begin(self, entry: bytes) -> None:
        """Says what begins; see `Crumb.entry`."""
        self._view[self._start : self._end] = entry

    def end(self) -> None:
        """Says that it has ended."""
        self._view[self._start : self._end] = _IDLE


class Breadcrumbs:
    """The breadcrumbs of this process. Thread-safe.

    Args:
        memory: the memory of `MEMORY_BYTES`.
        is_supervised: whether another process reads it.
    """

    def __init__(self, memory: mmap.mmap, *, is_supervised: bool) -> None:
        self.is_supervised = is_supervised
        self._view = memoryview(memory)
        self._lock = threading.Lock()
        self._slots = [ActivitySlot(self._view, number) for number in reversed(range(SLOTS))]
        #: Takes what threads say for which there is no slot.
        self._spare = ActivitySlot(self._view, SLOTS)
        self._free = list(reversed(range(RECORDS)))
        self._generation = 0
        self._helpers = 0
        self._version = b""
        self._write_header()

    @classmethod
    def inherited(cls) -> Self:
        """Takes over the memory that the supervisor gave this process, or else private memory.

        Helpers of this process do not get it.
        """
        text = os.environ.pop(VARIABLE, "")
        if text.isdecimal():
            descriptor = int(text)
            # The variable may be left from another process.
            with contextlib.suppress(OSError, ValueError):
                if os.fstat(descriptor).st_size == MEMORY_BYTES:
                    memory = mmap.mmap(descriptor, MEMORY_BYTES)
                    os.close(descriptor)
                    return cls(memory, is_supervised=True)
        return cls.private()

    @classmethod
    def private(cls) -> Self:
        """Creates breadcrumbs that no process reads."""
        return cls(mmap.mmap(-1, MEMORY_BYTES), is_supervised=False)

    def set_version(self, version: str) -> None:
        """Says of which version the driver is."""
        self._version = recorded_version(version).encode()
        self._view[VERSION_AT : VERSION_AT + len(self._version)] = self._version
        self._write_header()

    def record(self, record: CrumbRecord) -> Crumb:
        """Writes the record of a model. If there is no room, the model has none."""
        content = msgspec.msgpack.encode(record)
        if RECORD.size + len(content) > RECORD_BYTES and record.outline:
            return self.record(msgspec.structs.replace(record, outline=b""))
        with self._lock:
            if not self._free or RECORD.size + len(content) > RECORD_BYTES:
                return Crumb(record.pattern, _NOWHERE, 0, None)
            number = self._free.pop()
            self._generation = generation = (self._generation + 1) & 0xFFFFFFFF
        start = RECORDS_AT + number * RECORD_BYTES
        self._view[start + RECORD.size : start + RECORD.size + len(content)] = content
        RECORD.pack_into(self._view, start, generation, len(content), zlib.crc32(content))
        return Crumb(record.pattern, number, generation, self._free.append)

    def slot(self) -> ActivitySlot:
        """Takes a slot for the calling thread; `give_back` follows."""
        try:
            return self._slots.pop()
        except IndexError:
            return self._spare

    def give_back(self, slot: ActivitySlot) -> None:
        """Gives a slot back."""
        if slot is not self._spare:
            slot.end()
            self._slots.append(slot)

    def under_way(self, phase: CrashPhase, crumb: Crumb, session: int) -> "UnderWay":
        """Says during the block what the calling thread does."""
        return UnderWay(self, crumb, crumb.entry(phase, session))

    def mark_hanging(self, thread: int) -> None:
        """Says that what a thread does has exceeded its limit."""
        for number in range(SLOTS):
            start = SLOTS_AT + number * SLOT.size
            phase, flags, _, _, owner, _ = SLOT.unpack_from(self._view, start)
            if phase and owner == thread:
                struct.pack_into("<H", self._view, start + 2, flags | HANGS)

    def helper_died(self, crumb: Crumb, signal: int) -> int:
        """Notes that a process that compiled a model died; returns how many have died so far."""
        with self._lock:
            place = HELPERS_AT + self._helpers % HELPERS * HELPER.size
            HELPER.pack_into(self._view, place, *crumb.place, signal)
            self._helpers += 1
            self._write_header()
            return self._helpers

    @property
    def helper_deaths(self) -> int:
        """The number of processes that died while they compiled a model."""
        return self._helpers

    def _write_header(self) -> None:
        HEADER.pack_into(self._view, 0, MAGIC, self._helpers, len(self._version))


class UnderWay:
    """A block during which a slot says what its thread does. A generator would take twice as long.

    Args:
        breadcrumbs: the breadcrumbs of the process.
        crumb: the crumb of the model, which keeps its record as long as the slot refers to it.
        entry: see `Crumb.entry`.
    """

    __slots__ = ("_breadcrumbs", "_crumb", "_entry", "_slot")

    def __init__(self, breadcrumbs: Breadcrumbs, crumb: Crumb, entry: bytes) -> None:
        self._breadcrumbs = breadcrumbs
        self._crumb = crumb
        self._entry = entry

    def __enter__(self) -> None:
        self._slot = self._breadcrumbs.slot()
        self._slot.begin(self._entry)

    def __exit__(self, *_: object) -> None:
        self._breadcrumbs.give_back(self._slot)


def create_memory() -> int:
    """Creates the memory for the breadcrumbs of a process that will be started.

    Raises:
        OSError: there is no memory.
    """
    descriptor = os.memfd_create("neurald breadcrumbs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, MEMORY_BYTES)
        fcntl.fcntl(
            descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        )
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def recorded_version(version: str) -> str:
    """Returns a driver's version as breadcrumbs and records have it: printable and limited."""
    return printable(version).encode()[:MAX_VERSION_BYTES].decode(errors="ignore")


def session_number(token: bytes) -> int:
    """Returns a number that identifies a session and does not reveal its token."""
    return int.from_bytes(hashlib.blake2b(token, digest_size=8).digest(), "little")
