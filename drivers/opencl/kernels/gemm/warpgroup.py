"""Large matrix products by instructions of whole warpgroups (`wgmma`) of NVIDIA's Hopper, in PTX.

Both matrices are copied to local memory several steps ahead, with the chunks of a row swizzled as
the instruction expects them. It reads both from there, and its four warps have the accumulators of
64 rows in registers. The left matrix, which may be windows of images, is copied 16 bytes at a time
(`cp.async`), past the first-level cache: only one group of a compute unit reads a row, and what
results read besides sums stays in that cache. A constant right matrix is packed in blocks as they
lie in local memory, so that one work-item copies 64 columns at a time (`cp.async.bulk`). The
operands are FLOAT16, FLOAT32 rounded to TF32, or 8-bit integers; zero points as in `tensor_core`.

NVIDIA's OpenCL compiler knows neither the instruction nor groups with more than 48 KB of local
memory, so that these functions need `platform.retargeting`.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.dialect import memory_type, raw4_type
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_code import Code, LazyCode
from neurald.drivers.opencl.codegen.template import fill, kernel_arguments, templates, with_numbers
from neurald.drivers.opencl.kernels.epilogue.epilogue import (
    epilogue,
    stored4_text,
    used_values,
    value4_function,
)
from neurald.drivers.opencl.kernels.epilogue.epilogue_reads import epilogue_reads
from neurald.drivers.opencl.kernels.gemm.accumulate import share_text, store_text
from neurald.drivers.opencl.kernels.gemm.correction import corrected
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView, four_bytes
from neurald.drivers.opencl.kernels.gemm.packing import packed, padded
from neurald.drivers.opencl.kernels.gemm.tensor_core import by_column
from neurald.drivers.opencl.kernels.gemm.warpgroup_loop import LoopShape, loop_lines
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.retargeting import HIDDEN
from neurald.hal.records import replace

_TEMPLATES = templates(__name__, "warpgroup.cl")
_CAPABILITY = (9, 0)
#: Products of fewer multiplications have too few tiles.
_MIN_MULTIPLICATIONS = 1 << 26
#: Work-items of a warpgroup, and the rows that an instruction multiplies.
_WARPGROUP, _ROWS = 128, 64
#: Bytes of each row in a step, and those that an instruction multiplies.
STEP_BYTES, PART_BYTES = 128, 32
#: Columns of a block of a packed matrix.
BLOCK = 64
#: The most vectors of the output that a work-item computes before it stores them.
_MAX_UNROLLED = 16
#: The most registers for elements that are loaded while steps are multiplied.
_MAX_LOADED = 16
_LOADING_TEMPLATES = ("begin_loading", "load_next")
#: Bytes behind the steps in local memory, for counters.
_COUNTER_BYTES = 64
#: Local memory and registers of a compute unit, and bytes that it reads in a cycle from the L2
#: cache.
_UNIT_LOCAL_BYTES, _UNIT_REGISTERS, UNIT_BYTES = 227 * 1024, 1 << 16, 34

#: Description of a matrix in local memory without its address: swizzling by 128 bytes, and the
#: distance of eight rows.
DESCRIPTOR = 1 << 62 | (8 * STEP_BYTES >> 4) << 32 | 1 << 16
#: The end of the instruction for the type of the left matrix, and its operands after the matrices.
MULTIPLY = {
    Scalar.FLOAT16: ("k16.f32.f16.f16", "p, 1, 1, 0, 0"),
    Scalar.FLOAT32: ("k8.f32.tf32.tf32", "p, 1, 1"),
    Scalar.INT8: ("k32.s32.s8.s8", "p"),
    Scalar.UINT8: ("k32.s32.u8.s8", "p"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tiling:
    """Tiling of a product.

    Attributes:
        rows, columns: the rows and columns of the tile of a group.
        blocks: the number of times that a warpgroup has 64 rows.
        stages: the number of steps in local memory.
        overlaps: whether a step is multiplied while the one before it still is.
    """

    rows: int
    columns: int
    blocks: int = 1
    stages: int = 4
    overlaps: bool = False

    @property
    def items(self) -> int:
        return self.rows // (_ROWS * self.blocks) * _WARPGROUP

    @property
    def step_bytes(self) -> int:
        return (self.rows + self.columns) * STEP_BYTES

    @property
    def slab_pitch(self) -> int:
        """Accumulators between rows in local memory, such that rows begin at different banks."""
        return self.columns + 8

    def counters_at(self, steps: int) -> int:
        """Returns the bytes of those stages that a product of so many steps uses."""
        return self.step_bytes * min(self.stages, steps)

    def scratch_bytes(self, steps: int) -> int:
        return max(self.counters_at(steps) + _COUNTER_BYTES, self.rows * self.slab_pitch * 4)

    @property
    def copies(self) -> int:
        """Chunks of the left matrix that a work-item copies in a step."""
        return -(-self.rows * STEP_BYTES // 16 // self.items)

    def resident(self, steps: int) -> int:
        """Returns the number of groups that a compute unit holds together."""
        registers = self.columns // 2 * self.blocks + 56
        by_registers = _UNIT_REGISTERS // (self.items * registers)
        return max(1, min(_UNIT_LOCAL_BYTES // (self.scratch_bytes(steps) + 1024), by_registers))

    @property
    def ahead(self) -> int:
        """Steps that are copied ahead."""
        return self.stages - (2 if self.overlaps else 1)

    @property
    def unrolled(self) -> int:
        """Vectors of the output that a work-item computes before it stores them."""
        vectors = self.rows * self.columns // (4 * self.items)
        return next(each for each in range(_MAX_UNROLLED, 0, -1) if vectors % each == 0)

    def can_load(self, kind: Scalar) -> bool:
        """Returns True if a work-item has registers for elements that are loaded early."""
        return self.unrolled * kind.size_bytes <= _MAX_LOADED


#: Several groups of the smaller ones are resident, or one with more stages.
_TILINGS = (
    _Tiling(rows=128, columns=256),
    _Tiling(rows=256, columns=128, blocks=2),
    _Tiling(rows=128, columns=192, stages=5),
    _Tiling(rows=64, columns=256, stages=5),
    _Tiling(rows=128, columns=128, stages=3),
    _Tiling(rows=128, columns=128, stages=6),
    _Tiling(rows=64, columns=128, stages=4),
    _Tiling(rows=64, columns=128, stages=8),
    _Tiling(rows=128, columns=64, stages=3),
    _Tiling(rows=128, columns=64, stages=8),
    _Tiling(rows=64, columns=64, stages=4),
    _Tiling(rows=64, columns=64, stages=8),
)


def fits(product: GemmView, facts: DeviceFacts) -> bool:
    """Returns True if warpgroups can multiply a product, except by weights of too wide a range."""
    kind = product.left.type
    return (
        facts.is_nvidia
        and facts.compute_capability == _CAPABILITY
        and product.multiplications >= _MIN_MULTIPLICATIONS
        and product.is_left_by_row
        and product.run % (16 // kind.size_bytes) == 0
    )


def candidates(kernel: Kernel, product: GemmView, facts: DeviceFacts, *, relaxed: bool) -> Iterator[Source]:
    """Yields every suitable tiling, the best first.

    There are none for small products, and for FLOAT32 that must not be rounded.
    """
    is_exact = product.left.type is Scalar.FLOAT32 and not relaxed
    right = by_column(product) if fits(product, facts) and not is_exact else None
    if right is None:
        return
    overlaps = right.constant is not None and not product.is_windowed
    found = [replace(each, overlaps=overlaps) for each in _TILINGS]
    if product.left_zero:
        kernel = corrected(kernel, product, right)
    for tiling in sorted(found, key=lambda each: _cost(each, product, facts)):
        yield _source(kernel, product, right, tiling)


def _cost(tiling: _Tiling, product: GemmView, facts: DeviceFacts) -> float:
    """Estimates the time in cycles of a compute unit."""
    groups = product.tiles(tiling) * product.batches
    steps = math.ceil(product.depth * product.left.type.size_bytes / STEP_BYTES)
    resident = min(tiling.resident(steps), -(-groups // facts.compute_units))
    waves = math.ceil(groups / (facts.compute_units * resident))
    elements = tiling.rows * tiling.columns
    multiplied = elements * STEP_BYTES / 8192
    # One group alone, and as much as several of them have to do.
    alone = steps * max(multiplied, tiling.step_bytes / 48, 900 / tiling.ahead)
    alone += 1500 + elements / (32 * tiling.items) * 700
    together = steps * max(multiplied, tiling.step_bytes / UNIT_BYTES) + elements / 12
    return waves * max(alone, resident * together)


def _trimmed(tiling: _Tiling, steps: int) -> _Tiling:
    """Returns a tiling without stages that a product of so few steps does not use."""
    overlaps = tiling.overlaps and steps > 1
    return replace(tiling, stages=min(tiling.stages, steps + 1 + overlaps), overlaps=overlaps)


def _source(kernel: Kernel, product: GemmView, right: Value, tiling: _Tiling) -> Source:
    is_packed = right.constant is not None
    zero = product.left_zero
    operands = [product.left, packed_blocks(right) if is_packed else right]
    values = kernel_arguments(kernel.output, operands, used_values(kernel))
    size = product.left.type.size_bytes
    blocks, steps = -(-product.columns // BLOCK), -(-product.depth * size // STEP_BYTES)
    label = (
        f"warpgroups, tile {tiling.rows} x {tiling.columns}, {tiling.stages} stages"
        f"{', steps overlap' if tiling.overlaps else ''}"
    )
    tiling = _trimmed(tiling, steps)
    block_pitch = steps * BLOCK * STEP_BYTES // size
    items, chunks, tiles = tiling.items, STEP_BYTES // 16, product.tiles(tiling)

    def code() -> Code:
        base = product.right_base
        if is_packed:
            base = "0" if right.shape[0] == 1 else f"batch * {blocks * block_pitch}"
        loaded = epilogue_reads(kernel, product.rows).element
        if loaded is not None and not tiling.can_load(loaded.type):
            loaded = None
        stored = storing(kernel, product, values, _TEMPLATES, "found[i]", loaded)
        if "VALUE" not in stored.names:
            loaded = None
        names: dict[str, object] = {
            "T": "int" if product.is_integer else "float",
            "BM": tiling.rows,
            "BN": tiling.columns,
            "BYTES": STEP_BYTES,
            "CHUNKS": chunks,
            "SWIZZLE": "(row & 7)",
            "STEP": tiling.step_bytes,
            "STAGES": tiling.stages,
            "SIZE": size,
            "EACH_CHUNK": 16 // size,
            "ITEMS": items,
            "NA": tiling.copies,
            "NB": -(-tiling.columns * chunks // items),
            "COUNT": tiling.columns // 2,
            "BLOCKS": tiling.blocks,
            "SLAB_PITCH": tiling.slab_pitch,
            "UNROLLED": tiling.unrolled,
            "COUNTERS_AT": tiling.counters_at(steps),
            **_loaded_names(loaded, values),
            **stored.names,
            "BLOCK_BYTES": BLOCK * STEP_BYTES,
            "RIGHT": memory_type(right.type),
            "DESCRIPTOR": f"{DESCRIPTOR:#x}UL",
            "AHEAD": tiling.ahead,
            "INSTRUCTIONS": _instructions(product, tiling),
            "OPERANDS": _operands(product, tiling),
            "ADDRESSES": _addresses(tiling),
            "MULTIPLYING": _TEMPLATES["running" if tiling.overlaps else "multiplying"],
            "LOOP": _TEMPLATES["run" if tiling.overlaps else "loop"],
            "SHARE": share_text(product, split=1),
            "BASE": base,
            "COPY_LEFT": _TEMPLATES["copy_left_or_zero" if zero else "copy_left"],
            "COPY_RIGHT": _TEMPLATES["copy_blocks" if is_packed else "copy_right"],
            "BEGIN": _TEMPLATES["begin_blocks"] if is_packed else "",
            "AWAIT": _TEMPLATES["await_blocks"] if is_packed else "",
            "NEXT": _TEMPLATES["next_blocks"] if is_packed else "",
        }
        sizes = {
            **product.sizes,
            **stored.sizes,
            "pitch": product.depth,
            "column_blocks": blocks,
            "block_pitch": block_pitch,
            **product.tile_sizes(tiling),
            "steps": steps,
            "zeros": four_bytes(zero),
        }
        whole = product.text + stored.text + fill(_TEMPLATES["function"], **names)
        return with_numbers(whole, values.parameters, sizes, stored.numbers)

    return Source(
        code=LazyCode(code),
        arguments=values.values,
        groups=tiles * product.batches,
        local_size=items,
        scratch_bytes=tiling.scratch_bytes(steps),
        has_barriers=True,
        is_retargeted=True,
        label=label,
        operations=kernel.operations,
    )


def _loaded_names(loaded: Value | None, values: KernelArguments) -> dict[str, str]:
    """Returns what placeholders of elements that are loaded early stand for.

    Args:
        loaded: the value that they belong to; None if none are.
        values: the arguments of the function.
    """
    used = {name.upper(): "" if loaded is None else _TEMPLATES[name] for name in _LOADING_TEMPLATES}
    if loaded is None:
        return {"LOADED": "", "LOADED_TYPE": "", "GIVEN": "", **used}
    return {
        "LOADED": values.by_value[loaded].name,
        "LOADED_TYPE": raw4_type(loaded.type),
        "GIVEN": "loaded[i], ",
        **used,
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Storing:
    """Functions that compute the output from sums, and what the kernel's template says of them.

    Attributes:
        text: the functions.
        names: placeholders of the template.
        sizes: sizes that the functions refer to.
        numbers: the names of those that differ between layers of equal shape.
        row_numbers: how many numbers of a row they take.
    """

    text: str
    names: dict[str, object]
    sizes: Mapping[str, int]
    numbers: Collection[str]
    row_numbers: int = 0


def storing(
    kernel: Kernel,
    product: GemmView,
    values: KernelArguments,
    ways: Mapping[str, str],
    found: str,
    ahead: Value | None = None,
) -> Storing:
    """Returns the functions that compute the output from sums, and how they are called.

    Args:
        kernel, product: what is computed.
        values: the arguments of the functions.
        ways: the templates `store_each`, and `store_together` for vectors of the output.
        found: the text of a vector that is stored together with others.
        ahead: a value of which the caller has loaded elements, see `value4_function`.
    """
    length = kernel.shape[-1]
    four = value4_function(kernel, values, ahead) if product.has_vectors else None
    if four is None:
        after = epilogue(kernel, values, is_vector=product.has_vectors)
        names: dict[str, object] = {
            "STORE_ALL": ways["store_each"],
            "STORE": store_text(product, after),
        }
        return Storing(text=after.text, names=names, sizes=after.sizes, numbers=after.numbers)
    row, column = (
        ("row", "column")
        if product.batches == 1
        else (f"batch * {product.row_step} + row", f"batch * {product.column_step} + column")
    )
    stored = kernel.output.type
    is_float = product.sum_type is Scalar.FLOAT32
    return Storing(
        text=four.text,
        names={
            "STORE_ALL": ways["store_together"],
            "STORE_VALUE": stored4_text(found, f"({row}) * {length} + {column}", stored),
            "VALUE": "float4" if is_float else f"{memory_type(stored)}4",
            "ROW": row,
            "COLUMN": column,
            "ARGUMENTS": values.call_arguments,
        },
        sizes={"length": length, **four.sizes},
        numbers=four.sizes,
        row_numbers=four.row_numbers,
    )


def packed_blocks(right: Value) -> Value:
    """Returns a matrix of (batch, column, depth) in blocks as they lie in local memory."""

    def pack(array: np.ndarray) -> np.ndarray:
        each = STEP_BYTES // array.itemsize
        whole = padded(padded(array, 1, BLOCK, 0), 2, each, 0)
        batches, columns, depth = whole.shape
        # Chunks of 16 bytes as elements.
        bytes_16 = np.ascontiguousarray(whole).view(np.complex128)
        chunks = bytes_16.reshape(batches, columns // BLOCK, BLOCK, depth // each, -1)
        row, chunk = np.ogrid[:BLOCK, : chunks.shape[-1]]
        swizzled = chunks.transpose(0, 1, 3, 2, 4)[:, :, :, row, chunk ^ (row & 7)]
        return np.ascontiguousarray(swizzled).view(array.dtype).reshape(whole.shape)

    return packed(right, "blocks", pack)


def _instructions(product: GemmView, tiling: _Tiling) -> str:
    """Returns C strings with the instructions that multiply a step, or all steps."""
    kind, rest = MULTIPLY[product.left.type]
    multiply = (
        f"wgmma.mma_async.sync.aligned.m64n{tiling.columns}{kind} {{sums}}, {{left}}, {{right}}, {rest};"
    )
    count = tiling.columns // 2
    if tiling.overlaps:
        lines = loop_lines(
            LoopShape(
                multiply=multiply,
                count=count,
                blocks=tiling.blocks,
                copies=tiling.copies,
                copy_pitch=tiling.items * 16,
                left_bytes=tiling.rows * STEP_BYTES,
                step_bytes=tiling.step_bytes,
                row_bytes=STEP_BYTES,
                part_bytes=PART_BYTES,
                column_blocks=tiling.columns // BLOCK,
                block_bytes=BLOCK * STEP_BYTES,
                stages=tiling.stages,
                descriptor=DESCRIPTOR,
            )
        )
    else:
        sums = ", ".join(f"%{number}" for number in range(count))
        lines = ["{ .reg .pred p; .reg .b64 left, right;", "setp.eq.u32 p, 0, 0;"]
        lines.append(f"{HIDDEN} wgmma.fence.sync.aligned;")
        for part in range(STEP_BYTES // PART_BYTES):
            # Addresses in a description count 16 bytes.
            at = part * PART_BYTES // 16
            lines += [f"add.u64 left, %{count}, {at};", f"add.u64 right, %{count + 1}, {at};"]
            lines.append(f"{HIDDEN} {multiply.format(sums=f'{{{sums}}}', left='left', right='right')}")
        lines += [f"{HIDDEN} wgmma.commit_group.sync.aligned;", "}"]
    return "\n               ".join(f'"{line}\\n"' for line in lines)


def _operands(product: GemmView, tiling: _Tiling) -> str:
    hold, count = "r" if product.is_integer else "f", tiling.columns // 2
    names = (
        [f"sums[{block}][{number}]" for block in range(tiling.blocks) for number in range(count)]
        if tiling.overlaps
        else [f"sums[{number}]" for number in range(count)]
    )
    return ", ".join(f'"+{hold}"({name})' for name in names)


def _addresses(tiling: _Tiling) -> str:
    numbers = range(tiling.copies)
    return ", ".join(
        [f'"l"(left[{number}])' for number in numbers] + [f'"r"(sizes[{number}])' for number in numbers]
    )
