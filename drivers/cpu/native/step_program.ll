; Runs the calls of a step one after another. step_program.py describes the layouts of memory.

declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare ptr @memmove(ptr, ptr, i64)
$PAUSE_DECLARATION

; Runs the work items %begin to %end - 1 of a call.
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

; Returns true if the execution is cancelled.
define internal i1 @is.cancelled(ptr %cancellation) {
  %own = load atomic i64, ptr %cancellation monotonic, align 8
  %p.word = getelementptr i8, ptr %cancellation, i64 8
  %word = load ptr, ptr %p.word
  %seen = load atomic i32, ptr %word monotonic, align 4
  %p.value = getelementptr i8, ptr %cancellation, i64 16
  %value = load i32, ptr %p.value
  %is.own = icmp ne i64 %own, 0
  %is.other = icmp eq i32 %seen, %value
  %is.cancelled = or i1 %is.own, %is.other
  ret i1 %is.cancelled
}

; Returns true if the execution is cancelled or past its deadline.
define internal i1 @must.stop(ptr %cancellation, i64 %deadline) {
  %time = alloca [2 x i64]
  %is.cancelled = call i1 @is.cancelled(ptr %cancellation)
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

; Returns the monotonic time in nanoseconds. %time is memory for a struct timespec.
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

; Runs the records of a step. Returns the position of the record whose requirement failed, or the
; number of records; if it was stopped, the position of the unfinished record plus $STOPPED; if a
; loop ran too long, the position of its test plus $TIMED_OUT.
define i64 @neurald_run(ptr %step) {
entry:
  %time = alloca [2 x i64]
  ; The time at which the clock was last read, and the estimated duration of the records since then.
  %seen = alloca i64
  %spent = alloca i64
  store i64 0, ptr %seen
  store i64 $CLOCK_NS, ptr %spent
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
  %p.timeout = getelementptr i8, ptr %step, i64 64
  %timeout = load i64, ptr %p.timeout
  %p.loops = getelementptr i8, ptr %step, i64 72
  %loops = load ptr, ptr %p.loops
  %p.first = getelementptr i8, ptr %step, i64 80
  %first.record = load i64, ptr %p.first
  %has.no.loop = icmp eq ptr %loops, null
  %has.no.deadline = icmp eq i64 %deadline, 0
  %ignores.clock = and i1 %has.no.loop, %has.no.deadline
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
  %index = phi i64 [ %first.record, %begin ], [ %next, %good ], [ %following.index, %copy ], [ %following.index, %enter.loop ],
    [ %following.index, %branch.true ], [ %following.index, %continue.loop ], [ %target, %jump ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %look, label %end
look:
  %record.offset = mul i64 %index, $RECORD_BYTES
  %record = getelementptr i8, ptr %records, i64 %record.offset
  %cancelled = call i1 @is.cancelled(ptr %cancellation)
  br i1 %cancelled, label %stopped, label %limits
limits:
  br i1 %ignores.clock, label %dispatch, label %account
account:
  %p.cost = getelementptr i8, ptr %record, i64 56
  %cost = load i64, ptr %p.cost
  %spent.before = load i64, ptr %spent
  %spent.after = add i64 %spent.before, %cost
  store i64 %spent.after, ptr %spent
  %is.due = icmp sge i64 %spent.after, $CLOCK_NS
  br i1 %is.due, label %clock, label %dispatch
clock:
  %now = call i64 @now(ptr %time)
  store i64 %now, ptr %seen
  store i64 %cost, ptr %spent
  %is.late = icmp sge i64 %now, %deadline
  %has.deadline = xor i1 %has.no.deadline, true
  %misses = and i1 %is.late, %has.deadline
  br i1 %misses, label %stopped, label %dispatch
dispatch:
  %caller = load ptr, ptr %record
  %is.control = icmp eq ptr %caller, null
  br i1 %is.control, label %control, label %body
control:
  %following.index = add i64 %index, 1
  %p.opcode = getelementptr i8, ptr %record, i64 8
  %opcode = load i64, ptr %p.opcode
  %p.cells = getelementptr i8, ptr %record, i64 16
  %cells = load ptr, ptr %p.cells
  %p.number = getelementptr i8, ptr %record, i64 32
  %number.control = load i64, ptr %p.number
  %p.target = getelementptr i8, ptr %record, i64 40
  %target = load i64, ptr %p.target
  %loop.offset = shl i64 %number.control, 3
  switch i64 %opcode, label %jump [
    i64 $COPY, label %copy
    i64 $BRANCH, label %branch
    i64 $ENTER_LOOP, label %enter.loop
    i64 $TEST_LOOP, label %test.loop
  ]
copy:
  %copied.whole = load ptr, ptr %cells
  %copied.to = getelementptr i8, ptr %copied.whole, i64 %target
  %p.copied.from = getelementptr i8, ptr %cells, i64 8
  %copied.from = load ptr, ptr %p.copied.from
  %copied = call ptr @memmove(ptr %copied.to, ptr %copied.from, i64 %number.control)
  br label %test
branch:
  %p.condition = load ptr, ptr %cells
  %condition = load i8, ptr %p.condition
  %is.false = icmp eq i8 %condition, 0
  br i1 %is.false, label %jump, label %branch.true
branch.true:
  br label %test
jump:
  br label %test
enter.loop:
  %entered = call i64 @now(ptr %time)
  store i64 %entered, ptr %seen
  %p.entered = getelementptr i8, ptr %loops, i64 %loop.offset
  %loop.deadline = add i64 %entered, %timeout
  store i64 %loop.deadline, ptr %p.entered
  br label %test
test.loop:
  %p.holds = load ptr, ptr %cells
  %holds.still = load i8, ptr %p.holds
  %ends = icmp eq i8 %holds.still, 0
  br i1 %ends, label %jump, label %time.loop
time.loop:
  %p.until = getelementptr i8, ptr %loops, i64 %loop.offset
  %until = load i64, ptr %p.until
  %last.seen = load i64, ptr %seen
  %is.too.long = icmp sge i64 %last.seen, %until
  br i1 %is.too.long, label %timed.out, label %continue.loop
continue.loop:
  br label %test
timed.out:
  %too.long = or i64 %index, $TIMED_OUT
  br label %end
body:
  %p.status = getelementptr i8, ptr %record, i64 24
  %status = load ptr, ptr %p.status
  store i32 0, ptr %status
  %p.parts = getelementptr i8, ptr %record, i64 40
  %parts = load i32, ptr %p.parts
  %few = icmp ule i32 %parts, 1
  %whole = or i1 %few, %unshared
  br i1 %whole, label %single, label %ask
ask:
  ; Lengths that change leave less work than the record was divided for.
  %p.items.shared = getelementptr i8, ptr %record, i64 32
  %items.shared = load i64, ptr %p.items.shared
  %p.piece.shared = getelementptr i8, ptr %record, i64 48
  %piece.shared = load i64, ptr %p.piece.shared
  %items.scaled = mul i64 %items.shared, $SHARED_OF_PIECE
  %is.little = icmp ult i64 %items.scaled, %piece.shared
  br i1 %is.little, label %single, label %ask.pool
ask.pool:
  %may = call i1 @may.share(ptr %pool, ptr %record)
  br i1 %may, label %parallel, label %single
single:
  %p.work.items = getelementptr i8, ptr %record, i64 32
  %work.items = load i64, ptr %p.work.items
  %p.piece = getelementptr i8, ptr %record, i64 48
  %piece.items = load i64, ptr %p.piece
  br label %piece
piece:
  %first = phi i64 [ 0, %single ], [ %last, %more.pieces ]
  %items.left = sub i64 %work.items, %first
  %is.last = icmp ule i64 %items.left, %piece.items
  %size = select i1 %is.last, i64 %items.left, i64 %piece.items
  %last = add i64 %first, %size
  call void @call(ptr %record, ptr %scratch, i64 %first, i64 %last)
  br i1 %is.last, label %check, label %more.pieces
more.pieces:
  %stops.here = call i1 @must.stop(ptr %cancellation, i64 %deadline)
  br i1 %stops.here, label %stopped, label %piece
parallel:
  %is.whole = call i1 @share(ptr %pool, ptr %slot, ptr %record, i32 %helpers)
  br i1 %is.whole, label %check, label %stopped
stopped:
  %not.done = or i64 %index, $STOPPED
  br label %end
check:
  %code = load i32, ptr %status
  %holds = icmp eq i32 %code, 0
  br i1 %holds, label %good, label %end
good:
  %next = add i64 %index, 1
  br label %test
end:
  %result = phi i64 [ %index, %test ], [ %index, %check ], [ %not.done, %stopped ], [ %too.long, %timed.out ]
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
