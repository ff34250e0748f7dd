//: Depthwise convolutions, see depthwise.py.
//:
//: ITEMS: work-items of a group. WIDTH, POSITIONS: channels and positions of a work-item.

//: [begin]
$FUNCTION {
  const int at = group * $ITEMS + lid;
  if (at >= $items) return;
  const int c = at % $across * $WIDTH, position = at / $across;
  const int x = position % $strips * $POSITIONS, line = position / $strips, y = line % $rows, image = line / $rows;
  const int top = y * $STRIDE_Y - $pad_y, left = x * $STRIDE_X - $pad_x;
  const int base = ((image * $height + top) * $width + left) * $channels + c / $MULTIPLIER;
  $T sums[$POSITIONS];
