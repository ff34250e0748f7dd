"""Adds up a work-group's accumulators, across groups if the depth is split, and stores the results.

The preceding text leaves each work-item with vectors of four accumulators along the columns.
"""

from dataclasses import dataclass

from neurald.drivers.opencl.codegen.kernel_source import WORKSPACE_ZEROS
from neurald.drivers.opencl.codegen.template import fill
from neurald.drivers.opencl.kernels.epilogue.epilogue import Epilogue
from neurald.drivers.opencl.kernels.gemm.gemm_view import Product

#: Maximum number of tiles of a split-K product.
MAX_TILES = WORKSPACE_ZEROS // 4
#: Number of groups whose accumulators are read at a time.
_TURN = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class AccumulatorLayout:
    """Location of a work-item's accumulators.

    Attributes:
        kind: `int` or `float`.
        count: vectors of each work-item.
        vector: the text of vector `e`.
        guard, before: the condition that vector `e` exists; declarations that `row` and `column` of
            it need.
        row, column: the indices of its first element.
        is_first: whether no vector before `e` has the same columns.
    """

    kind: str
    count: int
    items: int
    vector: str
    row: str
    column: str
    guard: str = ""
    before: str = ""
    is_first: str = "1"


def share_text(product: Product, *, split: int) -> str:
    """Returns the statement that computes a group's `tile`, `share` of the depth and `batch`."""
    if split == 1 and product.batches == 1:
        return "const int tile = group, share = 0, batch = 0;"
    if split == 1:
        return "const int batch = group / z_tiles, tile = group - batch * z_tiles, share = 0;"
    if product.batches == 1:
        return "const int share = group / z_tiles, tile = group - share * z_tiles, batch = 0;"
    return "const int tile = group % z_tiles, share = group / z_tiles % z_split, batch = group / (z_tiles * z_split);"


#: Each work-item adds up its vectors in local memory over all slices.
GATHERED = """\
  ${T}4 totals[$NE];
#pragma unroll
  for (int e = 0; e < $NE; ++e) {
    ${T}4 sum = (${T}4)(0);
    if ((lid + e * $ITEMS) * 4 < $BM * $BN) {
#pragma unroll
      for (int z = 0; z < $KS; ++z) sum += *(__local ${T}4 *)(all + z * $BM * $BN + (lid + e * $ITEMS) * 4);
    }
    totals[e] = sum;
  }
"""


