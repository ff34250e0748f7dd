"""8-bit matrix products with four-byte dot products, on GPUs that have them.

OpenCL's functions or PTX.

Both matrices are read as words of four bytes along the depth. As in `tile`, a group iterates over
the depth in steps, whose words lie in local memory while those of the next step are loaded into
registers; work-items accumulate 4 × 4 elements each, and split the depth of a step if a tile has
fewer.

The stored values are multiplied, with left - left_zero and right - right_zero expanded:

    Σ (l - lz)(r - rz) = Σ l·r - rz · Σ l - lz · Σ (r - rz)

The second sum takes a dot product with ones for each word of a row, unless the zero point can be
subtracted from constant weights without leaving 8 bits; the third one is constant with the weights,
or computed in the same way. Missing elements are stored as zero points. The saturating functions
are not used: sums wrap around, as they do everywhere else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import Argument, as_images
from neurald.drivers.opencl.codegen.dialect import stored
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.template import arguments, fill, resolved
from neurald.drivers.opencl.kernels.epilogue.epilogue import epilogue, used_values
from neurald.drivers.opencl.kernels.gemm.accumulate import GATHERED, AccumulatorLayout, finish, gathered
from neurald.drivers.opencl.kernels.gemm.gemm_view import Product, reader
from neurald.drivers.opencl.kernels.gemm.packing import packed, padded
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

_BYTES = 4
#: Rows and columns of a work-item.
_ITEM = 4
#: The first compute capability with the instruction.
_FIRST_WITH_DP4A = (6, 1)
_LOCAL_BYTES = 48 * 1024
_ONES = 0x01010101
#: Sizes that hold zero points.
_LEFT_ZERO, _RIGHT_ZERO = "z_left_zero", "z_right_zero"


class Instruction(Enum):
    """Dot-product instruction of a device."""

    #: The functions of cl_khr_integer_dot_product. If the compiler does not provide them, single
    #: products: some compilers do so in the newest OpenCL C only, see `DeviceFacts.build_options`.
    FUNCTION = "function"
    #: The PTX instruction dp4a.
    PTX = "ptx"


def instruction_of(facts: DeviceFacts) -> Instruction | None:
    """Returns the instruction of a device.

    None if it has none, or is a CPU, for which other kernels exist.
    """
    if facts.is_cpu:
        return None
    if facts.has_dot_product:
        return Instruction.FUNCTION
    is_new_enough = facts.is_nvidia_from(_FIRST_WITH_DP4A)
    return Instruction.PTX if is_new_enough else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tiling:
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

    def tiles(self, product: Product) -> int:
        return -(-product.rows // self.rows) * -(-product.columns // self.columns)

    def steps(self, product: Product) -> int:
        return -(-product.depth // (self.words * _BYTES))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Right:
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


def candidates(kernel: Kernel, product: Product, facts: DeviceFacts) -> list[Source]:
    """Returns every suitable tiling, the best first.

    None if the device or the operands lack dot products.
    """
    instruction = instruction_of(facts)
    if instruction is None or not product.is_integer or not product.is_left_by_row:
        return []
    right = _right(product)
    if right is None:
        return []
    items = max(size for size in (256, 64, 16) if size <= facts.max_work_group_size)
    limit = min(_LOCAL_BYTES, facts.local_memory_bytes)
    tilings = [
        tiling
        for tiling in _tilings(items)
        if tiling.scratch_bytes <= limit and not _is_wasteful(tiling, product)
    ]
    tilings.sort(key=lambda tiling: _cost(tiling, product, facts))
    return [_source(kernel, product, right, tiling, instruction, facts) for tiling in tilings]


def _tilings(items: int) -> Iterator[_Tiling]:
    lengths = (64, 32, 16)
    for rows in lengths:
        for columns in lengths:
            tiling = _Tiling(rows=rows, columns=columns, items=items)
            if tiling.slices:
                yield tiling


def _is_wasteful(tiling: _Tiling, product: Product) -> bool:
    """Returns True if a smaller tile covers the same."""
    return (tiling.rows > 16 and tiling.rows >= 2 * product.rows) or (
        tiling.columns > 16 and tiling.columns >= 2 * product.columns
    )


def _cost(tiling: _Tiling, product: Product, facts: DeviceFacts) -> float:
    """Estimates the time in cycles of a compute unit.

    Steps limited by arithmetic or memory, and the end.
    """
    waves = -(-tiling.tiles(product) * product.batches // facts.compute_units)
    arithmetic = tiling.rows * tiling.columns * tiling.words / 64
    memory = (tiling.rows + tiling.columns) * tiling.words * 4 / 32
    return waves * (tiling.steps(product) * (max(arithmetic, memory) + 200) + 1000 + 30 * tiling.slices)


def _right(product: Product) -> _Right | None:
    value, zero = product.right, product.right_zero
    is_signed = value.type is Scalar.INT8
    if value.constant is None:
        if not product.is_right_by_column:
            return None
        return _Right(value=value, is_signed=is_signed, zero=zero, corrections=None)
    wide = value.constant.astype(np.int16) - zero
    if wide.min() >= -128 and wide.max() <= 127:
        is_signed, zero = True, 0

    def words(array: np.ndarray) -> np.ndarray:
        """Packs (batch, k, n) as (batch, word, n); elements beyond the depth are zero points."""
        less = product.right_zero - zero
        bytes_ = (array.reshape(-1, *array.shape[-2:]).astype(np.int16) - less).astype(
            np.int8 if is_signed else np.uint8
        )
        long = padded(bytes_, 1, _BYTES, zero)
        batches, depth, columns = long.shape
        along = long.reshape(batches, depth // _BYTES, _BYTES, columns).transpose(0, 1, 3, 2)
        return np.ascontiguousarray(along).view(np.uint32).reshape(along.shape[:-1])

    def corrections(array: np.ndarray) -> np.ndarray:
        sums = (array.reshape(-1, *array.shape[-2:]).astype(np.int64) - product.right_zero).sum(axis=1)
        return np.asarray((sums * product.left_zero).astype(np.int32))

    layout = ("words", product.right_zero)
    return _Right(
        value=packed(value, layout, words),
        is_signed=is_signed,
        zero=zero,
        corrections=packed(value, (*layout, product.left_zero), corrections) if product.left_zero else None,
    )


def _source(
    kernel: Kernel,
    product: Product,
    right: _Right,
    tiling: _Tiling,
    instruction: Instruction,
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
    values = arguments(kernel.output, operands, used_values(kernel), images)
    after = epilogue(kernel, values, is_vector=product.column_step == 0 or product.columns % 4 == 0)
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
            ("0" if one_for_all else "batch * z_words * z_right_pitch") if is_constant else product.right_base
        ),
        "LEFT_ZERO": _LEFT_ZERO,
        "RIGHT_ZERO": _RIGHT_ZERO,
        "ONES": _ONES,
        "COLUMN_BASE": "0" if one_for_all else "batch * z_right_pitch",
    }
    sizes = {
        **product.sizes,
        **after.sizes,
        "words": words,
        "tiles": tiling.tiles(product),
        "across": -(-product.columns // tiling.columns),
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
    has_row_sums = right.zero != 0
    has_column_sums = product.left_zero != 0 and not is_constant
    text = "".join(
        (
            product.text,
            dot_text(instruction, product.left.type is Scalar.INT8, right.is_signed),
            _left_word(product, reader(product.left, images)),
            _words_of_constant(reader(right.value, images))
            if is_constant
            else _words_of_columns(product, right),
            after.text,
            fill(
                _TEXT,
                **names,
                LEFT_POINTER=values[1].call_arguments,
                RIGHT_POINTER=values[2].call_arguments,
                ROW_SUMS=_ROW_SUMS if has_row_sums else "",
                COLUMN_SUMS=_COLUMN_SUMS if has_column_sums else "",
            ),
            fill(_LESS_ROW_SUMS, **names) if has_row_sums else "",
            fill(_LESS_COLUMN_SUMS, **names) if has_column_sums else "",
            fill(
                _LESS_CORRECTIONS,
                **names,
                CORRECTION=values[3].load4(f"{names['COLUMN_BASE']} + n0 + across * 4"),
            )
            if right.corrections is not None
            else "",
            fill(
                _ALL_SLICES + GATHERED + "  barrier(CLK_LOCAL_MEM_FENCE);\n",
                **names,
                T="int",
                NE=_gathered(tiling).count,
            )
            if tiling.slices > 1
            else "",
            finish(product, after, _gathered(tiling) if tiling.slices > 1 else sums, split=1),
        )
    )
    return Source(
        text=resolved(text, values.parameters, sizes, is_shared=facts.is_nvidia),
        arguments=values.values,
        images=values.image_positions,
        groups=tiling.tiles(product) * product.batches,
        local_size=tiling.items,
        scratch_bytes=tiling.scratch_bytes,
        has_barriers=True,
        label=f"dot products, tile {tiling.rows} x {tiling.columns} x {tiling.words} words, split by {tiling.slices}",
        operations=kernel.operations,
    )


def _gathered(tiling: _Tiling) -> AccumulatorLayout:
    return gathered("int", tiling.rows, tiling.columns, tiling.items)


def dot_text(instruction: Instruction, is_left_signed: bool, is_right_signed: bool) -> str:
    """Returns functions that add the dot products of a word with one other word, and with four."""
    signs = is_left_signed, is_right_signed
    if instruction is Instruction.PTX:
        kinds = ".".join("s32" if each else "u32" for each in signs)
        one = f'  asm("dp4a.{kinds} %0, %1, %2, %0;" : "+r"(sum) : "r"(left), "r"(right));\n  return sum;\n'
    else:
        kinds = "".join("s" if each else "u" for each in signs)
        whole = "int" if any(signs) else "uint"
        first, second = ("char4" if each else "uchar4" for each in signs)
        products = " + ".join(f"(int)a.{each} * (int)b.{each}" for each in "xyzw")
        one = (
            "#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed\n"
            f"  return sum + (int)dot_4x8packed_{kinds}_{whole}(left, right);\n"
            "#else\n"
            f"  const {first} a = as_{first}(left);\n"
            f"  const {second} b = as_{second}(right);\n"
            f"  return sum + ({products});\n"
            "#endif\n"
        )
    return (
        f"static inline int KERNEL_NAME_dot(int sum, const uint left, const uint right) {{\n{one}}}\n"
        "static inline int4 KERNEL_NAME_dot4(const int4 sum, const uint left, const uint4 right) {\n"
        "  return (int4)(KERNEL_NAME_dot(sum.x, left, right.x), KERNEL_NAME_dot(sum.y, left, right.y),\n"
        "                KERNEL_NAME_dot(sum.z, left, right.z), KERNEL_NAME_dot(sum.w, left, right.w));\n"
        "}\n"
    )


def _word_of(zero: str) -> str:
    """Returns a word of four equal bytes."""
    return f"(({zero} & 255) * {_ONES}u)"


def _left_word(product: Product, read: Argument) -> str:
    """Returns `KERNEL_NAME_left_word(pointer, row, k)`: four bytes along the depth."""
    head = (
        f"static inline uint KERNEL_NAME_left_word({read.parameter},"
        " const KERNEL_NAME_row row, const int k@PARAMETERS) {\n"
    )
    zero = _LEFT_ZERO
    if product.run % _BYTES == 0:
        word = (
            f"as_uint(convert_{stored(read.type)}4({read.load4('at')}))"
            if read.first
            else "*(__global const uint *)(p + at)"
        )
        return (
            f"{head}  const int at = KERNEL_NAME_left(row, k@SIZES);\n"
            f"  return at < 0 ? {_word_of(zero)} : {word};\n}}\n"
        )
    lines = []
    for i in range(_BYTES):
        lines.append(f"  const int at{i} = KERNEL_NAME_left(row, k + {i}@SIZES);\n")
        lines.append(f"  found |= (uint)(uchar)(at{i} < 0 ? {zero} : p[at{i}]) << {8 * i};\n")
    return f"{head}  uint found = 0;\n{''.join(lines)}  return found;\n}}\n"


_RIGHT_HEAD = (
    "static inline uint4 KERNEL_NAME_right_words({}, const int base, const int word,"
    " const int n@PARAMETERS) {{\n"
)


def _words_of_constant(read: Argument) -> str:
    """Returns `KERNEL_NAME_right_words(pointer, base, word, n)`: the words of four columns."""
    return (
        f"{_RIGHT_HEAD.format(read.parameter)}"
        f"  return word < z_words && n < z_right_pitch ? {read.load4('base + word * z_right_pitch + n')}\n"
        f"                                             : (uint4)({_word_of(_RIGHT_ZERO)});\n}}\n"
    )


def _words_of_columns(product: Product, right: _Right) -> str:
    """Like `_words_of_constant` for a matrix whose columns are contiguous."""
    lines = []
    for i in range(_ITEM):
        place = f"base + (n + {i}) * z_right_pitch + word * {_BYTES}"
        inside = f"n + {i} < z_columns && word * {_BYTES} < z_depth"
        if product.right_row % _BYTES == 0:
            lines.append(f"  if ({inside}) found.s{i} = *(__global const uint *)(p + {place});\n")
            continue
        lines.append(f"  found.s{i} = 0;\n")
        for j in range(_BYTES):
            seen = f"n + {i} < z_columns && word * {_BYTES} + {j} < z_depth"
            lines.append(
                f"  found.s{i} |= (uint)(uchar)({seen} ? p[{place} + {j}] : {_RIGHT_ZERO}) << {8 * j};\n"
            )
    return (
        f"{_RIGHT_HEAD.format(Argument('p', right.value.type).parameter)}  uint4 found = (uint4)({_word_of(_RIGHT_ZERO)});\n"
        f"{''.join(lines)}  return found;\n}}\n"
    )


_TEXT = """\
@FUNCTION
  const int tile = group % z_tiles, batch = group / z_tiles;
  const int m0 = tile / z_across * $BM, n0 = tile % z_across * $BN, base = $BASE;
  __local uint *steps = (__local uint *)scratch;
  const int item = lid % ($ITEMS / $KS), slice = lid / ($ITEMS / $KS);
  const int across = item % ($BN / 4), down = item / ($BN / 4);
  int4 sums[$TM], column_sums = (int4)(0);
  int row_sums[$TM];
