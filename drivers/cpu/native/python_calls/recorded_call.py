"""Functions of Python that call others and record when, in a ring of numbers in native code.

`recorded_call.ll` has the function. It reads the clock before and after the call, and stores both
with the thread, the number of the application's call and the number of what was called. The
recorder's Python code is asked only for what a thread or a compilation did not show before. So a
record takes less than the Python frame whose work the function may do, too: for a method whose
object has a function that does its work, that function is called in its place.

Reading the clock takes a good part of the time of a record. Where the kernel tells the time by the
counter of the processor, as `has_counter` says, the function reads that instead, and the clock only
about once in a millisecond, to compare both. Other times lie within tens of nanoseconds of the
clock's.

Layouts (in 64-bit words):

    table     see `TABLE`; one for a recorder
    record    see `_RECORD`; the words of the function, see `native_method`
    entry     start and end in nanoseconds of the monotonic clock, the thread's state, the number of
              the call, the number of what was called; or, for the note of the entry before, some of
              its words and -1
    threads   for each slot the interpreter's number of a thread, and the state
    subjects  for each slot a key, its number, and the address of its notes; 0 for none
"""

import ctypes
import platform
import struct
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from neurald.drivers.cpu.native.python_calls.native_method import (
    FUNCTION_WORDS,
    has_native_methods,
    native_method,
)
from neurald.drivers.cpu.native.python_calls.python_call import python_table
from neurald.hal.execution.recorded_calls import (
    CALL_BITS,
    NOTE_BYTES,
    CallRecord,
    Make,
    PartOf,
    RecorderOfCalls,
    ShortCut,
    Subjects,
    UnusualResults,
)
from neurald.hal.lazy_numpy import np

RECORD_FUNCTIONS: Final = ("neurald_recorded_call",)

_WORD_BYTES: Final = 8
#: What a recorder has: objects, and functions of the interpreter and of the C library; slots of
#: threads, and what tells a thread's state; the number of the next call; the ring, its last place,
#: and how many entries were stored; whether the counter of the processor may be read (see
#: `has_counter`), the last time that was told by it, a count and its time, nanoseconds for a count
#: in units of 2^-32, and the count and time from which these are measured.
TABLE: Final = (
    "ZERO",
    "NONE",
    "INCREASE",
    "DECREASE",
    "GET_ATTRIBUTE",
    "VECTORCALL",
    "CLOCK",
    "GET_THREAD",
    "GET_NUMBER",
    "FROM_INTEGER",
    "TO_INTEGER",
    "FETCH",
    "NORMALIZE",
    "RESTORE",
    "THREADS",
    "ASK_THREAD",
    "NEXT_CALL",
    "RING",
    "CAPACITY_MASK",
    "COUNT",
    "COUNTS",
    "LAST",
    "BASE_COUNT",
    "BASE_TIME",
    "SCALE",
    "FIRST_COUNT",
    "FIRST_TIME",
)
_COUNT, _COUNTS, _SCALE = (TABLE.index(name) for name in ("COUNT", "COUNTS", "SCALE"))
#: How long a count takes, as the latest recorder has found, for the next one to begin with.
_latest_scale: Final = [0]
#: The counter is compared with the clock as soon as it has counted this far since the last time. It
#: counts some billions in a second.
_WINDOW: Final = 1 << 21
#: If it has counted farther than this while the clock was read, the two say nothing of each other.
_MAX_BETWEEN: Final = 1 << 11
#: The error in nanoseconds that it may have, besides a small share of the time since it was
#: compared. With a larger one it is set anew, as after the machine was suspended.
_MAX_ERROR: Final = "1000.0"
#: Table; the function that is called, or what is called if there is no short cut; names of the
#: attributes that lead to the function of the short cut (null without one), and most arguments of
#: it; what that function returns if it has succeeded (null if anything but None), or what calls
#: return that are recorded (null if anything), what is called otherwise, and what makes the result
#: of the method (null if that is None); number of what is
#: called (-1 to ask), name of the attribute that has the owner of the key (null if it is the object
#: itself), of the key, of the address of notes (null for none), slots, and what tells the number;
#: what is called after an exception; whether it begins a call of the application; number of what
#: is called if that failed or returned what is not expected (-1 for the same if it failed, and for
#: no record otherwise); name of the attribute that has the call it is part of (null without one),
#: and the number of the trace that this call must have; and the type of results that tell the
#: number of what is called, as None does (null if none do), and what is asked for it.
_RECORD: Final = (
    "TABLE",
    "FUNCTION",
    "PATH_FIRST",
    "PATH_SECOND",
    "MOST_ARGUMENTS",
    "EXPECTED",
    "FINISH",
    "ANSWER",
    "SUBJECT",
    "OWNER_NAME",
    "KEY_NAME",
    "NOTE_NAME",
    "SUBJECTS",
    "ASK_SUBJECT",
    "FAILED",
    "IS_CALL",
    "OTHERWISE",
    "PART_NAME",
    "PART_TRACE",
    "UNUSUAL_KIND",
    "ASK_RESULT",
)
_ENTRY_WORDS: Final = 5
#: This many words of a note are in an entry; the last word says that it is a note.
_NOTE_WORDS: Final = _ENTRY_WORDS - 1
_IS_NOTE: Final = -1
_SUBJECT_WORDS: Final = 4
_THREAD_SLOTS: Final = 64
_SUBJECT_SLOTS: Final = 256
#: Architectures whose counter native code reads, and the kernel's name for that.
_COUNTED: Final = frozenset({"x86_64", "AMD64"})
_COUNTER: Final = "tsc"
_CLOCK_SOURCE: Final = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
#: Symbols of the interpreter and of the C library, in the order of the table.
_SYMBOLS: Final = (
    "Py_IncRef",
    "Py_DecRef",
    "PyObject_GetAttr",
    "PyObject_Vectorcall",
    "clock_gettime",
    "PyThreadState_Get",
    "PyThreadState_GetID",
    "PyLong_FromLongLong",
    "PyLong_AsLongLong",
    "PyErr_Fetch",
    "PyErr_NormalizeException",
    "PyErr_Restore",
)


