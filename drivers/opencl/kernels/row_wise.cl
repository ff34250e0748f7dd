//: Rows with reductions, see row_wise.py.
//:
//: WIDTH: work-items of a row. TURNS: how often a work-item has four elements of the row.
//: GUARD: the condition that it has. UNROLL: requests that loads of several turns are under way.

//: [function]
//: The whole function.
$HELPERS
static void $KERNEL($PARAMETERS) {
  const int row = $ROW, item = lid % $WIDTH;
  if (row >= $ROWS) return;
$BEFORE
$STATEMENTS
}

//: [row]
//: A row.
$REDUCTIONS
$UNROLL
  for (int turn = 0; turn < $TURNS; ++turn) {
    const int column = (item + turn * $WIDTH) * 4;
    if ($GUARD) {
$LINES
      const float4 value = $VALUE;
      $STORE
    }
  }

//: [short_row]
//: A row of which each work-item has four elements at most, at `column`, which it loads once.
$LOADS
$REDUCTIONS
$LINES
  if ($GUARD) {
    const float4 value = $VALUE;
    $STORE
  }

//: [reduction]
//: A reduction over a row.
  float $NAME = $IDENTITY;
$UNROLL
  for (int turn = 0; turn < $TURNS; ++turn) {
    const int column = (item + turn * $WIDTH) * 4;
    if ($GUARD) {
$LINES
      const float4 value = $VALUE;
$COMBINE
    }
  }
$EXCHANGE

//: [short_reduction]
//: A reduction over such a row.
$LINES
  float $NAME = $IDENTITY;
  if ($GUARD) {
    const float4 value = $VALUE;
$COMBINE
  }
$EXCHANGE
