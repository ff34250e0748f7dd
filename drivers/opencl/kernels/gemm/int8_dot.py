"""8-bit matrix products with four-byte dot products, on GPUs that have them.

The dot products are functions of OpenCL, or the PTX instruction dp4a. Both matrices are read as
words of four bytes along the depth. As in `tile`, a group iterates over the depth in steps, whose
words lie in local memory while those of the next step are loaded into registers; work-items
accumulate 4 × 4 elements each, and split the depth of a step if a tile has fewer.

The stored values are multiplied, with left - left_zero and right - right_zero expanded:

    Σ (l - lz)(r - rz) = Σ l·r - rz · Σ l - lz · Σ (r - rz)

The second sum takes a dot product with ones for each word of a row, unless the zero point can be
subtracted from constant weights without leaving 8 bits; the third one is constant with the weights,
or computed in the same way. Missing elements are stored as zero points. The saturating functions
are not used: sums wrap around, as they do everywhere else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArgument, KernelArguments, as_images
from neurald.drivers.opencl.codegen.dialect import memory_type
from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.lazy_code import Code, LazyCode
from neurald.drivers.opencl.codegen.template import fill, kernel_arguments, resolved, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import epilogue, used_values
from neurald.drivers.opencl.kernels.gemm.accumulate import (
    ADD_SLICES,
    AccumulatorLayout,
    finish_text,
    gathered_layout,
)
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView, reader
from neurald.drivers.opencl.kernels.gemm.packing import packed, padded
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

_TEMPLATES = templates(__name__, "int8_dot.cl")
_BYTES = 4
#: Rows and columns of a work-item.
_ITEM = 4
#: The first compute capability with the instruction.
_FIRST_WITH_DP4A = (6, 1)
_MAX_LOCAL_BYTES = 48 * 1024
_ONES = 0x01010101
#: Sizes that hold zero points.
_LEFT_ZERO, _RIGHT_ZERO = "$left_zero", "$right_zero"


class DotInstruction(Enum):
    """Dot-product instruction of a device."""

    #: The functions of cl_khr_integer_dot_product. If the compiler does not provide them, single
    #: products: some compilers do so in the newest OpenCL C only, see `DeviceFacts.build_options`.
    FUNCTION = "function"
    #: The PTX instruction dp4a.
    PTX = "ptx"


def instruction_of(facts: DeviceFacts) -> DotInstruction | None:
    """Returns the instruction of a device.

    Returns None if it has none, or is a CPU, for which other kernels exist.
    """
    if facts.is_cpu:
        return None
    if facts.has_dot_product:
        return DotInstruction.FUNCTION
    is_new_enough = facts.has_nvidia_capability(_FIRST_WITH_DP4A)
    return DotInstruction.PTX if is_new_enough else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _DotTiling:
    """Tiling of a product: the tile of a group, its work-items, the slices and words of a step."""

    rows: int
    columns: int
    items: int

    @property
    def slices(self) -> int:
        return self.items * _ITEM * _ITEM // (self.rows * self.columns)

    @property
    def words(self) -> int:
        return max(16, 4 * self.slices)

    @property
    def row_words(self) -> int:
        """Row pitch of the left matrix in local memory, padded against bank conflicts."""
        return self.words + 4

    @property
    def step_words(self) -> int:
        return self.rows * self.row_words + self.words * self.columns

    @property
    def scratch_bytes(self) -> int:
        sums = self.slices * self.rows * self.columns if self.slices > 1 else 0
        return 4 * max(2 * self.step_words, sums)

    def steps(self, product: GemmView) -> int:
        return -(-product.depth // (self.words * _BYTES))


@dataclass(frozen=True, kw_only=True, slots=True)
class _RightMatrix:
    """Right matrix as it is multiplied.

    Attributes:
        value: words (batch, word, column) if it is constant, else the matrix unchanged.
        is_signed: whether its bytes are signed.
        zero: the zero point to subtract.
        corrections: the left zero point times the sum of each column; None if that is 0, or not
            constant.
    """

    value: Value
    is_signed: bool
    zero: int
    corrections: Value | None


def candidates(kernel: Kernel, product: GemmView, facts: DeviceFacts) -> list[Source]:
    """Returns every suitable tiling, the best first.

    The result is empty if the device or the operands do not support dot products.
    """
    instruction = instruction_of(facts)
    if instruction is None or not product.is_integer or not product.is_left_by_row:
        return []
    right = _right(product)
    if right is None:
        return []
    items = max(size for size in (256, 64, 16) if size <= facts.max_work_group_size)
    limit = min(_MAX_LOCAL_BYTES, facts.local_memory_bytes)
    tilings = [
        tiling
        for tiling in _tilings(items)
        if tiling.scratch_bytes <= limit and not _is_wasteful(tiling, product)
    ]
    tilings.sort(key=lambda tiling: _cost(tiling, product, facts))
    return [_source(kernel, product, right, tiling, instruction, facts) for tiling in tilings]


def _tilings(items: int) -> Iterator[_DotTiling]:
    lengths = (64, 32, 16)
    for rows in lengths:
        for columns in lengths:
            tiling = _DotTiling(rows=rows, columns=columns, items=items)
            if tiling.slices:
                yield tiling


def _is_wasteful(tiling: _DotTiling, product: GemmView) -> bool:
    """Returns True if a smaller tile covers the same."""
    return (tiling.rows > 16 and tiling.rows >= 2 * product.rows) or (
        tiling.columns > 16 and tiling.columns >= 2 * product.columns
    )


def _cost(tiling: _DotTiling, product: GemmView, facts: DeviceFacts) -> float:
    """Estimates the time in cycles of a compute unit.

    Each step is limited by arithmetic or by memory; the end of the function adds a constant.
    """
    waves = -(-product.tiles(tiling) * product.batches // facts.compute_units)
    arithmetic = tiling.rows * tiling.columns * tiling.words / 64
    memory = (tiling.rows + tiling.columns) * tiling.words * 4 / 32
    return waves * (tiling.steps(product) * (max(arithmetic, memory) + 200) + 1000 + 30 * tiling.slices)


def _right(product: GemmView) -> _RightMatrix | None:
    value, zero = product.right, product.right_zero
    is_signed = value.type is Scalar.INT8
    if value.constant is None:
        if not product.is_right_by_column:
            return None
        return _RightMatrix(value=value, is_signed=is_signed, zero=zero, corrections=None)
    wide = value.constant.astype(np.int16) - zero
    if wide.min() >= -128 and wide.max() <= 127:
        is_signed, zero = True, 0

    left_zero, right_zero = product.left_zero, product.right_zero
    less = right_zero - zero

    def words(array: np.ndarray) -> np.ndarray:
        """Packs (batch, k, n) as (batch, word, n); elements beyond the depth are zero points."""
        bytes_ = (array.reshape(-1, *array.shape[-2:]).astype(np.int16) - less).astype(
            np.int8 if is_signed else np.uint8
        )
        long = padded(bytes_, 1, _BYTES, zero)
        batches, depth, columns = long.shape
        along = long.reshape(batches, depth // _BYTES, _BYTES, columns).transpose(0, 1, 3, 2)
        return np.ascontiguousarray(along).view(np.uint32).reshape(along.shape[:-1])

    def corrections(array: np.ndarray) -> np.ndarray:
        sums = (array.reshape(-1, *array.shape[-2:]).astype(np.int64) - right_zero).sum(axis=1)
        return np.asarray((sums * left_zero).astype(np.int32))

    layout = ("words", right_zero)
    return _RightMatrix(
        value=packed(value, layout, words),
        is_signed=is_signed,
        zero=zero,
        corrections=packed(value, (*layout, left_zero), corrections) if left_zero else None,
    )


def _source(
    kernel: Kernel,
    product: GemmView,
    right: _RightMatrix,
    tiling: _DotTiling,
    instruction: DotInstruction,
    facts: DeviceFacts,
) -> Source:
    operands = [product.left, right.value]
    if right.corrections is not None:
        operands.append(right.corrections)
    is_constant = right.value.constant is not None
    # A right matrix that is not constant is read word by word, even if it is also the left one.
    in_texels = operands[1:] if is_constant else []
    if product.run % _BYTES == 0 and right.value is not product.left:
        in_texels.append(product.left)
    images = as_images(in_texels, facts.images)
    values = kernel_arguments(kernel.output, operands, used_values(kernel), images)

    def code() -> Code:
        after = epilogue(kernel, values, is_vector=product.has_vectors)
        words = right.value.shape[1] if is_constant else 0
        one_for_all = right.value.shape[0] == 1
        names = {
            "BM": tiling.rows,
            "BN": tiling.columns,
            "KW": tiling.words,
            "AST": tiling.row_words,
            "TM": _ITEM,
            "ITEMS": tiling.items,
            "KS": tiling.slices,
            "STEP": tiling.step_words,
            "NA": -(-tiling.rows * tiling.words // tiling.items),
            "NB": -(-tiling.columns * tiling.words // _ITEM // tiling.items),
            "BASE": (
                ("0" if one_for_all else "batch * $words * $right_pitch")
                if is_constant
                else product.right_base
            ),
            "COLUMN_BASE": "0" if one_for_all else "batch * $right_pitch",
        }
        sizes = {
            **product.sizes,
            **after.sizes,
            "words": words,
            **product.tile_sizes(tiling),
            "steps": tiling.steps(product),
            "left_zero": product.left_zero,
            "right_zero": right.zero,
        }
        sums = AccumulatorLayout(
            kind="int",
            count=_ITEM,
            items=tiling.items,
            vector="sums[e]",
            row=f"m0 + e * {tiling.rows // _ITEM} + down",
            column="n0 + across * 4",
        )
        words_text = (
            _words_of_constant(reader(right.value, images))
            if is_constant
            else _words_of_columns(product, right)
        )
        whole = "".join(
            (
                product.text,
                dot_text(instruction, product.left.type is Scalar.INT8, right.is_signed),
                _left_word(product, reader(product.left, images)),
                words_text,
                after.text,
                *_sums_texts(product, right, tiling, values, names),
                finish_text(product, after, _gathered(tiling) if tiling.slices > 1 else sums, split=1),
            )
        )
        return Code(resolved(whole, values.parameters, sizes, is_shared=facts.is_nvidia))

    return Source(
        code=LazyCode(code),
        arguments=values.values,
        images=values.image_positions,
        groups=product.tiles(tiling) * product.batches,
        local_size=tiling.items,
        scratch_bytes=tiling.scratch_bytes,
        has_barriers=True,
        label=f"dot products, tile {tiling.rows} x {tiling.columns} x {tiling.words} words, split by {tiling.slices}",
        operations=kernel.operations,
    )


def _sums_texts(
    product: GemmView,
    right: _RightMatrix,
    tiling: _DotTiling,
    values: KernelArguments,
    names: Mapping[str, object],
) -> Iterator[str]:
    """Yields the function up to where its sums are known, one step after another."""
    has_row_sums = right.zero != 0
    has_column_sums = product.left_zero != 0 and right.value.constant is None
    yield fill(
        _TEMPLATES["function"],
        **names,
        LEFT_POINTER=values[1].call_arguments,
        RIGHT_POINTER=values[2].call_arguments,
        ROW_SUMS=_TEMPLATES["row_sums"] if has_row_sums else "",
        COLUMN_SUMS=_TEMPLATES["column_sums"] if has_column_sums else "",
    )
    if has_row_sums:
        yield fill(_TEMPLATES["subtract_row_sums"], **names)
    if has_column_sums:
        yield fill(_TEMPLATES["subtract_column_sums"], **names)
    if right.corrections is not None:
        correction = values[3].load4(f"{names['COLUMN_BASE']} + n0 + across * 4")
        yield fill(_TEMPLATES["subtract_corrections"], **names, CORRECTION=correction)
    if tiling.slices > 1:
        yield fill(_TEMPLATES["slices"], **names, ADD_SLICES=ADD_SLICES, T="int", NE=_gathered(tiling).count)


def _gathered(tiling: _DotTiling) -> AccumulatorLayout:
    return gathered_layout("int", tiling.rows, tiling.columns, tiling.items)


def dot_text(instruction: DotInstruction, is_left_signed: bool, is_right_signed: bool) -> str:
    """Returns functions that add the dot products of a word with one other word, and with four."""
    signs = is_left_signed, is_right_signed
    left, right = ("char4" if each else "uchar4" for each in signs)
    letters = "".join("s" if each else "u" for each in signs)
    return fill(
        _TEMPLATES["dot_ptx" if instruction is DotInstruction.PTX else "dot_function"] + _TEMPLATES["dot4"],
        PTX_TYPES=".".join("s32" if each else "u32" for each in signs),
        DOT_TYPES=f"{letters}_{'int' if any(signs) else 'uint'}",
        LEFT_TYPE=left,
        RIGHT_TYPE=right,
    )


def _word_of(zero: str) -> str:
    """Returns a word of four equal bytes."""
    return f"(({zero} & 255) * {_ONES}u)"


def _left_word(product: GemmView, read: KernelArgument) -> str:
    """Returns `KERNEL_NAME_left_word(pointer, row, k)`: four bytes along the depth."""
    head = (
        f"static inline uint {NAME}_left_word({read.parameter},"
        f" const {NAME}_row row, const int k$SIZE_PARAMETERS) {{\n"
    )
    zero = _LEFT_ZERO
    if product.run % _BYTES == 0:
        word = (
            f"as_uint(convert_{memory_type(read.type)}4({read.load4('at')}))"
            if read.first
            else "*(__global const uint *)(p + at)"
        )
        return (
            f"{head}  const int at = {NAME}_left(row, k$SIZE_ARGUMENTS);\n"
            f"  return at < 0 ? {_word_of(zero)} : {word};\n}}\n"
        )
    lines = []
    for i in range(_BYTES):
        lines.append(f"  const int at{i} = {NAME}_left(row, k + {i}$SIZE_ARGUMENTS);\n")
        lines.append(f"  found |= (uint)(uchar)(at{i} < 0 ? {zero} : p[at{i}]) << {8 * i};\n")
    return f"{head}  uint found = 0;\n{''.join(lines)}  return found;\n}}\n"


def _right_head(read: KernelArgument) -> str:
    return (
        f"static inline uint4 {NAME}_right_words({read.parameter}, const int base, const int word,"
        " const int n$SIZE_PARAMETERS) {\n"
    )


def _words_of_constant(read: KernelArgument) -> str:
    """Returns `KERNEL_NAME_right_words(pointer, base, word, n)`: the words of four columns."""
    return (
        f"{_right_head(read)}"
        f"  return word < $words && n < $right_pitch ? {read.load4('base + word * $right_pitch + n')}\n"
        f"                                             : (uint4)({_word_of(_RIGHT_ZERO)});\n}}\n"
    )


def _words_of_columns(product: GemmView, right: _RightMatrix) -> str:
    """Does what `_words_of_constant` does, for a matrix whose columns are contiguous."""
    lines = []
    for i in range(_ITEM):
        place = f"base + (n + {i}) * $right_pitch + word * {_BYTES}"
        inside = f"n + {i} < $columns && word * {_BYTES} < $depth"
        if product.right_row % _BYTES == 0:
            lines.append(f"  if ({inside}) found.s{i} = *(__global const uint *)(p + {place});\n")
            continue
        lines.append(f"  found.s{i} = 0;\n")
        for j in range(_BYTES):
            seen = f"n + {i} < $columns && word * {_BYTES} + {j} < $depth"
            lines.append(
                f"  found.s{i} |= (uint)(uchar)({seen} ? p[{place} + {j}] : {_RIGHT_ZERO}) << {8 * j};\n"
            )
    return (
        f"{_right_head(KernelArgument('p', right.value.type))}  uint4 found = (uint4)({_word_of(_RIGHT_ZERO)});\n"
        f"{''.join(lines)}  return found;\n}}\n"
    )
