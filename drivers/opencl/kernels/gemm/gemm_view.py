"""Views convolutions and matrix products as batches of matrix products.

The batches of a convolution are its groups, its rows the positions of all images, and its depth
runs over the window: height first, then width, then channels. C functions compute the index of an
element of the left matrix, so that kernels need not know about windows: `KERNEL_NAME_row_of(batch,
m)` describes a row, and `KERNEL_NAME_left(row, k)` gives the index of its element `k`, negative for
elements that count as zero: beyond the depth, beyond the rows, outside the image.
"""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np

from neurald.drivers.compiler.ir.expression import Expression, axis
from neurald.drivers.compiler.ir.extents.arithmetic import common_divisor
from neurald.drivers.compiler.ir.extents.extent import Extent, highest, is_multiple, is_zero, same_length
from neurald.drivers.compiler.ir.graph import (
    Attention,
    Contraction,
    Convolution,
    MatrixProduct,
    Selection,
    delinearize,
    linearize,
)
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArgument
from neurald.drivers.opencl.codegen.kernel_source import NAME
from neurald.drivers.opencl.codegen.statements import Statements
from neurald.drivers.opencl.codegen.template import fill, templates
from neurald.drivers.opencl.kernels.gemm.packing import packed, padded

_TEMPLATES = templates(__name__, "gemm_view.cl")
#: Limit on the elements of a matrix, such that byte offsets fit in an INT32.
_MAX_ELEMENTS = ((1 << 31) - 1) // 8
_INTEGERS = (Scalar.INT8, Scalar.UINT8)
_FLOATS = (Scalar.FLOAT32, Scalar.FLOAT16)


