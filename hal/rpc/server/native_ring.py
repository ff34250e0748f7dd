"""Serves a ring by native code of a driver; see `neurald.hal.execution.native_serving`."""

import ctypes
import itertools
import os
import socket
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec import Struct

from neurald.hal.admission.executions.native_gate import GatePlace
from neurald.hal.buffers.staging import ByteCopy
from neurald.hal.crashes.breadcrumbs import ActivitySlot
from neurald.hal.errors import ResourceExhaustedTransient
from neurald.hal.execution.native_serving import (
    ARMED,
    CALL,
    CALL_BYTES,
    COPY_BYTES,
    GIVE_UP_RING,
    NEEDS_RUNNERS,
    PYTHON,
    SERVE_RING,
    STATE,
    WITHDRAW_CALL,
    WITHDRAWN,
    NativeCall,
)
from neurald.hal.rpc.transport.ring_end import RingEnd
from neurald.hal.rpc.transport.ring_layout import MAX_REQUESTS
from neurald.hal.sync.cancellation import Cancellation

_POINTER_BYTES: Final = 8
_STATE_BYTES: Final = STATE["CALLS"] + _POINTER_BYTES * MAX_REQUESTS
_NS_PER_S: Final = 1e9
#: The result of giving up an execution that a runner runs.
_RUNNER: Final = 2

_Serve = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
# These take less than a microsecond, and keep the interpreter's lock.
_Withdraw = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_GiveUp = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


class _Kept(Struct, frozen=True, kw_only=True, eq=False):
    """The objects that must live as long as a call may be made."""

    call: NativeCall
    watch: "weakref.ReferenceType[Any]"
    copies: tuple[object, ...]


