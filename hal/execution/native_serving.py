"""Rings that native code of a driver serves, without Python.

For a prepared model that `CallsNatively`, the ring of a client is served by native code as long as
each submission repeats one that Python has run before, and nothing unusual happens. Everything else
is left in the ring for Python: new requests, packets, limits of time, measured executions, and
executions that fail, which Python repeats to report what is wrong. What one function of native code
runs is bound by Python beforehand, so that the client's bytes only choose among calls.

The executions of native code pass a *gate*, which lets as many run at the same time as the device
runs efficiently. It counts those that Python runs as well, and lets Python run one only if there is
room. More are left to *runners*, threads of the gate, as many as executions may run.
The next one is that of the user with the least time, divided by its weight, and among the rings of
a user, that of the client with the least time. One that had nothing to do has no credit from that
time. A *share* counts the time of a user or client. It is that of the processor: where other
programs interrupt an execution, its client is not charged for that. Since native code only serves
executions that are short, they do not queue together with others, and the operating system divides
the processors among both.

Layouts, as offsets in bytes. Numbers have 64 bits, and 32 where (i32) is given:

    gate      lock (i32), whether it is closed (i32), rings that run (i32), how many may (i32),
              rings that wait (i32), threads that poll for entries (i32), how many threads may poll
              or run at the same time so that one polls (i32); the largest time of a user whose
              ring was started; number of executions, their time, and the time that they waited;
              the first ring that waits; until when no thread polls, because a thread that polled
              had to wait for a processor; runners (i32), on which word they sleep (i32); executions
              of Python that take room (i32), how many rings may run whatever Python runs (i32), how
              many may run then together with those (i32)
    share     time; executions that run or wait (i32); factor of its time; the largest time of a
              client of this user whose ring was started
    ring      memory; descriptor of the socket (i32); numbers of the last entries taken and put
              (i32), packets that were announced and read (i32), place in the gate's list (i32):
              0, `WAITING`, `TAKEN` by a runner, or that and `AWAITED` by the ring's thread; gate,
              share of the user, share of the client; the next ring that waits, and since when it
              waits; since when an execution runs, 0 if none does; cancellation, slot of
              breadcrumbs; how long waits usually take, how long the last execution took, what it is
              charged with; whether completions tell how long executions took (i32), whether waits
              begin with polling (i32); the call that is left to runners, and why it ended otherwise
              than by a completion; runners that use the ring (i32), descriptor by which they wake
              its thread (i32); number of the process; a call for each request, or null
    call      state (i32); instances of the model, binding of the arguments; the submission that
              runs it; inputs to copy and their number, outputs to copy and their number; the
              breadcrumb
    copy      target, source, length
    instances their number; from `INSTANCE_BYTES` on for each whether it is in use, and what runs it
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from neurald.hal.model.request import Request
from neurald.hal.process.threads.processors import PROCESSORS

GATE: Final = {
    "LOCK": 0,
    "CLOSED": 4,
    "RUNNING": 8,
    "LIMIT": 12,
    "WAITING": 16,
    "SPINNERS": 20,
    "SPIN_LIMIT": 24,
    "LEVEL": 32,
    "EXECUTIONS": 40,
    "BUSY": 48,
    "QUEUED": 56,
    "FIRST": 64,
    "CROWDED": 72,
    "RUNNERS": 80,
    "READY": 84,
    "BESIDE": 88,
    "OWN": 92,
    "MOST": 96,
}
GATE_BYTES: Final = 128
SHARE: Final = {"USED": 0, "ACTIVE": 8, "FACTOR": 16, "LEVEL": 24}
SHARE_BYTES: Final = 64
#: The factor of an ordinary share is 1 << FACTOR_SHIFT.
FACTOR_SHIFT: Final = 10
STATE: Final = {
    "RING": 0,
    "FD": 8,
    "TAKEN": 16,
    "PUT": 20,
    "PACKETS": 24,
    "PLACE": 28,
    "GATE": 32,
    "USER": 40,
    "CLIENT": 48,
    "NEXT": 56,
    "QUEUED": 64,
    "STARTED": 72,
    "CANCELLATION": 80,
    "ACTIVITY": 88,
    "USUAL": 96,
    "LAST": 104,
    "CHARGED": 112,
    "TELLS": 120,
    "SPINS": 124,
    "CALL": 128,
    "OUTCOME": 136,
    "HELD": 144,
    "WAKE": 148,
    "PROCESS": 152,
    "CALLS": 160,
}
CALL: Final = {
    "INSTANCES": 8,
    "BINDING": 16,
    "ENTRY": 24,
    "INPUT_COPIES": 48,
    "INPUT_COUNT": 56,
    "OUTPUT_COPIES": 64,
    "OUTPUT_COUNT": 72,
    "CRUMB": 80,
}
CRUMB_BYTES: Final = 32
CALL_BYTES: Final = CALL["CRUMB"] + CRUMB_BYTES
COPY_BYTES: Final = 24
INSTANCE_BYTES: Final = 16
#: States of a place in the gate's list, and of a call.
WAITING, TAKEN, AWAITED = 1, 2, 3
WITHDRAWN, ARMED, RUNS, LAST_RUN = range(4)
#: Why native code returns: something unusual is in the ring, nothing was for a while, it is time to
#: look at what it did, the model needs another instance, an execution was given up, or the gate
#: needs runners.
PYTHON, IDLE, REPORT, NEEDS_INSTANCE, GIVEN_UP, ARRIVED, NEEDS_RUNNERS = range(1, 8)

#: With fewer processors, the client and the thread of its ring take all of them while they poll,
#: and other threads of a call that polled as well would have both fall asleep.
_MIN_PROCESSORS: Final = 3

#: The native functions: serves a ring, withdraws a call, gives up an execution, is a runner, counts
#: more or fewer runners, takes room for an execution of Python, and gives it back.
SERVE_RING: Final = "neurald_serve_ring"
WITHDRAW_CALL: Final = "neurald_withdraw_call"
GIVE_UP_RING: Final = "neurald_give_up_ring"
RUN_WAITING: Final = "neurald_run_waiting"
ADD_RUNNERS: Final = "neurald_add_runners"
TAKE_ROOM: Final = "neurald_take_room"
GIVE_ROOM: Final = "neurald_give_room"
RING_FUNCTIONS: Final = (
    SERVE_RING,
    WITHDRAW_CALL,
    GIVE_UP_RING,
    RUN_WAITING,
    ADD_RUNNERS,
    TAKE_ROOM,
    GIVE_ROOM,
)


class NativeCall(Struct, frozen=True, kw_only=True, eq=False):
    """A call that native code makes for a request.

    Attributes:
        functions: addresses of `RING_FUNCTIONS`.
        instances: address of the model's instances.
        binding: address of the request's binding.
        grow: makes one more instance, unless there are as many as there may be.
        keep: lives as long as the call.
        alone: returns the same call for one thread, if it is so short that other threads make it
            longer unless they poll until it begins; None if it is not.
    """

    functions: Mapping[str, int]
    instances: int
    binding: int
    grow: Callable[[], object]
    keep: object
    alone: "Callable[[], NativeCall] | None" = None

    def for_ring(self, *, polls: bool) -> "NativeCall":
        """Returns the call that a ring makes: this one, or the same for one thread.

        Args:
            polls: whether the ring's thread polls between calls, as the client does.
        """
        if self.alone is None or (polls and PROCESSORS.count >= _MIN_PROCESSORS):
            return self
        return self.alone()


class CallsNatively(Protocol):
    """An optional interface of prepared models that native code can run."""

    def create_native_call(self, request: Request) -> NativeCall | None:
        """Returns the call of a valid request; None if native code cannot run it."""
        ...


def native_call(prepared_model: object, request: Request) -> NativeCall | None:
    """Calls `create_native_call`; returns None also for a prepared model without it."""
    create = getattr(prepared_model, "create_native_call", None)
    if create is None:
        return None
    call: NativeCall | None = create(request)
    return call
