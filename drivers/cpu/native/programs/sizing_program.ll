; Computes the sizes of steps with open dimensions; sizing_program.py describes the layouts of
; memory.

declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)

; Computes the sum at %sum, whose products are of %atoms. Returns the address after it, or null if
; the result is too large.
define internal ptr @sum(ptr %sum, ptr %atoms, ptr %result) {
entry:
  %terms = load i64, ptr %sum
  %p.first = getelementptr i8, ptr %sum, i64 8
  br label %test
test:
  %term = phi i64 [ 0, %entry ], [ %term.next, %add ]
  %p.term = phi ptr [ %p.first, %entry ], [ %p.atom, %add ]
  %total = phi i64 [ 0, %entry ], [ %total.next, %add ]
  %excess = phi i1 [ false, %entry ], [ %excess.next, %add ]
  %more = icmp ult i64 %term, %terms
  br i1 %more, label %look, label %done
look:
  %factor = load i64, ptr %p.term
  %p.degree = getelementptr i8, ptr %p.term, i64 8
  %degree = load i64, ptr %p.degree
  %p.atoms = getelementptr i8, ptr %p.term, i64 16
  br label %multiply.test
multiply.test:
  %number = phi i64 [ 0, %look ], [ %number.next, %multiply ]
  %p.atom = phi ptr [ %p.atoms, %look ], [ %p.atom.next, %multiply ]
  %product = phi i64 [ %factor, %look ], [ %product.next, %multiply ]
  %product.excess = phi i1 [ %excess, %look ], [ %product.excess.next, %multiply ]
  %more.atoms = icmp ult i64 %number, %degree
  br i1 %more.atoms, label %multiply, label %add
multiply:
  %atom = load i64, ptr %p.atom
  %p.value = getelementptr i64, ptr %atoms, i64 %atom
  %value = load i64, ptr %p.value
  %multiplied = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %product, i64 %value)
  %product.next = extractvalue { i64, i1 } %multiplied, 0
  %multiplied.excess = extractvalue { i64, i1 } %multiplied, 1
  %product.excess.next = or i1 %product.excess, %multiplied.excess
  %number.next = add i64 %number, 1
  %p.atom.next = getelementptr i8, ptr %p.atom, i64 8
  br label %multiply.test
add:
  %added = call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %total, i64 %product)
  %total.next = extractvalue { i64, i1 } %added, 0
  %added.excess = extractvalue { i64, i1 } %added, 1
  %excess.next = or i1 %product.excess, %added.excess
  %term.next = add i64 %term, 1
  br label %test
done:
  store i64 %total, ptr %result
  %is.high = icmp sgt i64 %total, $MAX_NUMBER
  %is.low = icmp slt i64 %total, -$MAX_NUMBER
  %is.large = or i1 %is.high, %is.low
  %is.wrong = or i1 %is.large, %excess
  %after = select i1 %is.wrong, ptr null, ptr %p.term
  ret ptr %after
}

