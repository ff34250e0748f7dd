; Serves rings without Python; ring_serving.py describes what it does, and the layouts of memory.

declare i32 @poll(ptr, i64, i32)
declare i64 @recv(i32, ptr, i64, i32)
declare i64 @send(i32, ptr, i64, i32)
declare i32 @sched_yield()
declare i64 @read(i32, ptr, i64)
declare i64 @write(i32, ptr, i64)

; Returns the processor time of this thread, in nanoseconds.
define internal i64 @used(ptr %time) {
  store i64 0, ptr %time
  %p.rest = getelementptr i8, ptr %time, i64 8
  store i64 0, ptr %p.rest
  %failed = call i32 @clock_gettime(i32 3, ptr %time)
  %seconds = load i64, ptr %time
  %whole = mul i64 %seconds, 1000000000
  %rest = load i64, ptr %p.rest
  %total = add i64 %whole, %rest
  ret i64 %total
}

; Locks a gate, whose first word is 0 if nobody holds it, 1 if somebody does, and 2 if others wait.
define internal void @gate.lock(ptr %gate) {
entry:
  %swap = cmpxchg ptr %gate, i32 0, i32 1 acquire monotonic
  %got = extractvalue { i32, i1 } %swap, 1
  br i1 %got, label %end, label %wait
wait:
  %old = atomicrmw xchg ptr %gate, i32 2 acquire
  %is.free = icmp eq i32 %old, 0
  br i1 %is.free, label %end, label %sleep
sleep:
  %slept = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %gate, i32 128, i32 2, ptr null)
  br label %wait
end:
  ret void
}

define internal void @gate.unlock(ptr %gate) {
  %old = atomicrmw xchg ptr %gate, i32 0 release
  %has.waiters = icmp eq i32 %old, 2
  br i1 %has.waiters, label %wake, label %end
wake:
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %gate, i32 129, i32 1)
  br label %end
end:
  ret void
}

; Adds to a 32-bit number and returns the sum. The gate is locked.
define internal i32 @add32(ptr %number, i32 %change) {
  %old = load atomic i32, ptr %number monotonic, align 4
  %new = add i32 %old, %change
  store atomic i32 %new, ptr %number monotonic, align 4
  ret i32 %new
}

; Adds to a 64-bit number. The gate is locked.
define internal void @add64(ptr %number, i64 %change) {
  %old = load i64, ptr %number
  %new = add i64 %old, %change
  store i64 %new, ptr %number
  ret void
}

; Raises a number to at least %least. The gate is locked.
define internal void @raise(ptr %number, i64 %least) {
  %old = load i64, ptr %number
  %is.less = icmp slt i64 %old, %least
  %new = select i1 %is.less, i64 %least, i64 %old
  store i64 %new, ptr %number
  ret void
}

; Charges a share with time, by its factor.
define internal void @share.charge(ptr %share, i64 %time) {
  %p.factor = getelementptr i8, ptr %share, i64 $SHARE_FACTOR
  %factor = load i64, ptr %p.factor
  %product = mul i64 %time, %factor
  %scaled = ashr i64 %product, $FACTOR_SHIFT
  %p.used = getelementptr i8, ptr %share, i64 $SHARE_USED
  call void @add64(ptr %p.used, i64 %scaled)
  ret void
}

; Counts one more execution of a share. One that had none has no credit from that time.
define internal void @share.join(ptr %share, ptr %p.level) {
  %p.active = getelementptr i8, ptr %share, i64 $SHARE_ACTIVE
  %active = call i32 @add32(ptr %p.active, i32 1)
  %is.first = icmp eq i32 %active, 1
  br i1 %is.first, label %catch.up, label %end
catch.up:
  %level = load i64, ptr %p.level
  %p.used = getelementptr i8, ptr %share, i64 $SHARE_USED
  call void @raise(ptr %p.used, i64 %level)
  br label %end
end:
  ret void
}

; Adds %change to the executions of a ring's user and of its client.
define internal void @ring.part(ptr %state) {
  %p.user = getelementptr i8, ptr %state, i64 $STATE_USER
  %user = load ptr, ptr %p.user
  %p.user.active = getelementptr i8, ptr %user, i64 $SHARE_ACTIVE
  %user.active = call i32 @add32(ptr %p.user.active, i32 -1)
  %p.client = getelementptr i8, ptr %state, i64 $STATE_CLIENT
  %client = load ptr, ptr %p.client
  %p.client.active = getelementptr i8, ptr %client, i64 $SHARE_ACTIVE
  %client.active = call i32 @add32(ptr %p.client.active, i32 -1)
  ret void
}

; Charges a ring's user and its client.
define internal void @ring.charge(ptr %state, i64 %time) {
  %p.user = getelementptr i8, ptr %state, i64 $STATE_USER
  %user = load ptr, ptr %p.user
  call void @share.charge(ptr %user, i64 %time)
  %p.client = getelementptr i8, ptr %state, i64 $STATE_CLIENT
  %client = load ptr, ptr %p.client
  call void @share.charge(ptr %client, i64 %time)
  ret void
}

; Lets a ring run. It is charged like for its last execution until the time of this one is known.
define internal void @gate.start(ptr %gate, ptr %state) {
  %p.running = getelementptr i8, ptr %gate, i64 $GATE_RUNNING
  %running = call i32 @add32(ptr %p.running, i32 1)
  %p.user = getelementptr i8, ptr %state, i64 $STATE_USER
  %user = load ptr, ptr %p.user
  %p.user.used = getelementptr i8, ptr %user, i64 $SHARE_USED
  %user.used = load i64, ptr %p.user.used
  %p.level = getelementptr i8, ptr %gate, i64 $GATE_LEVEL
  call void @raise(ptr %p.level, i64 %user.used)
  %p.client = getelementptr i8, ptr %state, i64 $STATE_CLIENT
  %client = load ptr, ptr %p.client
  %p.client.used = getelementptr i8, ptr %client, i64 $SHARE_USED
  %client.used = load i64, ptr %p.client.used
  %p.user.level = getelementptr i8, ptr %user, i64 $SHARE_LEVEL
  call void @raise(ptr %p.user.level, i64 %client.used)
  %p.charged = getelementptr i8, ptr %state, i64 $STATE_CHARGED
  %charged = load i64, ptr %p.charged
  call void @ring.charge(ptr %state, i64 %charged)
  ret void
}

; Returns true if a waiting ring precedes another one: by the time of its user, then by that of its
; client, then by its arrival.
define internal i1 @precedes(ptr %state, ptr %other) {
  %p.user = getelementptr i8, ptr %state, i64 $STATE_USER
  %user = load ptr, ptr %p.user
  %p.user.used = getelementptr i8, ptr %user, i64 $SHARE_USED
  %user.used = load i64, ptr %p.user.used
  %p.other.user = getelementptr i8, ptr %other, i64 $STATE_USER
  %other.user = load ptr, ptr %p.other.user
  %p.other.user.used = getelementptr i8, ptr %other.user, i64 $SHARE_USED
  %other.user.used = load i64, ptr %p.other.user.used
  %is.other.user = icmp ne i64 %user.used, %other.user.used
  br i1 %is.other.user, label %by.user, label %clients
by.user:
  %user.first = icmp slt i64 %user.used, %other.user.used
  ret i1 %user.first
clients:
  %p.client = getelementptr i8, ptr %state, i64 $STATE_CLIENT
  %client = load ptr, ptr %p.client
  %p.client.used = getelementptr i8, ptr %client, i64 $SHARE_USED
  %client.used = load i64, ptr %p.client.used
  %p.other.client = getelementptr i8, ptr %other, i64 $STATE_CLIENT
  %other.client = load ptr, ptr %p.other.client
  %p.other.client.used = getelementptr i8, ptr %other.client, i64 $SHARE_USED
  %other.client.used = load i64, ptr %p.other.client.used
  %is.other.client = icmp ne i64 %client.used, %other.client.used
  br i1 %is.other.client, label %by.client, label %by.arrival
by.client:
  %client.first = icmp slt i64 %client.used, %other.client.used
  ret i1 %client.first
by.arrival:
  %p.arrival = getelementptr i8, ptr %state, i64 $STATE_QUEUED
  %arrival = load i64, ptr %p.arrival
  %p.other.arrival = getelementptr i8, ptr %other, i64 $STATE_QUEUED
  %other.arrival = load i64, ptr %p.other.arrival
  %arrived.first = icmp slt i64 %arrival, %other.arrival
  ret i1 %arrived.first
}