#pragma unroll
  for (int i = 0; i < $TM; ++i) {
    sums[i] = (int4)(0);
    row_sums[i] = 0;
  }
  ${KERNEL}_row rows[$NA];
#pragma unroll
  for (int i = 0; i < $NA; ++i) rows[i] = ${KERNEL}_row_of(batch, m0 + (lid + i * $ITEMS) / $KW@SIZES);
  {
    uint left[$NA];
    uint4 right[$NB];
#define NEURALD_LOAD(step) { \\
    _Pragma("unroll") for (int i = 0; i < $NA; ++i) { \\
      const int e = lid + i * $ITEMS; \\
      if ((i + 1) * $ITEMS <= $BM * $KW || e < $BM * $KW) \\
        left[i] = ${KERNEL}_left_word($LEFT_POINTER, rows[i], ((step) * $KW + e % $KW) * 4@SIZES); \\
    } \\
    _Pragma("unroll") for (int i = 0; i < $NB; ++i) { \\
      const int e = lid + i * $ITEMS; \\
      if ((i + 1) * $ITEMS <= $BN * $KW / 4 || e < $BN * $KW / 4) \\
        right[i] = ${KERNEL}_right_words($RIGHT_POINTER, base, (step) * $KW + e / ($BN / 4), n0 + e % ($BN / 4) * 4@SIZES); \\
    } }
