; Functions that CPython calls; python_call.py describes the layouts of memory.

declare ptr @memcpy(ptr, ptr, i64)

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

; Binds the ports of a call to the addresses of a binding, runs the step, and stores its result,
; which is also returned. Outputs that cannot be written in place are copied if the step has
; finished.
define i64 @neurald_run_call(ptr %call, ptr %binding) {
entry:
  %p.ports = getelementptr i8, ptr %call, i64 $PORTS
  %ports = load ptr, ptr %p.ports
  %p.input.count = getelementptr i8, ptr %call, i64 $INPUT_COUNT
  %input.count = load i64, ptr %p.input.count
  %p.output.count = getelementptr i8, ptr %call, i64 $OUTPUT_COUNT
  %output.count = load i64, ptr %p.output.count
  %count = add i64 %input.count, %output.count
  br label %test
test:
  %index = phi i64 [ 0, %entry ], [ %next, %strings ], [ %next, %input ], [ %next, %copy.in ], [ %next, %output ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %bind, label %run
bind:
  %next = add i64 %index, 1
  %port.offset = mul i64 %index, $PORT_BYTES
  %port = getelementptr i8, ptr %ports, i64 %port.offset
  %place.offset = mul i64 %index, $PLACE_BYTES
  %place = getelementptr i8, ptr %binding, i64 %place.offset
  %data = load ptr, ptr %place
  %p.is.copied = getelementptr i8, ptr %place, i64 8
  %always = load i64, ptr %p.is.copied
  %is.input = icmp ult i64 %index, %input.count
  %p.source = getelementptr i8, ptr %port, i64 $PORT_SOURCE
  %source = load ptr, ptr %p.source
  %has.strings = icmp ne ptr %source, null
  %is.source = and i1 %is.input, %has.strings
  br i1 %is.source, label %strings, label %numbers
strings:
  call void @refer(ptr %port, ptr %source, ptr %data)
  br label %test
numbers:
  %is.copied = call i1 @bind.port(ptr %port, ptr %data, i64 %always)
  br i1 %is.input, label %input, label %output
input:
  br i1 %is.copied, label %copy.in, label %test
copy.in:
  %p.own = getelementptr i8, ptr %port, i64 $PORT_OWN
  %own = load ptr, ptr %p.own
  %p.size = getelementptr i8, ptr %port, i64 $PORT_SIZE
  %size = load i64, ptr %p.size
  %copied.in = call ptr @memcpy(ptr %own, ptr %data, i64 %size)
  br label %test
output:
  %target = select i1 %is.copied, ptr %data, ptr null
  %p.target = getelementptr i8, ptr %port, i64 $PORT_TARGET
  store ptr %target, ptr %p.target
  br label %test
run:
  %p.step = getelementptr i8, ptr %call, i64 $STEP
  %step = load ptr, ptr %p.step
  %result = call i64 @neurald_run(ptr %step)
  %p.result = getelementptr i8, ptr %call, i64 $RESULT
  store i64 %result, ptr %p.result
  %p.finished = getelementptr i8, ptr %call, i64 $FINISHED
  %finished = load i64, ptr %p.finished
  %is.finished = icmp eq i64 %result, %finished
  br i1 %is.finished, label %test.out, label %end
test.out:
  %out = phi i64 [ %input.count, %run ], [ %out.next, %look ], [ %out.next, %copy.out ]
  %more.out = icmp ult i64 %out, %count
  br i1 %more.out, label %look, label %end
look:
  %out.next = add i64 %out, 1
  %out.offset = mul i64 %out, $PORT_BYTES
  %out.port = getelementptr i8, ptr %ports, i64 %out.offset
  %p.out.target = getelementptr i8, ptr %out.port, i64 $PORT_TARGET
  %out.target = load ptr, ptr %p.out.target
  %in.place = icmp eq ptr %out.target, null
  br i1 %in.place, label %test.out, label %copy.out
copy.out:
  %p.out.own = getelementptr i8, ptr %out.port, i64 $PORT_OWN
  %out.own = load ptr, ptr %p.out.own
  %p.out.size = getelementptr i8, ptr %out.port, i64 $PORT_SIZE
  %out.size = load i64, ptr %p.out.size
  %copied.out = call ptr @memcpy(ptr %out.target, ptr %out.own, i64 %out.size)
  br label %test.out
end:
  ret i64 %result
}

; Calls @neurald_run_call, without the GIL if the call has to release it. Returns true if the step
; finished.
define internal i1 @run.call(ptr %call, ptr %binding) {
  %p.table = getelementptr i8, ptr %call, i64 $TABLE
  %table = load ptr, ptr %p.table
  %thread = call ptr @release(ptr %table, ptr %call)
  %result = call i64 @neurald_run_call(ptr %call, ptr %binding)
  call void @reacquire(ptr %table, ptr %thread)
  %p.finished = getelementptr i8, ptr %call, i64 $FINISHED
  %finished = load i64, ptr %p.finished
  %is.finished = icmp eq i64 %result, %finished
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

; Returns True or False as a Python object.
define internal ptr @answer(ptr %call, i1 %holds) {
  %p.table = getelementptr i8, ptr %call, i64 $TABLE
  %table = load ptr, ptr %p.table
  %p.true = getelementptr i8, ptr %table, i64 $TRUE
  %true.object = load ptr, ptr %p.true
  %p.false = getelementptr i8, ptr %table, i64 $FALSE
  %false.object = load ptr, ptr %p.false
  %object = select i1 %holds, ptr %true.object, ptr %false.object
  %owned = call ptr @reference(ptr %table, ptr %object)
  ret ptr %owned
}

; METH_O: runs the step of the call in the array %self with the binding in the array %bound. Returns
; whether it finished.
define ptr @neurald_call_with(ptr %self, ptr %bound) {
  %p.call = getelementptr i8, ptr %self, i64 $ARRAY_DATA
  %call = load ptr, ptr %p.call
  %p.binding = getelementptr i8, ptr %bound, i64 $ARRAY_DATA
  %binding = load ptr, ptr %p.binding
  %is.finished = call i1 @run.call(ptr %call, ptr %binding)
  %object = call ptr @answer(ptr %call, i1 %is.finished)
  ret ptr %object
}

; METH_NOARGS: runs the step of the call in the array %self with the call's own binding. Returns
; whether it finished.
define ptr @neurald_call(ptr %self, ptr %nothing) {
  %p.call = getelementptr i8, ptr %self, i64 $ARRAY_DATA
  %call = load ptr, ptr %p.call
  %p.binding = getelementptr i8, ptr %call, i64 $BINDING
  %binding = load ptr, ptr %p.binding
  %is.finished = call i1 @run.call(ptr %call, ptr %binding)
  %object = call ptr @answer(ptr %call, i1 %is.finished)
  ret ptr %object
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
  %is.same = icmp eq ptr %given.dtype, %dtype
  br i1 %is.same, label %look.flags, label %compare.dtype
compare.dtype:
  ; Arrays that another process has sent have copies of NumPy's types.
  %p.given.scalar = getelementptr i8, ptr %given.dtype, i64 $DTYPE_SCALAR
  %given.scalar = load ptr, ptr %p.given.scalar
  %p.scalar = getelementptr i8, ptr %dtype, i64 $DTYPE_SCALAR
  %scalar = load ptr, ptr %p.scalar
  %has.scalar = icmp eq ptr %given.scalar, %scalar
  %p.given.kind = getelementptr i8, ptr %given.dtype, i64 $DTYPE_KIND
  %given.kind = load i64, ptr %p.given.kind
  %p.kind = getelementptr i8, ptr %dtype, i64 $DTYPE_KIND
  %kind = load i64, ptr %p.kind
  %differing = xor i64 %given.kind, %kind
  %relevant.kind = and i64 %differing, $DTYPE_KIND_MASK
  %has.kind = icmp eq i64 %relevant.kind, 0
  %is.typed = and i1 %has.scalar, %has.kind
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

; Makes the arguments of a port refer to %data if that is aligned and %always is 0, or else to the
; arena. Returns true if data must be copied between the arena and %data.
define internal i1 @bind.port(ptr %port, ptr %data, i64 %always) {
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
  %p.mask = getelementptr i8, ptr %port, i64 $PORT_MASK
  %mask = load i64, ptr %p.mask
  %rest = and i64 %address, %mask
  %obstacles = or i64 %rest, %always
  %is.aligned = icmp eq i64 %obstacles, 0
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

; Makes the string objects at an address the source of a port, and writes references to them where
; kernels read the port. Without an address, there are no strings.
define internal void @refer(ptr %port, ptr %source, ptr %objects) {
entry:
  %p.count = getelementptr i8, ptr %port, i64 $PORT_COUNT
  %all = load i64, ptr %p.count
  %is.missing = icmp eq ptr %objects, null
  %count = select i1 %is.missing, i64 0, i64 %all
  store i64 %count, ptr %source
  %p.objects = getelementptr i8, ptr %source, i64 8
  store ptr %objects, ptr %p.objects
  %p.references = getelementptr i8, ptr %port, i64 $PORT_REFERENCES
  %references = load ptr, ptr %p.references
  %p.first = getelementptr i8, ptr %port, i64 $PORT_FIRST
  %first = load i64, ptr %p.first
  %is.unused = icmp eq ptr %references, null
  br i1 %is.unused, label %end, label %test
test:
  %index = phi i64 [ 0, %entry ], [ %next, %write ]
  %more = icmp ult i64 %index, %all
  br i1 %more, label %write, label %end
write:
  %reference = add i64 %first, %index
  %p.reference = getelementptr i64, ptr %references, i64 %index
  store i64 %reference, ptr %p.reference
  %next = add i64 %index, 1
  br label %test
end:
  ret void
}

; Returns true if all objects of a port's array are strings, that is `bytes`.
define internal i1 @are.strings(ptr %table, ptr %port, ptr %objects) {
entry:
  %p.count = getelementptr i8, ptr %port, i64 $PORT_COUNT
  %count = load i64, ptr %p.count
  %p.wanted = getelementptr i8, ptr %table, i64 $STRING_TYPE
  %wanted = load ptr, ptr %p.wanted
  br label %test
test:
  %index = phi i64 [ 0, %entry ], [ %next, %compare ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %look, label %yes
look:
  %p.object = getelementptr ptr, ptr %objects, i64 %index
  %object = load ptr, ptr %p.object
  ; Arrays that were never filled have null pointers, which stand for None.
  %is.missing = icmp eq ptr %object, null
  br i1 %is.missing, label %no, label %compare
compare:
  %p.type = getelementptr i8, ptr %object, i64 $OBJECT_TYPE
  %type = load ptr, ptr %p.type
  %next = add i64 %index, 1
  %is.string = icmp eq ptr %type, %wanted
  br i1 %is.string, label %test, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Replaces the references in the array of an output by the strings that they refer to.
define internal void @resolve(ptr %table, ptr %port, ptr %sources, ptr %objects) {
entry:
  %p.count = getelementptr i8, ptr %port, i64 $PORT_COUNT
  %count = load i64, ptr %p.count
  br label %test
test:
  %index = phi i64 [ 0, %entry ], [ %next, %replace ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %replace, label %end
replace:
  %p.object = getelementptr ptr, ptr %objects, i64 %index
  %reference = load i64, ptr %p.object
  %object = call ptr @neurald_string(ptr %sources, i64 %reference)
  %owned = call ptr @reference(ptr %table, ptr %object)
  store ptr %owned, ptr %p.object
  %next = add i64 %index, 1
  br label %test
end:
  ret void
}

; The object number %index of the list %rooms, which the list goes on owning.
define internal ptr @room(ptr %table, ptr %rooms, i64 %index) {
  %p.get.item = getelementptr i8, ptr %table, i64 $GET_ITEM
  %get.item = load ptr, ptr %p.get.item
  %room = call ptr %get.item(ptr %rooms, i64 %index)
  ret ptr %room
}

; Returns true if nothing but the list has an object of it. None has many references.
define internal i1 @is.unused(ptr %room) {
  %references = load i32, ptr %room
  %is.unused = icmp eq i32 %references, 1
  ret i1 %is.unused
}

; Returns memory of %size bytes from the two places of %output in the list %rooms, with a reference
; to it; null if nothing there is unused and has that size.
define internal ptr @find.room(ptr %table, ptr %rooms, i64 %output, i64 %size) {
entry:
  %first = mul i64 %output, 2
  %end = add i64 %first, 2
  br label %test
test:
  %index = phi i64 [ %first, %entry ], [ %next, %other ]
  %more = icmp ult i64 %index, %end
  br i1 %more, label %look, label %none
look:
  %room = call ptr @room(ptr %table, ptr %rooms, i64 %index)
  %is.unused = call i1 @is.unused(ptr %room)
  br i1 %is.unused, label %measure, label %other
measure:
  %p.shape = getelementptr i8, ptr %room, i64 $ARRAY_SHAPE
  %shape = load ptr, ptr %p.shape
  %length = load i64, ptr %shape
  %fits = icmp eq i64 %length, %size
  br i1 %fits, label %found, label %other
other:
  %next = add i64 %index, 1
  br label %test
found:
  %reference = call ptr @reference(ptr %table, ptr %room)
  ret ptr %reference
none:
  ret ptr null
}

; Gives the list %rooms a reference to new memory of %output, at an empty place or at that of memory
; which others still use. Memory of another size, that of earlier lengths, is left to Python: the
; end of an object may run code.
define internal void @keep.room(ptr %table, ptr %rooms, i64 %output, ptr %room) {
entry:
  %first = mul i64 %output, 2
  %second = add i64 %first, 1
  %p.none = getelementptr i8, ptr %table, i64 $NONE
  %none = load ptr, ptr %p.none
  %first.room = call ptr @room(ptr %table, ptr %rooms, i64 %first)
  %second.room = call ptr @room(ptr %table, ptr %rooms, i64 %second)
  %first.is.empty = icmp eq ptr %first.room, %none
  %second.is.empty = icmp eq ptr %second.room, %none
  %first.is.unused = call i1 @is.unused(ptr %first.room)
  %second.is.unused = call i1 @is.unused(ptr %second.room)
  %second.is.better = or i1 %second.is.empty, %first.is.unused
  %not.first = xor i1 %first.is.empty, true
  %is.second = and i1 %second.is.better, %not.first
  %both.are.unused = and i1 %first.is.unused, %second.is.unused
  br i1 %both.are.unused, label %end, label %keep
keep:
  %index = select i1 %is.second, i64 %second, i64 %first
  %kept = call ptr @reference(ptr %table, ptr %room)
  %p.set.item = getelementptr i8, ptr %table, i64 $SET_ITEM
  %set.item = load ptr, ptr %p.set.item
  %stored = call i32 %set.item(ptr %rooms, i64 %index, ptr %kept)
  br label %end
end:
  ret void
}

; Creates an array for an output, aligned if it is large, unless it has strings, which begin as null
; pointers. Returns null after a Python error. The list %rooms, which may be null, has the memory of
; the last arrays for each large %output, which is used again if nothing else uses it.
define internal ptr @new.array(ptr %table, ptr %port, ptr %rooms, i64 %output) {
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
  %p.source = getelementptr i8, ptr %port, i64 $PORT_SOURCE
  %source = load ptr, ptr %p.source
  %has.numbers = icmp eq ptr %source, null
  %is.long = icmp uge i64 %size, $LARGE
  %is.large = and i1 %has.numbers, %is.long
  br i1 %is.large, label %large, label %small
small:
  %small.dtype = call ptr @reference(ptr %table, ptr %dtype)
  %array = call ptr %new(ptr %type, ptr %small.dtype, i32 %rank, ptr %shape, ptr null, ptr null, i32 0, ptr null)
  ret ptr %array
large:
  %room.size = add i64 %size, $ALIGNMENT_MASK
  %has.rooms = icmp ne ptr %rooms, null
  %is.short = icmp ule i64 %size, $MAX_KEPT
  %is.kept = and i1 %has.rooms, %is.short
  br i1 %is.kept, label %look, label %create
look:
  %found = call ptr @find.room(ptr %table, ptr %rooms, i64 %output, i64 %room.size)
  %is.found = icmp ne ptr %found, null
  br i1 %is.found, label %align, label %create
create:
  store i64 %room.size, ptr %length
  %p.byte = getelementptr i8, ptr %table, i64 $BYTE_DTYPE
  %byte = load ptr, ptr %p.byte
  %byte.dtype = call ptr @reference(ptr %table, ptr %byte)
  %created = call ptr %new(ptr %type, ptr %byte.dtype, i32 1, ptr %length, ptr null, ptr null, i32 0, ptr null)
  %no.room = icmp eq ptr %created, null
  br i1 %no.room, label %failed, label %test.kept
test.kept:
  br i1 %is.kept, label %keep, label %align
keep:
  call void @keep.room(ptr %table, ptr %rooms, i64 %output, ptr %created)
  br label %align
align:
  %room = phi ptr [ %found, %look ], [ %created, %test.kept ], [ %created, %keep ]
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

; METH_FASTCALL: runs the step of the call in the array %self on arrays, whose addresses go into the
; call's own binding. Returns the list of outputs; None if an array is not as expected, or if the
; step did not finish.
;
; The list is created first, because that may start a garbage collection, which may run the same
; call. Nothing after that runs Python code.
define ptr @neurald_call_arrays(ptr %self, ptr %arrays, i64 %given.count) {
entry:
  %p.call = getelementptr i8, ptr %self, i64 $ARRAY_DATA
  %call = load ptr, ptr %p.call
  %p.table = getelementptr i8, ptr %call, i64 $TABLE
  %table = load ptr, ptr %p.table
  %p.binding = getelementptr i8, ptr %call, i64 $BINDING
  %binding = load ptr, ptr %p.binding
  %p.ports = getelementptr i8, ptr %call, i64 $PORTS
  %ports = load ptr, ptr %p.ports
  %p.first.output = getelementptr i8, ptr %call, i64 $INPUT_COUNT
  %first.output = load i64, ptr %p.first.output
  %p.array.count = getelementptr i8, ptr %call, i64 $ARRAY_COUNT
  %array.count = load i64, ptr %p.array.count
  %p.new.count = getelementptr i8, ptr %call, i64 $NEW_COUNT
  %new.count = load i64, ptr %p.new.count
  %p.rooms = getelementptr i8, ptr %call, i64 $ROOMS
  %rooms = load ptr, ptr %p.rooms
  %is.count = icmp eq i64 %given.count, %array.count
  br i1 %is.count, label %create, label %refuse
create:
  %p.new.list = getelementptr i8, ptr %table, i64 $NEW_LIST
  %new.list = load ptr, ptr %p.new.list
  %list = call ptr %new.list(i64 %new.count)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %error, label %test.input
test.input:
  %input = phi i64 [ 0, %create ], [ %input.next, %place.input ]
  %more.inputs = icmp ult i64 %input, %array.count
  br i1 %more.inputs, label %check, label %test.output
check:
  %input.offset = mul i64 %input, $PORT_BYTES
  %input.port = getelementptr i8, ptr %ports, i64 %input.offset
  %p.array = getelementptr ptr, ptr %arrays, i64 %input
  %array = load ptr, ptr %p.array
  %is.good = call i1 @is.expected(ptr %table, ptr %input.port, ptr %array)
  br i1 %is.good, label %look.strings, label %abandon
look.strings:
  %p.data = getelementptr i8, ptr %array, i64 $ARRAY_DATA
  %data = load ptr, ptr %p.data
  %p.input.source = getelementptr i8, ptr %input.port, i64 $PORT_SOURCE
  %input.source = load ptr, ptr %p.input.source
  %has.numbers = icmp eq ptr %input.source, null
  br i1 %has.numbers, label %place.input, label %check.strings
check.strings:
  %has.strings = call i1 @are.strings(ptr %table, ptr %input.port, ptr %data)
  br i1 %has.strings, label %place.input, label %abandon
place.input:
  %input.next = add i64 %input, 1
  %input.place = mul i64 %input, $PLACE_BYTES
  %p.input.place = getelementptr i8, ptr %binding, i64 %input.place
  store ptr %data, ptr %p.input.place
  br label %test.input
test.output:
  %output = phi i64 [ 0, %test.input ], [ %output.next, %place.output ]
  %more.outputs = icmp ult i64 %output, %new.count
  br i1 %more.outputs, label %create.output, label %run
create.output:
  %position = add i64 %first.output, %output
  %output.offset = mul i64 %position, $PORT_BYTES
  %output.port = getelementptr i8, ptr %ports, i64 %output.offset
  %created = call ptr @new.array(ptr %table, ptr %output.port, ptr %rooms, i64 %output)
  %no.output = icmp eq ptr %created, null
  br i1 %no.output, label %fail, label %place.output
place.output:
  %output.next = add i64 %output, 1
  %p.set.item = getelementptr i8, ptr %table, i64 $SET_ITEM
  %set.item = load ptr, ptr %p.set.item
  %stored = call i32 %set.item(ptr %list, i64 %output, ptr %created)
  %p.created.data = getelementptr i8, ptr %created, i64 $ARRAY_DATA
  %created.data = load ptr, ptr %p.created.data
  %output.place = mul i64 %position, $PLACE_BYTES
  %p.output.place = getelementptr i8, ptr %binding, i64 %output.place
  store ptr %created.data, ptr %p.output.place
  br label %test.output
run:
  %is.finished = call i1 @run.call(ptr %call, ptr %binding)
  br i1 %is.finished, label %test.result, label %abandon
test.result:
  %result = phi i64 [ 0, %run ], [ %result.next, %look.result ], [ %result.next, %resolve.result ]
  %more.results = icmp ult i64 %result, %new.count
  br i1 %more.results, label %look.result, label %done
look.result:
  %result.next = add i64 %result, 1
  %result.position = add i64 %first.output, %result
  %result.offset = mul i64 %result.position, $PORT_BYTES
  %result.port = getelementptr i8, ptr %ports, i64 %result.offset
  %p.result.sources = getelementptr i8, ptr %result.port, i64 $PORT_SOURCE
  %result.sources = load ptr, ptr %p.result.sources
  %is.number = icmp eq ptr %result.sources, null
  br i1 %is.number, label %test.result, label %resolve.result
resolve.result:
  %result.place = mul i64 %result.position, $PLACE_BYTES
  %p.result.place = getelementptr i8, ptr %binding, i64 %result.place
  %result.data = load ptr, ptr %p.result.place
  call void @resolve(ptr %table, ptr %result.port, ptr %result.sources, ptr %result.data)
  br label %test.result
done:
  ret ptr %list
abandon:
  call void @drop(ptr %table, ptr %list)
  br label %refuse
refuse:
  %p.none = getelementptr i8, ptr %table, i64 $NONE
  %none = load ptr, ptr %p.none
  %owned = call ptr @reference(ptr %table, ptr %none)
  ret ptr %owned
fail:
  call void @drop(ptr %table, ptr %list)
  br label %error
error:
  ret ptr null
}