; Evaluates a %program of extents: computes its further %atoms, of which the lengths are the first,
; and its %numbers. Returns whether the code is valid for the lengths.
define i64 @neurald_evaluate(ptr %program, ptr %atoms, ptr %numbers) {
entry:
  %p.dividend = alloca i64
  %p.divisor = alloca i64
  %symbols = load i64, ptr %program
  %p.divisions = getelementptr i8, ptr %program, i64 8
  %divisions = load i64, ptr %p.divisions
  %p.guards = getelementptr i8, ptr %program, i64 16
  %guards = load i64, ptr %p.guards
  %p.values = getelementptr i8, ptr %program, i64 24
  %values = load i64, ptr %p.values
  %p.counts = getelementptr i8, ptr %program, i64 32
  %counts = load i64, ptr %p.counts
  %p.bounds = getelementptr i8, ptr %program, i64 40
  br label %bound.test
bound.test:
  %symbol = phi i64 [ 0, %entry ], [ %symbol.next, %bound ]
  %p.bound = phi ptr [ %p.bounds, %entry ], [ %p.bound.next, %bound ]
  %outside = phi i1 [ false, %entry ], [ %outside.next, %bound ]
  %more.symbols = icmp ult i64 %symbol, %symbols
  br i1 %more.symbols, label %bound, label %bounds.end
bound:
  %p.length = getelementptr i64, ptr %atoms, i64 %symbol
  %length = load i64, ptr %p.length
  %low = load i64, ptr %p.bound
  %p.high = getelementptr i8, ptr %p.bound, i64 8
  %high = load i64, ptr %p.high
  %is.below = icmp slt i64 %length, %low
  %is.above = icmp sgt i64 %length, %high
  %is.beyond = or i1 %is.below, %is.above
  %outside.next = or i1 %outside, %is.beyond
  %symbol.next = add i64 %symbol, 1
  %p.bound.next = getelementptr i8, ptr %p.bound, i64 16
  br label %bound.test
bounds.end:
  br i1 %outside, label %invalid, label %division.test

division.test:
  %division = phi i64 [ 0, %bounds.end ], [ %division.next, %atom ]
  %p.division = phi ptr [ %p.bound, %bounds.end ], [ %divisor.end, %atom ]
  %more.divisions = icmp ult i64 %division, %divisions
  br i1 %more.divisions, label %dividend, label %guard.test
dividend:
  %p.dividend.sum = getelementptr i8, ptr %p.division, i64 8
  %dividend.end = call ptr @sum(ptr %p.dividend.sum, ptr %atoms, ptr %p.dividend)
  %dividend.fails = icmp eq ptr %dividend.end, null
  br i1 %dividend.fails, label %invalid, label %divisor
divisor:
  %divisor.end = call ptr @sum(ptr %dividend.end, ptr %atoms, ptr %p.divisor)
  %divisor.fails = icmp eq ptr %divisor.end, null
  br i1 %divisor.fails, label %invalid, label %divide
divide:
  %by = load i64, ptr %p.divisor
  %is.positive = icmp sgt i64 %by, 0
  br i1 %is.positive, label %atom, label %invalid
atom:
  ; Quotients are rounded down, and remainders and excesses are not negative.
  %divided = load i64, ptr %p.dividend
  %quotient.near = sdiv i64 %divided, %by
  %remainder.near = srem i64 %divided, %by
  %is.negative = icmp slt i64 %remainder.near, 0
  %quotient.below = sub i64 %quotient.near, 1
  %quotient = select i1 %is.negative, i64 %quotient.below, i64 %quotient.near
  %remainder.up = add i64 %remainder.near, %by
  %remainder = select i1 %is.negative, i64 %remainder.up, i64 %remainder.near
  %kind = load i64, ptr %p.division
  %is.quotient = icmp eq i64 %kind, $QUOTIENT
  %divided.once = select i1 %is.quotient, i64 %quotient, i64 %remainder
  %is.excess = icmp eq i64 %kind, $EXCESS
  %excess = call i64 @llvm.smax.i64(i64 %divided, i64 0)
  %found = select i1 %is.excess, i64 %excess, i64 %divided.once
  %place = add i64 %symbols, %division
  %p.atom = getelementptr i64, ptr %atoms, i64 %place
  store i64 %found, ptr %p.atom
  %division.next = add i64 %division, 1
  br label %division.test

guard.test:
  %guard = phi i64 [ 0, %division.test ], [ %guard.next, %guard.holds ]
  %p.guard = phi ptr [ %p.division, %division.test ], [ %guard.end, %guard.holds ]
  %more.guards = icmp ult i64 %guard, %guards
  br i1 %more.guards, label %guard.sum, label %value.test
guard.sum:
  %p.guard.sum = getelementptr i8, ptr %p.guard, i64 16
  %guard.end = call ptr @sum(ptr %p.guard.sum, ptr %atoms, ptr %p.dividend)
  %guard.fails = icmp eq ptr %guard.end, null
  br i1 %guard.fails, label %invalid, label %guard.look
guard.look:
  %tested = load i64, ptr %p.dividend
  %relation = load i64, ptr %p.guard
  %p.expected = getelementptr i8, ptr %p.guard, i64 8
  %expected = load i64, ptr %p.expected
  %tests.sign = icmp eq i64 %relation, $NEGATIVE
  %is.less = icmp slt i64 %tested, 0
  %is.zero = icmp eq i64 %tested, 0
  %holds = select i1 %tests.sign, i1 %is.less, i1 %is.zero
  %holds.wide = zext i1 %holds to i64
  %is.expected = icmp eq i64 %holds.wide, %expected
  br i1 %is.expected, label %guard.holds, label %invalid
guard.holds:
  %guard.next = add i64 %guard, 1
  br label %guard.test

value.test:
  %value = phi i64 [ 0, %guard.test ], [ %value.next, %value.done ]
  %p.value = phi ptr [ %p.guard, %guard.test ], [ %value.end, %value.done ]
  %more.values = icmp ult i64 %value, %values
  br i1 %more.values, label %value.sum, label %count.test
value.sum:
  %p.number = getelementptr i64, ptr %numbers, i64 %value
  %value.end = call ptr @sum(ptr %p.value, ptr %atoms, ptr %p.number)
  %value.fails = icmp eq ptr %value.end, null
  br i1 %value.fails, label %invalid, label %value.done
value.done:
  %value.next = add i64 %value, 1
  br label %value.test

count.test:
  %count = phi i64 [ 0, %value.test ], [ %count.next, %count.look ]
  %p.count = phi ptr [ %p.value, %value.test ], [ %p.count.next, %count.look ]
  %less = phi i1 [ false, %value.test ], [ %less.next, %count.look ]
  %more.counts = icmp ult i64 %count, %counts
  br i1 %more.counts, label %count.look, label %counted
count.look:
  %index = load i64, ptr %p.count
  %p.counted = getelementptr i64, ptr %numbers, i64 %index
  %counted.number = load i64, ptr %p.counted
  %count.is.negative = icmp slt i64 %counted.number, 0
  %less.next = or i1 %less, %count.is.negative
  %count.next = add i64 %count, 1
  %p.count.next = getelementptr i8, ptr %p.count, i64 8
  br label %count.test
counted:
  br i1 %less, label %invalid, label %valid
valid:
  ret i64 1
invalid:
  ret i64 0
}

