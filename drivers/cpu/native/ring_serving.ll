; Serves rings without Python; ring_serving.py describes what it does, and the layouts of memory.

declare i32 @poll(ptr, i64, i32)
declare i64 @recv(i32, ptr, i64, i32)
declare i64 @send(i32, ptr, i64, i32)
declare i32 @sched_yield()

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

; Lets a ring run. It is charged with the time of its last execution until that of this one is known.
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
  %p.last = getelementptr i8, ptr %state, i64 $STATE_LAST
  %last = load i64, ptr %p.last
  %p.charged = getelementptr i8, ptr %state, i64 $STATE_CHARGED
  store i64 %last, ptr %p.charged
  call void @ring.charge(ptr %state, i64 %last)
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

; Waits until a ring may run. Returns false, with nothing changed, if it is cancelled, or if the gate
; is closed.
define internal i1 @gate.enter(ptr %state) {
entry:
  %time = alloca [2 x i64]
  %limit.time = alloca [2 x i64]
  store i64 0, ptr %limit.time
  %p.limit.rest = getelementptr i8, ptr %limit.time, i64 8
  store i64 $CHECK_NS, ptr %p.limit.rest
  %p.gate = getelementptr i8, ptr %state, i64 $STATE_GATE
  %gate = load ptr, ptr %p.gate
  %p.closed = getelementptr i8, ptr %gate, i64 $GATE_CLOSED
  %p.running = getelementptr i8, ptr %gate, i64 $GATE_RUNNING
  %p.waiting = getelementptr i8, ptr %gate, i64 $GATE_WAITING
  %p.user = getelementptr i8, ptr %state, i64 $STATE_USER
  %user = load ptr, ptr %p.user
  %p.client = getelementptr i8, ptr %state, i64 $STATE_CLIENT
  %client = load ptr, ptr %p.client
  %p.place = getelementptr i8, ptr %state, i64 $STATE_PLACE
  %p.cancellation = getelementptr i8, ptr %state, i64 $STATE_CANCELLATION
  %cancellation = load ptr, ptr %p.cancellation
  %now = call i64 @now(ptr %time)
  %p.queued = getelementptr i8, ptr %state, i64 $STATE_QUEUED
  store i64 %now, ptr %p.queued
  call void @gate.lock(ptr %gate)
  %closed = load atomic i32, ptr %p.closed monotonic, align 4
  %is.closed = icmp ne i32 %closed, 0
  br i1 %is.closed, label %refuse, label %join
join:
  %p.level = getelementptr i8, ptr %gate, i64 $GATE_LEVEL
  call void @share.join(ptr %user, ptr %p.level)
  %p.user.level = getelementptr i8, ptr %user, i64 $SHARE_LEVEL
  call void @share.join(ptr %client, ptr %p.user.level)
  %running = load atomic i32, ptr %p.running monotonic, align 4
  %p.limit = getelementptr i8, ptr %gate, i64 $GATE_LIMIT
  %limit = load i32, ptr %p.limit
  %has.room = icmp slt i32 %running, %limit
  %waiting = load atomic i32, ptr %p.waiting monotonic, align 4
  %is.next = icmp eq i32 %waiting, 0
  %may.start = and i1 %has.room, %is.next
  br i1 %may.start, label %start, label %list
start:
  call void @gate.start(ptr %gate, ptr %state)
  call void @gate.unlock(ptr %gate)
  ret i1 true
list:
  store atomic i32 $WAITING, ptr %p.place monotonic, align 4
  %p.first = getelementptr i8, ptr %gate, i64 $GATE_FIRST
  %first = load ptr, ptr %p.first
  %p.next = getelementptr i8, ptr %state, i64 $STATE_NEXT
  store ptr %first, ptr %p.next
  store ptr %state, ptr %p.first
  %waiting.now = call i32 @add32(ptr %p.waiting, i32 1)
  call void @gate.unlock(ptr %gate)
  br label %sleep
sleep:
  %slept = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %p.place, i32 128, i32 $WAITING, ptr %limit.time)
  %place = load atomic i32, ptr %p.place acquire, align 4
  %is.granted = icmp eq i32 %place, $GRANTED
  br i1 %is.granted, label %granted, label %check
