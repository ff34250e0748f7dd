"""Products with few rows: what counts is to read the right matrix once, in order, with the whole device.

The work-items of a group share out the depth, and add up by halves what they have.
"""

from neurald.drivers.compiler.graph import Value
from neurald.drivers.compiler.kernel import Kernel
from neurald.drivers.opencl.arguments import as_images
from neurald.drivers.opencl.kernels.epilogue import epilogue, read_by_fours, used_values
from neurald.drivers.opencl.kernels.finish import store_text
from neurald.drivers.opencl.kernels.product import Product, readers
from neurald.drivers.opencl.kernels.template import arguments, fill, resolved
from neurald.drivers.opencl.platform import DeviceFacts
from neurald.drivers.opencl.source import Source

#: Products with more rows are better cut into tiles.
_MAXIMUM_ROWS = 8


def candidates(kernel: Kernel, product: Product, facts: DeviceFacts) -> list[Source]:
    """How many work-items lie side by side along the columns."""
    if product.rows > _MAXIMUM_ROWS:
        return []
    items = max(size for size in (256, 64, 16) if size <= facts.max_work_group_size)
    while 16 * items * product.rows > min(facts.local_memory_bytes, 32 * 1024):
        items //= 2
    # Of four columns each where those lie side by side, else of one.
    lanes = [2, 4, 8, 1] if not product.is_right_by_column else [8, 2, 16]
    return [_source(kernel, product, items, each, facts) for each in lanes if each <= items // 2]


def _source(kernel: Kernel, product: Product, items: int, lanes: int, facts: DeviceFacts) -> Source:
    images = frozenset[Value]()
    if facts.images is not None:
        # Along the columns, elements of the left matrix are read one by one.
        operands = product.read_by_fours if product.is_right_by_column else product.right_by_fours
        images = as_images((*operands, *read_by_fours(kernel)), facts.images)
    values = arguments(kernel.output, (product.left, product.right), used_values(kernel), images)
    after = epilogue(kernel, values)
    width = 1 if product.is_right_by_column else 4
    store = store_text(product, after)
    if width == 1:
        row, column = f"batch * {product.row_step} + m", f"batch * {product.column_step} + n"
        store = after.store("sum.x + sum.y + sum.z + sum.w", row, column)
    groups = -(-product.columns // (lanes * width))
    kind = "int" if product.is_integer else "float"
    text = fill(
        _TEXT,
        T=kind,
        ROWS=product.rows,
        GROUPS=groups,
        BASE=product.right_base,
        LANES=lanes,
        SLICES=items // lanes,
        ITEMS=items,
        WIDTH=width,
        DEPTH=product.depth,
        COLUMNS=product.columns,
        ADD=fill(
            _ALONG_DEPTH if product.is_right_by_column else _ALONG_COLUMNS,
            T=kind,
            ROWS=product.rows,
            SLICES=items // lanes,
            DEPTH=product.depth,
            LEFT=values[1].handed_on,
            RIGHT=values[2].handed_on,
        ),
        STORE=store,
    )
    return Source(
        text=resolved(
            readers(product, images) + after.text + text,
            values.parameters,
            {**product.sizes, **after.sizes},
            is_shared=False,
        ),
        arguments=values.values,
        images=values.image_positions,
        groups=groups * product.batches,
        local_size=items,
        scratch_bytes=16 * items * product.rows,
        has_barriers=True,
        label=f"{product.rows} rows, {lanes} x {width} columns by {items // lanes}",
        operations=kernel.operations,
    )


#: Four columns at one position of the depth.
_ALONG_COLUMNS = """\
#pragma unroll 8
    for (int k = slice; k < $DEPTH; k += $SLICES) {
      const ${T}4 right = ${KERNEL}_right4($RIGHT, base, k, n@SIZES);
#pragma unroll
      for (int m = 0; m < $ROWS; ++m) {
        const int at = ${KERNEL}_left(rows[m], k@SIZES);
        sums[m] += (at < 0 ? 0 : ${KERNEL}_l1($LEFT, at)) * right;
      }
    }"""

#: Four positions of the depth of one column.
_ALONG_DEPTH = """\
#pragma unroll 4
    for (int k = slice * 4; k < $DEPTH; k += $SLICES * 4) {
      const ${T}4 right = ${KERNEL}_right4($RIGHT, base, k, n@SIZES);
#pragma unroll
      for (int m = 0; m < $ROWS; ++m) sums[m] += ${KERNEL}_left4($LEFT, rows[m], k@SIZES) * right;
    }"""

_TEXT = """\
@FUNCTION
  const int batch = group / $GROUPS, base = $BASE;
  const int lane = lid % $LANES, slice = lid / $LANES, n = (group % $GROUPS * $LANES + lane) * $WIDTH;
  __local ${T}4 *parts = (__local ${T}4 *)scratch;
  ${KERNEL}_row rows[$ROWS];
  ${T}4 sums[$ROWS];
#pragma unroll
  for (int m = 0; m < $ROWS; ++m) {
    rows[m] = ${KERNEL}_row_of(batch, m@SIZES);
    sums[m] = (${T}4)(0);
  }
  if (n < $COLUMNS) {
$ADD
  }
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
"""