; Computes the sizes of a %step for %numbers that @neurald_evaluate has computed, and a %plan of its
; arena. Returns 0, or what is wrong.
define i64 @neurald_size(ptr %step, ptr %numbers, ptr %plan, ptr %sizes) {
entry:
  %values = load i64, ptr %step
  %p.ports = getelementptr i8, ptr %step, i64 8
  %ports = load i64, ptr %p.ports
  %p.arguments = getelementptr i8, ptr %step, i64 16
  %arguments = load i64, ptr %p.arguments
  %p.calls = getelementptr i8, ptr %step, i64 24
  %calls = load i64, ptr %p.calls
  %p.extents = getelementptr i8, ptr %step, i64 32
  %extents = load i64, ptr %p.extents
  %p.scratches = getelementptr i8, ptr %step, i64 40
  %scratches = load i64, ptr %p.scratches
  %p.first = getelementptr i8, ptr %step, i64 48
  %arena = load i64, ptr %plan
  %p.places = getelementptr i8, ptr %plan, i64 8
  %p.room = getelementptr i64, ptr %p.places, i64 %values
  %p.out = getelementptr i8, ptr %sizes, i64 16
  br label %value.test

; Whether the plan has room for each value.
value.test:
  %value = phi i64 [ 0, %entry ], [ %value.next, %value.end ]
  %p.value = phi ptr [ %p.first, %entry ], [ %p.size, %value.end ]
  %more.values = icmp ult i64 %value, %values
  br i1 %more.values, label %value.look, label %port.test
value.look:
  %p.most = getelementptr i64, ptr %p.room, i64 %value
  %most = load i64, ptr %p.most
  %size.count = load i64, ptr %p.value
  %p.size.first = getelementptr i8, ptr %p.value, i64 8
  br label %size.test
size.test:
  %size = phi i64 [ 0, %value.look ], [ %size.next, %size.look ]
  %p.size = phi ptr [ %p.size.first, %value.look ], [ %p.size.next, %size.look ]
  %too.large = phi i1 [ false, %value.look ], [ %too.large.next, %size.look ]
  %more.sizes = icmp ult i64 %size, %size.count
  br i1 %more.sizes, label %size.look, label %size.end
size.look:
  %size.index = load i64, ptr %p.size
  %p.size.number = getelementptr i64, ptr %numbers, i64 %size.index
  %size.number = load i64, ptr %p.size.number
  %is.larger = icmp ugt i64 %size.number, %most
  %too.large.next = or i1 %too.large, %is.larger
  %size.next = add i64 %size, 1
  %p.size.next = getelementptr i8, ptr %p.size, i64 8
  br label %size.test
size.end:
  br i1 %too.large, label %no.room, label %value.end
value.end:
  %value.next = add i64 %value, 1
  br label %value.test

; Ports: their places, sizes and dimensions.
port.test:
  %port = phi i64 [ 0, %value.test ], [ %port.next, %port.end ]
  %p.port = phi ptr [ %p.value, %value.test ], [ %p.dimension, %port.end ]
  %p.port.out = phi ptr [ %p.out, %value.test ], [ %p.dimension.out, %port.end ]
  %more.ports = icmp ult i64 %port, %ports
  br i1 %more.ports, label %port.look, label %argument.test
port.look:
  %port.value = load i64, ptr %p.port
  %p.port.index = getelementptr i8, ptr %p.port, i64 8
  %port.index = load i64, ptr %p.port.index
  %p.port.number = getelementptr i64, ptr %numbers, i64 %port.index
  %port.bytes = load i64, ptr %p.port.number
  %p.element = getelementptr i8, ptr %p.port, i64 16
  %element = load i64, ptr %p.element
  %p.rank = getelementptr i8, ptr %p.port, i64 24
  %rank = load i64, ptr %p.rank
  %p.dimensions = getelementptr i8, ptr %p.port, i64 32
  %has.value = icmp sge i64 %port.value, 0
  br i1 %has.value, label %port.placed, label %port.store
port.placed:
  %p.port.place = getelementptr i64, ptr %p.places, i64 %port.value
  %port.place = load i64, ptr %p.port.place
  br label %port.store
port.store:
  %port.offset = phi i64 [ %port.place, %port.placed ], [ -1, %port.look ]
  %port.begin = select i1 %has.value, i64 %port.offset, i64 0
  %port.required = select i1 %has.value, i64 %port.bytes, i64 0
  %port.room = sub i64 %arena, %port.begin
  %port.beyond = icmp sgt i64 %port.required, %port.room
  store i64 %port.offset, ptr %p.port.out
  %p.bytes.out = getelementptr i8, ptr %p.port.out, i64 8
  store i64 %port.bytes, ptr %p.bytes.out
  %p.dimensions.out = getelementptr i8, ptr %p.port.out, i64 16
  br label %dimension.test
dimension.test:
  %dimension = phi i64 [ 0, %port.store ], [ %dimension.next, %dimension.look ]
  %p.dimension = phi ptr [ %p.dimensions, %port.store ], [ %p.dimension.next, %dimension.look ]
  %p.dimension.out = phi ptr [ %p.dimensions.out, %port.store ], [ %p.dimension.out.next, %dimension.look ]
  %expected = phi i64 [ %element, %port.store ], [ %expected.next, %dimension.look ]
  %excess = phi i1 [ %port.beyond, %port.store ], [ %excess.next, %dimension.look ]
  %more.dimensions = icmp ult i64 %dimension, %rank
  br i1 %more.dimensions, label %dimension.look, label %dimensions.end
dimension.look:
  %dimension.index = load i64, ptr %p.dimension
  %p.length = getelementptr i64, ptr %numbers, i64 %dimension.index
  %length = load i64, ptr %p.length
  store i64 %length, ptr %p.dimension.out
  %multiplied = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %expected, i64 %length)
  %expected.next = extractvalue { i64, i1 } %multiplied, 0
  %multiplied.excess = extractvalue { i64, i1 } %multiplied, 1
  %excess.next = or i1 %excess, %multiplied.excess
  %dimension.next = add i64 %dimension, 1
  %p.dimension.next = getelementptr i8, ptr %p.dimension, i64 8
  %p.dimension.out.next = getelementptr i8, ptr %p.dimension.out, i64 8
  br label %dimension.test
