"""LLVM IR of the step program, which runs all calls of a step in one native call per inference.

A call runs entirely on the thread that runs the step, or it is shared among this thread (the
owner) and workers of the process. It is divided into a part for each thread, and a part into
chunks. A thread claims the chunks of its own part, and then those of the other parts. So it usually
computes the same part of consecutive calls, whose data are in its caches, and a thread that is late
is relieved of its work. A word in a *slot* describes the shared call; it has a number that is
different for every call. The state of each part is a word in a cache line of its own: the number of
the call, and the unclaimed chunks. A thread claims a chunk by compare-and-swap. A thread that the
system preempts holds no lock; it only delays the chunk it has claimed.

Slots and the words that workers wait for lie in the *pool*, memory that is never freed, so a late
worker merely reads a word that has changed. The data that a slot points to is only read after a
claim: the owner waits until the chunk is done.

Each chunk of a part is smaller than the one before. Its own thread claims the largest one first,
the others claim the smallest one first. Threads of different speed thus finish together.

If an execution has as many threads as there are cores, a worker stays on each core, since systems
that wake many threads at once put some on the same core, and leave others idle for milliseconds.
The worker of the owner's core does not help. If another program uses one of the cores again and
again, workers may run on all of them from then on.

Workers poll the slots for a while, then each sleeps on its own futex. The owner of a shared call
wakes the workers that may help.

A cancelled execution, or one past its deadline, stops before the next call, before the next chunk
of a shared call, and before the next piece of an unshared call; long calls are divided into many
pieces. Cancellation is signalled by words in memory (`hal.sync.cancellation.Cancellation`), and the
deadline is compared with the clock of `time.monotonic()`, so no other thread needs to run for it.
Reading the clock takes longer than a small kernel, so it is only read after records that together
take about `_CLOCK_NS`, by their estimated costs.

Control flow consists of records without a caller, whose function is an opcode: copies of bytes, a
branch that jumps if its BOOL is false, jumps, and the entry and the test of a loop. The entry
stores the time until which the loop may run; the test ends the loop if its BOOL is false, and the
step if that time has passed.

Kernels that follow each other may run in *bands*: a band of the last one's results, with what the
others compute for it, before the next band. No thread waits for the others between the kernels.
The bands are one call, whose caller is `neurald_call_bands`. The records of the kernels are beyond
those of the step. Results that only these kernels read are *streamed*: they are in scratch memory,
as much of them as a few bands need, which stays in the caches. Where two bands need the same
results of a kernel, a thread computes these only once, and two threads each compute the same.

If another program uses a worker's core, the system preempts the worker in the middle of a chunk,
and the owner sleeps for longer than the whole call takes. For some milliseconds, by the estimated
costs of calls, the next calls of all steps in this process are then not shared; this time doubles
if it happens again soon.

Layouts (offsets in bytes; integers of 64 bits unless a size is given):

    pool      0 steps that run (i32), 4 whether to quit (i32), 8 workers (i32),
              12 threads that may run at the same time (i32),
              16 time in which calls will not be shared (i32; in units of 8 µs, at least one
              for each call), 20 this time after the next long sleep (i32), 0 at first,
              SLEEP_FLAGS_OFFSET: for each worker, a cache line apart, 1 while it sleeps (i32);
              SLOTS_OFFSET: the slots;
              24 workers that stay on a core (i32);
              HOMES_OFFSET: for each core, the worker that stays on it, or NO_WORKER (i32);
              MASK_OFFSET: these cores, as bits; TASKS_OFFSET: the thread of each worker that stays
              on a core, as the system numbers it (i32)
    slot      0 word (number << 32 | chunks of a part << 16 | parts << 1 | whether chunks may be
              unclaimed), 64 chunks that are done,
              72 whether the owner sleeps (i32), 76 whether a chunk was skipped (i32),
              128 whether it has an owner (i32), 132 workers that may help (i32),
              136 record, 144 scratch, 152 scratch stride, 160 cancellation, 168 deadline,
              176 the worker that stays on the owner's core, or NO_WORKER (i32),
              PARTS_OFFSET: for each part, a cache line apart,
              number << 32 | first unclaimed chunk << 16 | end of the unclaimed chunks
    record    0 caller, 8 function, 16 arguments, 24 status, 32 work items, 40 parts (i32),
              44 chunks of a part (i32), 48 work items of a piece,
              56 estimated cost in nanoseconds;
              of control flow: 0 null, 8 opcode, 16 arguments, 32 bytes to copy or number of the
              loop, 40 position of the record to jump to, or bytes of the target of a copy
              before those that it writes, 56 estimated cost
    step      0 records, 8 their number, 16 scratch, 24 scratch stride,
              32 workers that may help, 40 pool, or null,
              48 cancellation, 56 deadline in nanoseconds, or 0,
              64 time that a loop may run, in nanoseconds, 72 deadline of each loop, or null,
              80 position of the first record to run
    bands     0 records of the kernels, 8 their number, 16 number of bands,
              24 bands that run together, 32 number of streamed values, 40 for each of these:
              where its buffer is in scratch memory and the size of this; then for each kernel:
              number of arguments, and for each of MAX_BANDED_ARGUMENTS, 1 + the number of the
              streamed value that it is, or 0; then for each kernel and band: the first work item
              that it needs, and the end of them; then for each streamed value and band: its first
              byte and the end of them. None of these decreases from band to band
"""

