"""LLVM IR of the thread pool: runs all calls of a step in one native call per inference.

A call runs entirely on the thread that runs the step, or is shared: it is divided into chunks,
which this thread (the owner) and the workers of the process claim one by one. Their only shared
state is a word in a *slot*: a number that is different for every shared call, and the count of
unclaimed chunks. A thread claims a chunk by decrementing the word with compare-and-swap. A thread
that the system preempts holds no lock; it only delays the chunk it has claimed.

Slots and the words that workers wait for lie in the *pool*, memory that is never freed, so a late
worker merely reads a word that has changed. The data that a slot points to is only read after a
claim: the owner waits until the chunk is done.

If there are more chunks than threads, each is smaller than the one before, and the last one is a
fraction of a thread's share. Threads of different speed thus finish together.

Workers poll the slots for a while, then each sleeps on its own futex. The owner of a shared call
wakes the workers that may help.

A cancelled execution, or one past its deadline, stops before the next call, before the next chunk
of a shared call, and before the next piece of an unshared call; long calls are divided into many
pieces. Cancellation is signalled by words in memory (`hal.sync.cancellation.Cancellation`), and the
deadline is compared with the clock of `time.monotonic()`, so no other thread needs to run for it.

If another program uses a worker's core, the system preempts the worker in the middle of a chunk,
and the owner sleeps for longer than the whole call takes. After that the next calls of all steps in
this process are not shared; their number doubles if it happens again soon.

Layouts (offsets in bytes; integers of 64 bits unless a size is given):

    pool      0 steps that run (i32), 4 whether to quit (i32), 8 workers (i32),
              12 threads that may run at the same time (i32),
              16 calls that will not be shared (i32),
              20 number of these after the next long sleep (i32), 0 at first,
              SLEEPS: for each worker, a cache line apart, 1 while it sleeps (i32);
              SLOTS: the slots
    slot      0 word (number << 32 | unclaimed chunks), 64 chunks that are done,
              72 whether the owner sleeps (i32), 76 whether a chunk was left out (i32),
              128 whether it has an owner (i32), 132 workers that may help (i32),
              136 record, 144 scratch, 152 scratch stride, 160 cancellation, 168 deadline
    record    0 caller, 8 function, 16 arguments, 24 status, 32 grains, 40 chunks, 48 pieces
    step      0 records, 8 their number, 16 scratch, 24 scratch stride,
              32 workers that may help, 40 pool, or null,
              48 cancellation, 56 deadline in nanoseconds, or 0
"""

import os
from typing import Final

from neurald.drivers.cpu.native.work_sharing import SHARING

#: Maximum number of workers, and of steps that share calls at the same time.
WORKERS: Final = 255
_SLOT_COUNT: Final = 16
#: Offsets in the pool, and the distance between words that different threads write; see above.
QUIT: Final = 4
WORKER_COUNT: Final = 8
MAX_THREADS: Final = 12
LINE: Final = 64
_SLOT_BYTES: Final = 192
SLEEPS: Final = LINE
_SLOTS: Final = SLEEPS + WORKERS * LINE

POOL_BYTES: Final = _SLOTS + _SLOT_COUNT * _SLOT_BYTES
RECORD_WORDS: Final = 7
#: Added to the position of a call if the execution was stopped before its end.
STOPPED: Final = 1 << 32

#: Polls of a worker before it sleeps, and of an owner that waits for the last chunk.
_WORKER_LOOKS: Final = 600
_OWNER_LOOKS: Final = 1000
#: Duration of an owner's sleep, in nanoseconds, that indicates a preempted worker, and the minimum
#: and maximum number of calls that are not shared after it.
_LONG_SLEEP_NS: Final = 1_000_000
_LEAST_WHOLE: Final = 128
_MAX_WHOLE: Final = 2048

_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221}
_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}


def supports_sharing() -> bool:
    """Returns True if calls can be shared on this machine's architecture."""
    return os.uname().machine in _FUTEX


def futex_number() -> int:
    """Returns the system call number of futex, or -1 if unknown."""
    return _FUTEX.get(os.uname().machine, -1)


