; Shares calls among the owner of a slot and the workers; see step_program.py.

; Claims a chunk of the call that the slot's word %word describes, and runs it as thread %thread.
; Returns true if it claimed one; false if none is left, and then the slot is closed.
define internal i1 @claim(ptr %slot, i64 %word, i64 %thread) {
entry:
  %number = lshr i64 %word, 32
  %parts.shifted = lshr i64 %word, 1
  %parts = and i64 %parts.shifted, 32767
  %chunks.shifted = lshr i64 %word, 16
  %chunks = and i64 %chunks.shifted, 65535
  %first = urem i64 %thread, %parts
  br label %test
test:
  %steps = phi i64 [ 0, %entry ], [ %steps.next, %other ]
  %more = icmp ult i64 %steps, %parts
  br i1 %more, label %choose, label %none
choose:
  %sum = add i64 %first, %steps
  %rest = sub i64 %sum, %parts
  %is.low = icmp ult i64 %sum, %parts
  %part = select i1 %is.low, i64 %sum, i64 %rest
  %line = shl i64 %part, 6
  %line.offset = add i64 %line, $PARTS_OFFSET
  %p.state = getelementptr i8, ptr %slot, i64 %line.offset
  br label %look
look:
  %state = load atomic i64, ptr %p.state acquire, align 8
  %state.number = lshr i64 %state, 32
  %age.wide = sub i64 %number, %state.number
  %age = trunc i64 %age.wide to i32
  %is.over = icmp slt i32 %age, 0
  br i1 %is.over, label %lost, label %read
read:
  ; The state of an earlier call means that no chunk of this one is claimed.
  %is.new = icmp sgt i32 %age, 0
  %begin.seen = lshr i64 %state, 16
  %begin.old = and i64 %begin.seen, 65535
  %end.old = and i64 %state, 65535
  %begin.chunk = select i1 %is.new, i64 0, i64 %begin.old
  %end.chunk = select i1 %is.new, i64 %chunks, i64 %end.old
  %has.some = icmp ult i64 %begin.chunk, %end.chunk
  br i1 %has.some, label %take, label %other
other:
  %steps.next = add i64 %steps, 1
  br label %test
take:
  ; A thread takes the largest chunk of its own part, and the smallest of another.
  %is.own = icmp eq i64 %part, %thread
  %last = sub i64 %end.chunk, 1
  %after.first = add i64 %begin.chunk, 1
  %chunk = select i1 %is.own, i64 %begin.chunk, i64 %last
  %begin.new = select i1 %is.own, i64 %after.first, i64 %begin.chunk
  %end.new = select i1 %is.own, i64 %end.chunk, i64 %last
  %number.placed = shl i64 %number, 32
  %begin.placed = shl i64 %begin.new, 16
  %ends = or i64 %begin.placed, %end.new
  %state.new = or i64 %number.placed, %ends
  %swap = cmpxchg ptr %p.state, i64 %state, i64 %state.new acq_rel acquire
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %run, label %look
run:
  %p.record = getelementptr i8, ptr %slot, i64 136
  %record = load ptr, ptr %p.record
  %p.scratch = getelementptr i8, ptr %slot, i64 144
  %scratch = load ptr, ptr %p.scratch
  %p.stride = getelementptr i8, ptr %slot, i64 152
  %stride = load i64, ptr %p.stride
  %p.work.items = getelementptr i8, ptr %record, i64 32
  %work.items = load i64, ptr %p.work.items
  %part.next = add i64 %part, 1
  %part.scaled = mul i64 %work.items, %part
  %part.begin = udiv i64 %part.scaled, %parts
  %next.scaled = mul i64 %work.items, %part.next
  %part.end = udiv i64 %next.scaled, %parts
  %size = sub i64 %part.end, %part.begin
  ; What is left before and after a chunk decreases with the square of the number of chunks.
  %left = sub i64 %chunks, %chunk
  %left.next = sub i64 %left, 1
  %all.squared = mul i64 %chunks, %chunks
  %left.squared = mul i64 %left, %left
  %next.squared = mul i64 %left.next, %left.next
  %before.scaled = mul i64 %size, %left.squared
  %left.before = udiv i64 %before.scaled, %all.squared
  %after.scaled = mul i64 %size, %next.squared
  %left.after = udiv i64 %after.scaled, %all.squared
  %begin = sub i64 %part.end, %left.before
  %end = sub i64 %part.end, %left.after
  %offset = mul i64 %stride, %thread
  %own = getelementptr i8, ptr %scratch, i64 %offset
  %p.cancellation = getelementptr i8, ptr %slot, i64 160
  %cancellation = load ptr, ptr %p.cancellation
  %p.deadline = getelementptr i8, ptr %slot, i64 168
  %deadline = load i64, ptr %p.deadline
  %stops = call i1 @must.stop(ptr %cancellation, i64 %deadline)
  br i1 %stops, label %skip, label %compute
skip:
  %p.skipped = getelementptr i8, ptr %slot, i64 76
  store atomic i32 1, ptr %p.skipped monotonic, align 4
  br label %count
compute:
  %is.empty = icmp uge i64 %begin, %end
  br i1 %is.empty, label %count, label %work
work:
  call void @call(ptr %record, ptr %own, i64 %begin, i64 %end)
  br label %count
count:
  %done = getelementptr i8, ptr %slot, i64 64
  %before = atomicrmw add ptr %done, i64 1 seq_cst
  %p.sleeps = getelementptr i8, ptr %slot, i64 72
  %sleeps = load atomic i32, ptr %p.sleeps seq_cst, align 4
  %none.sleeps = icmp eq i32 %sleeps, 0
  br i1 %none.sleeps, label %ran, label %wake
wake:
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %done, i32 129, i32 1)
  br label %ran
