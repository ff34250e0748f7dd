; A function of Python that calls another one and records when; recorded_call.py describes the
; layouts of memory.

declare i64 @llvm.readcyclecounter()

; Returns the time of the monotonic clock in nanoseconds.
define internal i64 @recorded.clock(ptr %table) {
  %time = alloca [2 x i64]
  %p.clock = getelementptr i8, ptr %table, i64 $CLOCK
  %clock = load ptr, ptr %p.clock
  %failed = call i32 %clock(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %p.rest = getelementptr i8, ptr %time, i64 8
  %rest = load i64, ptr %p.rest
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}

; Returns the same time, and notes which count of the processor's counter belongs to it, and how
; long a count takes. What was noted before is dropped if the counter did not keep to it.
define internal i64 @recorded.compare(ptr %table) {
entry:
  %p.last = getelementptr i8, ptr %table, i64 $LAST
  %p.base = getelementptr i8, ptr %table, i64 $BASE_COUNT
  %p.base.time = getelementptr i8, ptr %table, i64 $BASE_TIME
  %p.scale = getelementptr i8, ptr %table, i64 $SCALE
  %p.first = getelementptr i8, ptr %table, i64 $FIRST_COUNT
  %p.first.time = getelementptr i8, ptr %table, i64 $FIRST_TIME
  %before = call i64 @llvm.readcyclecounter()
  %now = call i64 @recorded.clock(ptr %table)
  %after = call i64 @llvm.readcyclecounter()
  %between = sub i64 %after, %before
  ; Something else has run in the meantime.
  %is.unclear = icmp ugt i64 %between, $MAX_BETWEEN
  br i1 %is.unclear, label %only, label %check
check:
  %half = lshr i64 %between, 1
  %count = add i64 %before, %half
  %base = load i64, ptr %p.base
  %base.time = load i64, ptr %p.base.time
  %has.base = icmp ne i64 %base, 0
  %since = sub i64 %count, %base
  %passed = sub i64 %now, %base.time
  %scale = load i64, ptr %p.scale
  %scale.float = uitofp i64 %scale to double
  %since.float = uitofp i64 %since to double
  %product = fmul double %since.float, %scale.float
  %expected = fdiv double %product, 4294967296.0
  %passed.float = sitofp i64 %passed to double
  %above = fsub double %expected, %passed.float
  %below = fsub double %passed.float, %expected
  %is.above = fcmp ogt double %above, 0.0
  %error = select i1 %is.above, double %above, double %below
  %share = fdiv double %passed.float, 1024.0
  %most = fadd double %share, $MAX_ERROR
  %is.wrong = fcmp ogt double %error, %most
  %is.off = and i1 %has.base, %is.wrong
  %first.time = load i64, ptr %p.first.time
  %has.no.first = icmp eq i64 %first.time, 0
  %begins = or i1 %is.off, %has.no.first
  br i1 %begins, label %begin, label %measure
begin:
  store i64 %count, ptr %p.first
  store i64 %now, ptr %p.first.time
  store i64 %now, ptr %p.last
  ; An earlier recorder may have found how long a count takes.
  %is.unknown = icmp eq i64 %scale, 0
  %must.wait = or i1 %is.off, %is.unknown
  %first.base = select i1 %must.wait, i64 0, i64 %count
  store i64 %first.base, ptr %p.base
  store i64 %now, ptr %p.base.time
  ret i64 %now
measure:
  %first = load i64, ptr %p.first
  %counts = sub i64 %count, %first
  %is.short = icmp ult i64 %counts, $WINDOW
  br i1 %is.short, label %only, label %note
note:
  %time = sub i64 %now, %first.time
  %time.float = uitofp i64 %time to double
  %counts.float = uitofp i64 %counts to double
  %each = fdiv double %time.float, %counts.float
  %each.scaled = fmul double %each, 4294967296.0
  %new.scale = fptoui double %each.scaled to i64
  store i64 %new.scale, ptr %p.scale
  store i64 %count, ptr %p.base
  store i64 %now, ptr %p.base.time
  br label %only
only:
  ret i64 %now
}

; Returns the time as the processor's counter tells it, if it may be used and was compared with the
; clock shortly before. It never goes back.
define internal i64 @recorded.now(ptr %table) {
entry:
  %p.counts = getelementptr i8, ptr %table, i64 $COUNTS
  %may.count = load i64, ptr %p.counts
  %uses.clock = icmp eq i64 %may.count, 0
  br i1 %uses.clock, label %clock, label %count
clock:
  %time = call i64 @recorded.clock(ptr %table)
  ret i64 %time
count:
  %p.last = getelementptr i8, ptr %table, i64 $LAST
  %p.base = getelementptr i8, ptr %table, i64 $BASE_COUNT
  %p.base.time = getelementptr i8, ptr %table, i64 $BASE_TIME
  %p.scale = getelementptr i8, ptr %table, i64 $SCALE
  %now.count = call i64 @llvm.readcyclecounter()
  %base = load i64, ptr %p.base
  %since = sub i64 %now.count, %base
  %is.near = icmp ult i64 %since, $WINDOW
  br i1 %is.near, label %near, label %far
near:
  %scale = load i64, ptr %p.scale
  %base.time = load i64, ptr %p.base.time
  %product = mul i64 %since, %scale
  %passed = lshr i64 %product, 32
  %near.time = add i64 %base.time, %passed
  br label %done
far:
  %compared = call i64 @recorded.compare(ptr %table)
  br label %done
done:
  %told = phi i64 [ %near.time, %near ], [ %compared, %far ]
  %last = load i64, ptr %p.last
  %is.later = icmp sgt i64 %told, %last
  %now = select i1 %is.later, i64 %told, i64 %last
  store i64 %now, ptr %p.last
  ret i64 %now
}

define internal void @recorded.drop(ptr %table, ptr %object) {
  %p.decrease = getelementptr i8, ptr %table, i64 $DECREASE
  %decrease = load ptr, ptr %p.decrease
  call void %decrease(ptr %object)
  ret void
}

define internal void @recorded.keep(ptr %table, ptr %object) {
  %p.increase = getelementptr i8, ptr %table, i64 $INCREASE
  %increase = load ptr, ptr %p.increase
  call void %increase(ptr %object)
  ret void
}

define internal ptr @recorded.call(ptr %table, ptr %function, ptr %arguments, i64 %count, ptr %names) {
  %p.vectorcall = getelementptr i8, ptr %table, i64 $VECTORCALL
  %vectorcall = load ptr, ptr %p.vectorcall
  %result = call ptr %vectorcall(ptr %function, ptr %arguments, i64 %count, ptr %names)
  ret ptr %result
}

; Returns an attribute of an object, a new reference; null if it raises an exception.
define internal ptr @recorded.attribute(ptr %table, ptr %object, ptr %name) {
  %p.get = getelementptr i8, ptr %table, i64 $GET_ATTRIBUTE
  %get = load ptr, ptr %p.get
  %found = call ptr %get(ptr %object, ptr %name)
  ret ptr %found
}

; Returns the state of this thread, which somebody keeps; null if it raises an exception.
define internal ptr @recorded.thread(ptr %table) {
entry:
  %p.get.thread = getelementptr i8, ptr %table, i64 $GET_THREAD
  %get.thread = load ptr, ptr %p.get.thread
  %interpreter.thread = call ptr %get.thread()
  %p.get.number = getelementptr i8, ptr %table, i64 $GET_NUMBER
  %get.number = load ptr, ptr %p.get.number
  %number = call i64 %get.number(ptr %interpreter.thread)
  %p.threads = getelementptr i8, ptr %table, i64 $THREADS
  %threads = load ptr, ptr %p.threads
  %slot = and i64 %number, $THREAD_MASK
  %offset = mul i64 %slot, 16
  %p.known = getelementptr i8, ptr %threads, i64 %offset
  %known = load i64, ptr %p.known
  %p.state = getelementptr i8, ptr %p.known, i64 8
  %is.known = icmp eq i64 %known, %number
  br i1 %is.known, label %found, label %ask
found:
  %state = load ptr, ptr %p.state
  ret ptr %state
ask:
  %p.ask = getelementptr i8, ptr %table, i64 $ASK_THREAD
  %ask.function = load ptr, ptr %p.ask
  %told = call ptr @recorded.call(ptr %table, ptr %ask.function, ptr null, i64 0, ptr null)
  %failed = icmp eq ptr %told, null
  br i1 %failed, label %raise, label %store
store:
  store i64 %number, ptr %p.known
  store ptr %told, ptr %p.state
  call void @recorded.drop(ptr %table, ptr %told)
  ret ptr %told
raise:
  ret ptr null
}

; Returns the value of an integer, which it drops.
define internal i64 @recorded.integer(ptr %table, ptr %object) {
  %p.to.integer = getelementptr i8, ptr %table, i64 $TO_INTEGER
  %to.integer = load ptr, ptr %p.to.integer
  %value = call i64 %to.integer(ptr %object)
  call void @recorded.drop(ptr %table, ptr %object)
  ret i64 %value
}

; Returns where the next entry is.
define internal ptr @recorded.entry(ptr %table) {
  %p.count = getelementptr i8, ptr %table, i64 $COUNT
  %stored = load i64, ptr %p.count
  %more = add i64 %stored, 1
  store i64 %more, ptr %p.count
  %p.capacity = getelementptr i8, ptr %table, i64 $CAPACITY_MASK
  %capacity = load i64, ptr %p.capacity
  %place = and i64 %stored, %capacity
  %offset = mul i64 %place, $RECORD_BYTES
  %p.ring = getelementptr i8, ptr %table, i64 $RING
  %ring = load ptr, ptr %p.ring
  %entry = getelementptr i8, ptr %ring, i64 %offset
  ret ptr %entry
}

; Stores an entry.
define internal void @recorded.put(ptr %table, i64 %a, i64 %b, i64 %c, i64 %d, i64 %subject) {
  %entry = call ptr @recorded.entry(ptr %table)
  store i64 %a, ptr %entry
  %p.b = getelementptr i8, ptr %entry, i64 8
  store i64 %b, ptr %p.b
  %p.c = getelementptr i8, ptr %entry, i64 16
  store i64 %c, ptr %p.c
  %p.d = getelementptr i8, ptr %entry, i64 24
  store i64 %d, ptr %p.d
  %p.subject = getelementptr i8, ptr %entry, i64 32
  store i64 %subject, ptr %p.subject
  ret void
}

; Returns the number of what is called: that of the record, or that of a key, which is asked for
; once, and stores where its notes are. -1 if it raises an exception.
define internal i64 @recorded.subject(ptr %table, ptr %record, ptr %instance, ptr %p.note) {
entry:
  %p.subject = getelementptr i8, ptr %record, i64 $SUBJECT
  %subject = load i64, ptr %p.subject
  %is.fixed = icmp sge i64 %subject, 0
  br i1 %is.fixed, label %fixed, label %look
fixed:
  ret i64 %subject
look:
  %p.owner.name = getelementptr i8, ptr %record, i64 $OWNER_NAME
  %owner.name = load ptr, ptr %p.owner.name
  %is.itself = icmp eq ptr %owner.name, null
  br i1 %is.itself, label %itself, label %other
itself:
  call void @recorded.keep(ptr %table, ptr %instance)
  br label %have.owner
other:
  %read = call ptr @recorded.attribute(ptr %table, ptr %instance, ptr %owner.name)
  br label %have.owner
have.owner:
  %owner = phi ptr [ %instance, %itself ], [ %read, %other ]
  %no.owner = icmp eq ptr %owner, null
  br i1 %no.owner, label %raise, label %read.key
read.key:
  %p.key.name = getelementptr i8, ptr %record, i64 $KEY_NAME
  %key.name = load ptr, ptr %p.key.name
  %key = call ptr @recorded.attribute(ptr %table, ptr %owner, ptr %key.name)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %drop.owner, label %search
drop.owner:
  call void @recorded.drop(ptr %table, ptr %owner)
  br label %raise
search:
  %address = ptrtoint ptr %key to i64
  %unit = lshr i64 %address, 4
  %slot = and i64 %unit, $SUBJECT_MASK
  %offset = mul i64 %slot, $SUBJECT_BYTES
  %p.subjects = getelementptr i8, ptr %record, i64 $SUBJECTS
  %subjects = load ptr, ptr %p.subjects
  %p.known = getelementptr i8, ptr %subjects, i64 %offset
  %known = load ptr, ptr %p.known
  %p.number = getelementptr i8, ptr %p.known, i64 8
  %p.known.note = getelementptr i8, ptr %p.known, i64 16
  %is.known = icmp eq ptr %known, %key
  br i1 %is.known, label %found, label %ask
found:
  call void @recorded.drop(ptr %table, ptr %owner)
  call void @recorded.drop(ptr %table, ptr %key)
  %number = load i64, ptr %p.number
  %known.note = load i64, ptr %p.known.note
  store i64 %known.note, ptr %p.note
  ret i64 %number
ask:
  %arguments = alloca [2 x ptr]
  store ptr %owner, ptr %arguments
  %p.second = getelementptr i8, ptr %arguments, i64 8
  store ptr %key, ptr %p.second
  %p.ask = getelementptr i8, ptr %record, i64 $ASK_SUBJECT
  %ask.function = load ptr, ptr %p.ask
  %told = call ptr @recorded.call(ptr %table, ptr %ask.function, ptr %arguments, i64 2, ptr null)
  call void @recorded.drop(ptr %table, ptr %owner)
  %failed = icmp eq ptr %told, null
  br i1 %failed, label %drop.key, label %number.told
drop.key:
  call void @recorded.drop(ptr %table, ptr %key)
  br label %raise
number.told:
  %value = call i64 @recorded.integer(ptr %table, ptr %told)
  %p.note.name = getelementptr i8, ptr %record, i64 $NOTE_NAME
  %note.name = load ptr, ptr %p.note.name
  %has.no.note = icmp eq ptr %note.name, null
  br i1 %has.no.note, label %store, label %read.note
read.note:
  %note.told = call ptr @recorded.attribute(ptr %table, ptr %key, ptr %note.name)
  %no.note = icmp eq ptr %note.told, null
  br i1 %no.note, label %drop.key, label %note.read
note.read:
  %note.address = call i64 @recorded.integer(ptr %table, ptr %note.told)
  br label %store
store:
  %note = phi i64 [ 0, %number.told ], [ %note.address, %note.read ]
  call void @recorded.drop(ptr %table, ptr %key)
  store ptr %key, ptr %p.known
  store i64 %value, ptr %p.number
  store i64 %note, ptr %p.known.note
  store i64 %note, ptr %p.note
  ret i64 %value
raise:
  ret i64 -1
}

; Hands an exception and what is known of the call to Python, and raises it again.
define internal void @recorded.failure(ptr %table, ptr %record, i64 %start, i64 %number, i64 %subject) {
entry:
  %error = alloca [3 x ptr]
  %p.value = getelementptr i8, ptr %error, i64 8
  %p.trace = getelementptr i8, ptr %error, i64 16
  %p.fetch = getelementptr i8, ptr %table, i64 $FETCH
  %fetch = load ptr, ptr %p.fetch
  call void %fetch(ptr %error, ptr %p.value, ptr %p.trace)
  %p.normalize = getelementptr i8, ptr %table, i64 $NORMALIZE
  %normalize = load ptr, ptr %p.normalize
  call void %normalize(ptr %error, ptr %p.value, ptr %p.trace)
  %arguments = alloca [4 x ptr]
  %value = load ptr, ptr %p.value
  store ptr %value, ptr %arguments
  %p.from.integer = getelementptr i8, ptr %table, i64 $FROM_INTEGER
  %from.integer = load ptr, ptr %p.from.integer
  %start.object = call ptr %from.integer(i64 %start)
  %p.1 = getelementptr i8, ptr %arguments, i64 8
  store ptr %start.object, ptr %p.1
  %number.object = call ptr %from.integer(i64 %number)
  %p.2 = getelementptr i8, ptr %arguments, i64 16
  store ptr %number.object, ptr %p.2
  %subject.object = call ptr %from.integer(i64 %subject)
  %p.3 = getelementptr i8, ptr %arguments, i64 24
  store ptr %subject.object, ptr %p.3
  %p.failed = getelementptr i8, ptr %record, i64 $FAILED
  %failed.function = load ptr, ptr %p.failed
  %told = call ptr @recorded.call(ptr %table, ptr %failed.function, ptr %arguments, i64 4, ptr null)
  call void @recorded.drop(ptr %table, ptr %start.object)
  call void @recorded.drop(ptr %table, ptr %number.object)
  call void @recorded.drop(ptr %table, ptr %subject.object)
  %is.null = icmp eq ptr %told, null
  br i1 %is.null, label %restore, label %drop
drop:
  call void @recorded.drop(ptr %table, ptr %told)
  br label %restore
restore:
  %p.restore = getelementptr i8, ptr %table, i64 $RESTORE
  %restore.function = load ptr, ptr %p.restore
  %type = load ptr, ptr %error
  %again = load ptr, ptr %p.value
  %trace = load ptr, ptr %p.trace
  call void %restore.function(ptr %type, ptr %again, ptr %trace)
  ret void
}

define ptr @neurald_recorded_call(ptr %self, ptr %given, i64 %flagged.count, ptr %names) {
entry:
  %p.note = alloca ptr
  store ptr null, ptr %p.note
  ; The highest bit says that the caller has room before the arguments.
  %given.count = and i64 %flagged.count, 9223372036854775807
  %p.record = getelementptr i8, ptr %self, i64 $FUNCTION_WORDS
  %record = load ptr, ptr %p.record
  %p.table = getelementptr i8, ptr %record, i64 $TABLE
  %table = load ptr, ptr %p.table
  %p.path = getelementptr i8, ptr %record, i64 $PATH_FIRST
  %path.first = load ptr, ptr %p.path
  %is.plain = icmp eq ptr %path.first, null
  br i1 %is.plain, label %plain, label %check.short
plain:
  %p.part.name = getelementptr i8, ptr %record, i64 $PART_NAME
  %part.name = load ptr, ptr %p.part.name
  %has.part = icmp ne ptr %part.name, null
  br i1 %has.part, label %check.part, label %check.subject
; The object says what call this is part of.
check.part:
  %is.alone.part = icmp eq i64 %given.count, 0
  br i1 %is.alone.part, label %slow, label %read.part
read.part:
  %part.instance = load ptr, ptr %given
  %part = call ptr @recorded.attribute(ptr %table, ptr %part.instance, ptr %part.name)
  %no.part = icmp eq ptr %part, null
  br i1 %no.part, label %raise, label %is.part
is.part:
  %p.no.call = getelementptr i8, ptr %table, i64 $NONE
  %no.call = load ptr, ptr %p.no.call
  %is.no.part = icmp eq ptr %part, %no.call
  br i1 %is.no.part, label %forget.part, label %compare.part
forget.part:
  call void @recorded.drop(ptr %table, ptr %part)
  br label %slow
compare.part:
  %part.value = call i64 @recorded.integer(ptr %table, ptr %part)
  %part.trace = lshr i64 %part.value, $CALL_BITS
  %part.call = and i64 %part.value, $CALL_MASK
  %p.trace.number = getelementptr i8, ptr %record, i64 $PART_TRACE
  %trace.number = load i64, ptr %p.trace.number
  %is.of.trace = icmp eq i64 %part.trace, %trace.number
  br i1 %is.of.trace, label %check.subject, label %slow
check.subject:
  %known.call = phi i64 [ 0, %plain ], [ %part.call, %compare.part ]
  %p.own.subject = getelementptr i8, ptr %record, i64 $SUBJECT
  %own.subject = load i64, ptr %p.own.subject
  %needs.instance = icmp slt i64 %own.subject, 0
  %is.alone = icmp eq i64 %given.count, 0
  %lacks.instance = and i1 %needs.instance, %is.alone
  br i1 %lacks.instance, label %slow, label %keep.function
keep.function:
  %p.function = getelementptr i8, ptr %record, i64 $FUNCTION
  %plain.function = load ptr, ptr %p.function
  call void @recorded.keep(ptr %table, ptr %plain.function)
  br label %ready
; The object has the function that does the work, which is called in its method's place.
check.short:
  %no.instance = icmp eq i64 %given.count, 0
  %has.names = icmp ne ptr %names, null
  %p.most = getelementptr i8, ptr %record, i64 $MOST_ARGUMENTS
  %most = load i64, ptr %p.most
  %too.many = icmp sgt i64 %given.count, %most
  %odd = or i1 %has.names, %too.many
  %unusual = or i1 %no.instance, %odd
  br i1 %unusual, label %slow, label %follow
follow:
  %method.instance = load ptr, ptr %given
  %first = call ptr @recorded.attribute(ptr %table, ptr %method.instance, ptr %path.first)
  %no.first = icmp eq ptr %first, null
  br i1 %no.first, label %raise, label %check.second
check.second:
  %p.path.second = getelementptr i8, ptr %record, i64 $PATH_SECOND
  %path.second = load ptr, ptr %p.path.second
  %is.short.path = icmp eq ptr %path.second, null
  br i1 %is.short.path, label %have.function, label %read.second
read.second:
  %second = call ptr @recorded.attribute(ptr %table, ptr %first, ptr %path.second)
  call void @recorded.drop(ptr %table, ptr %first)
  %no.second = icmp eq ptr %second, null
  br i1 %no.second, label %raise, label %have.function
have.function:
  %short.function = phi ptr [ %first, %check.second ], [ %second, %read.second ]
  %p.none = getelementptr i8, ptr %table, i64 $NONE
  %none = load ptr, ptr %p.none
  %is.none = icmp eq ptr %short.function, %none
  br i1 %is.none, label %forget, label %skip
forget:
  call void @recorded.drop(ptr %table, ptr %short.function)
  br label %slow
skip:
  %rest = getelementptr i8, ptr %given, i64 8
  %rest.count = sub i64 %given.count, 1
  br label %ready
ready:
  %function = phi ptr [ %plain.function, %keep.function ], [ %short.function, %skip ]
  %part.number = phi i64 [ %known.call, %keep.function ], [ 0, %skip ]
  %arguments = phi ptr [ %given, %keep.function ], [ %rest, %skip ]
  %count = phi i64 [ %given.count, %keep.function ], [ %rest.count, %skip ]
  %has.arguments = icmp ne i64 %given.count, 0
  br i1 %has.arguments, label %with.instance, label %find
with.instance:
  %loaded.instance = load ptr, ptr %given
  br label %find
find:
  %instance = phi ptr [ null, %ready ], [ %loaded.instance, %with.instance ]
  %subject = call i64 @recorded.subject(ptr %table, ptr %record, ptr %instance, ptr %p.note)
  %no.subject = icmp slt i64 %subject, 0
  br i1 %no.subject, label %give.up, label %find.thread
find.thread:
  %thread = call ptr @recorded.thread(ptr %table)
  %no.thread = icmp eq ptr %thread, null
  br i1 %no.thread, label %give.up, label %number
number:
  %p.under.way = getelementptr i8, ptr %thread, i64 $STATE_CALL
  %outer = load ptr, ptr %p.under.way
  %p.zero = getelementptr i8, ptr %table, i64 $ZERO
  %zero = load ptr, ptr %p.zero
  %is.outermost = icmp eq ptr %outer, %zero
  %p.is.call = getelementptr i8, ptr %record, i64 $IS_CALL
  %is.call = load i64, ptr %p.is.call
  %may.begin = icmp ne i64 %is.call, 0
  %begins.anew = and i1 %is.outermost, %may.begin
  %continues = icmp ne i64 %part.number, 0
  %begins = or i1 %begins.anew, %continues
  br i1 %continues, label %begin, label %check.begin
check.begin:
  br i1 %begins, label %count.call, label %inside
count.call:
  %p.next = getelementptr i8, ptr %table, i64 $NEXT_CALL
  %next = load i64, ptr %p.next
  %after = add i64 %next, 2
  store i64 %after, ptr %p.next
  br label %begin
begin:
  %own.number = phi i64 [ %next, %count.call ], [ %part.number, %number ]
  %p.from.integer = getelementptr i8, ptr %table, i64 $FROM_INTEGER
  %from.integer = load ptr, ptr %p.from.integer
  %next.object = call ptr %from.integer(i64 %own.number)
  %no.object = icmp eq ptr %next.object, null
  br i1 %no.object, label %give.up, label %enter
enter:
  store ptr %next.object, ptr %p.under.way
  br label %run
inside:
  br i1 %is.outermost, label %run, label %convert
convert:
  %p.to.integer = getelementptr i8, ptr %table, i64 $TO_INTEGER
  %to.integer = load ptr, ptr %p.to.integer
  %outer.number = call i64 %to.integer(ptr %outer)
  br label %run
run:
  %call.number = phi i64 [ %own.number, %enter ], [ 0, %inside ], [ %outer.number, %convert ]
  %start = call i64 @recorded.now(ptr %table)
  %result = call ptr @recorded.call(ptr %table, ptr %function, ptr %arguments, i64 %count, ptr %names)
  %end = call i64 @recorded.now(ptr %table)
  br i1 %begins, label %leave, label %done
leave:
  %present = load ptr, ptr %p.under.way
  store ptr %outer, ptr %p.under.way
  call void @recorded.drop(ptr %table, ptr %present)
  br label %done
done:
  call void @recorded.drop(ptr %table, ptr %function)
  %has.failed = icmp eq ptr %result, null
  br i1 %has.failed, label %tell, label %check.result
tell:
  %p.failed.subject = getelementptr i8, ptr %record, i64 $OTHERWISE
  %failed.subject = load i64, ptr %p.failed.subject
  %is.same = icmp slt i64 %failed.subject, 0
  %told.subject = select i1 %is.same, i64 %subject, i64 %failed.subject
  call void @recorded.failure(ptr %table, ptr %record, i64 %start, i64 %call.number, i64 %told.subject)
  ret ptr null
check.result:
  %p.expected = getelementptr i8, ptr %record, i64 $EXPECTED
  %expected = load ptr, ptr %p.expected
  %wants.any = icmp eq ptr %expected, null
  br i1 %is.plain, label %compare.plain, label %compare
compare.plain:
  %returns.expected = icmp eq ptr %result, %expected
  %counts = or i1 %wants.any, %returns.expected
  br i1 %counts, label %check.unusual, label %other.result
; None and results of a type may tell what was called.
check.unusual:
  %p.kind = getelementptr i8, ptr %record, i64 $UNUSUAL_KIND
  %kind = load ptr, ptr %p.kind
  %has.kind = icmp ne ptr %kind, null
  br i1 %has.kind, label %compare.kind, label %store
compare.kind:
  %p.no.result = getelementptr i8, ptr %table, i64 $NONE
  %no.result = load ptr, ptr %p.no.result
  %is.no.result = icmp eq ptr %result, %no.result
  %p.type = getelementptr i8, ptr %result, i64 $OBJECT_TYPE
  %type = load ptr, ptr %p.type
  %is.of.kind = icmp eq ptr %type, %kind
  %is.unusual = or i1 %is.no.result, %is.of.kind
  br i1 %is.unusual, label %ask.result, label %store
ask.result:
  %asked = alloca ptr
  store ptr %result, ptr %asked
  %p.ask.result = getelementptr i8, ptr %record, i64 $ASK_RESULT
  %ask.result.function = load ptr, ptr %p.ask.result
  %answer.subject = call ptr @recorded.call(ptr %table, ptr %ask.result.function, ptr %asked, i64 1, ptr null)
  %has.no.answer = icmp eq ptr %answer.subject, null
  br i1 %has.no.answer, label %drop.result, label %have.answer
drop.result:
  call void @recorded.drop(ptr %table, ptr %result)
  br label %raise
have.answer:
  %unusual.subject = call i64 @recorded.integer(ptr %table, ptr %answer.subject)
  br label %store
other.result:
  %p.otherwise = getelementptr i8, ptr %record, i64 $OTHERWISE
  %otherwise = load i64, ptr %p.otherwise
  %is.uncounted = icmp slt i64 %otherwise, 0
  br i1 %is.uncounted, label %uncounted, label %store
uncounted:
  ret ptr %result
compare:
  br i1 %wants.any, label %is.any, label %is.expected
is.any:
  %p.nothing = getelementptr i8, ptr %table, i64 $NONE
  %nothing = load ptr, ptr %p.nothing
  %has.nothing = icmp eq ptr %result, %nothing
  br i1 %has.nothing, label %refused, label %store
refused:
  call void @recorded.drop(ptr %table, ptr %result)
  br label %slow
; The function returns whether it has succeeded, and the method nothing.
is.expected:
  %has.succeeded = icmp eq ptr %result, %expected
  br i1 %has.succeeded, label %answer, label %finish
finish:
  %both = alloca [2 x ptr]
  store ptr %instance, ptr %both
  %p.both = getelementptr i8, ptr %both, i64 8
  store ptr %result, ptr %p.both
  %p.finish = getelementptr i8, ptr %record, i64 $FINISH
  %finish.function = load ptr, ptr %p.finish
  %finished = call ptr @recorded.call(ptr %table, ptr %finish.function, ptr %both, i64 2, ptr null)
  call void @recorded.drop(ptr %table, ptr %result)
  %not.finished = icmp eq ptr %finished, null
  br i1 %not.finished, label %raise, label %was.good
was.good:
  %is.good = icmp eq ptr %finished, %expected
  br i1 %is.good, label %answer, label %answer.only
answer:
  %to.drop = phi ptr [ %result, %is.expected ], [ %finished, %was.good ]
  call void @recorded.drop(ptr %table, ptr %to.drop)
  %p.make.answer = getelementptr i8, ptr %record, i64 $ANSWER
  %make.answer = load ptr, ptr %p.make.answer
  %answers.none = icmp eq ptr %make.answer, null
  br i1 %answers.none, label %answer.none, label %answer.made
answer.none:
  %p.answer = getelementptr i8, ptr %table, i64 $NONE
  %none.object = load ptr, ptr %p.answer
  call void @recorded.keep(ptr %table, ptr %none.object)
  br label %answered
answer.made:
  %made.object = call ptr @recorded.call(ptr %table, ptr %make.answer, ptr null, i64 0, ptr null)
  %is.unmade = icmp eq ptr %made.object, null
  br i1 %is.unmade, label %raise, label %answered
answered:
  %answer.object = phi ptr [ %none.object, %answer.none ], [ %made.object, %answer.made ]
  br label %store
answer.only:
  %p.has.answer = getelementptr i8, ptr %record, i64 $ANSWER
  %has.answer = load ptr, ptr %p.has.answer
  %returns.none = icmp eq ptr %has.answer, null
  br i1 %returns.none, label %answer.only.none, label %answer.only.finished
; What `finish` has done in the method's place.
answer.only.finished:
  ret ptr %finished
answer.only.none:
  call void @recorded.drop(ptr %table, ptr %finished)
  %p.only = getelementptr i8, ptr %table, i64 $NONE
  %only = load ptr, ptr %p.only
  call void @recorded.keep(ptr %table, ptr %only)
  ret ptr %only
store:
  %stored.subject = phi i64 [ %subject, %check.unusual ], [ %subject, %compare.kind ], [ %unusual.subject, %have.answer ], [ %otherwise, %other.result ], [ %subject, %is.any ], [ %subject, %answered ]
  %returned = phi ptr [ %result, %check.unusual ], [ %result, %compare.kind ], [ %result, %have.answer ], [ %result, %other.result ], [ %result, %is.any ], [ %answer.object, %answered ]
  %thread.number = ptrtoint ptr %thread to i64
  call void @recorded.put(ptr %table, i64 %start, i64 %end, i64 %thread.number, i64 %call.number, i64 %stored.subject)
  %note = load ptr, ptr %p.note
  %has.no.note = icmp eq ptr %note, null
  br i1 %has.no.note, label %return, label %store.note
store.note:
  %p.note.1 = getelementptr i8, ptr %note, i64 8
  %p.note.2 = getelementptr i8, ptr %note, i64 16
  %p.note.3 = getelementptr i8, ptr %note, i64 24
  %p.note.4 = getelementptr i8, ptr %note, i64 32
  %p.note.5 = getelementptr i8, ptr %note, i64 40
  %note.0 = load i64, ptr %note
  %note.1 = load i64, ptr %p.note.1
  %note.2 = load i64, ptr %p.note.2
  %note.3 = load i64, ptr %p.note.3
  %note.4 = load i64, ptr %p.note.4
  %note.5 = load i64, ptr %p.note.5
  call void @recorded.put(ptr %table, i64 %note.0, i64 %note.1, i64 %note.2, i64 %note.3, i64 $IS_NOTE)
  call void @recorded.put(ptr %table, i64 %note.4, i64 %note.5, i64 0, i64 0, i64 $IS_NOTE)
  br label %return
return:
  ret ptr %returned
give.up:
  call void @recorded.drop(ptr %table, ptr %function)
  br label %raise
slow:
  %p.slow = getelementptr i8, ptr %record, i64 $FUNCTION
  %slow.function = load ptr, ptr %p.slow
  %slow.result = call ptr @recorded.call(ptr %table, ptr %slow.function, ptr %given, i64 %given.count, ptr %names)
  ret ptr %slow.result
raise:
  ret ptr null
}
