"""The code that runs a step's calls, in LLVM's language: one native call for each inference.

A call is run whole by the thread that runs the step, or is shared: it is divided into chunks, and the thread and the workers
of the process claim them one by one. All they have in common is one word in a *slot*: a number that is another one for every
shared call, and how many chunks nobody has claimed yet. Whoever lowers it by compare-and-swap has a chunk for himself; a thread
that the system holds back claims nothing, and holds nobody up but with the chunk that it is in.

Slots and what workers wait for lie in the *pool*, memory that is never freed, so that a worker that is late only ever reads a
word that is no longer what it was. What the word's owner points to is read after a claim only: until the chunk is done, its
owner waits.

Where there are more chunks than threads, each is smaller than the one before, the last one a fraction of a thread's share: threads of
different speed come to an end together.

Workers look at the slots for a while, then sleep on a futex of their own. Whoever shares a call wakes those that may help.

An execution that is cancelled, or whose deadline passes, is left before the next call, before the next chunk of a shared call and
before the next piece of a call that is run whole: long calls are divided into many. What says that it is cancelled are words in
memory (`neurald.hal.cancellation.Cancellation`), and the deadline is compared with the clock of `time.monotonic()`: no other thread
has to run for it.

Where another program has the core of a worker, the system takes it away from the worker in the midst of a chunk, and the owner
sleeps for longer than the whole call takes. After that the next calls of all steps in this process are run whole: the more of them,
the sooner it happens again.

Layouts (offsets in bytes; integers of 64 bits unless a size is given):

    pool      0 steps that run (i32), 4 whether to quit (i32), 8 workers (i32), 12 threads that may run at the same time (i32),
              16 calls yet to be run whole (i32), 20 how many these will be after the next long sleep (i32), 0 at first,
              SLEEPS: for each worker, a cache line apart, 1 while it sleeps (i32); SLOTS: the slots
    slot      0 word (number << 32 | unclaimed chunks), 64 chunks that are done, 72 whether the owner sleeps (i32),
              76 whether a chunk was left out (i32), 128 whether it has an owner (i32), 132 workers that may help (i32),
              136 record, 144 scratch, 152 scratch stride, 160 cancellation, 168 deadline
    record    0 caller, 8 function, 16 arguments, 24 status, 32 grains, 40 chunks, 48 pieces
    step      0 records, 8 their number, 16 scratch, 24 scratch stride, 32 workers that may help, 40 pool, or null
"""

import os
from typing import Final

#: How many workers there may be, and steps that share calls at the same time.
WORKERS: Final = 255
_SLOT_COUNT: Final = 16
#: Offsets in the pool, and how far apart what different threads write is, see above.
QUIT: Final = 4
WORKER_COUNT: Final = 8
MOST_THREADS: Final = 12
LINE: Final = 64
_SLOT_BYTES: Final = 192
SLEEPS: Final = LINE
_SLOTS: Final = SLEEPS + WORKERS * LINE

POOL_BYTES: Final = _SLOTS + _SLOT_COUNT * _SLOT_BYTES
RECORD_WORDS: Final = 7
#: What is added to the position of a call, where an execution was left before the end of it.
STOPPED: Final = 1 << 32

#: How often a worker looks for a chunk before it sleeps, and an owner for the end of the last one.
_WORKER_LOOKS: Final = 600
_OWNER_LOOKS: Final = 1000
#: A sleep of an owner that is no part of any sensible division of a call, in nanoseconds; and how many calls are run whole after it,
#: at least and at most.
_LONG_SLEEP_NS: Final = 1_000_000
_LEAST_WHOLE: Final = 128
_MOST_WHOLE: Final = 2048

_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221}
_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}


def can_share() -> bool:
    """Whether calls can be shared on this machine's architecture."""
    return os.uname().machine in _FUTEX