; Takes a ring out of the list of those that wait. The gate is locked.
define internal void @gate.unlist(ptr %gate, ptr %state) {
entry:
  %p.first = getelementptr i8, ptr %gate, i64 $GATE_FIRST
  br label %look
look:
  %link = phi ptr [ %p.first, %entry ], [ %p.next, %further ]
  %found = load ptr, ptr %link
  %is.end = icmp eq ptr %found, null
  br i1 %is.end, label %end, label %compare
compare:
  %p.next = getelementptr i8, ptr %found, i64 $STATE_NEXT
  %is.it = icmp eq ptr %found, %state
  br i1 %is.it, label %unlink, label %further
further:
  br label %look
unlink:
  %next = load ptr, ptr %p.next
  store ptr %next, ptr %link
  %p.waiting = getelementptr i8, ptr %gate, i64 $GATE_WAITING
  %waiting = call i32 @add32(ptr %p.waiting, i32 -1)
  br label %end
end:
  ret void
}

; Returns true if one more ring may run: there is room beside the executions of Python, or the rings
; have not yet what is theirs, and few executions of Python are guests. The gate is locked.
define internal i1 @gate.has.room(ptr %gate) {
  %p.running = getelementptr i8, ptr %gate, i64 $GATE_RUNNING
  %running = load atomic i32, ptr %p.running monotonic, align 4
  %p.beside = getelementptr i8, ptr %gate, i64 $GATE_BESIDE
  %beside = load atomic i32, ptr %p.beside monotonic, align 4
  %taken = add i32 %running, %beside
  %p.limit = getelementptr i8, ptr %gate, i64 $GATE_LIMIT
  %limit = load i32, ptr %p.limit
  %is.free = icmp slt i32 %taken, %limit
  %p.own = getelementptr i8, ptr %gate, i64 $GATE_OWN
  %own = load i32, ptr %p.own
  %lacks.own = icmp slt i32 %running, %own
  %p.most = getelementptr i8, ptr %gate, i64 $GATE_MOST
  %most = load i32, ptr %p.most
  %has.guests.room = icmp slt i32 %taken, %most
  %may.be.guest = and i1 %lacks.own, %has.guests.room
  %has.room = or i1 %is.free, %may.be.guest
  ret i1 %has.room
}

; Lets a ring run, if there is room, and otherwise leaves its call to the threads that run waiting
; ones. Returns $STARTED, $LEFT, or why Python is needed, with nothing changed.
define internal i64 @gate.enter(ptr %state, ptr %call, i32 %number) {
entry:
  %time = alloca [2 x i64]
  %p.gate = getelementptr i8, ptr %state, i64 $STATE_GATE
  %gate = load ptr, ptr %p.gate
  %p.closed = getelementptr i8, ptr %gate, i64 $GATE_CLOSED
  %p.waiting = getelementptr i8, ptr %gate, i64 $GATE_WAITING
  %p.user = getelementptr i8, ptr %state, i64 $STATE_USER
  %user = load ptr, ptr %p.user
  %p.client = getelementptr i8, ptr %state, i64 $STATE_CLIENT
  %client = load ptr, ptr %p.client
  %p.level = getelementptr i8, ptr %gate, i64 $GATE_LEVEL
  %p.user.level = getelementptr i8, ptr %user, i64 $SHARE_LEVEL
  %now = call i64 @now(ptr %time)
  %p.queued = getelementptr i8, ptr %state, i64 $STATE_QUEUED
  store i64 %now, ptr %p.queued
  call void @gate.lock(ptr %gate)
  %closed = load atomic i32, ptr %p.closed monotonic, align 4
  %is.closed = icmp ne i32 %closed, 0
  br i1 %is.closed, label %refuse, label %join
join:
  %has.room = call i1 @gate.has.room(ptr %gate)
  %waiting = load atomic i32, ptr %p.waiting monotonic, align 4
  %is.next = icmp eq i32 %waiting, 0
  %may.start = and i1 %has.room, %is.next
  br i1 %may.start, label %start, label %queue
start:
  call void @share.join(ptr %user, ptr %p.level)
  call void @share.join(ptr %client, ptr %p.user.level)
  call void @gate.start(ptr %gate, ptr %state)
  call void @gate.unlock(ptr %gate)
  ret i64 $STARTED
queue:
  ; A thread for each execution that may run: whichever ends leaves its place to one of them.
  %p.runners = getelementptr i8, ptr %gate, i64 $GATE_RUNNERS
  %runners = load i32, ptr %p.runners
  %p.limit = getelementptr i8, ptr %gate, i64 $GATE_LIMIT
  %limit = load i32, ptr %p.limit
  %is.served = icmp sge i32 %runners, %limit
  br i1 %is.served, label %list, label %lack
list:
  call void @share.join(ptr %user, ptr %p.level)
  call void @share.join(ptr %client, ptr %p.user.level)
  %p.call = getelementptr i8, ptr %state, i64 $STATE_CALL
  store ptr %call, ptr %p.call
  %p.taken = getelementptr i8, ptr %state, i64 $STATE_TAKEN
  store i32 %number, ptr %p.taken
  %p.place = getelementptr i8, ptr %state, i64 $STATE_PLACE
  store atomic i32 $WAITING, ptr %p.place monotonic, align 4
  %p.first = getelementptr i8, ptr %gate, i64 $GATE_FIRST
  %first = load ptr, ptr %p.first
  %p.next = getelementptr i8, ptr %state, i64 $STATE_NEXT
  store ptr %first, ptr %p.next
  store ptr %state, ptr %p.first
  %waiting.now = call i32 @add32(ptr %p.waiting, i32 1)
  call void @gate.unlock(ptr %gate)
  ret i64 $LEFT
lack:
  call void @gate.unlock(ptr %gate)
  ret i64 $NEEDS_RUNNERS
refuse:
  call void @gate.unlock(ptr %gate)
  ret i64 $PYTHON
}

; Ends the run of a ring that took %elapsed, and %used of a processor, with which it is charged.
; With %counts 0 nothing was executed. With %room 1 it gives up its room, for which a thread is
; woken if a call waits.
define internal void @gate.leave(ptr %state, i64 %elapsed, i64 %used, i64 %waited, i64 %counts, i32 %room) {
entry:
  %p.gate = getelementptr i8, ptr %state, i64 $STATE_GATE
  %gate = load ptr, ptr %p.gate
  call void @gate.lock(ptr %gate)
  %p.running = getelementptr i8, ptr %gate, i64 $GATE_RUNNING
  %less = sub i32 0, %room
  %running = call i32 @add32(ptr %p.running, i32 %less)
  %p.executions = getelementptr i8, ptr %gate, i64 $GATE_EXECUTIONS
  call void @add64(ptr %p.executions, i64 %counts)
  %p.busy = getelementptr i8, ptr %gate, i64 $GATE_BUSY
  call void @add64(ptr %p.busy, i64 %elapsed)
  %p.waited = getelementptr i8, ptr %gate, i64 $GATE_QUEUED
  call void @add64(ptr %p.waited, i64 %waited)
  %p.charged = getelementptr i8, ptr %state, i64 $STATE_CHARGED
  %charged = load i64, ptr %p.charged
  %more = sub i64 %used, %charged
  call void @ring.charge(ptr %state, i64 %more)
  store i64 %used, ptr %p.charged
  call void @ring.part(ptr %state)
  %p.waiting = getelementptr i8, ptr %gate, i64 $GATE_WAITING
  %waiting = load atomic i32, ptr %p.waiting monotonic, align 4
  %is.awaited = icmp ne i32 %waiting, 0
  %has.room = icmp ne i32 %room, 0
  %must.wake = and i1 %is.awaited, %has.room
  br i1 %must.wake, label %wake, label %end
wake:
  %p.ready = getelementptr i8, ptr %gate, i64 $GATE_READY
  %ready = call i32 @add32(ptr %p.ready, i32 1)
  call void @gate.unlock(ptr %gate)
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %p.ready, i32 129, i32 1)
  ret void
