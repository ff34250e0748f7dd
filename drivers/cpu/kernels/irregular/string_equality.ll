; Compares the strings of $ONE and $OTHER.
define void @$KERNEL($PARAMETERS) nounwind {
entry:
  br label %test
test:
  %index = phi i64 [ %begin, %entry ], [ %next, %store ]
  %more = icmp slt i64 %index, %end
  br i1 %more, label %look, label %done
look:
  %p.one = getelementptr i64, ptr $ONE, i64 %index
  %one = load i64, ptr %p.one
  %p.other = getelementptr i64, ptr $OTHER, i64 %index
  %other = load i64, ptr %p.other
  %object.one = call ptr @${KERNEL}_string(ptr %strings, i64 %one)
  %object.other = call ptr @${KERNEL}_string(ptr %strings, i64 %other)
  %is.same = icmp eq ptr %object.one, %object.other
  br i1 %is.same, label %store, label %measure
measure:
  %p.length.one = getelementptr i8, ptr %object.one, i64 $STRING_LENGTH
  %length.one = load i64, ptr %p.length.one
  %p.length.other = getelementptr i8, ptr %object.other, i64 $STRING_LENGTH
  %length.other = load i64, ptr %p.length.other
  %is.long = icmp eq i64 %length.one, %length.other
  br i1 %is.long, label %compare, label %store
compare:
  %bytes.one = getelementptr i8, ptr %object.one, i64 $STRING_BYTES
  %bytes.other = getelementptr i8, ptr %object.other, i64 $STRING_BYTES
  %is.equal = call i1 @${KERNEL}_equal(ptr %bytes.one, ptr %bytes.other, i64 %length.one)
  br label %store
store:
  %result = phi i1 [ true, %look ], [ false, %measure ], [ %is.equal, %compare ]
  %stored = zext i1 %result to i8
  %p.result = getelementptr i8, ptr %a0, i64 %index
  store i8 %stored, ptr %p.result
  %next = add i64 %index, 1
  br label %test
done:
  ret void
}