ran:
  ret i1 true
none:
  %closed = and i64 %word, -2
  %closing = cmpxchg ptr %slot, i64 %word, i64 %closed acq_rel monotonic
  br label %lost
lost:
  ret i1 false
}

; Forgets the states of all parts of a slot, which belong to calls before the one with a number.
define internal void @forget(ptr %slot, i64 %number) {
entry:
  %last = sub i64 %number, 1
  %low = and i64 %last, 4294967295
  %state = shl i64 %low, 32
  br label %part
part:
  %index = phi i64 [ 0, %entry ], [ %next, %part ]
  %line = shl i64 %index, 6
  %offset = add i64 %line, $PARTS_OFFSET
  %p.state = getelementptr i8, ptr %slot, i64 %offset
  store atomic i64 %state, ptr %p.state release, align 8
  %next = add i64 %index, 1
  %more = icmp ult i64 %next, $MAX_PARTS
  br i1 %more, label %part, label %end
end:
  ret void
}

; Wakes those of the first %helpers workers, except that of the owner's core, that sleep, as far as
; the limit on threads allows.
define internal void @wake(ptr %pool, ptr %slot, i32 %helpers) {
entry:
  %p.apart = getelementptr i8, ptr %slot, i64 176
  %apart = load atomic i32, ptr %p.apart monotonic, align 4
  %running = load atomic i32, ptr %pool seq_cst, align 4
  %p.most = getelementptr i8, ptr %pool, i64 12
  %most = load atomic i32, ptr %p.most monotonic, align 4
  %free = sub i32 %most, %running
  %fewer = icmp slt i32 %free, %helpers
  %chosen = select i1 %fewer, i32 %free, i32 %helpers
  %is.among = icmp slt i32 %apart, %chosen
  %one = zext i1 %is.among to i32
  %wanted = add i32 %chosen, %one
  %p.workers = getelementptr i8, ptr %pool, i64 8
  %workers = load atomic i32, ptr %p.workers monotonic, align 4
  %few = icmp slt i32 %workers, %wanted
  %count = select i1 %few, i32 %workers, i32 %wanted
  br label %test
test:
  %worker = phi i32 [ 0, %entry ], [ %next, %continue ]
  %more = icmp slt i32 %worker, %count
  br i1 %more, label %choose, label %end
choose:
  %is.apart = icmp eq i32 %worker, %apart
  br i1 %is.apart, label %continue, label %look
look:
  %wide = zext i32 %worker to i64
  %line = shl i64 %wide, 6
  %offset = add i64 %line, $SLEEP_FLAGS_OFFSET
  %p.sleeps = getelementptr i8, ptr %pool, i64 %offset
  %sleeps = load atomic i32, ptr %p.sleeps seq_cst, align 4
  %awake = icmp eq i32 %sleeps, 0
  br i1 %awake, label %continue, label %take
take:
  %slept = atomicrmw xchg ptr %p.sleeps, i32 0 seq_cst
  %too.late = icmp eq i32 %slept, 0
  br i1 %too.late, label %continue, label %wake
wake:
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %p.sleeps, i32 129, i32 1)
  br label %continue
continue:
  %next = add i32 %worker, 1
  br label %test
end:
  ret void
}

