; Functions that CPython calls; python_call.py describes the layouts of memory.

declare ptr @memcpy(ptr, ptr, i64)

; Copies the bytes of %count ranges.
define internal void @copy.ranges(ptr %ranges, i64 %count) {
entry:
  br label %test
test:
  %index = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %body, label %done
body:
  %offset = mul i64 %index, $RANGE_BYTES
  %range = getelementptr i8, ptr %ranges, i64 %offset
  %target = load ptr, ptr %range
  %p.source = getelementptr i8, ptr %range, i64 8
  %source = load ptr, ptr %p.source
  %p.size = getelementptr i8, ptr %range, i64 16
  %size = load i64, ptr %p.size
  %copied = call ptr @memcpy(ptr %target, ptr %source, i64 %size)
  %next = add i64 %index, 1
  br label %test
done:
  ret void
}

; Releases the GIL if the call has to. Returns the thread's state for @acquire, or null.
define internal ptr @release(ptr %table, ptr %call) {
  %p.releases = getelementptr i8, ptr %call, i64 $RELEASES
  %releases = load i64, ptr %p.releases
  %keeps = icmp eq i64 %releases, 0
  br i1 %keeps, label %keep, label %release
keep:
  ret ptr null
release:
  %p.save = getelementptr i8, ptr %table, i64 $SAVE_THREAD
  %save = load ptr, ptr %p.save
  %thread = call ptr %save()
  ret ptr %thread
}

; Acquires the GIL again if @release has released it.
define internal void @reacquire(ptr %table, ptr %thread) {
  %is.held = icmp eq ptr %thread, null
  br i1 %is.held, label %end, label %wait
wait:
  %p.restore = getelementptr i8, ptr %table, i64 $RESTORE_THREAD
  %restore = load ptr, ptr %p.restore
  call void %restore(ptr %thread)
  br label %end
end:
  ret void
}

; Runs the step of a call between its copies, and stores the result. Returns true if it finished;
; otherwise nothing is copied out.
define internal i1 @run.call(ptr %call) {
  %p.copied.in = getelementptr i8, ptr %call, i64 $COPIED_IN
  %copied.in = load ptr, ptr %p.copied.in
  %p.in.count = getelementptr i8, ptr %call, i64 $COPIED_IN_COUNT
  %in.count = load i64, ptr %p.in.count
  call void @copy.ranges(ptr %copied.in, i64 %in.count)
  %p.step = getelementptr i8, ptr %call, i64 $STEP
  %step = load ptr, ptr %p.step
  %result = call i64 @neurald_run(ptr %step)
  %p.result = getelementptr i8, ptr %call, i64 $RESULT
  store i64 %result, ptr %p.result
  %p.finished = getelementptr i8, ptr %call, i64 $FINISHED
  %finished = load i64, ptr %p.finished
  %is.finished = icmp eq i64 %result, %finished
  br i1 %is.finished, label %copy.out, label %end
copy.out:
  %p.copied.out = getelementptr i8, ptr %call, i64 $COPIED_OUT
  %copied.out = load ptr, ptr %p.copied.out
  %p.out.count = getelementptr i8, ptr %call, i64 $COPIED_OUT_COUNT
  %out.count = load i64, ptr %p.out.count
  call void @copy.ranges(ptr %copied.out, i64 %out.count)
  br label %end
end:
  ret i1 %is.finished
}

; Returns a new reference to a Python object.
define internal ptr @reference(ptr %table, ptr %object) {
  %p.increase = getelementptr i8, ptr %table, i64 $INCREASE
  %increase = load ptr, ptr %p.increase
  call void %increase(ptr %object)
  ret ptr %object
}

; Drops a reference to a Python object.
define internal void @drop(ptr %table, ptr %object) {
  %p.decrease = getelementptr i8, ptr %table, i64 $DECREASE
  %decrease = load ptr, ptr %p.decrease
  call void %decrease(ptr %object)
  ret void
}

