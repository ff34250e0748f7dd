; Draws classes with given weights. %a1 has a row of weights for each work item, %a2 a row of points
; from 0 to 1, %scratch the sums of the weights up to each class. A binary search finds the first
; class whose sum is greater than a point.
define void @$KERNEL($PARAMETERS) nounwind {
  br label %entry
entry:
  br label %row.test
row.test:
  %row = phi i64 [ %begin, %entry ], [ %row.next, %row.end ]
  %has.row = icmp slt i64 %row, %end
  br i1 %has.row, label %row.begin, label %done
row.begin:
  %weights.at = mul i64 %row, $CLASSES
  %weights = getelementptr double, ptr $WEIGHTS, i64 %weights.at
  %points.at = mul i64 %row, $SAMPLES
  %points = getelementptr double, ptr $POINTS, i64 %points.at
  %drawn = getelementptr i32, ptr %a0, i64 %points.at
  br label %sum
sum:
  %class = phi i64 [ 0, %row.begin ], [ %class.next, %sum ]
  %before = phi double [ 0.0, %row.begin ], [ %total, %sum ]
  %p.weight = getelementptr double, ptr %weights, i64 %class
  %weight = load double, ptr %p.weight
  %total = fadd double %before, %weight
  %p.sum = getelementptr double, ptr %scratch, i64 %class
  store double %total, ptr %p.sum
  %class.next = add i64 %class, 1
  %has.class = icmp ult i64 %class.next, $CLASSES
  br i1 %has.class, label %sum, label %sample
sample:
  %number = phi i64 [ 0, %sum ], [ %number.next, %found ]
  %p.point = getelementptr double, ptr %points, i64 %number
  %unit = load double, ptr %p.point
  %point = fmul double %unit, %total
  br label %search
search:
  %low = phi i64 [ 0, %sample ], [ %low.next, %halve ]
  %high = phi i64 [ $CLASSES, %sample ], [ %high.next, %halve ]
  %open = icmp ult i64 %low, %high
  br i1 %open, label %halve, label %found
halve:
  %both = add i64 %low, %high
  %middle = lshr i64 %both, 1
  %p.middle = getelementptr double, ptr %scratch, i64 %middle
  %bound = load double, ptr %p.middle
  %passes = fcmp ole double %bound, %point
  %after = add i64 %middle, 1
  %low.next = select i1 %passes, i64 %after, i64 %low
  %high.next = select i1 %passes, i64 %high, i64 %middle
  br label %search
found:
  %is.class = icmp ult i64 %low, $CLASSES
  %chosen = select i1 %is.class, i64 %low, i64 $LAST
  %chosen.short = trunc i64 %chosen to i32
  %p.drawn = getelementptr i32, ptr %drawn, i64 %number
  store i32 %chosen.short, ptr %p.drawn
  %number.next = add i64 %number, 1
  %has.number = icmp ult i64 %number.next, $SAMPLES
  br i1 %has.number, label %sample, label %row.end
row.end:
  %row.next = add i64 %row, 1
  br label %row.test
done:
  ret void
}