; Shares a call. Returns true if all chunks ran, and false if one was skipped.
define internal i1 @share(ptr %pool, ptr %slot, ptr %record, i32 %helpers) {
entry:
  %time = alloca [2 x i64]
  %p.division = getelementptr i8, ptr %record, i64 40
  %division = load i64, ptr %p.division
  %parts = and i64 %division, 4294967295
  %most.chunks = lshr i64 %division, 32
  ; Lengths that change leave less work than the record was divided for: a part of few pieces has
  ; no more chunks than a short one.
  %p.work.items = getelementptr i8, ptr %record, i64 32
  %work.items = load i64, ptr %p.work.items
  %p.piece = getelementptr i8, ptr %record, i64 48
  %piece.items = load i64, ptr %p.piece
  %whole.pieces = udiv i64 %work.items, %piece.items
  %more.pieces = add i64 %whole.pieces, $SHORT_CHUNKS
  %has.many = icmp ugt i64 %most.chunks, %more.pieces
  %chunks.of.part = select i1 %has.many, i64 %more.pieces, i64 %most.chunks
  %chunks = mul i64 %parts, %chunks.of.part
  %p.record = getelementptr i8, ptr %slot, i64 136
  store ptr %record, ptr %p.record
  %p.skipped = getelementptr i8, ptr %slot, i64 76
  store atomic i32 0, ptr %p.skipped monotonic, align 4
  %done = getelementptr i8, ptr %slot, i64 64
  store atomic i64 0, ptr %done release, align 8
  %last = load atomic i64, ptr %slot acquire, align 8
  %number = lshr i64 %last, 32
  %number.next = add i64 %number, 1
  ; The states of parts are compared with the number, which overflows.
  %phase = and i64 %number.next, $FORGET_MASK
  %is.due = icmp eq i64 %phase, 0
  br i1 %is.due, label %forget, label %publish
forget:
  call void @forget(ptr %slot, i64 %number.next)
  br label %publish
publish:
  %number.placed = shl i64 %number.next, 32
  %chunks.placed = shl i64 %chunks.of.part, 16
  %parts.placed = shl i64 %parts, 1
  %counts = or i64 %chunks.placed, %parts.placed
  %open = or i64 %counts, 1
  %word = or i64 %number.placed, %open
  %old = atomicrmw xchg ptr %slot, i64 %word seq_cst
  call void @wake(ptr %pool, ptr %slot, i32 %helpers)
  br label %work
work:
  %won = call i1 @claim(ptr %slot, i64 %word, i64 0)
  br i1 %won, label %work, label %wait
wait:
  %polls = phi i64 [ 0, %work ], [ %polls.next, %again ]
  %finished = load atomic i64, ptr %done acquire, align 8
  %is.over = icmp sge i64 %finished, %chunks
  br i1 %is.over, label %end, label %look
look:
  $PAUSE
  %polls.next = add i64 %polls, 1
  %is.patient = icmp sgt i64 %polls, $OWNER_POLLS
  br i1 %is.patient, label %yield, label %again
yield:
  ; Another thread may need this core, perhaps the one that is waited for.
  %is.exhausted = icmp sgt i64 %polls, $OWNER_YIELDS
  br i1 %is.exhausted, label %sleep, label %give
give:
  %given = call i64 (i64, ...) @syscall(i64 $YIELD)
  br label %again
sleep:
  %p.sleeps = getelementptr i8, ptr %slot, i64 72
  store atomic i32 1, ptr %p.sleeps seq_cst, align 4
  %seen = load atomic i64, ptr %done seq_cst, align 8
  %over.now = icmp sge i64 %seen, %chunks
  br i1 %over.now, label %awake, label %park
park:
  %expected = trunc i64 %seen to i32
  %fell.asleep = call i64 @now(ptr %time)
  %parked = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %done, i32 128, i32 %expected, ptr null)
  %woke = call i64 @now(ptr %time)
  %slept = sub i64 %woke, %fell.asleep
  %p.cost = getelementptr i8, ptr %record, i64 56
  %cost = load i64, ptr %p.cost
  %is.brief = icmp slt i64 %cost, $LONG_SLEEP_NS
  %usual = select i1 %is.brief, i64 $LONG_SLEEP_NS, i64 %cost
  %long = icmp sgt i64 %slept, %usual
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
  %skipped = load atomic i32, ptr %p.skipped monotonic, align 4
  %is.whole = icmp eq i32 %skipped, 0
  ret i1 %is.whole
}