def futex_number() -> int:
    """The number of the system call by which threads sleep and are woken; -1: there is none that is known."""
    return _FUTEX.get(os.uname().machine, -1)


def runtime_text() -> str:
    """A module with the functions of the runtime.

    `neurald_run` runs a step, given a cancellation and a deadline in nanoseconds (0: none). It returns the position of the call
    whose requirement failed, or the number of calls; where it was stopped, the position of the call that is not done, and `STOPPED`.
    `neurald_work` is a worker; it returns when it is to quit.
    """
    machine = os.uname().machine
    declaration, pause = _PAUSES.get(machine, ("", ""))
    text = _TEXT
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
        ("MOST_WHOLE", str(_MOST_WHOLE)),
    ):
        text = text.replace(f"${name}$", value)
    return text


def caller_name(count: int) -> str:
    """The function that calls functions of so many arguments."""
    return f"neurald_call_{count}"


def caller_text(count: int) -> str:
    """A function that calls a routine's function with the pointers of a record."""
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

; Claims a chunk, if the word is still %word, and runs it as thread %thread. Whether there was one.
define internal i1 @claim(ptr %slot, i64 %word, i64 %thread) {
  %less = sub i64 %word, 1
  %swap = cmpxchg ptr %slot, i64 %word, i64 %less acq_rel acquire
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %run, label %lost
run:
  %p.record = getelementptr i8, ptr %slot, i64 136
  %record = load ptr, ptr %p.record
  %p.scratch = getelementptr i8, ptr %slot, i64 144
  %scratch = load ptr, ptr %p.scratch
  %p.stride = getelementptr i8, ptr %slot, i64 152
  %stride = load i64, ptr %p.stride
  %p.grains = getelementptr i8, ptr %record, i64 32
  %grains = load i64, ptr %p.grains
  %p.chunks = getelementptr i8, ptr %record, i64 40
  %chunks = load i64, ptr %p.chunks
  %unclaimed = and i64 %word, 4294967295
  %after = sub i64 %unclaimed, 1
  %p.limit = getelementptr i8, ptr %slot, i64 132
  %helpers = load atomic i32, ptr %p.limit monotonic, align 4
  %helpers.wide = zext i32 %helpers to i64
  %last = sub i64 %chunks, 1
  %one.each = icmp ule i64 %last, %helpers.wide
  %before.factor = select i1 %one.each, i64 1, i64 %unclaimed
  %after.factor = select i1 %one.each, i64 1, i64 %after
  %all.factor = select i1 %one.each, i64 1, i64 %chunks
  %before.share = mul i64 %unclaimed, %before.factor
  %after.share = mul i64 %after, %after.factor
  %all.shares = mul i64 %chunks, %all.factor
  %before.scaled = mul i64 %grains, %before.share
  %left.before = udiv i64 %before.scaled, %all.shares
  %after.scaled = mul i64 %grains, %after.share
  %left.after = udiv i64 %after.scaled, %all.shares
  %begin = sub i64 %grains, %left.before
  %end = sub i64 %grains, %left.after
  %offset = mul i64 %stride, %thread
  %own = getelementptr i8, ptr %scratch, i64 %offset
  %p.cancellation = getelementptr i8, ptr %slot, i64 160
  %cancellation = load ptr, ptr %p.cancellation
  %p.deadline = getelementptr i8, ptr %slot, i64 168
  %deadline = load i64, ptr %p.deadline
  %stops = call i1 @must.stop(ptr %cancellation, i64 %deadline)
  br i1 %stops, label %leave.out, label %compute
leave.out:
  %p.left.out = getelementptr i8, ptr %slot, i64 76
  store atomic i32 1, ptr %p.left.out monotonic, align 4
  br label %count
compute:
  call void @call(ptr %record, ptr %own, i64 %begin, i64 %end)
  br label %count
count:
  %done = getelementptr i8, ptr %slot, i64 64
  %before = atomicrmw add ptr %done, i64 1 seq_cst
  %p.sleeps = getelementptr i8, ptr %slot, i64 72
  %sleeps = load atomic i32, ptr %p.sleeps seq_cst, align 4
  %nobody = icmp eq i32 %sleeps, 0
  br i1 %nobody, label %ran, label %wake
wake:
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %done, i32 129, i32 1)
  br label %ran
