
; Puts a mark into a heap of %count, of which the place %hole is free: down to where nothing below
; it is less.
define internal void @${KERNEL}_sift(ptr %heap, i64 %hole, i64 %count, $MARK %mark) nounwind {
entry:
  br label %test
test:
  %at = phi i64 [ %hole, %entry ], [ %child, %move ]
  %p.at = getelementptr $MARK, ptr %heap, i64 %at
  %twice = shl i64 %at, 1
  %left = or i64 %twice, 1
  %is.inner = icmp slt i64 %left, %count
  br i1 %is.inner, label %look, label %end
look:
  %next = add i64 %left, 1
  %has.next = icmp slt i64 %next, %count
  %right = select i1 %has.next, i64 %next, i64 %left
  %p.left = getelementptr $MARK, ptr %heap, i64 %left
  %p.right = getelementptr $MARK, ptr %heap, i64 %right
  %left.mark = load $MARK, ptr %p.left
  %right.mark = load $MARK, ptr %p.right
  %is.right = icmp slt $MARK %right.mark, %left.mark
  %child = select i1 %is.right, i64 %right, i64 %left
  %least = select i1 %is.right, $MARK %right.mark, $MARK %left.mark
  %sinks = icmp slt $MARK %least, %mark
  br i1 %sinks, label %move, label %end
move:
  store $MARK %least, ptr %p.at
  br label %test
end:
  store $MARK %mark, ptr %p.at
  ret void
}