class OutputTile(Protocol):
    """Part of the result that a work-group computes."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def columns(self) -> int:
        """Number of columns."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class GemmView:
    """Contraction as matrix products.

    Attributes:
        right: the matrix with elements (batch, k, n) or, if `is_right_by_column`, (batch, n, k); it
            may have more columns than `columns`.
        right_base: the text of the index at which `right`'s matrix of a batch begins, in elements.
        left_row, right_row: the strides between rows of the matrices.
        row_step, column_step: the offsets between rows and columns of consecutive batches.
        is_left_by_row: whether adjacent elements along the depth are contiguous; otherwise those of
            adjacent rows are.
        run: this many elements along the depth, from a multiple of it, are contiguous or all
            missing.
        text: the text of the functions.
    """

    left: Value
    right: Value
    left_zero: int
    right_zero: int
    sum_type: Scalar
    batches: int
    rows: int
    columns: int
    depth: int
    row_step: int
    column_step: int
    left_row: int
    right_row: int
    right_base: str
    is_left_by_row: bool
    is_right_by_column: bool
    run: int
    is_windowed: bool
    text: str

    @property
    def is_integer(self) -> bool:
        """True if accumulators are integers."""
        return self.sum_type is Scalar.INT32

    @property
    def has_vectors(self) -> bool:
        """True if four results, from a multiple of four columns on, never belong to two batches."""
        return self.column_step == 0 or self.columns % 4 == 0

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes that texts refer to."""
        return {
            "rows": self.rows,
            "columns": self.columns,
            "depth": self.depth,
            "left_pitch": self.left_row,
            "right_pitch": self.right_row,
        }

    @property
    def vector4_reads(self) -> tuple[Value, ...]:
        """Matrices of which the functions of `readers` read four elements at a time."""
        left = (self.left,) if self.run % 4 == 0 else ()
        return (*left, *self.right_vector4_reads)

    @property
    def right_vector4_reads(self) -> tuple[Value, ...]:
        """Right matrix, if four of its elements are read at a time."""
        return (self.right,) if is_multiple(self.right_row, 4) else ()

    def tiles(self, tile: OutputTile) -> int:
        """Returns the number of tiles of a batch."""
        return -(-self.rows // tile.rows) * -(-self.columns // tile.columns)

    def tile_sizes(self, tile: OutputTile) -> dict[str, int]:
        """Returns the numbers of tiles that texts refer to: of a batch, and of its columns."""
        return {"tiles": self.tiles(tile), "across": -(-self.columns // tile.columns)}

    @property
    def multiplications(self) -> int:
        """Number of multiplications."""
        return self.batches * self.rows * self.columns * self.depth


def gemm_view(kernel: Kernel) -> GemmView | None:
    """Returns the contraction of a kernel as matrix products; None if no kernel supports it."""
    contraction = kernel.contraction
    if contraction is None or isinstance(contraction, Selection | Attention):
        return None
    if not _is_supported(contraction, kernel):
        return None
    if isinstance(contraction, Convolution):
        return _of_convolution(contraction)
    if isinstance(contraction, MatrixProduct):
        return _of_matrices(contraction)
    return None


def four_bytes(zero_point: int) -> int:
    """Returns an `int` of four bytes, each of which is a zero point."""
    return int.from_bytes(bytes((zero_point & 255,)) * 4, "little", signed=True)


def is_supported(left: Value, right: Value, sums: Value) -> bool:
    """Returns True for supported operand types.

    These are floats with float accumulators, and 8-bit integers with INT32 accumulators.
    """
    types = {left.type, right.type}
    if sums.type is Scalar.FLOAT32:
        is_known = types <= set(_FLOATS)
    else:
        is_known = sums.type is Scalar.INT32 and types <= set(_INTEGERS)
    # Open counts are limited in the same way when they are known.
    counts = [each.count for each in (left, right, sums) if not isinstance(each.count, Extent)]
    return is_known and min(counts, default=1) > 0 and max(counts, default=1) <= _MAX_ELEMENTS


def _is_supported(contraction: Contraction, kernel: Kernel) -> bool:
    left, right = contraction.inputs
    is_one = math.prod(right.shape[:-2]) == 1
    if isinstance(contraction, MatrixProduct) and right.constant is not None and not is_one:
        # Then there is one matrix for each batch, see `_by_depth`.
        *batch, _, columns = contraction.output.shape
        if math.prod(batch) * contraction.depth * columns > _MAX_ELEMENTS:
            return False
    return is_supported(left, right, contraction.output) and same_length(
        kernel.output.count, contraction.output.count
    )


def _of_convolution(contraction: Convolution) -> GemmView:
    images, height, width, channels = contraction.input.shape
    _, rows, columns, outputs = contraction.output.shape
    _, taps_y, taps_x, depth = contraction.weights.shape
    groups = contraction.groups
    each = outputs // groups
    total = contraction.depth
    (top, bottom), (left, right) = contraction.padding
    is_plain = (taps_y, taps_x) == (1, 1) and contraction.stride == (1, 1)
    is_plain = is_plain and not (top or bottom or left or right)
    text = fill(
        _TEMPLATES["pointwise" if is_plain else "windowed"],
        GROUP_START=f" + batch * {depth}" if groups > 1 else "",
        IMAGES=images,
        POSITIONS=rows * columns,
        COLUMNS=columns,
        HEIGHT=height,
        WIDTH=width,
        CHANNELS=channels,
        STRIDE_Y=contraction.stride[0],
        STRIDE_X=contraction.stride[1],
        PAD_Y=top,
        PAD_X=left,
        DILATION_Y=contraction.dilation[0],
        DILATION_X=contraction.dilation[1],
        TAPS_X=taps_x,
        TAP_DEPTH=depth,
        DEPTH=total,
    )
    weights = contraction.weights
    is_constant = weights.constant is not None
    # Where no window extends beyond a line, its rows are contiguous.
    is_inside = (
        groups == 1
        and contraction.dilation[1] == 1
        and is_zero(left)
        and is_zero(right)
        and highest((columns - 1) * contraction.stride[1] + taps_x - width) <= 0
    )
    line = (taps_x * depth, contraction.stride[1] * depth, width * depth) if is_inside else (depth,)
    if is_constant:
        zero = contraction.weights_zero
        weights = packed(
            weights,
            ("by depth", groups, zero),
            lambda array: padded(array.reshape(groups, each, total).transpose(0, 2, 1), 2, 4, zero),
        )
    return GemmView(
        left=contraction.input,
        right=weights,
        left_zero=contraction.input_zero,
        right_zero=contraction.weights_zero,
        sum_type=contraction.output.type,
        batches=groups,
        rows=images * rows * columns,
        columns=each,
        depth=total,
        row_step=0,
        column_step=each,
        left_row=channels,
        right_row=weights.shape[2] if is_constant else total,
        right_base=f"(batch * {math.prod(weights.shape[1:]) if is_constant else each * total})",
        is_left_by_row=True,
        is_right_by_column=not is_constant,
        run=reduce(common_divisor, line, 16),
        is_windowed=not is_plain,
        text=text,
    )


def _of_matrices(contraction: MatrixProduct) -> GemmView:
    *batch, rows, columns = contraction.output.shape
    left, right, depth = contraction.left, contraction.right, contraction.depth
    batches = math.prod(batch)
    is_constant = right.constant is not None
    if is_constant:
        right = _by_depth(contraction, tuple(batch))
        right_base = "0" if len(right.shape) == 2 else f"(batch * {math.prod(right.shape[1:])})"
    else:
        right_base = _batch_text(right, tuple(batch), depth * columns)
    is_by_column = not is_constant and not contraction.right_transposed
    left_size = rows * depth
    base = _batch_text(left, tuple(batch), left_size)
    if contraction.left_transposed:
        start, element = "m", "row.base + k * $rows"
    else:
        start, element = "m * $left_pitch", "row.base + k"
    text = fill(_TEMPLATES["matrix"], BATCH_START=base, ROW_START=start, ELEMENT=element)
    return GemmView(
        left=left,
        right=right,
        left_zero=contraction.left_zero,
        right_zero=contraction.right_zero,
        sum_type=contraction.output.type,
        batches=batches,
        rows=rows,
        columns=columns,
        depth=depth,
        row_step=rows,
        column_step=0,
        left_row=depth,
        right_row=depth if is_by_column else right.shape[-1],
        right_base=right_base,
        is_left_by_row=not contraction.left_transposed,
        is_right_by_column=is_by_column,
        run=1 if contraction.left_transposed else common_divisor(16, depth),
        is_windowed=False,
        text=text,
    )


def _by_depth(contraction: MatrixProduct, batch: tuple[int, ...]) -> Value:
    """Returns a constant right matrix as (k, n) if all batches share it, else as (batch, k, n)."""
    right, zero = contraction.right, contraction.right_zero
    is_transposed, is_one = contraction.right_transposed, math.prod(right.shape[:-2]) == 1

    def pack(array: np.ndarray) -> np.ndarray:
        matrices = array if is_transposed else array.swapaxes(-1, -2)
        size = matrices.shape[-2:]
        if is_one:
            return padded(matrices.reshape(size), 1, 4, zero)
        return padded(np.broadcast_to(matrices, (*batch, *size)).reshape(-1, *size), 2, 4, zero)

    return packed(right, ("by depth", is_transposed, zero, () if is_one else batch), pack)


def _batch_text(value: Value, batch: tuple[int, ...], size: int) -> str:
    """Returns the offset of a batch's matrix in a value whose batches broadcast."""
    lengths = value.shape[:-2]
    at = axis(math.prod(batch), "batch")
    places = delinearize(at, batch)[len(batch) - len(lengths) :]
    position = linearize((p * 0 if n == 1 else p for p, n in zip(places, lengths, strict=True)), lengths)
    known: dict[Expression, str] = {at: "batch"}
    statements = Statements({}, known)
    text = statements.value(position * size)
    assert not statements.lines  # noqa: S101 - every subexpression is used once
    return text