ran:
  ret i1 true
lost:
  ret i1 false
}

; Wakes the workers that may help and sleep.
define internal void @wake(ptr %pool, i32 %helpers) {
entry:
  %running = load atomic i32, ptr %pool seq_cst, align 4
  %p.most = getelementptr i8, ptr %pool, i64 12
  %most = load atomic i32, ptr %p.most monotonic, align 4
  %free = sub i32 %most, %running
  %fewer = icmp slt i32 %free, %helpers
  %wanted = select i1 %fewer, i32 %free, i32 %helpers
  %p.workers = getelementptr i8, ptr %pool, i64 8
  %workers = load atomic i32, ptr %p.workers monotonic, align 4
  %few = icmp slt i32 %workers, %wanted
  %count = select i1 %few, i32 %workers, i32 %wanted
  br label %test
test:
  %worker = phi i32 [ 0, %entry ], [ %next, %continue ]
  %more = icmp slt i32 %worker, %count
  br i1 %more, label %look, label %end
look:
  %wide = zext i32 %worker to i64
  %line = shl i64 %wide, 6
  %offset = add i64 %line, $SLEEPS$
  %p.sleeps = getelementptr i8, ptr %pool, i64 %offset
  %sleeps = load atomic i32, ptr %p.sleeps seq_cst, align 4
  %awake = icmp eq i32 %sleeps, 0
  br i1 %awake, label %continue, label %take
take:
  %slept = atomicrmw xchg ptr %p.sleeps, i32 0 seq_cst
  %too.late = icmp eq i32 %slept, 0
  br i1 %too.late, label %continue, label %wake
wake:
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %p.sleeps, i32 129, i32 1)
  br label %continue
continue:
  %next = add i32 %worker, 1
  br label %test
end:
  ret void
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

; Whether all chunks were run, and none was left out.
define internal i1 @share(ptr %pool, ptr %slot, ptr %record, i32 %helpers) {
entry:
  %time = alloca [2 x i64]
  %p.chunks = getelementptr i8, ptr %record, i64 40
  %chunks = load i64, ptr %p.chunks
  %p.record = getelementptr i8, ptr %slot, i64 136
  store ptr %record, ptr %p.record
  %p.left.out = getelementptr i8, ptr %slot, i64 76
  store atomic i32 0, ptr %p.left.out monotonic, align 4
  %done = getelementptr i8, ptr %slot, i64 64
  store atomic i64 0, ptr %done release, align 8
  %last = load atomic i64, ptr %slot acquire, align 8
  %number = lshr i64 %last, 32
  %number.next = add i64 %number, 1
  %shifted = shl i64 %number.next, 32
  %first = or i64 %shifted, %chunks
  %old = atomicrmw xchg ptr %slot, i64 %first seq_cst
  call void @wake(ptr %pool, i32 %helpers)
  br label %work
work:
  %word = load atomic i64, ptr %slot acquire, align 8
  %unclaimed = and i64 %word, 4294967295
  %none = icmp eq i64 %unclaimed, 0
  br i1 %none, label %wait, label %take
take:
  %won = call i1 @claim(ptr %slot, i64 %word, i64 0)
  br label %work
wait:
  %looks = phi i64 [ 0, %work ], [ %looks.next, %again ]
  %finished = load atomic i64, ptr %done acquire, align 8
  %is.over = icmp sge i64 %finished, %chunks
  br i1 %is.over, label %end, label %look
look:
  $PAUSE$
  %looks.next = add i64 %looks, 1
  %tired = icmp sgt i64 %looks, $OWNER_LOOKS$
  br i1 %tired, label %sleep, label %again
sleep:
  %p.sleeps = getelementptr i8, ptr %slot, i64 72
  store atomic i32 1, ptr %p.sleeps seq_cst, align 4
  %seen = load atomic i64, ptr %done seq_cst, align 8
  %over.now = icmp sge i64 %seen, %chunks
  br i1 %over.now, label %awake, label %park
park:
  %expected = trunc i64 %seen to i32
  %fell.asleep = call i64 @now(ptr %time)
  %parked = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %done, i32 128, i32 %expected, ptr null)
  %woke = call i64 @now(ptr %time)
  %slept = sub i64 %woke, %fell.asleep
  %long = icmp sgt i64 %slept, $LONG_SLEEP_NS$
  br i1 %long, label %avoid, label %awake