; Disables sharing for some time. It doubles each time, up to a maximum.
define internal void @avoid(ptr %pool) {
  %p.whole = getelementptr i8, ptr %pool, i64 16
  %p.next = getelementptr i8, ptr %pool, i64 20
  %next = load atomic i32, ptr %p.next monotonic, align 4
  %few = icmp slt i32 %next, $MIN_UNSHARED
  %units = select i1 %few, i32 $MIN_UNSHARED, i32 %next
  store atomic i32 %units, ptr %p.whole monotonic, align 4
  %twice = mul i32 %units, 2
  %many = icmp sgt i32 %twice, $MAX_UNSHARED
  %limited = select i1 %many, i32 $MAX_UNSHARED, i32 %twice
  store atomic i32 %limited, ptr %p.next monotonic, align 4
  ; A thread that stays on a core that another program uses would be late again and again.
  %is.repeated = icmp sge i32 %units, $FREE_UNITS
  br i1 %is.repeated, label %free, label %end
free:
  call void @free.workers(ptr %pool)
  br label %end
end:
  ret void
}

; Lets workers that stay on a core each run on any of these cores from now on.
define internal void @free.workers(ptr %pool) {
entry:
  %p.stay = getelementptr i8, ptr %pool, i64 24
  %stay = atomicrmw xchg ptr %p.stay, i32 0 seq_cst
  %mask = getelementptr i8, ptr %pool, i64 $MASK_OFFSET
  br label %test
test:
  %worker = phi i32 [ 0, %entry ], [ %next, %free ]
  %more = icmp slt i32 %worker, %stay
  br i1 %more, label %free, label %homes
free:
  %wide = zext i32 %worker to i64
  %place = shl i64 %wide, 2
  %offset = add i64 %place, $TASKS_OFFSET
  %p.task = getelementptr i8, ptr %pool, i64 %offset
  %task = load atomic i32, ptr %p.task monotonic, align 4
  %freed = call i64 (i64, ...) @syscall(i64 $SET_AFFINITY, i32 %task, i64 $MASK_BYTES, ptr %mask)
  %next = add i32 %worker, 1
  br label %test
homes:
  %core = phi i64 [ 0, %test ], [ %core.next, %forget ]
  %more.cores = icmp ult i64 %core, $MAX_CORES
  br i1 %more.cores, label %forget, label %end
forget:
  %home.place = shl i64 %core, 2
  %home.offset = add i64 %home.place, $HOMES_OFFSET
  %p.home = getelementptr i8, ptr %pool, i64 %home.offset
  store atomic i32 $NO_WORKER, ptr %p.home monotonic, align 4
  %core.next = add i64 %core, 1
  br label %homes
end:
  ret void
}

; Returns true if a call may be shared; otherwise it counts down the time until calls may.
define internal i1 @may.share(ptr %pool, ptr %record) {
  %p.cost = getelementptr i8, ptr %record, i64 56
  %cost = load i64, ptr %p.cost
  %cost.units = lshr i64 %cost, $UNSHARED_UNIT_SHIFT
  %whole.units = add i64 %cost.units, 1
  %units = trunc i64 %whole.units to i32
  %p.whole = getelementptr i8, ptr %pool, i64 16
  %whole = load atomic i32, ptr %p.whole monotonic, align 4
  %free = icmp sle i32 %whole, 0
  br i1 %free, label %yes, label %no
yes:
  ; Shared calls shorten the time after the next long sleep.
  %p.next = getelementptr i8, ptr %pool, i64 20
  %next = load atomic i32, ptr %p.next monotonic, align 4
  %none = icmp sle i32 %next, 0
  br i1 %none, label %shared, label %less
less:
  %lower = sub i32 %next, %units
  store atomic i32 %lower, ptr %p.next monotonic, align 4
  br label %shared
shared:
  ret i1 true
no:
  %left = sub i32 %whole, %units
  store atomic i32 %left, ptr %p.whole monotonic, align 4
  ret i1 false
}

