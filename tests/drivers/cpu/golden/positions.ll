; positions in 30
; Stores the positions of the elements that are not 0, zeros after them, and their number as the last
; element. Every position is stored at the next free place, which only advances if the element counts.
define void @k27dcdc08ee5bd96d(ptr noalias %a0, ptr noalias %a1, ptr %scratch, ptr %status, i64 %begin, i64 %end) nounwind {
entry:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %test, label %done
test:
  %index = phi i64 [ 0, %entry ], [ %next, %body ]
  %free = phi i64 [ 0, %entry ], [ %after, %body ]
  %more = icmp ult i64 %index, 30
  br i1 %more, label %body, label %fill
body:
  %p.element = getelementptr i32, ptr %a1, i64 %index
  %element = load i32, ptr %p.element
  %magnitude = and i32 %element, 2147483647
  %counts = icmp ne i32 %magnitude, 0
  %p.place = getelementptr i32, ptr %a0, i64 %free
  %position = trunc i64 %index to i32
  store i32 %position, ptr %p.place
  %one = zext i1 %counts to i64
  %after = add i64 %free, %one
  %next = add i64 %index, 1
  br label %test
fill:
  %rest = phi i64 [ %free, %test ], [ %following, %zero ]
  %unfilled = icmp ult i64 %rest, 30
  br i1 %unfilled, label %zero, label %finish
zero:
  %p.rest = getelementptr i32, ptr %a0, i64 %rest
  store i32 0, ptr %p.rest
  %following = add i64 %rest, 1
  br label %fill
finish:
  %p.last = getelementptr i32, ptr %a0, i64 30
  %total = trunc i64 %free to i32
  store i32 %total, ptr %p.last
  br label %done
done:
  ret void
}