def runtime_text() -> str:
    """Returns the IR module of the thread pool.

    `neurald_run` runs a step. It returns the position of the call whose requirement failed, or the
    number of calls; if it was stopped, the position of the unfinished call plus `STOPPED`.
    `neurald_work` is a worker; it returns when it is to quit.
    """
    machine = os.uname().machine
    declaration, pause = _PAUSES.get(machine, ("", ""))
    text = _TEXT + SHARING
    for name, value in (
        ("PAUSE_DECLARATION", declaration),
        ("PAUSE", pause),
        ("FUTEX", str(futex_number())),
        ("SLOT_COUNT", str(_SLOT_COUNT)),
        ("SLOT_BYTES", str(_SLOT_BYTES)),
        ("SLOTS", str(_SLOTS)),
        ("SLEEPS", str(SLEEPS)),
        ("WORKER_LOOKS", str(_WORKER_LOOKS)),
        ("OWNER_LOOKS", str(_OWNER_LOOKS)),
        ("LONG_SLEEP_NS", str(_LONG_SLEEP_NS)),
        ("STOPPED", str(STOPPED)),
        ("RECORD_BYTES", str(8 * RECORD_WORDS)),
        ("LEAST_WHOLE", str(_LEAST_WHOLE)),
        ("MOST_WHOLE", str(_MAX_WHOLE)),
    ):
        text = text.replace(f"${name}$", value)
    return text


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