#define NEURALD_KEEP(buffer) { \\
    _Pragma("unroll") for (int i = 0; i < $NA; ++i) { \\
      const int e = lid + i * $ITEMS; \\
      if ((i + 1) * $ITEMS <= $BM * $KW || e < $BM * $KW) (buffer)[e / $KW * $AST + e % $KW] = left[i]; \\
    } \\
    _Pragma("unroll") for (int i = 0; i < $NB; ++i) { \\
      const int e = lid + i * $ITEMS; \\
      if ((i + 1) * $ITEMS <= $BN * $KW / 4 || e < $BN * $KW / 4) \\
        *(__local uint4 *)((buffer) + $BM * $AST + e * 4) = right[i]; \\
    } }
    NEURALD_LOAD(0)
    NEURALD_KEEP(steps)
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 0; step < z_steps; ++step) {
      __local const uint *buffer = steps + step % 2 * $STEP;
      if (step + 1 < z_steps) NEURALD_LOAD(step + 1)
      __local const uint *left_at = buffer + down * $AST + slice * 4;
      __local const uint *right_at = buffer + $BM * $AST + slice * 4 * $BN + across * 4;
#pragma unroll
      for (int q = 0; q < $KW / 4 / $KS; ++q) {
        uint4 words[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) words[k] = *(__local const uint4 *)(right_at + k * $BN);
#pragma unroll
        for (int i = 0; i < $TM; ++i) {
          const uint4 part = *(__local const uint4 *)(left_at + i * ($BM / $TM) * $AST);
          sums[i] = ${KERNEL}_dot4(sums[i], part.x, words[0]);
          sums[i] = ${KERNEL}_dot4(sums[i], part.y, words[1]);
          sums[i] = ${KERNEL}_dot4(sums[i], part.z, words[2]);
          sums[i] = ${KERNEL}_dot4(sums[i], part.w, words[3]);
$ROW_SUMS        }
$COLUMN_SUMS        left_at += $KS * 4;
        right_at += $KS * 4 * $BN;
      }
      if (step + 1 < z_steps) NEURALD_KEEP(steps + (step + 1) % 2 * $STEP)
      barrier(CLK_LOCAL_MEM_FENCE);
    }
