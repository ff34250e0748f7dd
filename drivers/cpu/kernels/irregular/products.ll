; Multiplies the rows of %a1, and rescales after each step; a work item has $LANES columns. Products
; that are all 0 stay so.

; Returns the low 32 bits of products of numbers of 32 bits, divided by 2^$BITS and rounded.
define internal <$LANES x i64> @${KERNEL}_rescaled(<$LANES x i64> %one, <$LANES x i64> %other) nounwind alwaysinline {
  %scaled = mul <$LANES x i64> %one, %other
  %rounded = add <$LANES x i64> %scaled, splat (i64 $ROUNDING)
  %divided = ashr <$LANES x i64> %rounded, splat (i64 $BITS)
  %low = trunc <$LANES x i64> %divided to <$LANES x i32>
  %wide = sext <$LANES x i32> %low to <$LANES x i64>
  ret <$LANES x i64> %wide
}

define void @$KERNEL($PARAMETERS) nounwind {
entry:
  br label %test
test:
  %block = phi i64 [ %begin, %entry ], [ %block.next, %store ]
  %more = icmp slt i64 %block, %end
  br i1 %more, label %start, label %done
start:
  %column = mul i64 %block, $LANES
  %p.first = getelementptr i32, ptr %a1, i64 %column
  %first = load <$LANES x i32>, ptr %p.first, align 4
  %first.wide = sext <$LANES x i32> %first to <$LANES x i64>
  br label %test.row
test.row:
  %row = phi i64 [ 1, %start ], [ %row.next, %multiply ]
  %product = phi <$LANES x i64> [ %first.wide, %start ], [ %rescaled, %multiply ]
  %is.left = icmp ne <$LANES x i64> %product, zeroinitializer
  %left = bitcast <$LANES x i1> %is.left to i$LANES
  %some.left = icmp ne i$LANES %left, 0
  %has.row = icmp ult i64 %row, $COUNT
  %more.rows = and i1 %has.row, %some.left
  br i1 %more.rows, label %multiply, label %store
multiply:
  %row.start = mul i64 %row, $WIDTH
  %at = add i64 %row.start, %column
  %p.factor = getelementptr i32, ptr %a1, i64 %at
  %factor = load <$LANES x i32>, ptr %p.factor, align 4
  ; What does not depend on the product before is computed meanwhile.
  %multiplier = mul <$LANES x i32> %factor, splat (i32 $MULTIPLIER)
  %multiplier.wide = sext <$LANES x i32> %multiplier to <$LANES x i64>
  %rescaled = call <$LANES x i64> @${KERNEL}_rescaled(<$LANES x i64> %product, <$LANES x i64> %multiplier.wide)
  %row.next = add i64 %row, 1
  br label %test.row
store:
  %last = call <$LANES x i64> @${KERNEL}_rescaled(<$LANES x i64> %product, <$LANES x i64> splat (i64 $MULTIPLIER))
  %result = trunc <$LANES x i64> %last to <$LANES x i32>
  %p.result = getelementptr i32, ptr %a0, i64 %column
  store <$LANES x i32> %result, ptr %p.result, align 4
  %block.next = add i64 %block, 1
  br label %test
done:
  ret void
}