; Acquires a free slot. Returns null if all slots have owners.
define internal ptr @acquire(ptr %pool) {
entry:
  br label %test
test:
  %index = phi i64 [ 0, %entry ], [ %next, %other ]
  %more = icmp ult i64 %index, $SLOT_COUNT
  br i1 %more, label %try, label %none
try:
  %slot.offset = mul i64 %index, $SLOT_BYTES
  %offset = add i64 %slot.offset, $SLOTS_OFFSET
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

; Returns the number of a worker among the threads of a slot; 0 if it shares the owner's core.
define internal i32 @thread.of(ptr %slot, i32 %worker) {
  %p.apart = getelementptr i8, ptr %slot, i64 176
  %apart = load atomic i32, ptr %p.apart monotonic, align 4
  %is.same = icmp eq i32 %worker, %apart
  %is.before = icmp slt i32 %worker, %apart
  %after = add i32 %worker, 1
  %number = select i1 %is.before, i32 %after, i32 %worker
  %result = select i1 %is.same, i32 0, i32 %number
  ret i32 %result
}

; Returns the worker of the core that this thread runs on, or a number that no worker has.
define internal i32 @worker.here(ptr %pool) {
  %core = call i32 @sched_getcpu()
  %is.known = icmp ult i32 %core, $MAX_CORES
  br i1 %is.known, label %look, label %none
look:
  %wide = zext i32 %core to i64
  %place = shl i64 %wide, 2
  %offset = add i64 %place, $HOMES_OFFSET
  %p.home = getelementptr i8, ptr %pool, i64 %offset
  %home = load atomic i32, ptr %p.home monotonic, align 4
  ret i32 %home
none:
  ret i32 $NO_WORKER
}

; Returns the word of a slot if the worker may claim a chunk of it, else 0.
define internal i64 @open(ptr %pool, ptr %slot, i32 %worker) {
  %word = load atomic i64, ptr %slot acquire, align 8
  %open = and i64 %word, 1
  %none = icmp eq i64 %open, 0
  br i1 %none, label %no, label %limits
limits:
  %thread = call i32 @thread.of(ptr %slot, i32 %worker)
  %p.limit = getelementptr i8, ptr %slot, i64 132
  %limit = load atomic i32, ptr %p.limit monotonic, align 4
  %is.few = icmp sle i32 %thread, %limit
  %is.apart = icmp sgt i32 %thread, 0
  %wanted = and i1 %is.few, %is.apart
  %running = load atomic i32, ptr %pool monotonic, align 4
  %before = sub i32 %thread, 1
  %threads = add i32 %running, %before
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

; Claims chunks of every slot as long as there are any. Returns true if it claimed one, or if
; %only.check is set and there is one.
define internal i1 @help(ptr %pool, i32 %worker, i1 %only.check) {
entry:
  br label %test
test:
  %index = phi i64 [ 0, %entry ], [ %next, %closed ]
  %found = phi i1 [ false, %entry ], [ %got.last, %closed ]
  %more = icmp ult i64 %index, $SLOT_COUNT
  br i1 %more, label %slot, label %end
slot:
  %slot.offset = mul i64 %index, $SLOT_BYTES
  %offset = add i64 %slot.offset, $SLOTS_OFFSET
  %address = getelementptr i8, ptr %pool, i64 %offset
  br label %look
look:
  %got = phi i1 [ %found, %slot ], [ true, %take ]
  %word = call i64 @open(ptr %pool, ptr %address, i32 %worker)
  %none = icmp eq i64 %word, 0
  br i1 %none, label %closed, label %opened
opened:
  br i1 %only.check, label %seen, label %take
take:
  ; The owner is the same as before, since a claim would fail for a later call.
  %number = call i32 @thread.of(ptr %address, i32 %worker)
  %thread = zext i32 %number to i64
  %won = call i1 @claim(ptr %address, i64 %word, i64 %thread)
  br i1 %won, label %look, label %closed
closed:
  %got.last = phi i1 [ %got, %look ], [ %got, %take ]
  %next = add i64 %index, 1
  br label %test
seen:
  ret i1 true
end:
  ret i1 %found
}

; Runs a worker until it has to quit.
define void @neurald_work(ptr %pool, i64 %worker.wide) {
entry:
  %worker = trunc i64 %worker.wide to i32
  %line = shl i64 %worker.wide, 6
  %offset = add i64 %line, $SLEEP_FLAGS_OFFSET
  %p.sleeps = getelementptr i8, ptr %pool, i64 %offset
  %p.quit = getelementptr i8, ptr %pool, i64 4
  br label %work
work:
  %polls = phi i64 [ 0, %entry ], [ %counted, %rest ], [ 0, %awake ]
  %helped = call i1 @help(ptr %pool, i32 %worker, i1 false)
  %more = add i64 %polls, 1
  %counted = select i1 %helped, i64 0, i64 %more
  %is.exhausted = icmp sgt i64 %counted, $WORKER_POLLS
  br i1 %is.exhausted, label %sleep, label %rest
rest:
  $PAUSE
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
  %parked = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %p.sleeps, i32 128, i32 1, ptr null)
  br label %awake
awake:
  %slept = atomicrmw xchg ptr %p.sleeps, i32 0 seq_cst
  br label %work
leave:
  ret void
}
