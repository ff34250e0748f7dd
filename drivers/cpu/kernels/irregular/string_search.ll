; Looks up the strings of $STRINGS in a hash table; `string_table.py` describes it. The table is a
; constant, whose numbers are checked before they become addresses.

; Returns the hash of the bytes at an address.
define internal i64 @${KERNEL}_hash(ptr %bytes, i64 %length) nounwind {
entry:
  %start = mul i64 %length, $MULTIPLIER
  br label %test
test:
  %at = phi i64 [ 0, %entry ], [ %next, %mix ]
  %hash = phi i64 [ %start, %entry ], [ %mixed, %mix ]
  %more = icmp ult i64 %at, %length
  br i1 %more, label %mix, label %finish
mix:
  %word = call i64 @${KERNEL}_word(ptr %bytes, i64 %at, i64 %length)
  %joined = xor i64 %hash, %word
  %product = mul i64 %joined, $MULTIPLIER
  %high = lshr i64 %product, $SHIFT
  %mixed = xor i64 %product, %high
  %next = add i64 %at, 8
  br label %test
finish:
  ret i64 %hash
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
  %first = lshr i64 %hash, $PLACE_SHIFT
  br label %probe
probe:
  %tried = phi i64 [ 0, %look ], [ %tried.next, %collision ]
  %sum = add i64 %first, %tried
  %place = and i64 %sum, $PLACE_MASK
  %p.place = getelementptr i32, ptr $PLACES, i64 %place
  %stored = load i32, ptr %p.place
  %stored.wide = zext i32 %stored to i64
  %number = sub i64 %stored.wide, 1
  ; Free places have the number -1.
  %is.key = icmp ult i64 %number, $KEY_COUNT
  br i1 %is.key, label %compare, label %store
compare:
  %p.start = getelementptr { i64, i64 }, ptr $KEYS, i64 %number
  %start = load i64, ptr %p.start
  %p.length.key = getelementptr i8, ptr %p.start, i64 8
  %length.key = load i64, ptr %p.length.key
  %is.long = icmp eq i64 %length.key, %length
  ; Keys end where another word begins.
  %is.start = icmp ule i64 %start, $CHARACTER_COUNT
  %space = sub i64 $CHARACTER_COUNT, %start
  %is.inside = icmp ule i64 %length, %space
  %space.rest = and i64 %space, 7
  %is.aligned = icmp eq i64 %space.rest, 0
  %is.range = and i1 %is.start, %is.inside
  %is.safe = and i1 %is.range, %is.aligned
  %is.candidate = and i1 %is.long, %is.safe
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
