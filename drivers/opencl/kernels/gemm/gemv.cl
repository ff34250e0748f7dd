//: Products with few rows, see gemv.py.
//:
//: LANES: work-items along the columns. WIDTH: columns of each. SLICES: work-items along the depth.
//: AHEAD: vectors of constants that a work-item requests before the grid barrier.

//: [function]
$FUNCTION {
  const int batch = group / $GROUPS, base = $BASE;
  const int lane = lid % $LANES, slice = lid / $LANES, n = (group % $GROUPS * $LANES + lane) * $WIDTH;
  __local ${T}4 *parts = (__local ${T}4 *)scratch;
  ${KERNEL}_row rows[$ROWS];
  ${T}4 sums[$ROWS];
#pragma unroll
  for (int m = 0; m < $ROWS; ++m) {
    rows[m] = ${KERNEL}_row_of(batch, m$SIZE_ARGUMENTS);
    sums[m] = (${T}4)(0);
  }
$AHEAD_LOOP
$LOOP
#pragma unroll
  for (int m = 0; m < $ROWS; ++m) parts[m * $ITEMS + lid] = sums[m];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = $SLICES / 2; half_size > 0; half_size >>= 1) {
    if (slice < half_size)
      for (int m = 0; m < $ROWS; ++m)
        parts[m * $ITEMS + lid] += parts[m * $ITEMS + lid + half_size * $LANES];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int at = lid; at < $ROWS * $LANES; at += $ITEMS) {
    const int m = at / $LANES, other = at % $LANES;
    const int n = (group % $GROUPS * $LANES + other) * $WIDTH;
    const ${T}4 sum = parts[m * $ITEMS + other];
    if (n < $COLUMNS) { $STORE }
  }
}

//: [ahead]
//: Requests constants before the grid barrier.
  ${T}4 ahead[$AHEAD];
#pragma unroll
  for (int i = 0; i < $AHEAD; ++i) {
    const int k = $FIRST + i * $STEP;
    ahead[i] = ${KERNEL}_right4($RIGHT, base, k, n$SIZE_ARGUMENTS);
  }
  $WAIT
  if (n < $COLUMNS) {
#pragma unroll
    for (int i = 0; i < $AHEAD; ++i) {
      const int k = $FIRST + i * $STEP;
      const ${T}4 right = ahead[i];
      if (k < $DEPTH) {
$MULTIPLY
      }
    }
  }

//: [loop]
//: Loads that were not requested ahead, several at a time.
  if (n < $COLUMNS) {
#pragma unroll $UNROLL
    for (int k = $NEXT; k < $DEPTH; k += $STEP) {
      const ${T}4 right = ${KERNEL}_right4($RIGHT, base, k, n$SIZE_ARGUMENTS);
$MULTIPLY
    }
  }

//: [along_columns]
//: Multiplies four columns at one depth index (`right`) by every row.
#pragma unroll
      for (int m = 0; m < $ROWS; ++m) {
        const int at = ${KERNEL}_left(rows[m], k$SIZE_ARGUMENTS);
        $PRODUCT
      }

//: [along_depth]
//: Multiplies four depth indices of one column (`right`) by every row.
#pragma unroll
      for (int m = 0; m < $ROWS; ++m) { $PRODUCT }
