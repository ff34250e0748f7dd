; Stores the positions of the elements that are not 0, and their number as the last element. Vectors
; of elements become bit masks, of which each bit is looked at once.
define void @$KERNEL($PARAMETERS) nounwind {
  br label %entry
entry:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %test, label %done
test:
  %index = phi i64 [ 0, %entry ], [ %next, %bits ]
  %free = phi i64 [ 0, %entry ], [ %found, %bits ]
  %more = icmp ult i64 %index, $WHOLE
  br i1 %more, label %vector, label %rest.test
vector:
  %p.elements = getelementptr $TYPE, ptr %a1, i64 %index
  %elements = load <$LANES x $TYPE>, ptr %p.elements, align $ALIGN
  %magnitudes = and <$LANES x $TYPE> %elements, splat ($TYPE $MAGNITUDE)
  %count = icmp ne <$LANES x $TYPE> %magnitudes, zeroinitializer
  %mask = bitcast <$LANES x i1> %count to i$LANES
  %next = add i64 %index, $LANES
  br label %bits
bits:
  %left = phi i$LANES [ %mask, %vector ], [ %others, %bit ]
  %found = phi i64 [ %free, %vector ], [ %found.next, %bit ]
  %is.last = icmp eq i$LANES %left, 0
  br i1 %is.last, label %test, label %bit
bit:
  %lane = call i$LANES @llvm.cttz.i$LANES(i$LANES %left, i1 true)
  %lane.wide = zext i$LANES %lane to i64
  %at = add i64 %index, %lane.wide
  %at.short = trunc i64 %at to i32
  %p.found = getelementptr i32, ptr %a0, i64 %found
  store i32 %at.short, ptr %p.found
  %found.next = add i64 %found, 1
  %less = sub i$LANES %left, 1
  %others = and i$LANES %left, %less
  br label %bits
rest.test:
  %rest = phi i64 [ %index, %test ], [ %rest.next, %element ]
  %place = phi i64 [ %free, %test ], [ %after, %element ]
  %has.rest = icmp ult i64 %rest, $COUNT
  br i1 %has.rest, label %element, label %finish
element:
  %p.element = getelementptr $TYPE, ptr %a1, i64 %rest
  %single = load $TYPE, ptr %p.element
  %magnitude = and $TYPE %single, $MAGNITUDE
  %counts = icmp ne $TYPE %magnitude, 0
  %p.place = getelementptr i32, ptr %a0, i64 %place
  %position = trunc i64 %rest to i32
  store i32 %position, ptr %p.place
  %one = zext i1 %counts to i64
  %after = add i64 %place, %one
  %rest.next = add i64 %rest, 1
  br label %rest.test
finish:
  %p.last = getelementptr i32, ptr %a0, i64 $COUNT
  %total = trunc i64 %place to i32
  store i32 %total, ptr %p.last
  br label %done
done:
  ret void
}
