//: Tiles of matrix products on CPUs, see cpu_tile.py.
//:
//: M, N, K: rows, columns and depth of the product. ROWS, COLUMNS: those of a tile.
//: DEPTH: depth that is copied at a time. READ16: reads 16 columns of the right matrix.

//: [function]
#define ${KERNEL}_READ(AT) $READ16
$FUNCTION {
  const int down = group % $DOWN, strip = group / $DOWN % $STRIPS, batch = group / ($DOWN * $STRIPS);
  const int m0 = down * $ROWS, n0 = strip * $COLUMNS;
  ${KERNEL}_row rows[$ROWS];
  ${T}16 low[$ROWS], high[$ROWS];
#pragma unroll
  for (int i = 0; i < $ROWS; ++i) {
    rows[i] = ${KERNEL}_row_of(batch, m0 + i$SIZE_ARGUMENTS);
    low[i] = high[i] = (${T}16)(0);
  }
  for (int start = 0; start < $K; start += $DEPTH) {
    const int length = min($DEPTH, $K - start);
    $T left[$DEPTH * $ROWS];
    for (int i = 0; i < $ROWS; ++i)
      for (int k = 0; k < length; k += 4) {
        const ${T}4 part = ${KERNEL}_left4(a1, rows[i], start + k$SIZE_ARGUMENTS);
        left[k * $ROWS + i] = part.x;
        left[(k + 1) * $ROWS + i] = part.y;
        left[(k + 2) * $ROWS + i] = part.z;
        left[(k + 3) * $ROWS + i] = part.w;
      }
    const size_t at = ((size_t)($BASE + strip) * $K + start) * $COLUMNS;
    for (int k = 0; k < length; ++k) {
      const ${T}16 first = ${KERNEL}_READ(at + k * $COLUMNS), second = ${KERNEL}_READ(at + k * $COLUMNS + 16);
#pragma unroll
      for (int i = 0; i < $ROWS; ++i) {
        const $T factor = left[k * $ROWS + i];
        low[i] += factor * first;
        high[i] += factor * second;
      }
    }
  }
  for (int i = 0; i < $ROWS; ++i) {
    const int m = m0 + i;
    if (m >= $M) break;
    $T sums[$COLUMNS];
    vstore16(low[i], 0, sums);
    vstore16(high[i], 1, sums);
    for (int j = 0; j < $COLUMNS; j += 4) {
      const int n = n0 + j;
      const ${T}4 sum = vload4(0, sums + j);
      if (n < $N) { $STORE }
    }
  }
}