def readers(product: GemmView, images: frozenset[Value] = frozenset(), left4: str | None = None) -> str:
    """Returns the product's functions, and those that read its matrices.

    `KERNEL_NAME_left4(pointer, row, k)` gives four elements along the depth,
    `KERNEL_NAME_right4(pointer, base, k, n)` four contiguous ones; missing elements are zero.
    `..._l1`, `_l4`, `_r1` and `_r4` read at an index.

    Args:
        product: the product.
        images: the values that are images; functions that read them take an image and its first
            texel as the pointer.
        left4: replaces the text of that function.
    """
    kind = "int" if product.is_integer else "float"
    left, right = reader(product.left, images), reader(product.right, images)
    return "".join(
        (
            product.text,
            loads("l", left, product.left_zero, kind),
            loads("r", right, product.right_zero, kind),
            _left4(product, left, kind) if left4 is None else left4,
            _right4(product, right, kind),
        )
    )


def reader(value: Value, images: frozenset[Value]) -> KernelArgument:
    """Returns a value as an argument of its read functions.

    The argument is the pointer `p`, or the image `p` with the index `s` of its first texel.
    """
    return KernelArgument("p", value.type, "s" if value in images else "")


def loads(name: str, read: KernelArgument, zero: int, kind: str, size: str = "") -> str:
    """Returns functions that read numbers minus their zero point.

    `KERNEL_NAME_<name>1` reads one number, `KERNEL_NAME_<name>4` reads four at a multiple of four.

    Args:
        name: the name of the functions.
        read: the source of the numbers.
        zero: the zero point.
        kind: the type of the result, `float` or `int`.
        size: the name of the size for `zero`, for functions that take sizes.
    """
    less = f" - {f'${size}' if size else zero}" if zero else ""
    one, four = read.load("at"), read.load4("at")
    if read.type not in _FLOATS:
        one, four = f"(int){one}{less}", f"convert_int4({four}){less}"
    head = f"({read.parameter}, const int at{'$SIZE_PARAMETERS' if size else ''})"
    return (
        f"static inline {kind} {NAME}_{name}1{head} {{ return {one}; }}\n"
        f"static inline {kind}4 {NAME}_{name}4{head} {{ return {four}; }}\n"
    )