end:
  call void @gate.unlock(ptr %gate)
  ret void
}

; Returns the ring that waits and is next; null if none waits. The gate is locked.
define internal ptr @gate.next(ptr %gate) {
entry:
  %p.first = getelementptr i8, ptr %gate, i64 $GATE_FIRST
  %first = load ptr, ptr %p.first
  br label %look
look:
  %each = phi ptr [ %first, %entry ], [ %next, %better ]
  %best = phi ptr [ null, %entry ], [ %best.now, %better ]
  %is.end = icmp eq ptr %each, null
  br i1 %is.end, label %found, label %compare
compare:
  %p.next = getelementptr i8, ptr %each, i64 $STATE_NEXT
  %next = load ptr, ptr %p.next
  %is.first = icmp eq ptr %best, null
  br i1 %is.first, label %better, label %rank
rank:
  %is.better = call i1 @precedes(ptr %each, ptr %best)
  br label %better
better:
  %wins = phi i1 [ true, %compare ], [ %is.better, %rank ]
  %best.now = select i1 %wins, ptr %each, ptr %best
  br label %look
found:
  ret ptr %best
}

; Waits while another thread runs the call that a ring has left to it.
define internal void @ring.await(ptr %state) {
entry:
  %p.place = getelementptr i8, ptr %state, i64 $STATE_PLACE
  br label %try
try:
  %swap = cmpxchg ptr %p.place, i32 $TAKEN, i32 $AWAITED acquire acquire
  %old = extractvalue { i32, i1 } %swap, 0
  %is.taken = icmp eq i32 %old, $TAKEN
  %is.awaited = icmp eq i32 %old, $AWAITED
  %runs = or i1 %is.taken, %is.awaited
  br i1 %runs, label %sleep, label %end
sleep:
  %slept = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %p.place, i32 128, i32 $AWAITED, ptr null)
  br label %try
end:
  ret void
}

; Takes back the call that a ring has left to other threads, before Python goes on for %reason.
; Returns why Python goes on. No other thread uses the ring afterwards.
define internal i64 @ring.reclaim(ptr %state, i64 %reason) {
entry:
  %p.place = getelementptr i8, ptr %state, i64 $STATE_PLACE
  %place = load atomic i32, ptr %p.place acquire, align 4
  %is.waiting = icmp eq i32 %place, $WAITING
  br i1 %is.waiting, label %withdraw, label %await
withdraw:
  %p.gate = getelementptr i8, ptr %state, i64 $STATE_GATE
  %gate = load ptr, ptr %p.gate
  call void @gate.lock(ptr %gate)
  %place.now = load atomic i32, ptr %p.place acquire, align 4
  %still.waits = icmp eq i32 %place.now, $WAITING
  br i1 %still.waits, label %unlist, label %late
late:
  call void @gate.unlock(ptr %gate)
  br label %await
unlist:
  call void @gate.unlist(ptr %gate, ptr %state)
  store atomic i32 0, ptr %p.place monotonic, align 4
  call void @ring.part(ptr %state)
  call void @gate.unlock(ptr %gate)
  call void @ring.untake(ptr %state)
  %p.call = getelementptr i8, ptr %state, i64 $STATE_CALL
  %call = load ptr, ptr %p.call
  %kept = call i1 @call.end(ptr %call)
  ret i64 $PYTHON
await:
  call void @ring.await(ptr %state)
  %p.held = getelementptr i8, ptr %state, i64 $STATE_HELD
  br label %look
look:
  ; The thread that ran the call may still send the packet that wakes the client.
  %held = load atomic i32, ptr %p.held acquire, align 4
  %is.held = icmp ne i32 %held, 0
  br i1 %is.held, label %yield, label %free
yield:
  %given = call i32 @sched_yield()
  br label %look
free:
  %p.outcome = getelementptr i8, ptr %state, i64 $STATE_OUTCOME
  %outcome = load i64, ptr %p.outcome
  store i64 0, ptr %p.outcome
  %is.good = icmp eq i64 %outcome, 0
  %why = select i1 %is.good, i64 %reason, i64 %outcome
  ret i64 %why
}

; Leaves an entry that was taken to Python.
define internal void @ring.untake(ptr %state) {
  %p.taken = getelementptr i8, ptr %state, i64 $STATE_TAKEN
  %taken = load i32, ptr %p.taken
  %before = sub i32 %taken, 1
  store i32 %before, ptr %p.taken
  ret void
}