class NativeRing:
    """The native side of a ring's server. Only its thread calls `add`, `forget` and `serve`.

    Args:
        functions: see `NativeCall`.
        ring: the daemon's end.
        connection: its socket.
        cancellation: the cancellation of its executions, which watches the ring.
        activity: the slot of the thread.
        place: where its executions wait for their turn.
        tells_times: whether completions tell how long executions took.
        spins: whether it polls for submissions before it sleeps.

    Raises:
        ResourceExhaustedTransient: there is no descriptor by which runners wake its thread.
    """

    def __init__(
        self,
        functions: Mapping[str, int],
        ring: RingEnd,
        connection: socket.socket,
        cancellation: Cancellation,
        activity: ActivitySlot,
        place: GatePlace,
        *,
        tells_times: bool = False,
        spins: bool = True,
    ) -> None:
        self._serve: Any = _Serve(functions[SERVE_RING])
        self._withdraw_call: Any = _Withdraw(functions[WITHDRAW_CALL])
        self._give_up: Any = _GiveUp(functions[GIVE_UP_RING])
        self._functions = functions
        self._ring = ring
        self._gate = place.gate
        self._gate.begin_native(functions)
        self._owners = cancellation, place
        try:
            wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except OSError as error:
            raise ResourceExhaustedTransient(f"a ring gets no descriptor: {error.strerror}") from None
        weakref.finalize(self, os.close, wake).atexit = False
        # Native code may look at a call that is being withdrawn, so all of them live as long.
        self._memory = (ctypes.c_char * (_STATE_BYTES + CALL_BYTES * MAX_REQUESTS))()
        self._address = ctypes.addressof(self._memory)
        self._taken, self._put, self._packets = map(self._number, ("TAKEN", "PUT", "PACKETS"))
        self._started = ctypes.c_int64.from_buffer(self._memory, STATE["STARTED"])
        self._last = ctypes.c_int64.from_buffer(self._memory, STATE["LAST"])
        #: The objects that each call needs until it is withdrawn, by a number that no other call
        #: has: the withdrawal of an earlier call of a request must not drop those of the present
        #: one.
        self._kept: dict[int, _Kept] = {}
        self._serials = itertools.count(1)
        #: The present call of each request.
        self._present: dict[int, int] = {}
        for name, value in (
            ("RING", ring.address),
            ("GATE", place.gate.address),
            ("USER", place.user.address),
            ("CLIENT", place.client.address),
            ("CANCELLATION", cancellation.address),
            ("ACTIVITY", activity.address),
            # Stamps have it. To ask for it each time would take a system call.
            ("PROCESS", os.getpid()),
        ):
            self._set(STATE[name], value)
        self._number("FD").value, self._number("WAKE").value = connection.fileno(), wake
        self._number("TELLS").value, self._number("SPINS").value = int(tells_times), int(spins)

    def _number(self, name: str) -> ctypes.c_uint32:
        return ctypes.c_uint32.from_buffer(self._memory, STATE[name])

    def _set(self, offset: int, value: int) -> None:
        ctypes.c_int64.from_buffer(self._memory, offset).value = value

    def _state_of(self, number: int) -> ctypes.c_int32:
        return ctypes.c_int32.from_buffer(self._memory, _call_offset(number))

    @property
    def is_useful(self) -> bool:
        """True if there is a call that it may run."""
        return bool(self._kept)

    @property
    def last_run_s(self) -> float:
        """The duration of the last execution in seconds."""
        return self._last.value / _NS_PER_S

    @property
    def started_ns(self) -> int:
        """See `NativeRuns.started_ns`."""
        return self._started.value

    def give_up(self, started_ns: int) -> bool:
        """See `NativeRuns.give_up`."""
        who = self._give_up(self._address, started_ns)
        if who == _RUNNER:
            self._gate.start_runners(self._functions)  # in place of the one that hangs
        return bool(who)

    def add(
        self,
        number: int,
        entry: bytes,
        call: NativeCall,
        inputs: Sequence[ByteCopy],
        outputs: Sequence[ByteCopy],
        crumb: bytes,
        owner: object,
    ) -> None:
        """Lets native code run a request.

        Args:
            number: the number of the request.
            entry: the submission that runs it.
            call: what it runs.
            inputs, outputs: the copies before and after.
            crumb: what breadcrumbs say meanwhile.
            owner: the owner of the call, which is withdrawn when the owner is gone.
        """
        self.forget(number)
        lists = _copies(inputs), _copies(outputs)
        offset = _call_offset(number)
        for name, value in (
            ("INSTANCES", call.instances),
            ("BINDING", call.binding),
            ("INPUT_COPIES", lists[0].ctypes.data),
            ("INPUT_COUNT", len(inputs)),
            ("OUTPUT_COPIES", lists[1].ctypes.data),
            ("OUTPUT_COUNT", len(outputs)),
        ):
            self._set(offset + CALL[name], value)
        for name, content in (("ENTRY", entry[: CALL["INPUT_COPIES"] - CALL["ENTRY"]]), ("CRUMB", crumb)):
            ctypes.memmove(self._address + offset + CALL[name], content, len(content))
        serial = self._present[number] = next(self._serials)
        watch = weakref.ref(owner, _withdrawal(self, number, serial))
        self._kept[serial] = _Kept(call=call, watch=watch, copies=(lists, tuple(inputs), tuple(outputs)))
        self._state_of(number).value = ARMED
        self._set(STATE["CALLS"] + _POINTER_BYTES * number, self._address + offset)

    def grow(self, number: int) -> None:
        """Makes one more instance of the model of a request, if native code may run it.

        Raises:
            Error: there is no memory for it.
        """
        kept = self._kept.get(self._present.get(number, 0))
        if kept is not None:
            kept.call.grow()

    def may_run(self, number: int) -> bool:
        """Returns whether native code may run a request."""
        return self._present.get(number, 0) in self._kept

    def forget(self, number: int) -> None:
        """Stops native code from running a request."""
        self._set(STATE["CALLS"] + _POINTER_BYTES * number, 0)
        self.withdraw(number, self._present.pop(number, 0))

    def withdraw(self, number: int, serial: int) -> None:
        """Drops what a call needs; if it runs, its thread does that after it. Any thread may call.

        Args:
            number: the number of the request. If another call of it is the present one, that is
                withdrawn, too.
            serial: the serial of the call.
        """
        if self._withdraw_call(self._address + _call_offset(number)):
            self._kept.pop(serial, None)

    def serve(self) -> int:
        """Serves the ring until Python is needed; returns why."""
        self._taken.value, self._put.value, self._packets.value = self._ring.numbers
        try:
            reason = NEEDS_RUNNERS
            while reason == NEEDS_RUNNERS:
                reason = int(self._serve(self._address))
                if reason == NEEDS_RUNNERS and not self._gate.start_runners(self._functions):
                    return PYTHON
            return reason
        finally:
            self._ring.resume(self._taken.value, self._put.value)
            for number in tuple(self._present):
                if self._state_of(number).value != ARMED:
                    self._state_of(number).value = WITHDRAWN
                    self._set(STATE["CALLS"] + _POINTER_BYTES * number, 0)
                    self._kept.pop(self._present.pop(number), None)

    def clear(self) -> None:
        """Drops all calls."""
        for number in tuple(self._present):
            self.forget(number)


def _withdrawal(ring: NativeRing, number: int, serial: int) -> Callable[[object], None]:
    """Returns what happens when the owner of a call is gone; it does not keep the ring alive."""
    return partial(_withdraw, weakref.ref(ring), number, serial)


def _withdraw(reference: "weakref.ReferenceType[NativeRing]", number: int, serial: int, _: object) -> None:
    ring = reference()
    if ring is not None:
        ring.withdraw(number, serial)


def _call_offset(number: int) -> int:
    return _STATE_BYTES + CALL_BYTES * number


def _copies(copies: Sequence[ByteCopy]) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Returns copies as native code reads them."""
    rows = [(target.ctypes.data, source.ctypes.data, target.nbytes) for target, source in copies]
    return np.array(rows, np.int64).reshape(len(rows), COPY_BYTES // _POINTER_BYTES)