dimensions.end:
  %differs = icmp ne i64 %expected, %port.bytes
  %port.is.wrong = or i1 %differs, %excess
  br i1 %port.is.wrong, label %wrong.port, label %port.end
port.end:
  %port.next = add i64 %port, 1
  br label %port.test

; Arguments: the offsets of the template, and those in values.
argument.test:
  %argument = phi i64 [ 0, %port.test ], [ %argument.next, %argument.end ]
  %p.argument = phi ptr [ %p.port, %port.test ], [ %p.argument.next, %argument.end ]
  %more.arguments = icmp ult i64 %argument, %arguments
  br i1 %more.arguments, label %argument.look, label %call.first
argument.look:
  %argument.value = load i64, ptr %p.argument
  %p.given = getelementptr i8, ptr %p.argument, i64 8
  %given = load i64, ptr %p.given
  %p.argument.next = getelementptr i8, ptr %p.argument, i64 16
  %p.argument.out = getelementptr i64, ptr %p.port.out, i64 %argument
  %changes = icmp sge i64 %argument.value, 0
  br i1 %changes, label %argument.moves, label %argument.stays
argument.stays:
  store i64 %given, ptr %p.argument.out
  br label %argument.end
argument.moves:
  %p.argument.place = getelementptr i64, ptr %p.places, i64 %argument.value
  %argument.place = load i64, ptr %p.argument.place
  %p.start = getelementptr i64, ptr %numbers, i64 %given
  %start = load i64, ptr %p.start
  %offset = add i64 %argument.place, %start
  store i64 %offset, ptr %p.argument.out
  %is.outside = icmp ugt i64 %offset, %arena
  br i1 %is.outside, label %wrong.argument, label %argument.end