avoid:
  call void @avoid(ptr %pool)
  br label %awake
awake:
  store atomic i32 0, ptr %p.sleeps seq_cst, align 4
  br label %again
again:
  br label %wait
end:
  %left.out = load atomic i32, ptr %p.left.out monotonic, align 4
  %is.whole = icmp eq i32 %left.out, 0
  ret i1 %is.whole
}

; Has the next calls run whole, twice as many as the last time.
define internal void @avoid(ptr %pool) {
  %p.whole = getelementptr i8, ptr %pool, i64 16
  %p.next = getelementptr i8, ptr %pool, i64 20
  %next = load atomic i32, ptr %p.next monotonic, align 4
  %few = icmp slt i32 %next, $LEAST_WHOLE$
  %calls = select i1 %few, i32 $LEAST_WHOLE$, i32 %next
  store atomic i32 %calls, ptr %p.whole monotonic, align 4
  %twice = mul i32 %calls, 2
  %many = icmp sgt i32 %twice, $MOST_WHOLE$
  %limited = select i1 %many, i32 $MOST_WHOLE$, i32 %twice
  store atomic i32 %limited, ptr %p.next monotonic, align 4
  ret void
}

; Whether a call may be shared, or is one of those that are to be run whole.
define internal i1 @may.share(ptr %pool) {
  %p.whole = getelementptr i8, ptr %pool, i64 16
  %whole = load atomic i32, ptr %p.whole monotonic, align 4
  %free = icmp sle i32 %whole, 0
  br i1 %free, label %yes, label %no
yes:
  ; What comes after the next long sleep gets less with every call that is shared.
  %p.next = getelementptr i8, ptr %pool, i64 20
  %next = load atomic i32, ptr %p.next monotonic, align 4
  %none = icmp sle i32 %next, 0
  br i1 %none, label %shared, label %less
less:
  %lower = sub i32 %next, 1
  store atomic i32 %lower, ptr %p.next monotonic, align 4
  br label %shared
shared:
  ret i1 true
no:
  %left = sub i32 %whole, 1
  store atomic i32 %left, ptr %p.whole monotonic, align 4
  ret i1 false
}

; A slot of one's own; null: all have owners.
define internal ptr @acquire(ptr %pool) {
entry:
  br label %test
test:
  %index = phi i64 [ 0, %entry ], [ %next, %other ]
  %more = icmp ult i64 %index, $SLOT_COUNT$
  br i1 %more, label %try, label %none
try:
  %place = mul i64 %index, $SLOT_BYTES$
  %offset = add i64 %place, $SLOTS$
  %slot = getelementptr i8, ptr %pool, i64 %offset
  %p.owner = getelementptr i8, ptr %slot, i64 128
  %swap = cmpxchg ptr %p.owner, i32 0, i32 1 acq_rel acquire
  %won = extractvalue { i32, i1 } %swap, 1
  br i1 %won, label %found, label %other
other:
  %next = add i64 %index, 1
  br label %test
found:
  ret ptr %slot
none:
  ret ptr null
}