check:
  %is.cancelled = call i1 @is.cancelled(ptr %cancellation)
  %closed.now = load atomic i32, ptr %p.closed monotonic, align 4
  %is.closed.now = icmp ne i32 %closed.now, 0
  %must.leave = or i1 %is.cancelled, %is.closed.now
  br i1 %must.leave, label %withdraw, label %sleep
withdraw:
  call void @gate.lock(ptr %gate)
  %place.now = load atomic i32, ptr %p.place acquire, align 4
  %was.granted = icmp eq i32 %place.now, $GRANTED
  br i1 %was.granted, label %keep, label %unlist
keep:
  call void @gate.unlock(ptr %gate)
  br label %granted
unlist:
  call void @gate.unlist(ptr %gate, ptr %state)
  store atomic i32 0, ptr %p.place monotonic, align 4
  call void @ring.part(ptr %state)
  br label %refuse
granted:
  store atomic i32 0, ptr %p.place monotonic, align 4
  ret i1 true
refuse:
  call void @gate.unlock(ptr %gate)
  ret i1 false
}

; Ends the run of a ring that took %elapsed, and lets the next one run. With %counts 0 nothing was
; executed.
define internal void @gate.leave(ptr %state, i64 %elapsed, i64 %waited, i64 %counts) {
entry:
  %p.gate = getelementptr i8, ptr %state, i64 $STATE_GATE
  %gate = load ptr, ptr %p.gate
  call void @gate.lock(ptr %gate)
  %p.running = getelementptr i8, ptr %gate, i64 $GATE_RUNNING
  %running = call i32 @add32(ptr %p.running, i32 -1)
  %p.executions = getelementptr i8, ptr %gate, i64 $GATE_EXECUTIONS
  call void @add64(ptr %p.executions, i64 %counts)
  %p.busy = getelementptr i8, ptr %gate, i64 $GATE_BUSY
  call void @add64(ptr %p.busy, i64 %elapsed)
  %p.waited = getelementptr i8, ptr %gate, i64 $GATE_QUEUED
  call void @add64(ptr %p.waited, i64 %waited)
  %p.charged = getelementptr i8, ptr %state, i64 $STATE_CHARGED
  %charged = load i64, ptr %p.charged
  %more = sub i64 %elapsed, %charged
  call void @ring.charge(ptr %state, i64 %more)
  call void @ring.part(ptr %state)
  %p.limit = getelementptr i8, ptr %gate, i64 $GATE_LIMIT
  %limit = load i32, ptr %p.limit
  %has.room = icmp slt i32 %running, %limit
  br i1 %has.room, label %choose, label %none
choose:
  %p.first = getelementptr i8, ptr %gate, i64 $GATE_FIRST
  %first = load ptr, ptr %p.first
  br label %look
look:
  %each = phi ptr [ %first, %choose ], [ %next, %better ]
  %best = phi ptr [ null, %choose ], [ %best.now, %better ]
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
  %is.none = icmp eq ptr %best, null
  br i1 %is.none, label %none, label %grant
grant:
  call void @gate.unlist(ptr %gate, ptr %best)
  call void @gate.start(ptr %gate, ptr %best)
  %p.place = getelementptr i8, ptr %best, i64 $STATE_PLACE
  store atomic i32 $GRANTED, ptr %p.place release, align 4
  call void @gate.unlock(ptr %gate)
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %p.place, i32 129, i32 1)
  ret void
none:
  call void @gate.unlock(ptr %gate)
  ret void
}

