//: Rows of the left matrices of products, see gemm_view.py.
//:
//: TAPS_X: width of a window. TAP_DEPTH: channels of a group. DEPTH: elements of a window.

//: [pointwise]
//: Rows of a convolution with a 1 × 1 window: one per position.
typedef struct { int base, y, x; } ${KERNEL}_row;
static inline ${KERNEL}_row ${KERNEL}_row_of(const int batch, const int m$SIZE_PARAMETERS) {
  ${KERNEL}_row row;
  row.base = m < $rows ? m * $left_pitch$GROUP_START : -1;
  row.y = row.x = 0;
  return row;
}
static inline int ${KERNEL}_left(const ${KERNEL}_row row, const int k$SIZE_PARAMETERS) {
  return k < $depth && row.base >= 0 ? row.base + k : -1;
}

//: [windowed]
//: Rows of any other convolution: the window of a position.
typedef struct { int base, y, x; } ${KERNEL}_row;
static inline ${KERNEL}_row ${KERNEL}_row_of(const int batch, const int m$SIZE_PARAMETERS) {
  ${KERNEL}_row row;
  const int image = m / $POSITIONS, rest = m - image * $POSITIONS;
  const int y = rest / $COLUMNS, x = rest - y * $COLUMNS;
  row.y = image < $IMAGES ? y * $STRIDE_Y - $PAD_Y : -(1 << 29);
  row.x = x * $STRIDE_X - $PAD_X;
  row.base = ((image * $HEIGHT + row.y) * $WIDTH + row.x) * $CHANNELS + batch * $TAP_DEPTH;
  return row;
}
static inline int ${KERNEL}_left(const ${KERNEL}_row row, const int k$SIZE_PARAMETERS) {
  const int tap = k / $TAP_DEPTH, c = k - tap * $TAP_DEPTH, i = tap / $TAPS_X, j = tap - i * $TAPS_X;
  const int y = i * $DILATION_Y, x = j * $DILATION_X;
  const int seen = (uint)(row.y + y) < ${HEIGHT}u && (uint)(row.x + x) < ${WIDTH}u && k < $DEPTH;
  return seen ? row.base + (y * $WIDTH + x) * $CHANNELS + c : -1;
}

//: [matrix]
//: Rows of a matrix.
typedef struct { int base; } ${KERNEL}_row;
static inline ${KERNEL}_row ${KERNEL}_row_of(const int batch, const int m$SIZE_PARAMETERS) {
  ${KERNEL}_row row;
  row.base = m < $rows ? $BATCH_START + $ROW_START : -1;
  return row;
}
static inline int ${KERNEL}_left(const ${KERNEL}_row row, const int k$SIZE_PARAMETERS) {
  return k < $depth && row.base >= 0 ? $ELEMENT : -1;
}
