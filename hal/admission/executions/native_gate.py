"""The gate of the executions that native code runs; see `neurald.hal.execution.native_serving`.

The same users that share the device's other executions by their weights share these.
"""

import ctypes
import os
import threading
import time
from collections.abc import Hashable, Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

from msgspec import Struct

from neurald.hal.execution.native_serving import (
    ADD_RUNNERS,
    FACTOR_SHIFT,
    GATE,
    GATE_BYTES,
    GIVE_ROOM,
    RUN_WAITING,
    SHARE,
    SHARE_BYTES,
    TAKE_ROOM,
)
from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.process.threads.time_slices import use_ordinary_time_slices

_NS_PER_S: Final = 1e9
#: How long a number that this process has written may take until all threads see it, and how long a
#: thread may hold the lock of a gate while it waits for a processor.
_VISIBLE_S: Final = 1e-4
_MAX_LOCKED_S: Final = 1.0

_RunWaiting = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# Changes a number, takes less than a microsecond, and keeps the interpreter's lock.
_Change = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


class NativeShare:
    """The time of a user, or of one of its clients.

    Args:
        weight: the weight by which the time is divided.
    """

    def __init__(self, weight: float = 1.0) -> None:
        self._memory = (ctypes.c_char * SHARE_BYTES)()
        #: The address for native code.
        self.address: Final = ctypes.addressof(self._memory)
        factor = max(1, round((1 << FACTOR_SHIFT) / weight))
        ctypes.c_int64.from_buffer(self._memory, SHARE["FACTOR"]).value = factor

    @property
    def used_s(self) -> float:
        """The time so far, divided by the weight."""
        return ctypes.c_int64.from_buffer(self._memory, SHARE["USED"]).value / _NS_PER_S


class NativeGate:
    """Lets native code run some executions at the same time. Native code changes its numbers.

    It also has room for executions of Python (`take`), so that it alone counts what runs.
    Implements `Rooms`.

    Args:
        limit: how many.
        weights: the weights of users; 1 for all others. They may change until a user's first share.
        cores: how many this process may use; None asks the system.
        guests: how many more may run if Python and native code compete for room.
    """

    def __init__(
        self, limit: int, weights: Mapping[Hashable, float], cores: int | None = None, *, guests: int = 0
    ) -> None:
        self._weights = weights
        self._memory = (ctypes.c_char * GATE_BYTES)()
        #: The address for native code.
        self.address: Final = ctypes.addressof(self._memory)
        self._locked, self._closed = map(self._number, ("LOCK", "CLOSED"))
        self._running, self._waiting = map(self._number, ("RUNNING", "WAITING"))
        self._executions, self._busy, self._queued = map(self._sum, ("EXECUTIONS", "BUSY", "QUEUED"))
        self._limit = limit
        self._number("LIMIT").value = limit
        self._beside = self._number("BESIDE")
        self._most = limit + guests
        self._number("MOST").value = self._most
        self._number("OWN").value = (limit + 1) // 2
        #: Protects what Python takes until there is native code, and that there is.
        self._room_lock = threading.Lock()
        self._take_room: Any = None
        self._give_room: Any = None
        self._runners_lock = threading.Lock()
        cores = cores or len(os.sched_getaffinity(0))
        # The clients of those who poll need processors, too.
        self._number("SPIN_LIMIT").value = max(1, cores // 2)
        self._users: WeakValueDictionary[Hashable, NativeShare] = WeakValueDictionary()
        self._users_lock = threading.Lock()

    def _number(self, name: str) -> ctypes.c_int32:
        return ctypes.c_int32.from_buffer(self._memory, GATE[name])

    def _sum(self, name: str) -> ctypes.c_int64:
        return ctypes.c_int64.from_buffer(self._memory, GATE[name])

    @property
    def running(self) -> int:
        """The number of executions that run."""
        return self._running.value

    @property
    def waiting(self) -> int:
        """The number of executions that wait."""
        return self._waiting.value

    @property
    def executions(self) -> int:
        """The number of executions that have ended."""
        return self._executions.value

    @property
    def busy_s(self) -> float:
        """The time of executions, all together, in seconds."""
        return self._busy.value / _NS_PER_S

    @property
    def queue_s(self) -> float:
        """The time that executions waited, all together, in seconds."""
        return self._queued.value / _NS_PER_S

    @property
    def taken(self) -> int:
        """See `Rooms.taken`."""
        return self._running.value + self._beside.value

    def take(self, most: int) -> bool:
        """See `Rooms.take`. Room is left for executions of native code that wait."""
        with self._room_lock:
            if self._take_room is not None:
                return bool(self._take_room(self.address, most))
            has_room = self._beside.value < min(most, self._most)
            self._beside.value += has_room
            return has_room

    def give_back(self, count: int) -> None:
        """See `Rooms.give_back`. Executions of native code that wait begin."""
        with self._room_lock:
            if self._give_room is not None:
                self._give_room(self.address, count)
            else:
                self._beside.value -= count

    def begin_native(self, functions: Mapping[str, int]) -> None:
        """Lets native code take room from now on; must be called before it does.

        Args:
            functions: see `NativeCall`.
        """
        with self._room_lock:
            if self._take_room is None:
                self._take_room = _Change(functions[TAKE_ROOM])
                self._give_room = _Change(functions[GIVE_ROOM])

    def start_runners(self, functions: Mapping[str, int]) -> bool:
        """Starts as many threads that run what rings leave to them as executions may run.

        They end once they have nothing to do for a while.

        Args:
            functions: see `NativeCall`.

        Returns:
            Whether there are as many.
        """
        add: Any = _Change(functions[ADD_RUNNERS])
        run: Any = _RunWaiting(functions[RUN_WAITING])
        with self._runners_lock:
            while add(self.address, 0) < self._limit:
                add(self.address, 1)
                thread = CheckedThread(
                    target=_run_waiting, args=(run, self._memory), name="neurald runner", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # the process has too many threads, or too little address space
                    add(self.address, -1)
                    return False
        return True

    def close(self) -> None:
        """Lets no further execution run; they are left to Python."""
        self._closed.value = 1

    @property
    def is_empty(self) -> bool:
        """True if nothing runs or waits, and nothing will. The gate is closed.

        Numbers that are read while native code changes them may miss an execution: one that found
        the gate open and is not counted yet, or one that has waited and is about to run. Native
        code holds the gate's lock meanwhile. Once it was free, only the last execution may have
        been missed.
        """
        end_s = time.monotonic() + _MAX_LOCKED_S
        while not self.running and not self.waiting:
            time.sleep(_VISIBLE_S)
            if not self._locked.value or time.monotonic() > end_s:
                return not self.running and not self.waiting
        return False

    def share_of(self, user: Hashable) -> NativeShare:
        """Returns the share of a user, which all of its clients use."""
        with self._users_lock:
            share = self._users.get(user)
            if share is None:
                share = self._users[user] = NativeShare(self._weights.get(user, 1.0))
            return share


def _run_waiting(run: Any, memory: "ctypes.Array[ctypes.c_char]") -> None:
    use_ordinary_time_slices()  # short ones would interrupt the executions of many clients
    run(ctypes.addressof(memory))


class GatePlace(Struct, frozen=True, kw_only=True, eq=False):
    """The place at which the executions of a client wait for their turn.

    Attributes:
        gate: the gate that lets them run.
        user: the share of the client's user.
        client: the share of the client.
    """

    gate: NativeGate
    user: NativeShare
    client: NativeShare