define i64 @neurald_run(ptr %step, ptr %cancellation, i64 %deadline) {
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

; The word of a slot if there is an unclaimed chunk that the worker may claim, else 0.
define internal i64 @open(ptr %pool, ptr %slot, i32 %worker) {
  %word = load atomic i64, ptr %slot acquire, align 8
  %unclaimed = and i64 %word, 4294967295
  %none = icmp eq i64 %unclaimed, 0
  br i1 %none, label %no, label %limits
limits:
  %p.limit = getelementptr i8, ptr %slot, i64 132
  %limit = load atomic i32, ptr %p.limit monotonic, align 4
  %wanted = icmp slt i32 %worker, %limit
  %running = load atomic i32, ptr %pool monotonic, align 4
  %threads = add i32 %running, %worker
  %p.most = getelementptr i8, ptr %pool, i64 12
  %most = load atomic i32, ptr %p.most monotonic, align 4
  %has.room = icmp slt i32 %threads, %most
  %may = and i1 %wanted, %has.room
  br i1 %may, label %yes, label %no
yes:
  ret i64 %word
no:
  ret i64 0
}

; Claims what it can from every slot once. Whether it got any.
define internal i1 @help(ptr %pool, i32 %worker, i1 %only.look) {
entry:
  %wide = zext i32 %worker to i64
  %thread = add i64 %wide, 1
  br label %test
test:
  %index = phi i64 [ 0, %entry ], [ %next, %closed ]
  %found = phi i1 [ false, %entry ], [ %got, %closed ]
  %more = icmp ult i64 %index, $SLOT_COUNT$
  br i1 %more, label %slot, label %end
slot:
  %place = mul i64 %index, $SLOT_BYTES$
  %offset = add i64 %place, $SLOTS$
  %address = getelementptr i8, ptr %pool, i64 %offset
  br label %look
look:
  %got = phi i1 [ %found, %slot ], [ true, %take ]
  %word = call i64 @open(ptr %pool, ptr %address, i32 %worker)
  %none = icmp eq i64 %word, 0
  br i1 %none, label %closed, label %opened
opened:
  br i1 %only.look, label %seen, label %take
take:
  %won = call i1 @claim(ptr %address, i64 %word, i64 %thread)
  br label %look
closed:
  %next = add i64 %index, 1
  br label %test
seen:
  ret i1 true
end:
  ret i1 %found
}

define void @neurald_work(ptr %pool, i64 %worker.wide) {
entry:
  %worker = trunc i64 %worker.wide to i32
  %line = shl i64 %worker.wide, 6
  %offset = add i64 %line, $SLEEPS$
  %p.sleeps = getelementptr i8, ptr %pool, i64 %offset
  %p.quit = getelementptr i8, ptr %pool, i64 4
  br label %work
work:
  %looks = phi i64 [ 0, %entry ], [ %counted, %rest ], [ 0, %awake ]
  %helped = call i1 @help(ptr %pool, i32 %worker, i1 false)
  %more = add i64 %looks, 1
  %counted = select i1 %helped, i64 0, i64 %more
  %tired = icmp sgt i64 %counted, $WORKER_LOOKS$
  br i1 %tired, label %sleep, label %rest
rest:
  $PAUSE$
  br label %work
sleep:
  %awake.before = atomicrmw xchg ptr %p.sleeps, i32 1 seq_cst
  %quit = load atomic i32, ptr %p.quit seq_cst, align 4
  %stays = icmp eq i32 %quit, 0
  br i1 %stays, label %last.look, label %leave
last.look:
  %missed = call i1 @help(ptr %pool, i32 %worker, i1 true)
  br i1 %missed, label %awake, label %park
park:
  %parked = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %p.sleeps, i32 128, i32 1, ptr null)
  br label %awake
awake:
  %slept = atomicrmw xchg ptr %p.sleeps, i32 0 seq_cst
  br label %work
leave:
  ret void
}
"""