argument.end:
  %argument.next = add i64 %argument, 1
  br label %argument.test
wrong.argument:
  store i64 %offset, ptr %sizes
  ret i64 $OUTSIDE

; Calls: the words of their records that depend on sizes, and their costs.
call.first:
  %p.call.first = getelementptr i64, ptr %p.port.out, i64 %arguments
  %calls.bytes = shl i64 %calls, 5
  %p.costs = getelementptr i8, ptr %p.call.first, i64 %calls.bytes
  br label %call.test
call.test:
  %call = phi i64 [ 0, %call.first ], [ %call.next, %call.look ]
  %p.call = phi ptr [ %p.argument, %call.first ], [ %p.call.next, %call.look ]
  %p.call.out = phi ptr [ %p.call.first, %call.first ], [ %p.call.out.next, %call.look ]
  %cost.sum = phi double [ 0.0, %call.first ], [ %cost.sum.next, %call.look ]
  %more.calls = icmp ult i64 %call, %calls
  br i1 %more.calls, label %call.look, label %call.end
call.look:
  %items.index = load i64, ptr %p.call
  %p.items = getelementptr i64, ptr %numbers, i64 %items.index
  %items = load i64, ptr %p.items
  %p.unit = getelementptr i8, ptr %p.call, i64 8
  %unit = load double, ptr %p.unit
  %items.real = sitofp i64 %items to double
  %cost = fmul double %unit, %items.real
  %cost.sum.next = fadd double %cost.sum, %cost
  %p.cost = getelementptr double, ptr %p.costs, i64 %call
  store double %cost, ptr %p.cost
  %has.items = icmp sgt i64 %items, 1
  %piece = select i1 %has.items, i64 %items, i64 1
  ; What is not a number is refused below, and rounded up here like all costs.
  %is.small = fcmp olt double %cost, $MAX_COST
  %cost.limited = select i1 %is.small, double %cost, double $MAX_COST
  %cost.down = fptosi double %cost.limited to i64
  %cost.near = sitofp i64 %cost.down to double
  %is.rounded = fcmp olt double %cost.near, %cost.limited
  %rest = zext i1 %is.rounded to i64
  %cost.whole = add i64 %cost.down, %rest
  %cost.all = add i64 %cost.whole, $RECORD_NS
  store i64 %items, ptr %p.call.out
  %p.share = getelementptr i8, ptr %p.call.out, i64 8
  store i64 $UNSHARED, ptr %p.share
  %p.piece = getelementptr i8, ptr %p.call.out, i64 16
  store i64 %piece, ptr %p.piece
  %p.all = getelementptr i8, ptr %p.call.out, i64 24
  store i64 %cost.all, ptr %p.all
  %call.next = add i64 %call, 1
  %p.call.next = getelementptr i8, ptr %p.call, i64 16
  %p.call.out.next = getelementptr i8, ptr %p.call.out, i64 32
  br label %call.test