def recorded_call_text() -> str:
    """Returns the IR of the function."""
    from neurald.drivers.compiler.support.kernel_file import kernel_text

    words = {
        name: _WORD_BYTES * position for names in (TABLE, _RECORD) for position, name in enumerate(names)
    }
    return kernel_text(
        __name__,
        "recorded_call.ll",
        **words,
        FUNCTION_WORDS=FUNCTION_WORDS,
        STATE_CALL=_STATE_CALL,
        OBJECT_TYPE=_OBJECT_TYPE,
        THREAD_MASK=_THREAD_SLOTS - 1,
        SUBJECT_MASK=_SUBJECT_SLOTS - 1,
        SUBJECT_BYTES=_WORD_BYTES * _SUBJECT_WORDS,
        RECORD_BYTES=_WORD_BYTES * _ENTRY_WORDS,
        IS_NOTE=_IS_NOTE,
        CALL_BITS=CALL_BITS,
        CALL_MASK=(1 << CALL_BITS) - 1,
        WINDOW=_WINDOW,
        MAX_BETWEEN=_MAX_BETWEEN,
        MAX_ERROR=_MAX_ERROR,
    )


#: Where an object has its type, and one with `__slots__` the first of them.
_OBJECT_TYPE: Final = 8
_STATE_CALL: Final = 16