; METH_NOARGS: runs the step of the call in the array %self. Returns whether it finished.
define ptr @neurald_call_step(ptr %self, ptr %nothing) {
  %p.call = getelementptr i8, ptr %self, i64 $ARRAY_DATA
  %call = load ptr, ptr %p.call
  %p.table = getelementptr i8, ptr %call, i64 $TABLE
  %table = load ptr, ptr %p.table
  %thread = call ptr @release(ptr %table, ptr %call)
  %is.finished = call i1 @run.call(ptr %call)
  call void @reacquire(ptr %table, ptr %thread)
  %p.true = getelementptr i8, ptr %table, i64 $TRUE
  %true.object = load ptr, ptr %p.true
  %p.false = getelementptr i8, ptr %table, i64 $FALSE
  %false.object = load ptr, ptr %p.false
  %answer = select i1 %is.finished, ptr %true.object, ptr %false.object
  %owned = call ptr @reference(ptr %table, ptr %answer)
  ret ptr %owned
}

; Returns true if an object is an array as a port expects it.
define internal i1 @is.expected(ptr %table, ptr %port, ptr %object) {
entry:
  %p.type = getelementptr i8, ptr %object, i64 $OBJECT_TYPE
  %type = load ptr, ptr %p.type
  %p.array.type = getelementptr i8, ptr %table, i64 $ARRAY_TYPE
  %array.type = load ptr, ptr %p.array.type
  %is.array = icmp eq ptr %type, %array.type
  br i1 %is.array, label %look.dtype, label %no
look.dtype:
  %p.given.dtype = getelementptr i8, ptr %object, i64 $ARRAY_DTYPE
  %given.dtype = load ptr, ptr %p.given.dtype
  %p.dtype = getelementptr i8, ptr %port, i64 $PORT_DTYPE
  %dtype = load ptr, ptr %p.dtype
  %is.typed = icmp eq ptr %given.dtype, %dtype
  br i1 %is.typed, label %look.flags, label %no
look.flags:
  %p.flags = getelementptr i8, ptr %object, i64 $ARRAY_FLAGS
  %flags = load i32, ptr %p.flags
  %relevant = and i32 %flags, $USABLE
  %is.usable = icmp eq i32 %relevant, $USABLE
  br i1 %is.usable, label %look.rank, label %no
look.rank:
  %p.given.rank = getelementptr i8, ptr %object, i64 $ARRAY_RANK
  %given.rank = load i32, ptr %p.given.rank
  %given.wide = zext i32 %given.rank to i64
  %p.rank = getelementptr i8, ptr %port, i64 $PORT_RANK
  %rank = load i64, ptr %p.rank
  %is.ranked = icmp eq i64 %given.wide, %rank
  br i1 %is.ranked, label %look.shape, label %no
look.shape:
  %p.given.shape = getelementptr i8, ptr %object, i64 $ARRAY_SHAPE
  %given.shape = load ptr, ptr %p.given.shape
  %p.shape = getelementptr i8, ptr %port, i64 $PORT_SHAPE
  %shape = load ptr, ptr %p.shape
  br label %test
test:
  %axis = phi i64 [ 0, %look.shape ], [ %next, %compare ]
  %more = icmp ult i64 %axis, %rank
  br i1 %more, label %compare, label %yes
compare:
  %p.given = getelementptr i64, ptr %given.shape, i64 %axis
  %given = load i64, ptr %p.given
  %p.wanted = getelementptr i64, ptr %shape, i64 %axis
  %wanted = load i64, ptr %p.wanted
  %next = add i64 %axis, 1
  %is.equal = icmp eq i64 %given, %wanted
  br i1 %is.equal, label %test, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Makes the arguments of a port refer to %data if that is aligned, or else to the arena. Returns
; true if data must be copied between the arena and %data.
define internal i1 @bind.port(ptr %port, ptr %data) {
entry:
  %p.own = getelementptr i8, ptr %port, i64 $PORT_OWN
  %own = load i64, ptr %p.own
  %is.unused = icmp eq i64 %own, 0
  br i1 %is.unused, label %direct, label %used
used:
  %p.count = getelementptr i8, ptr %port, i64 $PORT_CELL_COUNT
  %count = load i64, ptr %p.count
  %has.cells = icmp ne i64 %count, 0
  %address = ptrtoint ptr %data to i64
  %rest = and i64 %address, $ALIGNMENT_MASK
  %is.aligned = icmp eq i64 %rest, 0
  %is.direct = and i1 %is.aligned, %has.cells
  %wanted = select i1 %is.direct, i64 %address, i64 %own
  %p.current = getelementptr i8, ptr %port, i64 $PORT_CURRENT
  %current = load i64, ptr %p.current
  %distance = sub i64 %wanted, %current
  store i64 %wanted, ptr %p.current
  %p.cells = getelementptr i8, ptr %port, i64 $PORT_CELLS
  %cells = load ptr, ptr %p.cells
  %is.same = icmp eq i64 %distance, 0
  br i1 %is.same, label %bound, label %test
test:
  %index = phi i64 [ 0, %used ], [ %next, %move ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %move, label %bound
move:
  %p.cell = getelementptr ptr, ptr %cells, i64 %index
  %cell = load ptr, ptr %p.cell
  %before = load i64, ptr %cell
  %after = add i64 %before, %distance
  store i64 %after, ptr %cell
  %next = add i64 %index, 1
  br label %test
bound:
  br i1 %is.direct, label %direct, label %copied
direct:
  ret i1 false
copied:
  ret i1 true
}

; Creates an array for an output, aligned if it is large. Returns null after a Python error.
define internal ptr @new.array(ptr %table, ptr %port) {
entry:
  %length = alloca i64
  %p.type = getelementptr i8, ptr %table, i64 $ARRAY_TYPE
  %type = load ptr, ptr %p.type
  %p.new = getelementptr i8, ptr %table, i64 $NEW_ARRAY
  %new = load ptr, ptr %p.new
  %p.dtype = getelementptr i8, ptr %port, i64 $PORT_DTYPE
  %dtype = load ptr, ptr %p.dtype
  %p.rank = getelementptr i8, ptr %port, i64 $PORT_RANK
  %rank.wide = load i64, ptr %p.rank
  %rank = trunc i64 %rank.wide to i32
  %p.shape = getelementptr i8, ptr %port, i64 $PORT_SHAPE
  %shape = load ptr, ptr %p.shape
  %p.size = getelementptr i8, ptr %port, i64 $PORT_SIZE
  %size = load i64, ptr %p.size
  %is.large = icmp uge i64 %size, $LARGE
  br i1 %is.large, label %large, label %small
small:
  %small.dtype = call ptr @reference(ptr %table, ptr %dtype)
  %array = call ptr %new(ptr %type, ptr %small.dtype, i32 %rank, ptr %shape, ptr null, ptr null, i32 0, ptr null)
  ret ptr %array
large:
  %room.size = add i64 %size, $ALIGNMENT_MASK
  store i64 %room.size, ptr %length
  %p.byte = getelementptr i8, ptr %table, i64 $BYTE_DTYPE
  %byte = load ptr, ptr %p.byte
  %byte.dtype = call ptr @reference(ptr %table, ptr %byte)
  %room = call ptr %new(ptr %type, ptr %byte.dtype, i32 1, ptr %length, ptr null, ptr null, i32 0, ptr null)
  %no.room = icmp eq ptr %room, null
  br i1 %no.room, label %failed, label %align
align:
  %p.start = getelementptr i8, ptr %room, i64 $ARRAY_DATA
  %start = load i64, ptr %p.start
  %negative = sub i64 0, %start
  %skipped = and i64 %negative, $ALIGNMENT_MASK
  %aligned = add i64 %start, %skipped
  %data = inttoptr i64 %aligned to ptr
  %large.dtype = call ptr @reference(ptr %table, ptr %dtype)
  %view = call ptr %new(ptr %type, ptr %large.dtype, i32 %rank, ptr %shape, ptr null, ptr %data, i32 $WRITABLE,
    ptr null)
  %no.view = icmp eq ptr %view, null
  br i1 %no.view, label %drop.room, label %own
own:
  %p.set.base = getelementptr i8, ptr %table, i64 $SET_BASE
  %set.base = load ptr, ptr %p.set.base
  %code = call i32 %set.base(ptr %view, ptr %room)
  %is.owned = icmp eq i32 %code, 0
  br i1 %is.owned, label %done, label %drop.view
done:
  ret ptr %view
drop.view:
  ; Setting the base has taken the reference to the room even if it failed.
  call void @drop(ptr %table, ptr %view)
  br label %failed
drop.room:
  call void @drop(ptr %table, ptr %room)
  br label %failed
failed:
  ret ptr null
}

; METH_FASTCALL: runs the step of the call in the array %self on arrays. Returns the list of
; outputs; None if an array is not as expected, or if the step did not finish.
;
; The list is created first, because that may start a garbage collection, which may run the same
; call. Nothing after that runs Python code.
define ptr @neurald_call_arrays(ptr %self, ptr %arrays, i64 %given.count) {
entry:
  %p.call = getelementptr i8, ptr %self, i64 $ARRAY_DATA
  %call = load ptr, ptr %p.call
  %p.table = getelementptr i8, ptr %call, i64 $TABLE
  %table = load ptr, ptr %p.table
  %p.none = getelementptr i8, ptr %table, i64 $NONE
  %none = load ptr, ptr %p.none
  %p.inputs = getelementptr i8, ptr %call, i64 $INPUTS
  %inputs = load ptr, ptr %p.inputs
  %p.input.count = getelementptr i8, ptr %call, i64 $INPUT_COUNT
  %input.count = load i64, ptr %p.input.count
  %p.outputs = getelementptr i8, ptr %call, i64 $OUTPUTS
  %outputs = load ptr, ptr %p.outputs
  %p.output.count = getelementptr i8, ptr %call, i64 $OUTPUT_COUNT
  %output.count = load i64, ptr %p.output.count
  %is.count = icmp eq i64 %given.count, %input.count
  br i1 %is.count, label %create, label %refuse
create:
  %p.new.list = getelementptr i8, ptr %table, i64 $NEW_LIST
  %new.list = load ptr, ptr %p.new.list
  %list = call ptr %new.list(i64 %output.count)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %error, label %test.check
test.check:
  %checked = phi i64 [ 0, %create ], [ %check.next, %check ]
  %more.checks = icmp ult i64 %checked, %input.count
  br i1 %more.checks, label %check, label %test.create
check:
  %check.next = add i64 %checked, 1
  %check.offset = mul i64 %checked, $PORT_BYTES
  %check.port = getelementptr i8, ptr %inputs, i64 %check.offset
  %p.check.array = getelementptr ptr, ptr %arrays, i64 %checked
  %check.array = load ptr, ptr %p.check.array
  %is.good = call i1 @is.expected(ptr %table, ptr %check.port, ptr %check.array)
  br i1 %is.good, label %test.check, label %abandon
test.create:
  %created = phi i64 [ 0, %test.check ], [ %create.next, %store ]
  %more.outputs = icmp ult i64 %created, %output.count
  br i1 %more.outputs, label %create.output, label %begin
create.output:
  %create.next = add i64 %created, 1
  %create.offset = mul i64 %created, $PORT_BYTES
  %create.port = getelementptr i8, ptr %outputs, i64 %create.offset
  %output = call ptr @new.array(ptr %table, ptr %create.port)
  %no.output = icmp eq ptr %output, null
  br i1 %no.output, label %fail, label %store
store:
  %p.set.item = getelementptr i8, ptr %table, i64 $SET_ITEM
  %set.item = load ptr, ptr %p.set.item
  %stored = call i32 %set.item(ptr %list, i64 %created, ptr %output)
  %p.output.data = getelementptr i8, ptr %output, i64 $ARRAY_DATA
  %output.data = load ptr, ptr %p.output.data
  %is.copied = call i1 @bind.port(ptr %create.port, ptr %output.data)
  %target = select i1 %is.copied, ptr %output.data, ptr null
  %p.target = getelementptr i8, ptr %create.port, i64 $PORT_TARGET
  store ptr %target, ptr %p.target
  br label %test.create
begin:
  %thread = call ptr @release(ptr %table, ptr %call)
  br label %test.bind
test.bind:
  %bound = phi i64 [ 0, %begin ], [ %bind.next, %bind.done ]
  %more.inputs = icmp ult i64 %bound, %input.count
  br i1 %more.inputs, label %bind, label %run
bind:
  %bind.offset = mul i64 %bound, $PORT_BYTES
  %bind.port = getelementptr i8, ptr %inputs, i64 %bind.offset
  %p.bind.array = getelementptr ptr, ptr %arrays, i64 %bound
  %bind.array = load ptr, ptr %p.bind.array
  %p.bind.data = getelementptr i8, ptr %bind.array, i64 $ARRAY_DATA
  %bind.data = load ptr, ptr %p.bind.data
  %needs.copy = call i1 @bind.port(ptr %bind.port, ptr %bind.data)
  br i1 %needs.copy, label %copy.in, label %bind.done
copy.in:
  %p.bind.own = getelementptr i8, ptr %bind.port, i64 $PORT_OWN
  %bind.own = load ptr, ptr %p.bind.own
  %p.bind.size = getelementptr i8, ptr %bind.port, i64 $PORT_SIZE
  %bind.size = load i64, ptr %p.bind.size
  %copied.in = call ptr @memcpy(ptr %bind.own, ptr %bind.data, i64 %bind.size)
  br label %bind.done
bind.done:
  %bind.next = add i64 %bound, 1
  br label %test.bind
run:
  %is.finished = call i1 @run.call(ptr %call)
  br i1 %is.finished, label %test.copy, label %stopped
test.copy:
  %copied = phi i64 [ 0, %run ], [ %copy.next, %copy.done ]
  %more.copies = icmp ult i64 %copied, %output.count
  br i1 %more.copies, label %copy, label %answer
copy:
  %copy.offset = mul i64 %copied, $PORT_BYTES
  %copy.port = getelementptr i8, ptr %outputs, i64 %copy.offset
  %p.copy.target = getelementptr i8, ptr %copy.port, i64 $PORT_TARGET
  %copy.target = load ptr, ptr %p.copy.target
  %in.place = icmp eq ptr %copy.target, null
  br i1 %in.place, label %copy.done, label %copy.out
copy.out:
  %p.copy.own = getelementptr i8, ptr %copy.port, i64 $PORT_OWN
  %copy.own = load ptr, ptr %p.copy.own
  %p.copy.size = getelementptr i8, ptr %copy.port, i64 $PORT_SIZE
  %copy.size = load i64, ptr %p.copy.size
  %copied.out = call ptr @memcpy(ptr %copy.target, ptr %copy.own, i64 %copy.size)
  br label %copy.done
copy.done:
  %copy.next = add i64 %copied, 1
  br label %test.copy
answer:
  call void @reacquire(ptr %table, ptr %thread)
  ret ptr %list
stopped:
  call void @reacquire(ptr %table, ptr %thread)
  br label %abandon
abandon:
  call void @drop(ptr %table, ptr %list)
  br label %refuse
refuse:
  %owned = call ptr @reference(ptr %table, ptr %none)
  ret ptr %owned
fail:
  call void @drop(ptr %table, ptr %list)
  br label %error
error:
  ret ptr null
}