; Waits for the next entry of a ring. Returns 0 if it has arrived; else why Python is needed.
define internal i64 @ring.wait(ptr %state) {
entry:
  %time = alloca [2 x i64]
  %polled = alloca [2 x i32]
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
  %p.gate = getelementptr i8, ptr %state, i64 $STATE_GATE
  %gate = load ptr, ptr %p.gate
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
  ; Nothing orders the store of the client's number and its load of the flag, unless it makes a system
  ; call between them. It may not have seen the flag, and wake nobody. Its store becomes visible
  ; during this call.
  store i32 1, ptr %p.events
  %already = call i32 @poll(ptr %polled, i64 1, i32 0)
  %has.none = icmp eq i32 %already, 0
  br i1 %has.none, label %recheck, label %readable
recheck:
  %number.soon = load atomic i32, ptr %p.number acquire, align 4
  %is.soon = icmp ne i32 %number.soon, %taken
  br i1 %is.soon, label %awake, label %park
park:
  store i32 1, ptr %p.events
  %ready = call i32 @poll(ptr %polled, i64 1, i32 $IDLE_MS)
  %is.idle = icmp eq i32 %ready, 0
  br i1 %is.idle, label %idle, label %readable
idle:
  %number.late = load atomic i32, ptr %p.number acquire, align 4
  %is.late = icmp ne i32 %number.late, %taken
  br i1 %is.late, label %awake, label %give.up
give.up:
  store atomic i32 0, ptr %p.sleeps monotonic, align 4
  ret i64 $IDLE
readable:
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
  br label %sleep
unusual:
  store atomic i32 0, ptr %p.sleeps monotonic, align 4
  br label %python
python:
  ret i64 $PYTHON
awake:
  store atomic i32 0, ptr %p.sleeps monotonic, align 4
  br label %arrived
arrived:
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

; Passes the completion to the client, which has no new shapes, and no times, or that of the execution.
define internal void @ring.complete(ptr %state, ptr %ring, i64 %elapsed) {
  %packet = alloca [2 x i64]
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
  %before = load i32, ptr %p.put
  %put = add i32 %before, 1
  store i32 %put, ptr %p.put
  %p.number = getelementptr i8, ptr %ring, i64 $RING_COMPLETED
  store atomic i32 %put, ptr %p.number release, align 4
  fence seq_cst
  %p.sleeps = getelementptr i8, ptr %ring, i64 $RING_PEER_SLEEPS
  %sleeps = load atomic i32, ptr %p.sleeps monotonic, align 4
  %must.wake = icmp ne i32 %sleeps, 0
  br i1 %must.wake, label %wake, label %end
wake:
  store i8 $WAKE, ptr %packet
  %p.text = getelementptr i8, ptr %packet, i64 1
  store i32 %put, ptr %p.text, align 1
  %p.fd = getelementptr i8, ptr %state, i64 $STATE_FD
  %fd = load i32, ptr %p.fd
  %sent = call i64 @send(i32 %fd, ptr %packet, i64 $WAKE_BYTES, i32 $SEND_FLAGS)
  br label %end
end:
  ret void
}

; Serves a ring until Python is needed; returns why.
define i64 @neurald_serve_ring(ptr %state) {
entry:
  %time = alloca [2 x i64]
  %p.ring = getelementptr i8, ptr %state, i64 $STATE_RING
  %ring = load ptr, ptr %p.ring
  %p.taken = getelementptr i8, ptr %state, i64 $STATE_TAKEN
  %p.calls = getelementptr i8, ptr %state, i64 $STATE_CALLS
  %p.started = getelementptr i8, ptr %state, i64 $STATE_STARTED
  %p.queued = getelementptr i8, ptr %state, i64 $STATE_QUEUED
  %p.last = getelementptr i8, ptr %state, i64 $STATE_LAST
  %p.activity = getelementptr i8, ptr %state, i64 $STATE_ACTIVITY
  %activity = load ptr, ptr %p.activity
  %p.cancellation = getelementptr i8, ptr %state, i64 $STATE_CANCELLATION
  %cancellation = load ptr, ptr %p.cancellation
  %p.cancelled.by = getelementptr i8, ptr %cancellation, i64 16
  %entered = call i64 @now(ptr %time)
  br label %next
next:
  %waited = call i64 @ring.wait(ptr %state)
  %has.arrived = icmp eq i64 %waited, $ARRIVED
  br i1 %has.arrived, label %look, label %unserved
unserved:
  ret i64 %waited
look:
  %p.number = getelementptr i8, ptr %ring, i64 $RING_NUMBER
  %number = load atomic i32, ptr %p.number acquire, align 4
  %taken = load i32, ptr %p.taken
  %expected = add i32 %taken, 1
  %is.next = icmp eq i32 %number, %expected
  br i1 %is.next, label %trace, label %python
trace:
  %p.stamps = getelementptr i8, ptr %ring, i64 $RING_STAMPS
  %stamps = load atomic i32, ptr %p.stamps monotonic, align 4
  %is.untraced = icmp eq i32 %stamps, 0
  br i1 %is.untraced, label %read, label %python
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
  %is.admitted = call i1 @gate.enter(ptr %state)
  br i1 %is.admitted, label %take, label %release
take:
  %p.instances = getelementptr i8, ptr %call, i64 $CALL_INSTANCES
  %instances = load ptr, ptr %p.instances
  %instance = call ptr @instance.take(ptr %instances)
  %lacks.instance = icmp eq ptr %instance, null
  br i1 %lacks.instance, label %lack, label %run
lack:
  call void @gate.leave(ptr %state, i64 0, i64 0, i64 0)
  %kept.lack = call i1 @call.end(ptr %call)
  ret i64 $NEEDS_INSTANCE
run:
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
  ; An execution that was given up no longer counts, and its client was told.
  %running = cmpxchg ptr %p.started, i64 %begin, i64 0 seq_cst seq_cst
  %is.valid = extractvalue { i64, i1 } %running, 1
  br i1 %is.valid, label %valid, label %given.up
given.up:
  store atomic i64 0, ptr %p.started seq_cst, align 8
  %kept.given.up = call i1 @call.end(ptr %call)
  ret i64 $GIVEN_UP
valid:
  %counts = zext i1 %has.result to i64
  %queued = load i64, ptr %p.queued
  %in.queue = sub i64 %begin, %queued
  br i1 %has.result, label %complete, label %failed
complete:
  store i32 %number, ptr %p.taken
  call void @ring.complete(ptr %state, ptr %ring, i64 %elapsed)
  call void @gate.leave(ptr %state, i64 %elapsed, i64 %in.queue, i64 %counts)
  %kept = call i1 @call.end(ptr %call)
  br i1 %kept, label %report, label %python
report:
  %since = sub i64 %end, %entered
  %is.due = icmp sgt i64 %since, $REPORT_NS
  br i1 %is.due, label %due, label %next
due:
  ret i64 $REPORT
failed:
  ; Python executes it again, and reports what is wrong.
  call void @gate.leave(ptr %state, i64 %elapsed, i64 %in.queue, i64 %counts)
  br label %release
release:
  %kept.failed = call i1 @call.end(ptr %call)
  br label %python
python:
  ret i64 $PYTHON
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

; Gives up the execution of a ring that has run since %started, so that the next ring may run. Returns
; 1, or 0 if it has ended.
define i64 @neurald_give_up_ring(ptr %state, i64 %started) {
  %time = alloca [2 x i64]
  %p.started = getelementptr i8, ptr %state, i64 $STATE_STARTED
  %swap = cmpxchg ptr %p.started, i64 %started, i64 -1 seq_cst seq_cst
  %is.running = extractvalue { i64, i1 } %swap, 1
  br i1 %is.running, label %leave, label %ended
leave:
  %now = call i64 @now(ptr %time)
  %elapsed = sub i64 %now, %started
  call void @gate.leave(ptr %state, i64 %elapsed, i64 0, i64 0)
  ret i64 1
ended:
  ret i64 0
}
