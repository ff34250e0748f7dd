//: A depthwise convolution fused into a pointwise one, see pair.py.

//: [row]
//: Rows of the left matrix: the windows of the depthwise convolution's output positions.
typedef struct { int base, y, x, row; } ${KERNEL}_row;
static inline ${KERNEL}_row ${KERNEL}_row_of(const int batch, const int m$SIZE_PARAMETERS) {
  ${KERNEL}_row row;
  const int at_line = m / $line, image = at_line / $lines;
  row.row = m < $rows ? m : -1;
  row.y = (at_line - image * $lines) * $stride_y - $pad_y;
  row.x = (m - at_line * $line) * $stride_x - $pad_x;
  row.base = ((image * $height + row.y) * $width + row.x) * $channels;
  return row;
}
