; Returns the object of the string that a reference refers to; that of the empty string, which is
; the first constant, if there is none.
define internal ptr @${PREFIX}_string(ptr %sources, i64 %reference) nounwind {
  %source = lshr i64 %reference, $POSITION_BITS
  %position = and i64 %reference, $POSITION_MASK
  %source.count = load i64, ptr %sources
  %is.source = icmp ult i64 %source, %source.count
  %known = select i1 %is.source, i64 %source, i64 0
  %offset = shl i64 %known, 4
  %before = getelementptr i8, ptr %sources, i64 %offset
  %p.count = getelementptr i8, ptr %before, i64 8
  %count = load i64, ptr %p.count
  %is.position = icmp ult i64 %position, %count
  %exists = and i1 %is.source, %is.position
  br i1 %exists, label %found, label %missing
found:
  %p.objects = getelementptr i8, ptr %before, i64 16
  %objects = load ptr, ptr %p.objects
  %p.object = getelementptr ptr, ptr %objects, i64 %position
  %object = load ptr, ptr %p.object
  ret ptr %object
missing:
  %p.constants = getelementptr i8, ptr %sources, i64 16
  %constants = load ptr, ptr %p.constants
  %empty = load ptr, ptr %constants
  ret ptr %empty
}

; Returns the word at an offset in a string, without the bytes behind the string. The word is read
; as a whole: strings begin at multiples of 8 bytes, and memory ends at such multiples.
define internal i64 @${PREFIX}_word(ptr %bytes, i64 %at, i64 %length) nounwind alwaysinline {
  %p.word = getelementptr i8, ptr %bytes, i64 %at
  %word = load i64, ptr %p.word, align 8
  %left = sub i64 %length, %at
  %is.whole = icmp uge i64 %left, 8
  %bits = shl i64 %left, 3
  %bits.used = and i64 %bits, 63
  %above = shl i64 -1, %bits.used
  %mask = xor i64 %above, -1
  %part = and i64 %word, %mask
  %found = select i1 %is.whole, i64 %word, i64 %part
  ret i64 %found
}

; Returns true if two strings of the same length are equal.
define internal i1 @${PREFIX}_equal(ptr %one, ptr %other, i64 %length) nounwind {
entry:
  br label %test
test:
  %at = phi i64 [ 0, %entry ], [ %next, %compare ]
  %more = icmp ult i64 %at, %length
  br i1 %more, label %compare, label %yes
compare:
  %word.one = call i64 @${PREFIX}_word(ptr %one, i64 %at, i64 %length)
  %word.other = call i64 @${PREFIX}_word(ptr %other, i64 %at, i64 %length)
  %next = add i64 %at, 8
  %is.same = icmp eq i64 %word.one, %word.other
  br i1 %is.same, label %test, label %no
yes:
  ret i1 true
no:
  ret i1 false
}