; Waits for the next entry of a ring, whose last one may still be left to other threads. Returns
; $ARRIVED, or why Python is needed.
define internal i64 @ring.wait(ptr %state) {
entry:
  %time = alloca [2 x i64]
  %polled = alloca [4 x i32]
  %packet = alloca [2 x i64]
  %p.ring = getelementptr i8, ptr %state, i64 $STATE_RING
  %ring = load ptr, ptr %p.ring
  %p.number = getelementptr i8, ptr %ring, i64 $RING_NUMBER
  %p.sleeps = getelementptr i8, ptr %ring, i64 $RING_SLEEPS
  %p.sent = getelementptr i8, ptr %ring, i64 $RING_PACKETS
  %p.taken = getelementptr i8, ptr %state, i64 $STATE_TAKEN
  %taken = load i32, ptr %p.taken
  %p.noted = getelementptr i8, ptr %state, i64 $STATE_PACKETS
  %noted = load i32, ptr %p.noted
  %p.fd = getelementptr i8, ptr %state, i64 $STATE_FD
  %fd = load i32, ptr %p.fd
  store i32 %fd, ptr %polled
  %p.events = getelementptr i8, ptr %polled, i64 4
  %p.wake = getelementptr i8, ptr %state, i64 $STATE_WAKE
  %wake = load i32, ptr %p.wake
  %p.polled.wake = getelementptr i8, ptr %polled, i64 8
  store i32 %wake, ptr %p.polled.wake
  %p.wake.events = getelementptr i8, ptr %polled, i64 12
  %p.place = getelementptr i8, ptr %state, i64 $STATE_PLACE
  %p.outcome = getelementptr i8, ptr %state, i64 $STATE_OUTCOME
  %p.cancellation = getelementptr i8, ptr %state, i64 $STATE_CANCELLATION
  %cancellation = load ptr, ptr %p.cancellation
  %p.gate = getelementptr i8, ptr %state, i64 $STATE_GATE
  %gate = load ptr, ptr %p.gate
  %p.runners = getelementptr i8, ptr %gate, i64 $GATE_RUNNERS
  %p.running = getelementptr i8, ptr %gate, i64 $GATE_RUNNING
  %p.spinners = getelementptr i8, ptr %gate, i64 $GATE_SPINNERS
  %p.spin.limit = getelementptr i8, ptr %gate, i64 $GATE_SPIN_LIMIT
  %spin.limit = load i32, ptr %p.spin.limit
  %p.crowded = getelementptr i8, ptr %gate, i64 $GATE_CROWDED
  %p.usual = getelementptr i8, ptr %state, i64 $STATE_USUAL
  %usual = load i64, ptr %p.usual
  %begin = call i64 @now(ptr %time)
  %number = load atomic i32, ptr %p.number acquire, align 4
  %is.there = icmp ne i32 %number, %taken
  br i1 %is.there, label %arrived, label %consider
consider:
  %sent = load atomic i32, ptr %p.sent monotonic, align 4
  %is.packet = icmp ne i32 %sent, %noted
  br i1 %is.packet, label %python, label %patience
patience:
  %place = load atomic i32, ptr %p.place monotonic, align 4
  %is.left = icmp ne i32 %place, 0
  br i1 %is.left, label %sleep, label %weigh
weigh:
  %crowded.until = load atomic i64, ptr %p.crowded monotonic, align 8
  %is.crowded = icmp slt i64 %begin, %crowded.until
  %is.long = icmp sgt i64 %usual, $LONG_WAIT_NS
  %p.spins = getelementptr i8, ptr %state, i64 $STATE_SPINS
  %spins = load i32, ptr %p.spins
  %sleeps.only = icmp eq i32 %spins, 0
  %never.now = or i1 %is.crowded, %is.long
  %never = or i1 %never.now, %sleeps.only
  br i1 %never, label %sleep, label %compete
compete:
  %others = atomicrmw add ptr %p.spinners, i32 1 monotonic
  %running = load atomic i32, ptr %p.running monotonic, align 4
  %busy = add i32 %others, %running
  %may.spin = icmp slt i32 %busy, %spin.limit
  br i1 %may.spin, label %spin.first, label %spin.end
spin.first:
  %span = add i64 %usual, $SPIN_NS
  %end = add i64 %begin, %span
  %first.yield = add i64 %begin, $YIELD_NS
  br label %spin
spin:
  %yield.at = phi i64 [ %first.yield, %spin.first ], [ %yield.at, %glance ], [ %yield.next, %yielded ]
  br label %poll
poll:
  %polls = phi i32 [ 0, %spin ], [ %polls.next, %pause ]
  %seen = load atomic i32, ptr %p.number acquire, align 4
  %is.seen = icmp ne i32 %seen, %taken
  br i1 %is.seen, label %spin.end, label %pause
pause:
  $PAUSE
  %polls.next = add i32 %polls, 1
  %again = icmp slt i32 %polls.next, $POLLS
  br i1 %again, label %poll, label %look
look:
  %now = call i64 @now(ptr %time)
  %is.over = icmp sge i64 %now, %end
  %sent.now = load atomic i32, ptr %p.sent monotonic, align 4
  %has.packet = icmp ne i32 %sent.now, %noted
  %spinners = load atomic i32, ptr %p.spinners monotonic, align 4
  %running.now = load atomic i32, ptr %p.running monotonic, align 4
  %busy.now = add i32 %spinners, %running.now
  %is.busy = icmp sgt i32 %busy.now, %spin.limit
  %stops.first = or i1 %is.over, %has.packet
  %stops = or i1 %stops.first, %is.busy
  br i1 %stops, label %spin.end, label %glance
glance:
  %yields = icmp sge i64 %now, %yield.at
  br i1 %yields, label %yield, label %spin
yield:
  ; The peer may have been placed on the same core, or another program may need it.
  %given = call i32 @sched_yield()
  %back = call i64 @now(ptr %time)
  %away = sub i64 %back, %now
  %was.away = icmp sgt i64 %away, $AWAY_NS
  br i1 %was.away, label %crowd, label %yielded
yielded:
  %yield.next = add i64 %back, $YIELD_NS
  br label %spin
crowd:
  %until = add i64 %back, $CROWDED_NS
  store atomic i64 %until, ptr %p.crowded monotonic, align 8
  br label %spin.end
spin.end:
  %spun = atomicrmw sub ptr %p.spinners, i32 1 monotonic
  %number.spun = load atomic i32, ptr %p.number acquire, align 4
  %is.spun = icmp ne i32 %number.spun, %taken
  br i1 %is.spun, label %arrived, label %sleep
sleep:
  store atomic i32 1, ptr %p.sleeps monotonic, align 4
  fence seq_cst
  %number.now = load atomic i32, ptr %p.number acquire, align 4
  %is.here = icmp ne i32 %number.now, %taken
  br i1 %is.here, label %awake, label %glance.again
glance.again:
  ; Nothing orders the store of the client's number and its load of the flag, unless it makes a
  ; system call between them. It may not have seen the flag, and wake nobody. Its store becomes
  ; visible during this call.
  store i32 1, ptr %p.events
  store i32 1, ptr %p.wake.events
  %already = call i32 @poll(ptr %polled, i64 2, i32 0)
  %has.none = icmp eq i32 %already, 0
  br i1 %has.none, label %recheck, label %readable
recheck:
  %number.soon = load atomic i32, ptr %p.number acquire, align 4
  %is.soon = icmp ne i32 %number.soon, %taken
  br i1 %is.soon, label %awake, label %park
park:
  store i32 1, ptr %p.events
  store i32 1, ptr %p.wake.events
  %ready = call i32 @poll(ptr %polled, i64 2, i32 $IDLE_MS)
  %is.idle = icmp eq i32 %ready, 0
  br i1 %is.idle, label %idle, label %readable
idle:
  %number.late = load atomic i32, ptr %p.number acquire, align 4
  %is.late = icmp ne i32 %number.late, %taken
  br i1 %is.late, label %awake, label %stay
stay:
  %place.late = load atomic i32, ptr %p.place acquire, align 4
  %has.ended = icmp eq i32 %place.late, 0
  br i1 %has.ended, label %give.up, label %expect
expect:
  %runners = load atomic i32, ptr %p.runners monotonic, align 4
  %has.none.left = icmp sle i32 %runners, 0
  br i1 %has.none.left, label %unusual, label %heed
give.up:
  store atomic i32 0, ptr %p.sleeps monotonic, align 4
  ret i64 $IDLE
readable:
  %wake.events = load i32, ptr %p.wake.events
  %wake.found = lshr i32 %wake.events, 16
  %is.woken = icmp ne i32 %wake.found, 0
  br i1 %is.woken, label %woken, label %packets
woken:
  %drained = call i64 @read(i32 %wake, ptr %packet, i64 8)
  %outcome = load atomic i64, ptr %p.outcome acquire, align 8
  %is.told = icmp ne i64 %outcome, 0
  br i1 %is.told, label %unusual, label %sleep
packets:
  %sent.late = load atomic i32, ptr %p.sent acquire, align 4
  %is.announced = icmp ne i32 %sent.late, %noted
  br i1 %is.announced, label %unusual, label %receive
receive:
  ; Others than those that wake this end are left to Python. They may come with descriptors.
  %peeked = call i64 @recv(i32 %fd, ptr %packet, i64 16, i32 $PEEK)
  %is.missing = icmp slt i64 %peeked, 0
  br i1 %is.missing, label %missing, label %content
missing:
  ; The call was interrupted, or the socket has failed.
  %events = load i32, ptr %p.events
  %failures = and i32 %events, $POLL_FAILURES
  %has.failed = icmp ne i32 %failures, 0
  br i1 %has.failed, label %unusual, label %sleep
content:
  %kind = load i8, ptr %packet
  %is.wake = icmp eq i8 %kind, $WAKE
  %is.whole = icmp eq i64 %peeked, $WAKE_BYTES
  %is.valid = and i1 %is.wake, %is.whole
  br i1 %is.valid, label %receive.wake, label %unusual
receive.wake:
  %received = call i64 @recv(i32 %fd, ptr %packet, i64 16, i32 $DONT_WAIT)
  br label %heed
heed:
  ; A client that cancels wakes this end. One that did not see that it sleeps is noticed later.
  %is.cancelled = call i1 @is.cancelled(ptr %cancellation)
  %place.now = load atomic i32, ptr %p.place monotonic, align 4
  %waits = icmp eq i32 %place.now, $WAITING
  %must.leave = and i1 %is.cancelled, %waits
  br i1 %must.leave, label %unusual, label %sleep
unusual:
  store atomic i32 0, ptr %p.sleeps monotonic, align 4
  br label %python
python:
  ret i64 $PYTHON
awake:
  store atomic i32 0, ptr %p.sleeps monotonic, align 4
  br label %arrived
arrived:
  ; The entry may name a request that the client has sent right before it.
  %sent.before = load atomic i32, ptr %p.sent monotonic, align 4
  %is.new = icmp ne i32 %sent.before, %noted
  br i1 %is.new, label %python, label %known
known:
  %arrival = call i64 @now(ptr %time)
  %waited = sub i64 %arrival, %begin
  %eighth = lshr i64 %usual, 3
  %slower = add i64 %usual, %eighth
  %slowest = add i64 %slower, 1000
  %is.faster = icmp slt i64 %waited, %slowest
  %usual.now = select i1 %is.faster, i64 %waited, i64 %slowest
  store i64 %usual.now, ptr %p.usual
  ret i64 $ARRIVED
}

