; Runs the calls of a step one after another. step_program.py describes the layouts of memory.

declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_getcpu()
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

; The caller of bands, whose %description is a pointer to words, see step_program.py: runs the bands
; %begin to %end - 1, several at a time, each with all of its kernels.
define void @neurald_call_bands(ptr %description, ptr %unused, ptr %scratch, ptr %status, i64 %begin, i64 %end) {
entry:
  ; Arguments of a kernel; and for each streamed value, where its first position would be, and the
  ; end of its bytes that are computed.
  %arguments = alloca [$MAX_ARGUMENTS x ptr]
  %bases = alloca [$MAX_STREAMS x ptr]
  %ends = alloca [$MAX_STREAMS x i64]
  %records = load ptr, ptr %description
  %p.kernels = getelementptr i8, ptr %description, i64 8
  %kernels = load i64, ptr %p.kernels
  %p.bands = getelementptr i8, ptr %description, i64 16
  %bands = load i64, ptr %p.bands
  %p.turn = getelementptr i8, ptr %description, i64 24
  %turn = load i64, ptr %p.turn
  %p.streams = getelementptr i8, ptr %description, i64 32
  %streams = load i64, ptr %p.streams
  %buffers = getelementptr i8, ptr %description, i64 40
  %buffers.bytes = shl i64 %streams, 4
  %sources = getelementptr i8, ptr %buffers, i64 %buffers.bytes
  %sources.bytes = mul i64 %kernels, $SOURCES_BYTES
  %table = getelementptr i8, ptr %sources, i64 %sources.bytes
  br label %test
test:
  %first = phi i64 [ %begin, %entry ], [ %last, %turned ]
  %more = icmp ult i64 %first, %end
  br i1 %more, label %begin.turn, label %done
begin.turn:
  %after.turn = add i64 %first, %turn
  %is.short = icmp ugt i64 %after.turn, %end
  %last = select i1 %is.short, i64 %end, i64 %after.turn
  %is.first = icmp eq i64 %first, %begin
  br label %test.stream
test.stream:
  %stream = phi i64 [ 0, %begin.turn ], [ %stream.next, %placed ]
  %more.streams = icmp ult i64 %stream, %streams
  br i1 %more.streams, label %stream.look, label %test.kernel
stream.look:
  %stream.next = add i64 %stream, 1
  %p.base = getelementptr ptr, ptr %bases, i64 %stream
  %p.stream.end = getelementptr i64, ptr %ends, i64 %stream
  %buffer.offset = shl i64 %stream, 4
  %p.offset = getelementptr i8, ptr %buffers, i64 %buffer.offset
  %offset = load i64, ptr %p.offset
  %buffer = getelementptr i8, ptr %scratch, i64 %offset
  %p.capacity = getelementptr i8, ptr %p.offset, i64 8
  %capacity = load i64, ptr %p.capacity
  ; After the kernels, the table has the bytes of each band for each streamed value.
  %stream.place = add i64 %kernels, %stream
  %stream.row = mul i64 %stream.place, %bands
  %stream.at = add i64 %stream.row, %first
  %stream.offset = shl i64 %stream.at, 4
  %p.low = getelementptr i8, ptr %table, i64 %stream.offset
  %low = load i64, ptr %p.low
  %stream.last = add i64 %stream.row, %last
  %stream.last.offset = shl i64 %stream.last, 4
  %stream.high.offset = sub i64 %stream.last.offset, 8
  %p.high = getelementptr i8, ptr %table, i64 %stream.high.offset
  %high = load i64, ptr %p.high
  %backwards = sub i64 0, %low
  %fresh = getelementptr i8, ptr %buffer, i64 %backwards
  br i1 %is.first, label %place, label %stream.continue
stream.continue:
  %base.before = load ptr, ptr %p.base
  %end.before = load i64, ptr %p.stream.end
  %number.before = ptrtoint ptr %base.before to i64
  %number.buffer = ptrtoint ptr %buffer to i64
  %end.wanted = add i64 %number.before, %high
  %end.there = add i64 %number.buffer, %capacity
  %fits = icmp ule i64 %end.wanted, %end.there
  br i1 %fits, label %keep, label %move
keep:
  store i64 %high, ptr %p.stream.end
  br label %placed
move:
  ; What the last turn has computed and this one needs begins the buffer again.
  %has.left = icmp ugt i64 %end.before, %low
  br i1 %has.left, label %move.left, label %place
move.left:
  %left = sub i64 %end.before, %low
  %from = getelementptr i8, ptr %base.before, i64 %low
  %moved = call ptr @memmove(ptr %buffer, ptr %from, i64 %left)
  br label %place
place:
  store ptr %fresh, ptr %p.base
  store i64 %high, ptr %p.stream.end
  br label %placed
placed:
  br label %test.stream
test.kernel:
  %kernel = phi i64 [ 0, %test.stream ], [ %kernel.next, %ran ]
  %more.kernels = icmp ult i64 %kernel, %kernels
  br i1 %more.kernels, label %look, label %turned
look:
  %kernel.next = add i64 %kernel, 1
  ; The table has the first work item of each band, and the end of its work items, for each kernel.
  %row = mul i64 %kernel, %bands
  %at.first = add i64 %row, %first
  %first.offset = shl i64 %at.first, 4
  %p.first = getelementptr i8, ptr %table, i64 %first.offset
  %items.first = load i64, ptr %p.first
  %at.last = add i64 %row, %last
  %last.offset = shl i64 %at.last, 4
  %last.end = sub i64 %last.offset, 8
  %p.last = getelementptr i8, ptr %table, i64 %last.end
  %items.end = load i64, ptr %p.last
  br i1 %is.first, label %run, label %continue
continue:
  ; Work items that the last turn has run are not repeated.
  %before.offset = sub i64 %first.offset, 8
  %p.before = getelementptr i8, ptr %table, i64 %before.offset
  %items.before = load i64, ptr %p.before
  %is.done = icmp ugt i64 %items.before, %items.first
  %items.left = select i1 %is.done, i64 %items.before, i64 %items.first
  br label %run
run:
  %items.begin = phi i64 [ %items.first, %look ], [ %items.left, %continue ]
  %has.some = icmp ult i64 %items.begin, %items.end
  br i1 %has.some, label %prepare, label %ran
prepare:
  %record.offset = mul i64 %kernel, $RECORD_BYTES
  %record = getelementptr i8, ptr %records, i64 %record.offset
  %p.given = getelementptr i8, ptr %record, i64 16
  %given = load ptr, ptr %p.given
  %sources.offset = mul i64 %kernel, $SOURCES_BYTES
  %p.count = getelementptr i8, ptr %sources, i64 %sources.offset
  %count = load i64, ptr %p.count
  br label %test.argument
test.argument:
  %argument = phi i64 [ 0, %prepare ], [ %argument.next, %bound ]
  %more.arguments = icmp ult i64 %argument, %count
  br i1 %more.arguments, label %bind, label %work
bind:
  %argument.next = add i64 %argument, 1
  %p.source = getelementptr i64, ptr %p.count, i64 %argument.next
  %source = load i64, ptr %p.source
  %is.given = icmp eq i64 %source, 0
  br i1 %is.given, label %given.value, label %streamed.value
given.value:
  %p.value = getelementptr ptr, ptr %given, i64 %argument
  %value.given = load ptr, ptr %p.value
  br label %bound
streamed.value:
  %source.stream = sub i64 %source, 1
  %p.value.base = getelementptr ptr, ptr %bases, i64 %source.stream
  %value.streamed = load ptr, ptr %p.value.base
  br label %bound
bound:
  %value = phi ptr [ %value.given, %given.value ], [ %value.streamed, %streamed.value ]
  %p.argument = getelementptr ptr, ptr %arguments, i64 %argument
  store ptr %value, ptr %p.argument
  br label %test.argument
work:
  %caller = load ptr, ptr %record
  %p.function = getelementptr i8, ptr %record, i64 8
  %function = load ptr, ptr %p.function
  %p.own.status = getelementptr i8, ptr %record, i64 24
  %own.status = load ptr, ptr %p.own.status
  call void %caller(ptr %function, ptr %arguments, ptr %scratch, ptr %own.status, i64 %items.begin, i64 %items.end)
  br label %ran
ran:
  br label %test.kernel
turned:
  br label %test
done:
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
  %here = call i32 @worker.here(ptr %pool)
  %p.apart = getelementptr i8, ptr %slot.own, i64 176
  store atomic i32 %here, ptr %p.apart monotonic, align 4
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
  ; Kernels may divide by lengths of which one is 0 if there are no work items.
  %is.idle = icmp eq i64 %work.items, 0
  br i1 %is.idle, label %check, label %pieces
pieces:
  %p.piece = getelementptr i8, ptr %record, i64 48
  %piece.items = load i64, ptr %p.piece
  br label %piece
piece:
  %first = phi i64 [ 0, %pieces ], [ %last, %more.pieces ]
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