import os
from typing import Final

from neurald.drivers.cpu.native.programs.ring_serving import ring_serving_text
from neurald.drivers.cpu.native.programs.sizing_program import sizing_program_text
from neurald.drivers.cpu.native.python_calls.python_call import python_call_text
from neurald.drivers.cpu.native.python_calls.recorded_call import recorded_call_text
from neurald.drivers.cpu.target.executable import MAX_BANDED_ARGUMENTS, MAX_STREAMS, RECORD_WORDS, Opcode

#: The caller of bands.
BANDS_CALLER: Final = "neurald_call_bands"
#: The step program has the callers of functions with up to this many arguments.
COMMON_ARGUMENTS: Final = 16
#: Maximum number of workers, and of steps that share calls at the same time.
MAX_WORKERS: Final = 255
_SLOT_COUNT: Final = 16
#: Offsets in the pool, and the distance between words that different threads write; see above.
QUIT_OFFSET: Final = 4
WORKER_COUNT_OFFSET: Final = 8
THREAD_LIMIT_OFFSET: Final = 12
LINE_BYTES: Final = 64
_PARTS_OFFSET: Final = 192
_MAX_PARTS: Final = MAX_WORKERS + 1
_SLOT_BYTES: Final = _PARTS_OFFSET + _MAX_PARTS * LINE_BYTES
#: Maximum number of chunks of a part, which the words of slots and parts have 16 bits for.
MAX_CHUNKS_OF_PART: Final = (1 << 15) - 1
#: The states of parts are reset before their numbers can be mistaken for those of later calls: at
#: each number of a slot with these bits zero.
_FORGET_MASK: Final = (1 << 24) - 1
SLEEP_FLAGS_OFFSET: Final = LINE_BYTES
_SLOTS_OFFSET: Final = SLEEP_FLAGS_OFFSET + MAX_WORKERS * LINE_BYTES

#: For each core, the worker that stays on it; cores beyond these have none.
HOMES_OFFSET: Final = _SLOTS_OFFSET + _SLOT_COUNT * _SLOT_BYTES
MAX_CORES: Final = 1024
NO_WORKER: Final = MAX_WORKERS

#: The cores on which workers stay, as bits; and the thread of each of these workers.
MASK_OFFSET: Final = HOMES_OFFSET + 4 * MAX_CORES
MASK_BYTES: Final = MAX_CORES // 8
TASKS_OFFSET: Final = MASK_OFFSET + MASK_BYTES
#: Offset of the number of workers that stay on a core.
STAY_OFFSET: Final = 24

POOL_BYTES: Final = TASKS_OFFSET + 4 * (MAX_WORKERS + 1)
#: Added to the position of a record if the execution was stopped before its end, and to that of a
#: loop's test if the loop ran too long.
STOPPED: Final = 1 << 32
TIMED_OUT: Final = 1 << 33
#: Minimum cost of a shared call; sharing costs about a tenth of it.
MIN_SHARED_NS: Final = 5_000
#: Target time of a piece of an unshared call, which checks for cancellation between pieces.
PIECE_NS: Final = 2_000_000
#: Maximum number of chunks of a part whose call takes less time than a piece.
MAX_BALANCING_CHUNKS: Final = 4
#: Estimated duration of the records between two looks at the clock.
_CLOCK_NS: Final = 10_000

#: Polls of a worker before it sleeps.
_WORKER_POLLS: Final = 600
#: Polls of an owner that waits for the last chunk before it also yields its core to other threads,
#: and before it sleeps. A processor that idles may take as long as a call to wake up, a virtual one
#: longer.
_OWNER_POLLS: Final = 1000
_OWNER_YIELDS: Final = 1300
#: Duration of an owner's sleep, in nanoseconds, that indicates a preempted worker if the call is
#: estimated to take less time on one thread.
_LONG_SLEEP_NS: Final = 1_000_000
#: The unit of the time in which calls are not shared, as a power of two of nanoseconds, and the
#: minimum and maximum of this time: 4 and 134 ms.
_UNSHARED_UNIT_SHIFT: Final = 13
_MIN_UNSHARED: Final = 512
_MAX_UNSHARED: Final = 16_384

#: Workers no longer stay on cores if calls are not shared for this time.
_FREE_UNITS: Final = 2048

_SET_AFFINITY = {"x86_64": 203, "aarch64": 122, "riscv64": 122, "ppc64le": 222}
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221}
_YIELD = {"x86_64": 24, "aarch64": 124, "riscv64": 124, "ppc64le": 158}
_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}


