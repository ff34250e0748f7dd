; Returns the object of the string that a reference refers to; that of the empty string, which is the
; first constant, if there is none.
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

; Returns true if as many bytes at one address as at the other are equal.
define internal i1 @${PREFIX}_equal(ptr %one, ptr %other, i64 %length) nounwind {
entry:
  br label %test
test:
  %at = phi i64 [ 0, %entry ], [ %next, %word ]
  %next = add i64 %at, 8
  %is.whole = icmp ule i64 %next, %length
  br i1 %is.whole, label %word, label %test.byte
word:
  %p.word = getelementptr i8, ptr %one, i64 %at
  %word.one = load i64, ptr %p.word, align 1
  %p.word.other = getelementptr i8, ptr %other, i64 %at
  %word.other = load i64, ptr %p.word.other, align 1
  %is.same = icmp eq i64 %word.one, %word.other
  br i1 %is.same, label %test, label %no
test.byte:
  %place = phi i64 [ %at, %test ], [ %place.next, %byte ]
  %more = icmp ult i64 %place, %length
  br i1 %more, label %byte, label %yes
byte:
  %p.byte = getelementptr i8, ptr %one, i64 %place
  %byte.one = load i8, ptr %p.byte
  %p.byte.other = getelementptr i8, ptr %other, i64 %place
  %byte.other = load i8, ptr %p.byte.other
  %place.next = add i64 %place, 1
  %is.same.byte = icmp eq i8 %byte.one, %byte.other
  br i1 %is.same.byte, label %test.byte, label %no
yes:
  ret i1 true
no:
  ret i1 false
}