; Takes an instance of a model. Returns null if all are in use.
define internal ptr @instance.take(ptr %instances) {
entry:
  %count = load atomic i64, ptr %instances acquire, align 8
  br label %test
test:
  %index = phi i64 [ 0, %entry ], [ %next, %try ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %try, label %none
try:
  %next = add i64 %index, 1
  %offset = mul i64 %next, $INSTANCE_BYTES
  %instance = getelementptr i8, ptr %instances, i64 %offset
  %swap = cmpxchg ptr %instance, i64 0, i64 1 acquire monotonic
  %got = extractvalue { i64, i1 } %swap, 1
  br i1 %got, label %taken, label %test
taken:
  ret ptr %instance
none:
  ret ptr null
}

; Makes copies: of each target, source and length.
define internal void @copy.all(ptr %copies, i64 %count) {
entry:
  br label %test
test:
  %index = phi i64 [ 0, %entry ], [ %next, %copy ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %copy, label %end
copy:
  %next = add i64 %index, 1
  %offset = mul i64 %index, $COPY_BYTES
  %p.target = getelementptr i8, ptr %copies, i64 %offset
  %target = load ptr, ptr %p.target
  %p.source = getelementptr i8, ptr %p.target, i64 8
  %source = load ptr, ptr %p.source
  %p.length = getelementptr i8, ptr %p.target, i64 16
  %length = load i64, ptr %p.length
  %copied = call ptr @memcpy(ptr %target, ptr %source, i64 %length)
  br label %test
end:
  ret void
}

; Allows a call again that has run. Returns false if it was withdrawn meanwhile.
define internal i1 @call.end(ptr %call) {
  %swap = cmpxchg ptr %call, i32 $RUNS, i32 $ARMED release monotonic
  %kept = extractvalue { i32, i1 } %swap, 1
  ret i1 %kept
}

; Leaves the stamps of a call for its client, if that traces it. The reply follows at once, and a
; reading of the clock would delay it by more than that takes.
define internal void @ring.stamp(ptr %state, ptr %ring, i64 %begin, i64 %elapsed) {
entry:
  %p.wanted = getelementptr i8, ptr %ring, i64 $RING_WANTED_STAMPS
  %wanted = load atomic i32, ptr %p.wanted monotonic, align 4
  %is.untraced = icmp eq i32 %wanted, 0
  br i1 %is.untraced, label %end, label %stamp
stamp:
  %p.stamps = getelementptr i8, ptr %ring, i64 $RING_STAMPS
  %number = zext i32 %wanted to i64
  store i64 %number, ptr %p.stamps
  %p.process = getelementptr i8, ptr %p.stamps, i64 8
  %p.own = getelementptr i8, ptr %state, i64 $STATE_PROCESS
  %process = load i64, ptr %p.own
  store i64 %process, ptr %p.process
  %p.arrived = getelementptr i8, ptr %p.stamps, i64 16
  %p.queued = getelementptr i8, ptr %state, i64 $STATE_QUEUED
  %arrived = load i64, ptr %p.queued
  store i64 %arrived, ptr %p.arrived
  %p.admitted = getelementptr i8, ptr %p.stamps, i64 24
  store i64 %begin, ptr %p.admitted
  %p.ended = getelementptr i8, ptr %p.stamps, i64 32
  %ended = add i64 %begin, %elapsed
  store i64 %ended, ptr %p.ended
  %p.replied = getelementptr i8, ptr %p.stamps, i64 40
  store i64 %ended, ptr %p.replied
  br label %end
end:
  ret void
}

; Passes the completion to the client, which has no new shapes, and no times, or that of the
; execution. Returns whether the client sleeps, so that `ring.wake` must follow.
define internal i1 @ring.complete(ptr %state, i32 %put, i64 %begin, i64 %elapsed) {
  %p.ring = getelementptr i8, ptr %state, i64 $STATE_RING
  %ring = load ptr, ptr %p.ring
  call void @ring.stamp(ptr %state, ptr %ring, i64 %begin, i64 %elapsed)
  %p.entry = getelementptr i8, ptr %ring, i64 $RING_COMPLETION
  store i64 0, ptr %p.entry
  %p.first = getelementptr i8, ptr %p.entry, i64 8
  %p.tells = getelementptr i8, ptr %state, i64 $STATE_TELLS
  %tells = load i32, ptr %p.tells
  %is.told = icmp ne i32 %tells, 0
  %told = select i1 %is.told, i64 %elapsed, i64 -1
  store i64 %told, ptr %p.first
  %p.second = getelementptr i8, ptr %p.entry, i64 16
  store i64 -1, ptr %p.second
  %p.third = getelementptr i8, ptr %p.entry, i64 24
  store i64 -1, ptr %p.third
  %p.put = getelementptr i8, ptr %state, i64 $STATE_PUT
  store i32 %put, ptr %p.put
  %p.number = getelementptr i8, ptr %ring, i64 $RING_COMPLETED
  store atomic i32 %put, ptr %p.number release, align 4
  fence seq_cst
  %p.sleeps = getelementptr i8, ptr %ring, i64 $RING_PEER_SLEEPS
  %sleeps = load atomic i32, ptr %p.sleeps monotonic, align 4
  %must.wake = icmp ne i32 %sleeps, 0
  ret i1 %must.wake
}

; Sends a client the packet that wakes it.
define internal void @ring.wake(i32 %fd, i32 %put) {
  %packet = alloca [2 x i64]
  store i8 $WAKE, ptr %packet
  %p.text = getelementptr i8, ptr %packet, i64 1
  store i32 %put, ptr %p.text, align 1
  %sent = call i64 @send(i32 %fd, ptr %packet, i64 $WAKE_BYTES, i32 $SEND_FLAGS)
  ret void
}

; Runs a call on an instance of its model, and stores the beginning, the duration and the processor
; time of this thread. Returns $DONE, $FAILED, or $LOST if it was given up meanwhile.
define internal i64 @call.run(ptr %state, ptr %call, ptr %instance, ptr %span) {
entry:
  %time = alloca [2 x i64]
  %p.started = getelementptr i8, ptr %state, i64 $STATE_STARTED
  %p.last = getelementptr i8, ptr %state, i64 $STATE_LAST
  %p.activity = getelementptr i8, ptr %state, i64 $STATE_ACTIVITY
  %activity = load ptr, ptr %p.activity
  %p.cancellation = getelementptr i8, ptr %state, i64 $STATE_CANCELLATION
  %cancellation = load ptr, ptr %p.cancellation
  %used.before = call i64 @used(ptr %time)
  %begin = call i64 @now(ptr %time)
  store atomic i64 %begin, ptr %p.started seq_cst, align 8
  %p.input.copies = getelementptr i8, ptr %call, i64 $CALL_INPUT_COPIES
  %input.copies = load ptr, ptr %p.input.copies
  %p.input.count = getelementptr i8, ptr %call, i64 $CALL_INPUT_COUNT
  %input.count = load i64, ptr %p.input.count
  call void @copy.all(ptr %input.copies, i64 %input.count)
  %p.crumb = getelementptr i8, ptr %call, i64 $CALL_CRUMB
  %noted = call ptr @memcpy(ptr %activity, ptr %p.crumb, i64 $CRUMB_BYTES)
  %p.step.call = getelementptr i8, ptr %instance, i64 8
  %step.call = load ptr, ptr %p.step.call
  %p.step = getelementptr i8, ptr %step.call, i64 $STEP
  %step = load ptr, ptr %p.step
  %p.step.cancellation = getelementptr i8, ptr %step, i64 48
  store ptr %cancellation, ptr %p.step.cancellation
  %p.binding = getelementptr i8, ptr %call, i64 $CALL_BINDING
  %binding = load ptr, ptr %p.binding
  %result = call i64 @neurald_run_call(ptr %step.call, ptr %binding)
  %p.finished = getelementptr i8, ptr %step.call, i64 $FINISHED
  %finished = load i64, ptr %p.finished
  %is.finished = icmp eq i64 %result, %finished
  call void @llvm.memset.p0.i64(ptr %activity, i8 0, i64 $CRUMB_BYTES, i1 false)
  store atomic i64 0, ptr %instance release, align 8
  %is.cancelled = call i1 @is.cancelled(ptr %cancellation)
  %is.uncancelled = xor i1 %is.cancelled, true
  %has.result = and i1 %is.finished, %is.uncancelled
  br i1 %has.result, label %reply, label %ended
reply:
  %p.output.copies = getelementptr i8, ptr %call, i64 $CALL_OUTPUT_COPIES
  %output.copies = load ptr, ptr %p.output.copies
  %p.output.count = getelementptr i8, ptr %call, i64 $CALL_OUTPUT_COUNT
  %output.count = load i64, ptr %p.output.count
  call void @copy.all(ptr %output.copies, i64 %output.count)
  br label %ended
ended:
  %end = call i64 @now(ptr %time)
  %elapsed = sub i64 %end, %begin
  store i64 %elapsed, ptr %p.last
  store i64 %begin, ptr %span
  %p.elapsed = getelementptr i8, ptr %span, i64 8
  store i64 %elapsed, ptr %p.elapsed
  %used.after = call i64 @used(ptr %time)
  %used = sub i64 %used.after, %used.before
  %p.used = getelementptr i8, ptr %span, i64 16
  store i64 %used, ptr %p.used
  ; An execution that was given up no longer counts, and its client was told.
  %running = cmpxchg ptr %p.started, i64 %begin, i64 0 seq_cst seq_cst
  %is.valid = extractvalue { i64, i1 } %running, 1
  br i1 %is.valid, label %valid, label %given.up
valid:
  %status = select i1 %has.result, i64 $DONE, i64 $FAILED
  ret i64 %status
given.up:
  store atomic i64 0, ptr %p.started seq_cst, align 8
  ret i64 $LOST
}

; Serves a ring until Python is needed; returns why.
define i64 @neurald_serve_ring(ptr %state) {
entry:
  %time = alloca [2 x i64]
  %span = alloca [3 x i64]
  %p.elapsed = getelementptr i8, ptr %span, i64 8
  %p.used = getelementptr i8, ptr %span, i64 16
  %p.ring = getelementptr i8, ptr %state, i64 $STATE_RING
  %ring = load ptr, ptr %p.ring
  %p.taken = getelementptr i8, ptr %state, i64 $STATE_TAKEN
  %p.calls = getelementptr i8, ptr %state, i64 $STATE_CALLS
  %p.queued = getelementptr i8, ptr %state, i64 $STATE_QUEUED
  %p.put = getelementptr i8, ptr %state, i64 $STATE_PUT
  %p.place = getelementptr i8, ptr %state, i64 $STATE_PLACE
  %p.outcome = getelementptr i8, ptr %state, i64 $STATE_OUTCOME
  %p.fd = getelementptr i8, ptr %state, i64 $STATE_FD
  %fd = load i32, ptr %p.fd
  %p.cancellation = getelementptr i8, ptr %state, i64 $STATE_CANCELLATION
  %cancellation = load ptr, ptr %p.cancellation
  %p.cancelled.by = getelementptr i8, ptr %cancellation, i64 16
  %entered = call i64 @now(ptr %time)
  br label %next
next:
  %waited = call i64 @ring.wait(ptr %state)
  %has.arrived = icmp eq i64 %waited, $ARRIVED
  br i1 %has.arrived, label %arrived, label %unserved
unserved:
  %why = call i64 @ring.reclaim(ptr %state, i64 %waited)
  ret i64 %why
arrived:
  call void @ring.await(ptr %state)
  %place = load atomic i32, ptr %p.place acquire, align 4
  %still.waits = icmp ne i32 %place, 0
  %outcome = load i64, ptr %p.outcome
  %is.told = icmp ne i64 %outcome, 0
  %is.over = or i1 %still.waits, %is.told
  br i1 %is.over, label %python, label %look
look:
  %p.number = getelementptr i8, ptr %ring, i64 $RING_NUMBER
  %number = load atomic i32, ptr %p.number acquire, align 4
  %taken = load i32, ptr %p.taken
  %expected = add i32 %taken, 1
  %is.next = icmp eq i32 %number, %expected
  br i1 %is.next, label %read, label %python
read:
  ; Each word is read once: the client may change them at any time.
  %p.head = getelementptr i8, ptr %ring, i64 $RING_SUBMISSION
  %head = load atomic i64, ptr %p.head monotonic, align 8
  %p.left = getelementptr i8, ptr %p.head, i64 8
  %left = load atomic i64, ptr %p.left monotonic, align 8
  %p.timeout = getelementptr i8, ptr %p.head, i64 16
  %timeout = load atomic i64, ptr %p.timeout monotonic, align 8
  %request = and i64 %head, 4294967295
  %is.request = icmp ult i64 %request, $REQUESTS
  br i1 %is.request, label %find, label %python
find:
  %p.call = getelementptr ptr, ptr %p.calls, i64 %request
  %call = load ptr, ptr %p.call
  %is.unknown = icmp eq ptr %call, null
  br i1 %is.unknown, label %python, label %compare
compare:
  %p.expected.head = getelementptr i8, ptr %call, i64 $CALL_ENTRY
  %expected.head = load i64, ptr %p.expected.head
  %p.expected.left = getelementptr i8, ptr %p.expected.head, i64 8
  %expected.left = load i64, ptr %p.expected.left
  %p.expected.timeout = getelementptr i8, ptr %p.expected.head, i64 16
  %expected.timeout = load i64, ptr %p.expected.timeout
  %same.head = icmp eq i64 %head, %expected.head
  %same.left = icmp eq i64 %left, %expected.left
  %same.timeout = icmp eq i64 %timeout, %expected.timeout
  %same.first = and i1 %same.head, %same.left
  %same = and i1 %same.first, %same.timeout
  br i1 %same, label %claim, label %python
claim:
  %claimed = cmpxchg ptr %call, i32 $ARMED, i32 $RUNS acquire monotonic
  %is.claimed = extractvalue { i32, i1 } %claimed, 1
  br i1 %is.claimed, label %admit, label %python
admit:
  %cancelled.by = zext i32 %number to i64
  store i64 %cancelled.by, ptr %p.cancelled.by
  %entry.result = call i64 @gate.enter(ptr %state, ptr %call, i32 %number)
  %is.admitted = icmp eq i64 %entry.result, $STARTED
  br i1 %is.admitted, label %take, label %unadmitted
unadmitted:
  %is.left = icmp eq i64 %entry.result, $LEFT
  br i1 %is.left, label %next, label %release
take:
  %p.instances = getelementptr i8, ptr %call, i64 $CALL_INSTANCES
  %instances = load ptr, ptr %p.instances
  %instance = call ptr @instance.take(ptr %instances)
  %lacks.instance = icmp eq ptr %instance, null
  br i1 %lacks.instance, label %lack, label %run
lack:
  call void @gate.leave(ptr %state, i64 0, i64 0, i64 0, i64 0, i32 1)
  br label %release
run:
  %status = call i64 @call.run(ptr %state, ptr %call, ptr %instance, ptr %span)
  %begin = load i64, ptr %span
  %elapsed = load i64, ptr %p.elapsed
  %used = load i64, ptr %p.used
  %queued = load i64, ptr %p.queued
  %in.queue = sub i64 %begin, %queued
  switch i64 %status, label %failed [ i64 $DONE, label %complete
                                      i64 $LOST, label %release ]
complete:
  store i32 %number, ptr %p.taken
  %put.before = load i32, ptr %p.put
  %put = add i32 %put.before, 1
  %must.wake = call i1 @ring.complete(ptr %state, i32 %put, i64 %begin, i64 %elapsed)
  br i1 %must.wake, label %wake, label %leave
wake:
  call void @ring.wake(i32 %fd, i32 %put)
  br label %leave
leave:
  call void @gate.leave(ptr %state, i64 %elapsed, i64 %used, i64 %in.queue, i64 1, i32 1)
  %kept = call i1 @call.end(ptr %call)
  br i1 %kept, label %report, label %python
report:
  %end = add i64 %begin, %elapsed
  %since = sub i64 %end, %entered
  %is.due = icmp sgt i64 %since, $REPORT_NS
  br i1 %is.due, label %due, label %next
due:
  %why.due = call i64 @ring.reclaim(ptr %state, i64 $REPORT)
  ret i64 %why.due
failed:
  ; Python executes it again, and reports what is wrong.
  call void @gate.leave(ptr %state, i64 %elapsed, i64 %used, i64 %in.queue, i64 0, i32 1)
  br label %release
release:
  %cause = phi i64 [ %entry.result, %unadmitted ], [ $NEEDS_INSTANCE, %lack ], [ $PYTHON, %failed ], [ $GIVEN_UP, %run ]
  %kept.released = call i1 @call.end(ptr %call)
  %why.released = call i64 @ring.reclaim(ptr %state, i64 %cause)
  ret i64 %why.released
python:
  %why.unusual = call i64 @ring.reclaim(ptr %state, i64 $PYTHON)
  ret i64 %why.unusual
}

; Runs the calls that rings have left to other threads, in turn, until there are none for a while. A
; thread that keeps room from one call to the next wakes nobody in between.
define void @neurald_run_waiting(ptr %gate) {
entry:
  %time = alloca [2 x i64]
  %span = alloca [3 x i64]
  %p.elapsed = getelementptr i8, ptr %span, i64 8
  %p.used = getelementptr i8, ptr %span, i64 16
  %patience = alloca [2 x i64]
  store i64 $RUNNER_IDLE_S, ptr %patience
  %p.patience.rest = getelementptr i8, ptr %patience, i64 8
  store i64 0, ptr %p.patience.rest
  %one = alloca i64
  store i64 1, ptr %one
  %p.running = getelementptr i8, ptr %gate, i64 $GATE_RUNNING
  %p.waiting = getelementptr i8, ptr %gate, i64 $GATE_WAITING
  %p.ready = getelementptr i8, ptr %gate, i64 $GATE_READY
  %p.runners = getelementptr i8, ptr %gate, i64 $GATE_RUNNERS
  %entered = call i64 @now(ptr %time)
  br label %next
next:
  %room = phi i32 [ 0, %entry ], [ 0, %rest ], [ 1, %handed ]
  %worked = phi i64 [ %entered, %entry ], [ %worked, %rest ], [ %ended, %handed ]
  call void @gate.lock(ptr %gate)
  %less = sub i32 0, %room
  %running = call i32 @add32(ptr %p.running, i32 %less)
  %has.room = call i1 @gate.has.room(ptr %gate)
  br i1 %has.room, label %choose, label %none
choose:
  %state = call ptr @gate.next(ptr %gate)
  %is.none = icmp eq ptr %state, null
  br i1 %is.none, label %none, label %take
none:
  %ready = load atomic i32, ptr %p.ready monotonic, align 4
  %waiting = load atomic i32, ptr %p.waiting monotonic, align 4
  %now = call i64 @now(ptr %time)
  %idle = sub i64 %now, %worked
  %is.long = icmp sgt i64 %idle, $RUNNER_IDLE_NS
  %is.unused = icmp eq i32 %waiting, 0
  %is.over = and i1 %is.long, %is.unused
  br i1 %is.over, label %leave, label %rest
leave:
  %runners = call i32 @add32(ptr %p.runners, i32 -1)
  call void @gate.unlock(ptr %gate)
  ret void
rest:
  call void @gate.unlock(ptr %gate)
  %slept = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %p.ready, i32 128, i32 %ready, ptr %patience)
  br label %next
take:
  call void @gate.unlist(ptr %gate, ptr %state)
  call void @gate.start(ptr %gate, ptr %state)
  %p.place = getelementptr i8, ptr %state, i64 $STATE_PLACE
  store atomic i32 $TAKEN, ptr %p.place monotonic, align 4
  %p.held = getelementptr i8, ptr %state, i64 $STATE_HELD
  %held = atomicrmw add ptr %p.held, i32 1 monotonic
  call void @gate.unlock(ptr %gate)
  %p.outcome = getelementptr i8, ptr %state, i64 $STATE_OUTCOME
  %p.fd = getelementptr i8, ptr %state, i64 $STATE_FD
  %fd = load i32, ptr %p.fd
  %p.wake = getelementptr i8, ptr %state, i64 $STATE_WAKE
  %wake = load i32, ptr %p.wake
  %p.call = getelementptr i8, ptr %state, i64 $STATE_CALL
  %call = load ptr, ptr %p.call
  %p.instances = getelementptr i8, ptr %call, i64 $CALL_INSTANCES
  %instances = load ptr, ptr %p.instances
  %instance = call ptr @instance.take(ptr %instances)
  %lacks.instance = icmp eq ptr %instance, null
  br i1 %lacks.instance, label %lack, label %run
lack:
  %now.lacking = call i64 @now(ptr %time)
  call void @gate.leave(ptr %state, i64 0, i64 0, i64 0, i64 0, i32 0)
  br label %refuse
run:
  %status = call i64 @call.run(ptr %state, ptr %call, ptr %instance, ptr %span)
  %begin = load i64, ptr %span
  %elapsed = load i64, ptr %p.elapsed
  %used = load i64, ptr %p.used
  %end = add i64 %begin, %elapsed
  %p.queued = getelementptr i8, ptr %state, i64 $STATE_QUEUED
  %queued = load i64, ptr %p.queued
  %in.queue = sub i64 %begin, %queued
  switch i64 %status, label %failed [ i64 $DONE, label %complete
                                      i64 $LOST, label %lost ]
complete:
  call void @gate.leave(ptr %state, i64 %elapsed, i64 %used, i64 %in.queue, i64 1, i32 0)
  %kept = call i1 @call.end(ptr %call)
  %told = select i1 %kept, i64 0, i64 $PYTHON
  store atomic i64 %told, ptr %p.outcome monotonic, align 8
  %p.put = getelementptr i8, ptr %state, i64 $STATE_PUT
  %put.before = load i32, ptr %p.put
  %put = add i32 %put.before, 1
  %must.wake = call i1 @ring.complete(ptr %state, i32 %put, i64 %begin, i64 %elapsed)
  ; From here on the thread of the ring may leave the next call.
  call void @ring.free(ptr %state)
  br i1 %must.wake, label %wake.client, label %tell
wake.client:
  call void @ring.wake(i32 %fd, i32 %put)
  br label %tell
tell:
  br i1 %kept, label %handed, label %wake.thread
failed:
  call void @gate.leave(ptr %state, i64 %elapsed, i64 %used, i64 %in.queue, i64 0, i32 0)
  br label %refuse
refuse:
  %cause = phi i64 [ $NEEDS_INSTANCE, %lack ], [ $PYTHON, %failed ]
  %ended.refused = phi i64 [ %now.lacking, %lack ], [ %end, %failed ]
  call void @ring.untake(ptr %state)
  %kept.refused = call i1 @call.end(ptr %call)
  store atomic i64 %cause, ptr %p.outcome monotonic, align 8
  call void @ring.free(ptr %state)
  br label %wake.thread
wake.thread:
  %ended.told = phi i64 [ %end, %tell ], [ %ended.refused, %refuse ]
  %written = call i64 @write(i32 %wake, ptr %one, i64 8)
  br label %handed
handed:
  %ended = phi i64 [ %end, %tell ], [ %ended.told, %wake.thread ]
  %held.before = atomicrmw sub ptr %p.held, i32 1 release
  br label %next
lost:
  ; Another thread has this one's room, and does its work.
  %kept.lost = call i1 @call.end(ptr %call)
  store atomic i64 $GIVEN_UP, ptr %p.outcome monotonic, align 8
  call void @ring.free(ptr %state)
  %written.lost = call i64 @write(i32 %wake, ptr %one, i64 8)
  %held.lost = atomicrmw sub ptr %p.held, i32 1 release
  ret void
}

; Ends the run of a call that a ring has left to another thread.
define internal void @ring.free(ptr %state) {
  %p.place = getelementptr i8, ptr %state, i64 $STATE_PLACE
  %place = atomicrmw xchg ptr %p.place, i32 0 seq_cst
  %is.awaited = icmp eq i32 %place, $AWAITED
  br i1 %is.awaited, label %wake, label %end
wake:
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %p.place, i32 129, i32 1)
  br label %end
end:
  ret void
}