call.end:
  %p.cost.sum = getelementptr i8, ptr %sizes, i64 8
  store double %cost.sum, ptr %p.cost.sum
  %is.finite = fcmp olt double %cost.sum, 0x7FF0000000000000
  br i1 %is.finite, label %extent.first, label %wrong.cost

extent.first:
  %p.extent.first = getelementptr double, ptr %p.costs, i64 %calls
  br label %extent.test
extent.test:
  %extent = phi i64 [ 0, %extent.first ], [ %extent.next, %extent.look ]
  %p.extent = phi ptr [ %p.call, %extent.first ], [ %p.extent.next, %extent.look ]
  %more.extents = icmp ult i64 %extent, %extents
  br i1 %more.extents, label %extent.look, label %scratch.test
extent.look:
  %extent.index = load i64, ptr %p.extent
  %p.extent.number = getelementptr i64, ptr %numbers, i64 %extent.index
  %extent.number = load i64, ptr %p.extent.number
  %p.extent.out = getelementptr i64, ptr %p.extent.first, i64 %extent
  store i64 %extent.number, ptr %p.extent.out
  %extent.next = add i64 %extent, 1
  %p.extent.next = getelementptr i8, ptr %p.extent, i64 8
  br label %extent.test

scratch.test:
  %scratch = phi i64 [ 0, %extent.test ], [ %scratch.next, %scratch.look ]
  %p.scratch = phi ptr [ %p.extent, %extent.test ], [ %p.scratch.next, %scratch.look ]
  %largest = phi i64 [ 0, %extent.test ], [ %largest.next, %scratch.look ]
  %more.scratches = icmp ult i64 %scratch, %scratches
  br i1 %more.scratches, label %scratch.look, label %done
scratch.look:
  %scratch.index = load i64, ptr %p.scratch
  %p.scratch.number = getelementptr i64, ptr %numbers, i64 %scratch.index
  %scratch.number = load i64, ptr %p.scratch.number
  %needs.more = icmp sgt i64 %scratch.number, %largest
  %largest.next = select i1 %needs.more, i64 %scratch.number, i64 %largest
  %scratch.next = add i64 %scratch, 1
  %p.scratch.next = getelementptr i8, ptr %p.scratch, i64 8
  br label %scratch.test
done:
  store i64 %largest, ptr %sizes
  ret i64 0
no.room:
  ret i64 $NO_ROOM
wrong.port:
  store i64 %port, ptr %sizes
  ret i64 $WRONG_PORT
wrong.cost:
  ret i64 $WRONG_COST
}