#undef NEURALD_LOAD
#undef NEURALD_KEEP
  }
"""

_ROW_SUMS = """\
          row_sums[i] = KERNEL_NAME_dot(row_sums[i], part.x, 0x01010101u);
          row_sums[i] = KERNEL_NAME_dot(row_sums[i], part.y, 0x01010101u);
          row_sums[i] = KERNEL_NAME_dot(row_sums[i], part.z, 0x01010101u);
          row_sums[i] = KERNEL_NAME_dot(row_sums[i], part.w, 0x01010101u);
"""

_COLUMN_SUMS = """\
#pragma unroll
        for (int k = 0; k < 4; ++k) column_sums = KERNEL_NAME_dot4(column_sums, 0x01010101u, words[k]);
"""

_LESS_ROW_SUMS = """\
#pragma unroll
  for (int i = 0; i < $TM; ++i) sums[i] -= (int4)(($RIGHT_ZERO) * row_sums[i]);
"""

#: All bytes of all steps have been summed; one slice subtracts the zero points.
_LESS_COLUMN_SUMS = """\
  if (slice == 0) column_sums -= (int4)(z_steps * ($KW * 4) * ($RIGHT_ZERO));
#pragma unroll
  for (int i = 0; i < $TM; ++i) sums[i] -= ($LEFT_ZERO) * column_sums;
"""

_LESS_CORRECTIONS = """\
  if (slice == 0 && n0 + across * 4 < z_right_pitch) {
    const int4 correction = $CORRECTION;
#pragma unroll
    for (int i = 0; i < $TM; ++i) sums[i] -= correction;
  }
"""

#: Stores the accumulators of all slices in local memory.
_ALL_SLICES = """\
  __local int *all = (__local int *)scratch;
#pragma unroll
  for (int i = 0; i < $TM; ++i)
    *(__local int4 *)(all + (slice * $BM + i * ($BM / $TM) + down) * $BN + across * 4) = sums[i];
  barrier(CLK_LOCAL_MEM_FENCE);
"""