; Counts more or fewer threads that run the calls of others; returns how many there are.
define i64 @neurald_add_runners(ptr %gate, i64 %change) {
  %p.runners = getelementptr i8, ptr %gate, i64 $GATE_RUNNERS
  %less = trunc i64 %change to i32
  call void @gate.lock(ptr %gate)
  %runners = call i32 @add32(ptr %p.runners, i32 %less)
  call void @gate.unlock(ptr %gate)
  %count = sext i32 %runners to i64
  ret i64 %count
}

; Takes room for an execution of Python if no more than %most run then, and room is left for rings
; that wait and have not yet what is theirs. Returns 1 if it was taken, and 0 otherwise.
define i64 @neurald_take_room(ptr %gate, i64 %most) {
  %wanted = trunc i64 %most to i32
  %p.running = getelementptr i8, ptr %gate, i64 $GATE_RUNNING
  %p.beside = getelementptr i8, ptr %gate, i64 $GATE_BESIDE
  %p.waiting = getelementptr i8, ptr %gate, i64 $GATE_WAITING
  %p.own = getelementptr i8, ptr %gate, i64 $GATE_OWN
  %own = load i32, ptr %p.own
  %p.most = getelementptr i8, ptr %gate, i64 $GATE_MOST
  %limit = load i32, ptr %p.most
  call void @gate.lock(ptr %gate)
  %running = load atomic i32, ptr %p.running monotonic, align 4
  %beside = load atomic i32, ptr %p.beside monotonic, align 4
  %waiting = load atomic i32, ptr %p.waiting monotonic, align 4
  %taken = add i32 %running, %beside
  %difference = sub i32 %own, %running
  %is.lacking = icmp sgt i32 %difference, 0
  %lacking = select i1 %is.lacking, i32 %difference, i32 0
  %lack.all = icmp slt i32 %waiting, %lacking
  %kept = select i1 %lack.all, i32 %waiting, i32 %lacking
  %with.kept = add i32 %taken, %kept
  %fits = icmp slt i32 %taken, %wanted
  %leaves.room = icmp slt i32 %with.kept, %limit
  %may = and i1 %fits, %leaves.room
  %more = zext i1 %may to i32
  %beside.now = call i32 @add32(ptr %p.beside, i32 %more)
  call void @gate.unlock(ptr %gate)
  %result = zext i1 %may to i64
  ret i64 %result
}

