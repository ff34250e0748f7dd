"""Matrix products on the tensor cores of NVIDIA GPUs, in PTX.

The operands are FLOAT16, FLOAT32 that is rounded to TF32 or split, or 8-bit integers.

Rows of both matrices are copied to local memory 16 bytes at a time (`cp.async`), several steps
ahead. The chunks of a row are swizzled by its index, so that `ldmatrix` reads eight rows from
different banks. Every warp computes a part of the tile; if there are more warps than parts, several
split the depth of a step. All three types move and multiply the same bytes: 32 of a row at a time.

FLOAT32 that must not be rounded is represented as a sum of two TF32, the second of which holds the
remainder of the first. Of the four products only that of both remainders is omitted, 2^-22 of the
whole. Products with a remainder have separate accumulators, which count only if the main
accumulator is finite, since infinity minus itself is not.

The zero point of 8-bit inputs is multiplied like any other value, also outside of images, and the
epilogue corrects for it, see `correction`. That of weights is subtracted when they are packed, if
they still fit in 8 bits then.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.dialect import memory_type
from neurald.drivers.opencl.codegen.kernel_source import WAIT, Source
from neurald.drivers.opencl.codegen.lazy_code import Code, LazyCode
from neurald.drivers.opencl.codegen.template import fill, kernel_arguments, resolved, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import epilogue, used_values
from neurald.drivers.opencl.kernels.gemm.accumulate import (
    ADD_SLICES,
    MAX_TILES,
    fetch_text,
    finish_text,
    gathered_layout,
    share_text,
    split_cycles,
    store_text,
    workspace_bytes,
)
from neurald.drivers.opencl.kernels.gemm.correction import corrected
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView, four_bytes
from neurald.drivers.opencl.kernels.gemm.packing import packed, padded
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.hal.records import replace

_TEMPLATES = templates(__name__, "tensor_core.cl")
_COPY_TEMPLATES = templates(__name__, "async_copy.cl")
#: Functions that split a FLOAT32 into two TF32.
SPLITTING = _TEMPLATES["splitting"]
_MAX_LOCAL_BYTES = 48 * 1024
_ITEMS = 256
_WARPS = _ITEMS // 32
#: Bytes of each row that a warp multiplies at a time.
PART_BYTES = 32

#: Instruction for the type of the left matrix.
MULTIPLY = {
    Scalar.FLOAT16: "m16n8k16.row.col.f32.f16.f16.f32",
    Scalar.FLOAT32: "m16n8k8.row.col.f32.tf32.tf32.f32",
    Scalar.INT8: "m16n8k32.row.col.s32.s8.s8.s32",
    Scalar.UINT8: "m16n8k32.row.col.s32.u8.s8.s32",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _WarpTiling:
    """Tiling of a product.

    Attributes:
        rows, columns: the rows and columns of the tile of a group.
        warp_rows, warp_columns: the warp rows and warp columns of the tile of a warp.
        bytes: the bytes of each row in a step.
        stages: the number of steps in local memory.
        split: the number of groups that split the depth.
        reads_ahead: whether the factors of a step are read while the one before is multiplied.
    """

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int
    bytes: int
    stages: int
    split: int = 1
    reads_ahead: bool = False

    @property
    def slices(self) -> int:
        return _WARPS * self.warp_rows * self.warp_columns // (self.rows * self.columns)

    @property
    def is_stored_by_warp(self) -> bool:
        """True if the accumulators of a group do not fit in local memory at once."""
        return self.rows * self.columns * 4 > _MAX_LOCAL_BYTES

    @property
    def scratch_bytes(self) -> int:
        steps = (self.rows + self.columns) * self.bytes * self.stages
        if self.is_stored_by_warp:
            return max(steps, _WARPS * 16 * (self.warp_columns + 4) * 4)
        return max(steps, self.rows * self.columns * self.slices * 4)


#: Elements of a warp's tile up to which several groups are resident on a compute unit.
_MAX_RESIDENT_WARP = 64 * 32
#: With at most this many stages, a step is requested before the one that precedes it is multiplied.
_EARLY_STAGES = 3
#: Rows and columns of a group, and of a warp.
_SHAPES = (
    (128, 256, 64, 64),
    (256, 128, 64, 64),
    (128, 128, 64, 32),
    (128, 128, 32, 64),
    (64, 256, 32, 64),
    (128, 64, 32, 32),
    (64, 128, 32, 32),
    (64, 64, 32, 32),
    (64, 64, 32, 16),
    (64, 32, 32, 32),
    (64, 32, 16, 16),
    (32, 64, 32, 32),
    (32, 64, 16, 16),
    (32, 32, 32, 32),
    (32, 32, 16, 16),
    (16, 64, 16, 16),
    (64, 16, 16, 16),
    (16, 32, 16, 16),
)


def candidates(
    kernel: Kernel, product: GemmView, facts: DeviceFacts, *, relaxed: bool, has_workspace: bool
) -> Iterator[Source]:
    """Yields every suitable tiling, the best first.

    There are none if the device has no tensor cores for the operands.
    """
    if not facts.has_nvidia_capability((8, 0)):
        return
    right = by_column(product)
    if right is None or not product.is_left_by_row:
        return
    is_split_tf32 = product.left.type is Scalar.FLOAT32 and not relaxed
    found = []
    for tiling in _tilings(product, facts, has_workspace):
        # Split operands need three accumulators, for which large tiles leave no registers.
        if not (is_split_tf32 and tiling.is_stored_by_warp):
            found.append((_cost(tiling, product, facts), tiling))
    found.sort(key=lambda pair: pair[0])
    for _, tiling in found:
        yield _source(kernel, product, right, tiling, is_split_tf32=is_split_tf32)


def by_column(product: GemmView) -> Value | None:
    """Returns the right matrix with contiguous columns, in the type that is multiplied.

    Returns None if it cannot be converted to that.
    """
    kind = product.left.type
    if product.is_integer:
        return _int8_by_column(product)
    if product.right.type is not kind:
        return None
    each = 16 // kind.size_bytes
    if product.is_right_by_column:
        return product.right if product.depth % each == 0 else None
    if product.right.constant is None:
        return None
    columns = product.columns
    return packed(product.right, ("by column", columns), lambda array: _transposed(array, columns, each))


def _transposed(array: np.ndarray, columns: int, each: int) -> np.ndarray:
    """Transposes to contiguous columns, each padded to a multiple of `each` elements."""
    return padded(array.reshape(-1, *array.shape[-2:])[:, :, :columns].swapaxes(1, 2), 2, each, 0)


def _int8_by_column(product: GemmView) -> Value | None:
    zero, columns = product.right_zero, product.columns
    if product.right.constant is None:
        is_plain = product.right.type is Scalar.INT8 and zero == 0 and product.left_zero == 0
        is_whole = product.depth % 16 == 0
        return product.right if is_plain and is_whole and product.is_right_by_column else None
    wide = product.right.constant.astype(np.int16) - zero
    if wide.min() < -128 or wide.max() > 127:
        return None
    return packed(
        product.right,
        ("by column", columns, zero),
        lambda array: _transposed((array.astype(np.int16) - zero).astype(np.int8), columns, 16),
    )


def _tilings(product: GemmView, facts: DeviceFacts, has_workspace: bool) -> Iterator[_WarpTiling]:
    size = product.left.type.size_bytes
    for rows, columns, warp_rows, warp_columns in _SHAPES:
        if _is_too_large(rows, product.rows) or _is_too_large(columns, product.columns):
            continue
        slices = _WARPS * warp_rows * warp_columns // (rows * columns)
        # A step has at least one part for each slice.
        length = max(slices * PART_BYTES, 128 if rows + columns <= 128 else 64)
        stages = min(4, _MAX_LOCAL_BYTES // ((rows + columns) * length))
        tiling = _WarpTiling(
            rows=rows,
            columns=columns,
            warp_rows=warp_rows,
            warp_columns=warp_columns,
            bytes=length,
            stages=stages,
        )
        if warp_rows * warp_columns > _MAX_RESIDENT_WARP:
            # Only one of these groups is resident, and would wait for what it reads.
            yield replace(tiling, reads_ahead=True)
            continue
        steps = -(-product.depth * size // length)
        tiles = product.tiles(tiling) * product.batches
        for split in (1, 2, 3, 4, 6, 8, 12, 16):
            is_worth = steps >= 3 * split and tiles * split <= 2 * facts.compute_units and tiles <= MAX_TILES
            is_worth = is_worth and not tiling.is_stored_by_warp
            if split == 1 or (has_workspace and is_worth):
                yield replace(tiling, split=split)


def _is_too_large(length: int, needed: int) -> bool:
    """Returns True if half of a tile is enough for all rows or columns."""
    return length > 16 and length >= 2 * needed


def _cost(tiling: _WarpTiling, product: GemmView, facts: DeviceFacts) -> float:
    """Estimates the time in cycles of a compute unit."""
    groups = product.tiles(tiling) * product.batches * tiling.split
    waves = math.ceil(groups / facts.compute_units)
    length = product.depth * product.left.type.size_bytes
    steps = math.ceil(math.ceil(length / tiling.bytes) / tiling.split)
    bytes_of_step = (tiling.rows + tiling.columns) * tiling.bytes
    # Loads from device memory, reads from local memory, and multiplications.
    read = _WARPS * (tiling.warp_rows + tiling.warp_columns) * tiling.bytes // tiling.slices
    busy = max(bytes_of_step / 40, read / 128, tiling.rows * tiling.columns * tiling.bytes / 8192)
    latency = 60 + 700 / max(1, tiling.stages - 1)
    if tiling.reads_ahead:
        # Reads and multiplications overlap.
        busy *= 0.6
    overhead = 1500 + split_cycles(tiling.rows * tiling.columns, tiling.split) + 30 * tiling.slices
    overlapped = min(waves, max(1, 4 * 48 * 1024 // tiling.scratch_bytes), 4)
    return math.ceil(waves / overlapped) * (steps * max(busy * overlapped, latency) + overhead)


def _source(
    kernel: Kernel, product: GemmView, right: Value, tiling: _WarpTiling, *, is_split_tf32: bool
) -> Source:
    operands = [product.left, right]
    zero = product.left_zero
    if zero:
        kernel = corrected(kernel, product, right)
    values = kernel_arguments(kernel.output, operands, used_values(kernel))
    kind = "int" if product.is_integer else "float"
    sums = gathered_layout(kind, tiling.rows, tiling.columns, _ITEMS)
    tiles = product.tiles(tiling)

    def code() -> Code:
        after = epilogue(
            kernel,
            values,
            is_vector=product.has_vectors,
            is_fetched=not tiling.is_stored_by_warp,
        )
        size = product.left.type.size_bytes
        head = values.parameters_with_workspace if tiling.split > 1 else values.parameters
        steps = -(-product.depth * size // tiling.bytes)
        names = _names(product, right, tiling, is_split_tf32=is_split_tf32)
        sizes = {
            **product.sizes,
            **after.sizes,
            "pitch": right.shape[-1] if right.constant is not None else product.depth,
            **product.tile_sizes(tiling),
            "split": tiling.split,
            "steps": steps,
            "each": -(-steps // tiling.split),
            # Four equal bytes. They are a size and no constant in memory, because thousands of
            # work-items would wait for a load of the same address.
            "zeros": four_bytes(zero),
        }
        if tiling.is_stored_by_warp:
            names |= {"FETCH": "", "STORE": store_text(product, after)}
            end = fill(_TEMPLATES["store_by_warp"], **names)
        else:
            names["FETCH"] = fetch_text(product, after, sums)
            end = fill(_TEMPLATES["gather"] + ADD_SLICES, **names)
            end += "  barrier(CLK_LOCAL_MEM_FENCE);\n"
            end += finish_text(product, after, sums, split=tiling.split)
        whole = product.text + after.text + fill(_TEMPLATES["function"], **names) + end
        return Code(resolved(whole, head, sizes, is_shared=True))

    return Source(
        code=LazyCode(code),
        arguments=values.values,
        groups=tiles * product.batches * tiling.split,
        local_size=_ITEMS,
        scratch_bytes=tiling.scratch_bytes,
        workspace_bytes=workspace_bytes(product, sums, tiles=tiles, split=tiling.split),
        has_barriers=True,
        label=f"tensor cores{', 3xTF32' if is_split_tf32 else ''}, tile {tiling.rows} x {tiling.columns} x "
        f"{tiling.bytes} bytes, split by {tiling.split}"
        f" and {tiling.slices}, {tiling.stages} stages{', read ahead' if tiling.reads_ahead else ''}",
        operations=kernel.operations,
    )


def _names(product: GemmView, right: Value, tiling: _WarpTiling, *, is_split_tf32: bool) -> dict[str, object]:
    """Returns what the placeholders of the templates stand for, but those of the epilogue."""
    size = product.left.type.size_bytes
    is_shared = right.constant is not None and right.shape[0] == 1
    return {
        "T": "int" if product.is_integer else "float",
        "BM": tiling.rows,
        "BN": tiling.columns,
        "WM": tiling.warp_rows,
        "WN": tiling.warp_columns,
        "ACROSS_WARPS": tiling.columns // tiling.warp_columns,
        "WARPS": tiling.rows * tiling.columns // (tiling.warp_rows * tiling.warp_columns),
        "KS": tiling.slices,
        "BYTES": tiling.bytes,
        "CHUNKS": tiling.bytes // 16,
        "SWIZZLE": "(row & 7)" if tiling.bytes >= 128 else "((row >> 1) & 3)",
        "STAGES": tiling.stages,
        "AHEAD": int(right.constant is not None),
        "WAIT": WAIT,
        "STEP": (tiling.rows + tiling.columns) * tiling.bytes,
        "NA": max(1, tiling.rows * tiling.bytes // 16 // _ITEMS),
        "NB": max(1, tiling.columns * tiling.bytes // 16 // _ITEMS),
        "NE": -(-tiling.rows * tiling.columns // 4 // _ITEMS),
        "ITEMS": _ITEMS,
        "SIZE": size,
        "EACH_CHUNK": 16 // size,
        "LEFT": memory_type(product.left.type),
        "RIGHT": memory_type(right.type),
        "MULTIPLY": MULTIPLY[product.left.type],
        "HOLD": "r" if product.is_integer else "f",
        "PARTS": tiling.bytes // PART_BYTES // tiling.slices,
        "SHARE": share_text(product, split=tiling.split),
        "BASE": _base(product, right, is_shared),
        "BITS": {1: "uchar", 2: "ushort", 4: "uint"}[size],
        **_copies(product, tiling),
        **_rest(is_split_tf32=is_split_tf32),
        "LOOP": _TEMPLATES["loop_ahead" if tiling.reads_ahead else "loop"],
    }


def _copies(product: GemmView, tiling: _WarpTiling) -> dict[str, str]:
    """Returns the templates that copy steps to local memory, by placeholder.

    With few stages, copies are requested before a step is multiplied, so that they have its time.
    """
    is_gathered = product.run % (16 // product.left.type.size_bytes) != 0
    is_early = tiling.stages <= _EARLY_STAGES
    copied = "copy_left_or_zero" if product.left_zero else "copy_left"
    return {
        "COPY_BEGIN": _COPY_TEMPLATES["begin"],
        "COPY_EARLY": _COPY_TEMPLATES["next"] if is_early else "",
        "COPY_LATE": "" if is_early else _COPY_TEMPLATES["next"],
        "COPY_END": _COPY_TEMPLATES["end"],
        "COPY_LEFT": _TEMPLATES["gather_left" if is_gathered else copied],
    }


def _rest(*, is_split_tf32: bool) -> dict[str, str]:
    """Returns the templates for FLOAT32 as a sum of two TF32, by placeholder.

    They are empty for other types.
    """
    names = [name for name in _TEMPLATES if name == "splitting" or name.startswith("rest_")]
    return {
        "SUMS": "step_sums" if is_split_tf32 else "sums",
        **{name.upper(): _TEMPLATES[name] if is_split_tf32 else "" for name in names},
    }


def _base(product: GemmView, right: Value, is_shared: bool) -> str:
    if right.constant is None:
        return product.right_base
    return "0" if is_shared else f"batch * {right.shape[-1] * product.columns}"