def _left4(product: GemmView, read: KernelArgument, kind: str) -> str:
    head = (
        f"static inline {kind}4 {NAME}_left4({read.parameter},"
        f" const {NAME}_row row, const int k$SIZE_PARAMETERS) {{\n"
    )
    p = read.call_arguments
    if product.run % 4 == 0:
        return (
            f"{head}  const int at = {NAME}_left(row, k$SIZE_ARGUMENTS);\n"
            f"  return at < 0 ? ({kind}4)(0) : {NAME}_l4({p}, at);\n}}\n"
        )
    lines = [f"  {kind}4 found;\n"]
    for i in range(4):
        lines.append(f"  const int at{i} = {NAME}_left(row, k + {i}$SIZE_ARGUMENTS);\n")
        lines.append(f"  found.s{i} = at{i} < 0 ? 0 : {NAME}_l1({p}, at{i});\n")
    return f"{head}{''.join(lines)}  return found;\n}}\n"


def _right4(product: GemmView, read: KernelArgument, kind: str) -> str:
    head = (
        f"static inline {kind}4 {NAME}_right4({read.parameter},"
        " const int base, const int k, const int n$SIZE_PARAMETERS) {\n"
    )
    p, length = read.call_arguments, product.right_row
    place = "n * $right_pitch + k" if product.is_right_by_column else "k * $right_pitch + n"
    if is_multiple(length, 4):
        limit = "$columns" if product.is_right_by_column else "$right_pitch"
        inside = f"k < $depth && n < {limit}"
        return f"{head}  return {inside} ? {NAME}_r4({p}, base + {place}) : ({kind}4)(0);\n}}\n"
    k, n = ("k + {}", "n") if product.is_right_by_column else ("k", "n + {}")
    lines = [
        f"  found.s{i} = {k.format(i)} < $depth && {n.format(i)} < $columns"
        f" ? {NAME}_r1({p}, base + {place} + {i}) : 0;\n"
        for i in range(4)
    ]
    return f"{head}  {kind}4 found;\n{''.join(lines)}  return found;\n}}\n"