; Gives back room that executions of Python have taken, for which threads are woken if calls wait.
define i64 @neurald_give_room(ptr %gate, i64 %count) {
entry:
  %p.beside = getelementptr i8, ptr %gate, i64 $GATE_BESIDE
  %p.waiting = getelementptr i8, ptr %gate, i64 $GATE_WAITING
  %p.ready = getelementptr i8, ptr %gate, i64 $GATE_READY
  %many = trunc i64 %count to i32
  %less = sub i32 0, %many
  call void @gate.lock(ptr %gate)
  %beside = call i32 @add32(ptr %p.beside, i32 %less)
  %waiting = load atomic i32, ptr %p.waiting monotonic, align 4
  %is.awaited = icmp ne i32 %waiting, 0
  br i1 %is.awaited, label %wake, label %end
wake:
  %ready = call i32 @add32(ptr %p.ready, i32 1)
  call void @gate.unlock(ptr %gate)
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %p.ready, i32 129, i32 %many)
  ret i64 0
end:
  call void @gate.unlock(ptr %gate)
  ret i64 0
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; Withdraws a call. Returns 1 if it does not run; if it does, it is the last time.
define i64 @neurald_withdraw_call(ptr %call) {
entry:
  br label %try
try:
  %idle = cmpxchg ptr %call, i32 $ARMED, i32 $WITHDRAWN seq_cst seq_cst
  %is.idle = extractvalue { i32, i1 } %idle, 1
  br i1 %is.idle, label %unused, label %other
other:
  %found = extractvalue { i32, i1 } %idle, 0
  %runs = icmp eq i32 %found, $RUNS
  br i1 %runs, label %leave, label %before
leave:
  %leaving = cmpxchg ptr %call, i32 $RUNS, i32 $LAST_RUN seq_cst seq_cst
  %is.leaving = extractvalue { i32, i1 } %leaving, 1
  br i1 %is.leaving, label %used, label %try
before:
  %is.last = icmp eq i32 %found, $LAST_RUN
  br i1 %is.last, label %used, label %unused
unused:
  ret i64 1
used:
  ret i64 0
}

