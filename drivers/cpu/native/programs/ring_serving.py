"""LLVM IR of the functions that serve the rings of clients without Python.

They are a part of the step program, and follow the rules of
`neurald.hal.execution.native_serving`, which describes the layouts of memory. Those of a ring's own
memory, which the client can overwrite at any time, are in `neurald.hal.rpc.transport.ring_layout`:
each word of it is read once, and only compared with what Python has stored elsewhere.

A thread that waits for a submission polls for a while if few others run or poll, and if waits are
usually short. It yields its core again and again; if it does not get it back at once, other
programs want it, and no thread polls for some milliseconds.

While as many calls run as may, the thread of a ring leaves its call to the *runners*, threads that
run the calls of all rings one after the other, and waits for the client's next packet at once. A
runner that ends a call goes on with the next one itself: the processor neither idles nor changes
threads in between. The thread of the ring takes the call back if Python is needed.
"""

from typing import Final

from neurald.drivers.cpu.native.python_calls.python_call import CALL_WORDS
from neurald.hal.execution import native_serving
from neurald.hal.rpc.transport import ring_layout

_WORD_BYTES: Final = 8
#: How long a thread polls at most, beyond the usual time of a wait; waits that usually take longer
#: than `_LONG_WAIT_NS` begin with sleep.
_SPIN_NS: Final = 1_000_000
_LONG_WAIT_NS: Final = 2_000_000
#: Polls between two looks at the clock.
_POLLS: Final = 20
#: How often a thread that polls yields its core; how long it is away if others want it; and how
#: long no thread polls then.
_YIELD_NS: Final = 50_000
_AWAY_NS: Final = 30_000
_CROWDED_NS: Final = 5_000_000
#: How long a thread sleeps before it leaves the ring to Python.
_IDLE_MS: Final = 100
#: How long a thread that runs the calls of others stays without any.
_RUNNER_IDLE_S: Final = 2
_NS_PER_S: Final = 1_000_000_000
#: How often native code returns, so that Python sees what it did.
_REPORT_NS: Final = 1_000_000_000
#: What entering the gate has led to, apart from the reasons of `native_serving`, and how a call
#: ended.
_STARTED, _LEFT = -1, -2
_DONE, _FAILED, _LOST = range(3)
#: POLLERR, POLLHUP and POLLNVAL in the upper half of the events of a `struct pollfd`.
_POLL_FAILURES: Final = 0x38 << 16
#: MSG_PEEK, MSG_DONTWAIT and MSG_NOSIGNAL. The module `socket` takes long to import.
_PEEK: Final = 0x02
_DONT_WAIT: Final = 0x40
_NO_SIGNAL: Final = 0x4000


def ring_serving_text(futex: int, pause: str) -> str:
    """Returns the IR of the functions, which call `neurald_run_call`.

    Args:
        futex: number of the system call.
        pause: the instruction for loops that poll.
    """
    from neurald.drivers.compiler.support.kernel_file import kernel_text

    offsets = {
        f"{prefix}_{name}": offset
        for prefix, layout in (
            ("GATE", native_serving.GATE),
            ("SHARE", native_serving.SHARE),
            ("STATE", native_serving.STATE),
            ("CALL", native_serving.CALL),
        )
        for name, offset in layout.items()
        if (prefix, name) != ("GATE", "LOCK")
    }
    taken, sleeps = ring_layout.SUBMISSION
    put, peer_sleeps = ring_layout.COMPLETION
    word = ring_layout.WORD_BYTES
    return kernel_text(
        __name__,
        "ring_serving.ll",
        **offsets,
        FACTOR_SHIFT=native_serving.FACTOR_SHIFT,
        CRUMB_BYTES=native_serving.CRUMB_BYTES,
        COPY_BYTES=native_serving.COPY_BYTES,
        INSTANCE_BYTES=native_serving.INSTANCE_BYTES,
        WAITING=native_serving.WAITING,
        TAKEN=native_serving.TAKEN,
        AWAITED=native_serving.AWAITED,
        STARTED=_STARTED,
        LEFT=_LEFT,
        DONE=_DONE,
        FAILED=_FAILED,
        LOST=_LOST,
        WITHDRAWN=native_serving.WITHDRAWN,
        ARMED=native_serving.ARMED,
        RUNS=native_serving.RUNS,
        LAST_RUN=native_serving.LAST_RUN,
        PYTHON=native_serving.PYTHON,
        IDLE=native_serving.IDLE,
        REPORT=native_serving.REPORT,
        NEEDS_INSTANCE=native_serving.NEEDS_INSTANCE,
        NEEDS_RUNNERS=native_serving.NEEDS_RUNNERS,
        GIVEN_UP=native_serving.GIVEN_UP,
        ARRIVED=native_serving.ARRIVED,
        STEP=_WORD_BYTES * CALL_WORDS.index("STEP"),
        FINISHED=_WORD_BYTES * CALL_WORDS.index("FINISHED"),
        RING_NUMBER=word * taken,
        RING_SLEEPS=word * sleeps,
        RING_SUBMISSION=word * taken + ring_layout.ENTRY_OFFSET,
        RING_COMPLETED=word * put,
        RING_PEER_SLEEPS=word * peer_sleeps,
        RING_COMPLETION=word * put + ring_layout.ENTRY_OFFSET,
        RING_PACKETS=word * ring_layout.PACKETS,
        RING_WANTED_STAMPS=word * ring_layout.WANTED_STAMPS,
        RING_STAMPS=ring_layout.STAMPS_OFFSET,
        REQUESTS=ring_layout.MAX_REQUESTS,
        WAKE=ring_layout.WAKE,
        WAKE_BYTES=ring_layout.WAKE_BYTES,
        DONT_WAIT=_DONT_WAIT,
        PEEK=_DONT_WAIT | _PEEK,
        SEND_FLAGS=_DONT_WAIT | _NO_SIGNAL,
        POLL_FAILURES=_POLL_FAILURES,
        SPIN_NS=_SPIN_NS,
        LONG_WAIT_NS=_LONG_WAIT_NS,
        POLLS=_POLLS,
        YIELD_NS=_YIELD_NS,
        AWAY_NS=_AWAY_NS,
        CROWDED_NS=_CROWDED_NS,
        IDLE_MS=_IDLE_MS,
        RUNNER_IDLE_S=_RUNNER_IDLE_S,
        RUNNER_IDLE_NS=_RUNNER_IDLE_S * _NS_PER_S,
        REPORT_NS=_REPORT_NS,
        FUTEX=futex,
        PAUSE=pause,
    )
