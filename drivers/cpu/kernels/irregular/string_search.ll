; Looks up the strings of $STRINGS in a hash table; `string_table.py` describes it. The table is a
; constant, whose numbers are checked before they become addresses.

; Returns the hash of the bytes at an address.
define internal i64 @${KERNEL}_hash(ptr %bytes, i64 %length) nounwind {
entry:
  %start = mul i64 %length, $MULTIPLIER
  br label %test
test:
  %at = phi i64 [ 0, %entry ], [ %next, %whole ]
  %hash = phi i64 [ %start, %entry ], [ %mixed, %whole ]
  %next = add i64 %at, 8
  %is.whole = icmp ule i64 %next, %length
  br i1 %is.whole, label %whole, label %look
whole:
  %p.word = getelementptr i8, ptr %bytes, i64 %at
  %word = load i64, ptr %p.word, align 1
  %joined = xor i64 %hash, %word
  %product = mul i64 %joined, $MULTIPLIER
  %high = lshr i64 %product, $SHIFT
  %mixed = xor i64 %product, %high
  br label %test
look:
  %has.rest = icmp ult i64 %at, %length
  br i1 %has.rest, label %test.byte, label %finish
test.byte:
  ; The bytes that are left, the first one lowest.
  %place = phi i64 [ %length, %look ], [ %before, %byte ]
  %rest = phi i64 [ 0, %look ], [ %longer, %byte ]
  %more = icmp ugt i64 %place, %at
  br i1 %more, label %byte, label %last
byte:
  %before = sub i64 %place, 1
  %p.byte = getelementptr i8, ptr %bytes, i64 %before
  %read = load i8, ptr %p.byte
  %wide = zext i8 %read to i64
  %shifted = shl i64 %rest, 8
  %longer = or i64 %shifted, %wide
  br label %test.byte
last:
  %rest.joined = xor i64 %hash, %rest
  %rest.product = mul i64 %rest.joined, $MULTIPLIER
  %rest.high = lshr i64 %rest.product, $SHIFT
  %rest.mixed = xor i64 %rest.product, %rest.high
  br label %finish
finish:
  %result = phi i64 [ %hash, %look ], [ %rest.mixed, %last ]
  ret i64 %result
}

define void @$KERNEL($PARAMETERS) nounwind {
entry:
  br label %test
test:
  %index = phi i64 [ %begin, %entry ], [ %next, %store ]
  %more = icmp slt i64 %index, %end
  br i1 %more, label %look, label %done
look:
  %p.reference = getelementptr i64, ptr $STRINGS, i64 %index
  %reference = load i64, ptr %p.reference
  %object = call ptr @${KERNEL}_string(ptr %strings, i64 %reference)
  %p.length = getelementptr i8, ptr %object, i64 $STRING_LENGTH
  %length = load i64, ptr %p.length
  %bytes = getelementptr i8, ptr %object, i64 $STRING_BYTES
  %hash = call i64 @${KERNEL}_hash(ptr %bytes, i64 %length)
  br label %probe
probe:
  %tried = phi i64 [ 0, %look ], [ %tried.next, %collision ]
  %sum = add i64 %hash, %tried
  %place = and i64 %sum, $PLACE_MASK
  %p.place = getelementptr i32, ptr $PLACES, i64 %place
  %stored = load i32, ptr %p.place
  %stored.wide = zext i32 %stored to i64
  %number = sub i64 %stored.wide, 1
  ; Free places have the number -1.
  %is.key = icmp ult i64 %number, $KEY_COUNT
  br i1 %is.key, label %compare, label %store
compare:
  %p.start = getelementptr i64, ptr $ENDS, i64 %number
  %start = load i64, ptr %p.start
  %p.end = getelementptr i8, ptr %p.start, i64 8
  %end.key = load i64, ptr %p.end
  %length.key = sub i64 %end.key, %start
  %is.long = icmp eq i64 %length.key, %length
  %is.ordered = icmp ule i64 %start, %end.key
  %is.inside = icmp ule i64 %end.key, $CHARACTER_COUNT
  %is.range = and i1 %is.ordered, %is.inside
  %is.candidate = and i1 %is.long, %is.range
  br i1 %is.candidate, label %read, label %collision
read:
  %p.key = getelementptr i8, ptr $CHARACTERS, i64 %start
  %is.equal = call i1 @${KERNEL}_equal(ptr %bytes, ptr %p.key, i64 %length)
  br i1 %is.equal, label %store, label %collision
collision:
  %tried.next = add i64 %tried, 1
  %is.last = icmp uge i64 %tried.next, $PLACE_COUNT
  br i1 %is.last, label %store, label %probe
store:
  %found = phi i64 [ $KEY_COUNT, %probe ], [ %number, %read ], [ $KEY_COUNT, %collision ]
  %short = trunc i64 %found to i32
  %p.result = getelementptr i32, ptr %a0, i64 %index
  store i32 %short, ptr %p.result
  %next = add i64 %index, 1
  br label %test
done:
  ret void
}