; Gives up the execution of a ring that has run since %started, so that the next ring may run.
; Returns 0 if it has ended, 1 if the thread of the ring runs it, and 2 if another one does, which
; no longer counts.
define i64 @neurald_give_up_ring(ptr %state, i64 %started) {
  %time = alloca [2 x i64]
  %p.started = getelementptr i8, ptr %state, i64 $STATE_STARTED
  ; While the execution runs, the place only changes from $TAKEN to $AWAITED.
  %p.place = getelementptr i8, ptr %state, i64 $STATE_PLACE
  %place = load atomic i32, ptr %p.place seq_cst, align 4
  %swap = cmpxchg ptr %p.started, i64 %started, i64 -1 seq_cst seq_cst
  %is.running = extractvalue { i64, i1 } %swap, 1
  br i1 %is.running, label %leave, label %ended
leave:
  %now = call i64 @now(ptr %time)
  %elapsed = sub i64 %now, %started
  call void @gate.leave(ptr %state, i64 %elapsed, i64 %elapsed, i64 0, i64 0, i32 1)
  %is.own = icmp eq i32 %place, 0
  br i1 %is.own, label %own, label %other
own:
  ret i64 1
other:
  %p.gate = getelementptr i8, ptr %state, i64 $STATE_GATE
  %gate = load ptr, ptr %p.gate
  %runners = call i64 @neurald_add_runners(ptr %gate, i64 -1)
  ret i64 2
ended:
  ret i64 0
}