def gathered(kind: str, rows: int, columns: int, items: int) -> AccumulatorLayout:
    """Returns the location of the accumulators after `GATHERED`."""
    step = items * 4
    # If all vectors of a work-item have the same columns, compilers load the columns' operands
    # once.
    is_same = step % columns == 0
    return AccumulatorLayout(
        kind=kind,
        count=-(-rows * columns // 4 // items),
        items=items,
        vector="totals[e]",
        before=f"const int at = (lid + e * {items}) * 4;",
        row=f"m0 + lid * 4 / {columns} + e * {step // columns}" if is_same else f"m0 + at / {columns}",
        column=f"n0 + lid * 4 % {columns}" if is_same else f"n0 + at % {columns}",
        is_first="e == 0" if is_same else "1",
        guard=f"at < {rows * columns} && ",
    )


#: Stores the accumulators of a group; only the last group of a tile continues, with the totals.
_PARTS = """\
  {
    __global uint *count = (__global uint *)workspace + batch * $TILES + tile;
    __global ${T}4 *parts = (__global ${T}4 *)(workspace + $ZEROS) +
      (batch * $TILES + tile) * ($SPLIT * $NE * $ITEMS) + lid;
#pragma unroll
    for (int e = 0; e < $NE; ++e) parts[(share * $NE + e) * $ITEMS] = $VECTOR;
    // What all of a group have stored before a barrier, its first work-item hands on, and takes from others, for all of them.
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    __local uint *before = (__local uint *)scratch;
    if (lid == 0) {
      uint others;
      asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(others) : "l"((ulong)count) : "memory");
      *before = others;
      if (others == $SPLIT - 1) *count = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool is_last = *before == $SPLIT - 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!is_last) return;
#pragma unroll
    for (int e = 0; e < $NE; ++e) {
      ${T}4 sum = (${T}4)(0);
      // All loads of a turn are on their way at the same time, also those that do not count.
      for (int z = 0; z < $SPLIT; z += $TURN) {
        ${T}4 turn[$TURN];
#pragma unroll
        for (int i = 0; i < $TURN; ++i) turn[i] = parts[(min(z + i, $SPLIT - 1) * $NE + e) * $ITEMS];
#pragma unroll
        for (int i = 0; i < $TURN; ++i)
          if (z + i < $SPLIT) sum += turn[i];
      }
      $VECTOR = sum;
    }
  }
"""

#: Adds the accumulators of a group to the output; the first share also adds the epilogue's terms.
_ADDED = """\
#pragma unroll
  for (int e = 0; e < $NE; ++e) {
    $BEFORE
    const int m = $ROW, n = $COLUMN;
    const ${T}4 sum = $VECTOR;
    if ($GUARD m < $M && n < $N)
      ${KERNEL}_add4(a0 + m * z_length + n, share == 0 ? ${KERNEL}_value4(sum, m, n, $HANDED_ON@SIZES) : sum);
  }
}
"""

_STORED = """\
#pragma unroll
  for (int e = 0; e < $NE; ++e) {
    $BEFORE
    const int m = $ROW, n = $COLUMN;
    const ${T}4 sum = $VECTOR;
    if ($GUARD m < $M && n < $N) { $STORE }
  }
}
"""


def finish(
    product: Product, after: Epilogue, sums: AccumulatorLayout, *, split: int, adds: bool = False
) -> str:
    """Returns the end of a function, after the code that computes its accumulators.

    The function has `tile`, `share` and `batch`, and a workspace if the depth is split.

    Args:
        product: the product.
        after: the epilogue.
        sums: the location of a work-item's accumulators.
        split: the number of groups that share the depth.
        adds: whether each group adds to the output with `KERNEL_NAME_add4`, the first one after
            `KERNEL_NAME_value4`.
    """
    stored = store_text(product, after)
    names = {
        "T": sums.kind,
        "NE": sums.count,
        "ITEMS": sums.items,
        "VECTOR": sums.vector,
        "ROW": sums.row,
        "COLUMN": sums.column,
        "GUARD": sums.guard,
        "BEFORE": sums.before,
        "TILES": "z_tiles",
        "SPLIT": "z_split",
        "TURN": _TURN,
        "M": "z_rows",
        "N": "z_columns",
        "STORE": stored,
        "ZEROS": WORKSPACE_ZEROS,
        "HANDED_ON": after.call_arguments,
    }
    if adds:
        return fill(_ADDED, **names)
    return fill((_PARTS if split > 1 else "") + _STORED, **names)


def fetch(product: Product, after: Epilogue, sums: AccumulatorLayout) -> str:
    """Returns statements that prefetch the epilogue's inputs before the accumulators are known."""
    if not after.has_fetch:
        return ""
    row, column = _position(product)
    return fill(
        _FETCHED,
        NE=sums.count,
        BEFORE=sums.before,
        ROW=sums.row,
        COLUMN=sums.column,
        GUARD=sums.guard,
        FETCH=after.fetch4(row, column, sums.is_first),
    )


_FETCHED = """\
#pragma unroll
  for (int e = 0; e < $NE; ++e) {
    $BEFORE
    const int m = $ROW, n = $COLUMN;
    if ($GUARD m < z_rows && n < z_columns) { $FETCH }
  }
"""


def _position(product: Product) -> tuple[str, str]:
    """Returns the row and column of the output."""
    if product.batches == 1:
        return "m", "n"
    return f"batch * {product.row_step} + m", f"batch * {product.column_step} + n"


def store_text(product: Product, after: Epilogue) -> str:
    """Returns the statements that store `sum` at row `m` and columns from `n` of `batch`."""
    row, column = _position(product)
    if product.column_step == 0 or product.columns % 4 == 0:
        return after.store4("sum", row, column)
    # Elements beyond the columns of a batch belong to the next one.
    return " ".join(
        f"if (n + {i} < z_columns) {after.store(f'sum.s{i}', row, f'{column} + {i}')}" for i in range(4)
    )


def split_cycles(elements: int, split: int) -> float:
    """Estimates the cycles that a split of the depth costs.

    The last group reads all accumulators.

    Args:
        elements: of a tile.
        split: the number of groups; 1 if the depth is not split.
    """
    return 1500 + elements * split / 8 if split > 1 else 0


def workspace_bytes(product: Product, sums: AccumulatorLayout, *, tiles: int, split: int) -> int:
    """Returns the size of the workspace that a split of the depth needs."""
    if split == 1:
        return 0
    return WORKSPACE_ZEROS + tiles * product.batches * split * sums.count * sums.items * 16
