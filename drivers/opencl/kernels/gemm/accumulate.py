"""Adds up a work-group's accumulators, across groups if the depth is split, and stores the results.

The code before it leaves each work-item with vectors of four accumulators along the columns.
"""

from dataclasses import dataclass

from neurald.drivers.opencl.codegen.kernel_source import WORKSPACE_ZEROS
from neurald.drivers.opencl.codegen.template import fill, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import Epilogue
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView

#: Maximum number of tiles of a split-K product.
MAX_TILES = WORKSPACE_ZEROS // 4
#: Number of groups whose accumulators are read at a time.
_BATCH = 8

_TEMPLATES = templates(__name__, "accumulate.cl")
#: Adds up accumulators over slices: defines `totals`, see `gathered_layout`.
ADD_SLICES = _TEMPLATES["add_slices"]


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


def share_text(product: GemmView, *, split: int, number: str = "group") -> str:
    """Returns the statement that computes a group's `tile`, `share` of the depth and `batch`.

    Args:
        product: the product.
        split: the number of shares of the depth.
        number: the variable that counts tiles, shares and batches: one group has several of them in
            some kernels.
    """
    if split == 1 and product.batches == 1:
        return f"const int tile = {number}, share = 0, batch = 0;"
    if split == 1:
        return f"const int batch = {number} / $tiles, tile = {number} - batch * $tiles, share = 0;"
    if product.batches == 1:
        return f"const int share = {number} / $tiles, tile = {number} - share * $tiles, batch = 0;"
    return (
        f"const int tile = {number} % $tiles, share = {number} / $tiles % $split, "
        f"batch = {number} / ($tiles * $split);"
    )


def gathered_layout(kind: str, rows: int, columns: int, items: int) -> AccumulatorLayout:
    """Returns the location of the accumulators after `ADD_SLICES`."""
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


def finish_text(
    product: GemmView, after: Epilogue, sums: AccumulatorLayout, *, split: int, adds: bool = False
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
        "BATCH": _BATCH,
        "STORE": stored,
        "ZEROS": WORKSPACE_ZEROS,
        "ARGUMENTS": after.call_arguments,
    }
    if adds:
        return fill(_TEMPLATES["add"], **names)
    return fill((_TEMPLATES["split_k"] if split > 1 else "") + _TEMPLATES["store"], **names)


def fetch_text(product: GemmView, after: Epilogue, sums: AccumulatorLayout) -> str:
    """Returns statements that prefetch the epilogue's inputs before the accumulators are known."""
    if not after.has_fetch:
        return ""
    row, column = _position(product)
    return fill(
        _TEMPLATES["fetch"],
        NE=sums.count,
        BEFORE=sums.before,
        ROW=sums.row,
        COLUMN=sums.column,
        GUARD=sums.guard,
        FETCH=after.fetch4(row, column, sums.is_first),
    )


def fetched_text(product: GemmView, after: Epilogue) -> str:
    """Returns the statement that prefetches what `store_text` will read; "" if there is none."""
    return after.fetch4(*_position(product)) if after.has_fetch else ""


def _position(product: GemmView) -> tuple[str, str]:
    """Returns the row and column of the output."""
    if product.batches == 1:
        return "m", "n"
    return f"batch * {product.row_step} + m", f"batch * {product.column_step} + n"


def store_text(product: GemmView, after: Epilogue) -> str:
    """Returns the statements that store `sum` at row `m` and columns from `n` of `batch`."""
    row, column = _position(product)
    if product.has_vectors:
        return after.store4("sum", row, column)
    # Elements beyond the columns of a batch belong to the next one.
    return " ".join(
        f"if (n + {i} < $columns) {after.store(f'sum.s{i}', row, f'{column} + {i}')}" for i in range(4)
    )


def split_cycles(elements: int, split: int) -> float:
    """Estimates the cycles that a split of the depth costs: the last group reads all accumulators.

    Args:
        elements: the elements of a tile.
        split: the number of groups; 1 if the depth is not split.
    """
    return 1500 + elements * split / 8 if split > 1 else 0


def workspace_bytes(product: GemmView, sums: AccumulatorLayout, *, tiles: int, split: int) -> int:
    """Returns the size of the workspace that a split of the depth needs."""
    if split == 1:
        return 0
    return WORKSPACE_ZEROS + tiles * product.batches * split * sums.count * sums.items * 16
