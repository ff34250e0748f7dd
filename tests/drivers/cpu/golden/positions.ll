; positions in 30
declare i16 @llvm.cttz.i16(i16, i1)
; Stores the positions of the elements that are not 0, and their number as the last element. Vectors
; of elements become bit masks, of which each bit is looked at once.
define void @k379f3d18db863cf4(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
  br label %entry
entry:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %test, label %done
test:
  %index = phi i64 [ 0, %entry ], [ %next, %bits ]
  %free = phi i64 [ 0, %entry ], [ %found, %bits ]
  %more = icmp ult i64 %index, 16
  br i1 %more, label %vector, label %rest.test
vector:
  %p.elements = getelementptr i32, ptr %a1, i64 %index
  %elements = load <16 x i32>, ptr %p.elements, align 4
  %magnitudes = and <16 x i32> %elements, splat (i32 2147483647)
  %count = icmp ne <16 x i32> %magnitudes, zeroinitializer
  %mask = bitcast <16 x i1> %count to i16
  %next = add i64 %index, 16
  br label %bits
bits:
  %left = phi i16 [ %mask, %vector ], [ %others, %bit ]
  %found = phi i64 [ %free, %vector ], [ %found.next, %bit ]
  %is.last = icmp eq i16 %left, 0
  br i1 %is.last, label %test, label %bit
bit:
  %lane = call i16 @llvm.cttz.i16(i16 %left, i1 true)
  %lane.wide = zext i16 %lane to i64
  %at = add i64 %index, %lane.wide
  %at.short = trunc i64 %at to i32
  %p.found = getelementptr i32, ptr %a0, i64 %found
  store i32 %at.short, ptr %p.found
  %found.next = add i64 %found, 1
  %less = sub i16 %left, 1
  %others = and i16 %left, %less
  br label %bits
rest.test:
  %rest = phi i64 [ %index, %test ], [ %rest.next, %element ]
  %place = phi i64 [ %free, %test ], [ %after, %element ]
  %has.rest = icmp ult i64 %rest, 30
  br i1 %has.rest, label %element, label %finish
element:
  %p.element = getelementptr i32, ptr %a1, i64 %rest
  %single = load i32, ptr %p.element
  %magnitude = and i32 %single, 2147483647
  %counts = icmp ne i32 %magnitude, 0
  %p.place = getelementptr i32, ptr %a0, i64 %place
  %position = trunc i64 %rest to i32
  store i32 %position, ptr %p.place
  %one = zext i1 %counts to i64
  %after = add i64 %place, %one
  %rest.next = add i64 %rest, 1
  br label %rest.test
finish:
  %p.last = getelementptr i32, ptr %a0, i64 30
  %total = trunc i64 %place to i32
  store i32 %total, ptr %p.last
  br label %done
done:
  ret void
}