class NativeRecorder:
    """Implements `neurald.hal.execution.recorded_calls.RecordedCalls`.

    Args:
        function: address of the native function.
        capacity: how many records are kept, a power of two.
        asked: answers what native code does not know.

    Attributes:
        table: the words that all its functions use; see `TABLE`.
    """

    def __init__(self, function: int, capacity: int, asked: RecorderOfCalls) -> None:
        self._function = function
        self._capacity = capacity
        self._ring = np.empty((capacity, _ENTRY_WORDS), np.int64)
        # The kernel may clear megabytes when memory is first written, which is no work of a call.
        self._ring[0] = 0
        self._threads = np.full((_THREAD_SLOTS, 2), -1, np.int64)
        self.table = np.array(
            [
                id(0),
                id(None),
                *_addresses(),
                self._threads.ctypes.data,
                id(asked.thread),
                asked.first_call,
                self._ring.ctypes.data,
                capacity - 1,
                0,
                has_counter(),
                *[0] * (len(TABLE) - _COUNTS - 1),
            ],
            np.int64,
        )
        self.table[_SCALE] = _latest_scale[0]
        self._asked = asked

    def recorded(
        self,
        function: Callable[..., Any],
        subject: int | Subjects,
        *,
        is_call: bool,
        expected: object = None,
        otherwise: int | None = None,
        part_of: PartOf | None = None,
        unusual: UnusualResults | None = None,
    ) -> Callable[..., Any]:
        """Returns a function that calls another one and records it; see `RecordedCalls`."""
        asked = {"SUBJECT": subject} if isinstance(subject, int) else _asking(subject)
        return self._made(
            function,
            EXPECTED=expected,
            **asked,
            IS_CALL=int(is_call),
            OTHERWISE=otherwise,
            PART_NAME=None if part_of is None else sys.intern(part_of.attribute),
            PART_TRACE=None if part_of is None else part_of.trace,
            UNUSUAL_KIND=None if unusual is None else unusual.kind,
            ASK_RESULT=None if unusual is None else unusual.find,
        )

    def shortened(self, function: Callable[..., Any], short_cut: ShortCut) -> Callable[..., Any]:
        """Returns a function that takes a short cut; see `RecordedCalls`."""
        first, second = (*map(sys.intern, short_cut.path), None)[:2]
        return self._made(
            function,
            PATH_FIRST=first,
            PATH_SECOND=second,
            MOST_ARGUMENTS=short_cut.most_arguments,
            EXPECTED=short_cut.expected,
            FINISH=short_cut.finish,
            ANSWER=short_cut.answer,
            **_asking(short_cut.subjects),
            IS_CALL=1,
        )

    def _made(self, function: Callable[..., Any], **values: Any) -> Callable[..., Any]:
        """Returns a native function with a record of these values, of which objects are kept."""
        values |= {"TABLE": self.table, "FUNCTION": function, "FAILED": self._asked.failed}
        if values.get("OTHERWISE") is None:
            values["OTHERWISE"] = -1
        record = np.array([_word(values.get(name)) for name in _RECORD], np.int64)
        return native_method(self._function, record, function, (self, values))

    @property
    def count(self) -> int:
        """Number of entries: of calls that were recorded, and of notes. The last ones are kept."""
        return int(self.table[_COUNT])

    def records(self) -> Iterator[CallRecord]:
        """Yields the records that are kept, in the order in which the calls ended."""
        _latest_scale[0] = int(self.table[_SCALE])
        count = self.count
        position = max(0, count - self._capacity)
        while position < count:
            start, end, thread, call, subject = self._entry(position)
            position += 1
            note = b""
            while position < count and (entry := self._entry(position))[-1] == _IS_NOTE:
                note += struct.pack(f"={_NOTE_WORDS}q", *entry[:_NOTE_WORDS])
                position += 1
            # The first entry that is left may be the note of one that is not.
            if subject != _IS_NOTE:
                yield CallRecord(start, end, thread, call, subject, note[:NOTE_BYTES])

    def _entry(self, position: int) -> list[int]:
        entry: list[int] = self._ring[position & (self._capacity - 1)].tolist()
        return entry


def _asking(subjects: Subjects) -> dict[str, Any]:
    """Returns the values of a record whose subject depends on the object."""
    return {
        "SUBJECT": -1,
        "OWNER_NAME": _interned(subjects.owner),
        "KEY_NAME": _interned(subjects.key),
        "NOTE_NAME": _interned(subjects.note),
        "SUBJECTS": np.zeros((_SUBJECT_SLOTS, _SUBJECT_WORDS), np.int64),
        "ASK_SUBJECT": subjects.find,
    }


def _interned(name: str | None) -> str | None:
    """Returns a name as code has it, which is found fastest."""
    return None if name is None else sys.intern(name)


def has_counter() -> bool:
    """Returns whether the processors' counters tell the time in this machine.

    That takes half the time that a call of the clock takes. The kernel itself must have found that
    they run at a constant rate and are the same for all processors, and tell the time by them.
    """
    return platform.machine() in _COUNTED and clock_source() == _COUNTER


def clock_source() -> str:
    """Returns the name of what the kernel tells the time by; empty if it does not say that."""
    try:
        return _CLOCK_SOURCE.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


@cache
def _addresses() -> tuple[int, ...]:
    """Returns the addresses of the symbols."""
    library = ctypes.PyDLL(None)
    return tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _SYMBOLS)


def _word(value: Any) -> int:
    """Returns a number, the address of an array's memory or of another object, or 0 for None."""
    if value is None:
        return 0
    if isinstance(value, int) and value is not True:
        return value
    return int(value.ctypes.data) if isinstance(value, np.ndarray) else id(value)


def call_recorder(function: int) -> Make | None:
    """Returns what makes recorders with a native function; None for another interpreter."""
    if not python_table() or not _has_layout() or not has_native_methods():
        return None
    return lambda capacity, asked: NativeRecorder(function, capacity, asked)


class _Slots:
    """An object like the states of threads."""

    __slots__ = ("call", "number")

    def __init__(self, *values: object) -> None:
        self.call, self.number = values


def _has_layout() -> bool:
    """Checks where an object has its type and its slots."""
    value = object(), object()
    slots = _Slots(*value)
    places = (_OBJECT_TYPE, _STATE_CALL, _STATE_CALL + _WORD_BYTES)
    found = [ctypes.c_int64.from_address(id(slots) + place).value for place in places]
    return found == [id(each) for each in (_Slots, *value)]