def supports_sharing() -> bool:
    """Returns True if calls can be shared on this machine's architecture."""
    return os.uname().machine in _FUTEX


def futex_number(machine: str = "") -> int:
    """Returns the system call number of futex, or -1 if unknown.

    Args:
        machine: the architecture; that of this machine by default.
    """
    return _FUTEX.get(machine or os.uname().machine, -1)


def step_program_text(machine: str = "") -> str:
    """Returns the IR module of the step program.

    `neurald_run` runs a step. It returns the position of the record whose requirement failed, or
    the number of records; if it was stopped, the position of the unfinished record plus `STOPPED`;
    if a loop ran too long, the position of its test plus `TIMED_OUT`.
    `neurald_work` runs a worker; it returns when the worker has to quit. The functions of
    `python_call` run a step, too, those of `ring_serving` run steps for clients, and those of
    `sizing_program` compute the sizes of steps. It has the callers of functions with few arguments.

    Args:
        machine: the architecture; that of this machine by default.
    """
    from neurald.drivers.compiler.support.kernel_file import kernel_text

    declaration, pause = _PAUSES.get(machine or os.uname().machine, ("", ""))
    program = kernel_text(
        __name__,
        "step_program.ll",
        PAUSE_DECLARATION=declaration,
        RECORD_BYTES=8 * RECORD_WORDS,
        STOPPED=STOPPED,
        TIMED_OUT=TIMED_OUT,
        CLOCK_NS=_CLOCK_NS,
        SHARED_OF_PIECE=PIECE_NS // MIN_SHARED_NS,
        COPY=int(Opcode.COPY),
        BRANCH=int(Opcode.BRANCH),
        ENTER_LOOP=int(Opcode.ENTER_LOOP),
        TEST_LOOP=int(Opcode.TEST_LOOP),
        MAX_ARGUMENTS=MAX_BANDED_ARGUMENTS,
        MAX_STREAMS=MAX_STREAMS,
        SOURCES_BYTES=8 * (1 + MAX_BANDED_ARGUMENTS),
    )
    sharing = kernel_text(
        __name__,
        "work_sharing.ll",
        FUTEX=futex_number(machine),
        MIN_UNSHARED=_MIN_UNSHARED,
        LONG_SLEEP_NS=_LONG_SLEEP_NS,
        MAX_UNSHARED=_MAX_UNSHARED,
        OWNER_POLLS=_OWNER_POLLS,
        OWNER_YIELDS=_OWNER_YIELDS,
        FORGET_MASK=_FORGET_MASK,
        FREE_UNITS=_FREE_UNITS,
        MASK_BYTES=MASK_BYTES,
        MASK_OFFSET=MASK_OFFSET,
        SET_AFFINITY=_SET_AFFINITY.get(machine or os.uname().machine, -1),
        TASKS_OFFSET=TASKS_OFFSET,
        HOMES_OFFSET=HOMES_OFFSET,
        MAX_CORES=MAX_CORES,
        NO_WORKER=NO_WORKER,
        MAX_PARTS=_MAX_PARTS,
        PARTS_OFFSET=_PARTS_OFFSET,
        PAUSE=pause,
        SHORT_CHUNKS=MAX_BALANCING_CHUNKS,
        SLEEP_FLAGS_OFFSET=SLEEP_FLAGS_OFFSET,
        SLOTS_OFFSET=_SLOTS_OFFSET,
        SLOT_BYTES=_SLOT_BYTES,
        SLOT_COUNT=_SLOT_COUNT,
        UNSHARED_UNIT_SHIFT=_UNSHARED_UNIT_SHIFT,
        WORKER_POLLS=_WORKER_POLLS,
        YIELD=_YIELD.get(machine or os.uname().machine, -1),
    )
    callers = "\n".join(caller_text(count) for count in range(1, COMMON_ARGUMENTS + 1))
    serving = ring_serving_text(futex_number(machine), pause)
    calls = python_call_text() + recorded_call_text()
    return program + sharing + calls + serving + sizing_program_text() + callers


def caller_name(count: int) -> str:
    """Returns the name of the caller for functions with this many arguments."""
    return f"neurald_call_{count}"


def caller_text(count: int) -> str:
    """Returns a function that calls a routine's function with the pointers of a record."""
    loads = "".join(
        f"  %p{n} = getelementptr ptr, ptr %arguments, i64 {n}\n  %a{n} = load ptr, ptr %p{n}\n"
        for n in range(count)
    )
    pointers = "".join(f"ptr %a{n}, " for n in range(count))
    return (
        f"define void @{caller_name(count)}"
        "(ptr %function, ptr %arguments, ptr %scratch, ptr %status, i64 %begin, i64 %end) {\n"
        f"{loads}  call void %function({pointers}ptr %scratch, ptr %status, i64 %begin, i64 %end)\n"
        "  ret void\n}\n"
    )