_TEXT = """
declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
$PAUSE_DECLARATION$

define internal void @call(ptr %record, ptr %scratch, i64 %begin, i64 %end) {
  %caller = load ptr, ptr %record
  %p.function = getelementptr i8, ptr %record, i64 8
  %function = load ptr, ptr %p.function
  %p.arguments = getelementptr i8, ptr %record, i64 16
  %arguments = load ptr, ptr %p.arguments
  %p.status = getelementptr i8, ptr %record, i64 24
  %status = load ptr, ptr %p.status
  call void %caller(ptr %function, ptr %arguments, ptr %scratch, ptr %status, i64 %begin, i64 %end)
  ret void
}

; Whether the execution is cancelled, or late.
define internal i1 @must.stop(ptr %cancellation, i64 %deadline) {
  %time = alloca [2 x i64]
  %own = load atomic i64, ptr %cancellation monotonic, align 8
  %p.place = getelementptr i8, ptr %cancellation, i64 8
  %place = load ptr, ptr %p.place
  %seen = load atomic i32, ptr %place monotonic, align 4
  %p.value = getelementptr i8, ptr %cancellation, i64 16
  %value = load i32, ptr %p.value
  %is.own = icmp ne i64 %own, 0
  %is.other = icmp eq i32 %seen, %value
  %is.cancelled = or i1 %is.own, %is.other
  br i1 %is.cancelled, label %yes, label %limit
limit:
  %has.none = icmp eq i64 %deadline, 0
  br i1 %has.none, label %no, label %look
look:
  %now = call i64 @now(ptr %time)
  %late = icmp sge i64 %now, %deadline
  br i1 %late, label %yes, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Nanoseconds; %time is room for what the system says.
define internal i64 @now(ptr %time) {
  store i64 0, ptr %time
  %p.rest = getelementptr i8, ptr %time, i64 8
  store i64 0, ptr %p.rest
  %failed = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %whole = mul i64 %seconds, 1000000000
  %rest = load i64, ptr %p.rest
  %total = add i64 %whole, %rest
  ret i64 %total
}

define i64 @neurald_run(ptr %step) {
entry:
  %records = load ptr, ptr %step
  %p.count = getelementptr i8, ptr %step, i64 8
  %count = load i64, ptr %p.count
  %p.scratch = getelementptr i8, ptr %step, i64 16
  %scratch = load ptr, ptr %p.scratch
  %p.stride = getelementptr i8, ptr %step, i64 24
  %stride = load i64, ptr %p.stride
  %p.helpers = getelementptr i8, ptr %step, i64 32
  %helpers.wide = load i64, ptr %p.helpers
  %helpers = trunc i64 %helpers.wide to i32
  %p.pool = getelementptr i8, ptr %step, i64 40
  %pool = load ptr, ptr %p.pool
  %p.cancellation = getelementptr i8, ptr %step, i64 48
  %cancellation = load ptr, ptr %p.cancellation
  %p.deadline = getelementptr i8, ptr %step, i64 56
  %deadline = load i64, ptr %p.deadline
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %begin, label %enter
enter:
  %running = atomicrmw add ptr %pool, i32 1 seq_cst
  %slot.own = call ptr @acquire(ptr %pool)
  %full = icmp eq ptr %slot.own, null
  br i1 %full, label %begin, label %own
own:
  %p.limit = getelementptr i8, ptr %slot.own, i64 132
  store atomic i32 %helpers, ptr %p.limit monotonic, align 4
  %p.own.scratch = getelementptr i8, ptr %slot.own, i64 144
  store ptr %scratch, ptr %p.own.scratch
  %p.own.stride = getelementptr i8, ptr %slot.own, i64 152
  store i64 %stride, ptr %p.own.stride
  %p.own.cancellation = getelementptr i8, ptr %slot.own, i64 160
  store ptr %cancellation, ptr %p.own.cancellation
  %p.own.deadline = getelementptr i8, ptr %slot.own, i64 168
  store i64 %deadline, ptr %p.own.deadline
  br label %begin
begin:
  %slot = phi ptr [ null, %entry ], [ null, %enter ], [ %slot.own, %own ]
  %unshared = icmp eq ptr %slot, null
  br label %test
test:
  %index = phi i64 [ 0, %begin ], [ %next, %good ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %look, label %end
look:
  %stops = call i1 @must.stop(ptr %cancellation, i64 %deadline)
  br i1 %stops, label %stopped, label %body
body:
  %place = mul i64 %index, $RECORD_BYTES$
  %record = getelementptr i8, ptr %records, i64 %place
  %p.status = getelementptr i8, ptr %record, i64 24
  %status = load ptr, ptr %p.status
  store i32 0, ptr %status
  %p.chunks = getelementptr i8, ptr %record, i64 40
  %chunks = load i64, ptr %p.chunks
  %few = icmp ule i64 %chunks, 1
  %whole = or i1 %few, %unshared
  br i1 %whole, label %single, label %ask
ask:
  %may = call i1 @may.share(ptr %pool)
  br i1 %may, label %parallel, label %single
single:
  %p.grains = getelementptr i8, ptr %record, i64 32
  %grains = load i64, ptr %p.grains
  %p.pieces = getelementptr i8, ptr %record, i64 48
  %pieces = load i64, ptr %p.pieces
  br label %piece
piece:
  %number = phi i64 [ 0, %single ], [ %following, %more.pieces ]
  %following = add i64 %number, 1
  %begin.scaled = mul i64 %grains, %number
  %first = udiv i64 %begin.scaled, %pieces
  %end.scaled = mul i64 %grains, %following
  %last = udiv i64 %end.scaled, %pieces
  call void @call(ptr %record, ptr %scratch, i64 %first, i64 %last)
  %is.last = icmp uge i64 %following, %pieces
  br i1 %is.last, label %check, label %more.pieces
more.pieces:
  %stops.here = call i1 @must.stop(ptr %cancellation, i64 %deadline)
  br i1 %stops.here, label %stopped, label %piece
parallel:
  %is.whole = call i1 @share(ptr %pool, ptr %slot, ptr %record, i32 %helpers)
  br i1 %is.whole, label %check, label %stopped
stopped:
  %not.done = or i64 %index, $STOPPED$
  br label %end
check:
  %code = load i32, ptr %status
  %holds = icmp eq i32 %code, 0
  br i1 %holds, label %good, label %end
good:
  %next = add i64 %index, 1
  br label %test
end:
  %result = phi i64 [ %index, %test ], [ %index, %check ], [ %not.done, %stopped ]
  br i1 %alone, label %exit, label %leave
leave:
  %left = atomicrmw sub ptr %pool, i32 1 seq_cst
  br i1 %unshared, label %exit, label %release
release:
  %p.owner = getelementptr i8, ptr %slot, i64 128
  store atomic i32 0, ptr %p.owner release, align 4
  br label %exit
exit:
  ret i64 %result
}
"""
