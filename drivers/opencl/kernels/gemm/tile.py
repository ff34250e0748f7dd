"""Matrix products on GPUs with one tile per work-group.

A group iterates over the depth in steps. A step's operands lie in local memory while the next steps
are loaded: into registers, or directly into local memory on NVIDIA devices (`cp.async`). Every
work-item accumulates a small tile in registers. If the tile has too few elements for all
work-items, these split the depth of a step, and add up at the end. If a product has too few tiles
for the device, several groups split the depth (split-K): each stores its accumulators, and the last
one to finish adds all of them up, always in the same order. Or each adds its accumulators to the
output (see `split_k`). A group requests the first steps of constants before the grid barrier
(`Source.waits`).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from neurald.drivers.compiler.ir.extents.extent import estimate, is_multiple
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArguments, as_images
from neurald.drivers.opencl.codegen.dialect import multiply_add
from neurald.drivers.opencl.codegen.kernel_source import WAIT, Source
from neurald.drivers.opencl.codegen.lazy_code import Code, LazyCode
from neurald.drivers.opencl.codegen.template import fill, kernel_arguments, resolved, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import Epilogue, epilogue, used_values, vector4_reads
from neurald.drivers.opencl.kernels.gemm import split_k
from neurald.drivers.opencl.kernels.gemm.accumulate import (
    ADD_SLICES,
    MAX_TILES,
    AccumulatorLayout,
    fetch_text,
    finish_text,
    gathered_layout,
    share_text,
    split_cycles,
    workspace_bytes,
)
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView, readers
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.hal.records import replace

_TEMPLATES = templates(__name__, "tile.cl")
_COPY_TEMPLATES = templates(__name__, "async_copy.cl")
#: Limit on a group's local memory, if the device has as much.
_MAX_LOCAL_BYTES = 48 * 1024
#: Number of steps in flight.
_STAGES = 4
#: Maximum number of groups that split the depth and add to the output.
_MAX_SHARES = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Tiling:
    """Tiling of a product.

    Attributes:
        rows, columns: the rows and columns of the tile of a group.
        depth: the depth of a step.
        item_rows, item_columns: the elements that a work-item accumulates.
        items: the items of a group.
        split: the number of groups that split the depth.
        stages: steps in local memory; with 2, the next one is loaded through registers.
        adds: whether groups that split the depth add to the output.
    """

    rows: int
    columns: int
    depth: int
    item_rows: int = 4
    item_columns: int = 4
    items: int = 256
    split: int = 1
    stages: int = 2
    adds: bool = False

    @property
    def slices(self) -> int:
        """Number of work-items that split the depth of a step."""
        return self.items * self.item_rows * self.item_columns // (self.rows * self.columns)

    @property
    def scratch_bytes(self) -> int:
        """Local memory for steps, reused for accumulators."""
        step = self.rows * (self.depth + 4) + self.depth * self.columns
        sums = self.slices * self.rows * self.columns if self.slices > 1 else 0
        return 4 * max(self.stages * step, sums, 1)

    def steps(self, product: GemmView) -> int:
        """Returns the number of steps of the depth."""
        return -(-product.depth // self.depth)


def _tilings(items: int, *, is_computed: bool) -> Iterator[Tiling]:
    """Yields the tilings for this group size.

    More of them are useful if left elements are computed, because steps then cost more.
    """
    if items >= 256:
        yield Tiling(rows=128, columns=128, depth=8, item_rows=8, item_columns=8)
        yield Tiling(rows=128, columns=64, depth=16, item_rows=8)
    for rows, columns in (
        (64, 64),
        (64, 32),
        (32, 64),
        (32, 32),
        (64, 16),
        (16, 64),
        (16, 32),
        (32, 16),
        (16, 16),
    ):
        slices = items * 16 // (rows * columns)
        if slices:
            depth = min(64, max(16, 4 * slices * (2 if slices < 8 else 1)))
            yield Tiling(rows=rows, columns=columns, depth=depth, items=items)
            if is_computed:
                yield Tiling(rows=rows, columns=columns, depth=2 * depth, items=items)
    if is_computed and items >= 256:
        yield Tiling(rows=16, columns=128, depth=32)


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputedLeft:
    """Left matrix whose elements are computed when they are read.

    Attributes:
        kernel: the kernel that defines it.
        values: the values it is computed from, except the first one, which is the product's left
            matrix.
        vector4_values: those of them that are read four elements at a time.
        taps: the number of elements that each element is computed from.
        left4: returns the function `KERNEL_NAME_left4` for a kernel function with the given
            arguments, all of which it takes.
        sizes: the sizes that it refers to.
    """

    kernel: Kernel
    values: tuple[Value, ...]
    vector4_values: tuple[Value, ...]
    taps: int
    left4: Callable[[KernelArguments], str]
    sizes: dict[str, int]


def candidates(
    kernel: Kernel,
    product: GemmView,
    facts: DeviceFacts,
    *,
    has_workspace: bool,
    computed: ComputedLeft | None = None,
) -> Iterator[Source]:
    """Yields every suitable tiling, the best first."""
    items = max(size for size in (256, 64, 16) if size <= facts.max_work_group_size)
    if facts.is_cpu:
        items = min(items, 64)
    limit = min(_MAX_LOCAL_BYTES, facts.local_memory_bytes)
    asynchronous = facts.has_nvidia_capability((8, 0)) and _is_copied(product)
    # It copies from pointers.
    asynchronous = asynchronous and computed is None and facts.images is None
    # Groups exchange accumulators with fences that this generation introduced.
    is_split = has_workspace and facts.has_nvidia_capability((7, 0))
    # Reading partial sums costs more than computing left elements in fewer groups.
    adds = (
        computed is not None
        and product.batches == 1
        and split_k.is_supported(facts)
        and split_k.only_adds_terms(kernel)
    )
    found: list[tuple[float, Tiling]] = []
    for tiling in _tilings(items, is_computed=computed is not None):
        if _is_wasteful(tiling, product):
            continue
        stages = _STAGES if asynchronous else 2
        while stages > 2 and replace(tiling, stages=stages).scratch_bytes > limit:
            stages -= 1
        chosen = replace(tiling, stages=stages)
        if chosen.scratch_bytes > limit:
            continue
        splits = _splits(chosen, product, facts) if is_split and not adds else [1]
        ways = [replace(chosen, split=s) for s in splits]
        if adds:
            ways += [replace(chosen, split=s, adds=True) for s in _shares(chosen, product, facts)]
        taps = 0 if computed is None else computed.taps
        found += [(_cost(each, product, facts, taps), each) for each in ways]
    found.sort(key=lambda pair: pair[0])
    images = frozenset[Value]()
    if facts.images is not None:
        computing = computed.vector4_values if computed is not None else ()
        images = as_images((*product.vector4_reads, *computing, *vector4_reads(kernel)), facts.images)
    for _, tiling in found:
        yield _source(kernel, product, tiling, asynchronous, computed, images, facts)


def _is_copied(product: GemmView) -> bool:
    """Returns True if the stored values are multiplied unchanged, 16 bytes at a time."""
    is_plain = product.left.type is product.right.type is Scalar.FLOAT32
    return (
        is_plain
        and product.run % 4 == 0
        and product.is_left_by_row
        and not product.is_right_by_column
        and is_multiple(product.right_row, 4)
    )


def _is_wasteful(tiling: Tiling, product: GemmView) -> bool:
    """Returns True if a smaller tile covers the same."""
    return (tiling.rows > 16 and tiling.rows >= 2 * estimate(product.rows)) or (
        tiling.columns > 16 and tiling.columns >= 2 * estimate(product.columns)
    )


def _splits(tiling: Tiling, product: GemmView, facts: DeviceFacts) -> list[int]:
    tiles, steps = product.tiles(tiling) * product.batches, tiling.steps(product)
    if tiles > MAX_TILES:
        return [1]
    return [
        s
        for s in (1, 2, 3, 4, 6, 8, 12, 16)
        if s == 1 or (steps >= 4 * s and tiles * s <= 2 * facts.compute_units)
    ]


def _shares(tiling: Tiling, product: GemmView, facts: DeviceFacts) -> Iterator[int]:
    """Yields the numbers of groups that may split the depth and add to the output.

    Numbers that would leave a group idle are left out.
    """
    steps, tiles = tiling.steps(product), product.tiles(tiling)
    for shares in range(2, min(steps, _MAX_SHARES) + 1):
        is_even = -(-steps // -(-steps // shares)) == shares
        if is_even and 2 * tiles * shares <= 5 * facts.compute_units:
            yield shares


def _cost(tiling: Tiling, product: GemmView, facts: DeviceFacts, taps: int) -> float:
    """Estimates the time in cycles of a compute unit.

    Each left element is computed from `taps` others.
    """
    groups = product.tiles(tiling) * product.batches * tiling.split
    waves = math.ceil(groups / facts.compute_units)
    steps = -(-tiling.steps(product) // tiling.split)
    work = tiling.rows * tiling.columns * tiling.depth
    # Multiplications on 128 lanes, reads of local memory, and the minimum latency of a step.
    arithmetic = work / 64
    memory = (tiling.rows + tiling.columns) * tiling.depth * 4 / 32
    # Two vectors are read per tap, at 128 bytes per cycle and warp.
    memory += taps * tiling.rows * tiling.depth / 16
    latency = 60 + 700 / (tiling.stages - 1)
    shared = 300 if tiling.adds else split_cycles(tiling.rows * tiling.columns, tiling.split)
    overhead = 1500 + shared + 30 * tiling.slices
    busy = max(arithmetic, memory)
    overlapped = min(waves, max(1, 48 * 1024 * 4 // tiling.scratch_bytes), 2048 // tiling.items)
    return math.ceil(waves / overlapped) * (steps * max(busy * overlapped, latency) + overhead)


def _source(
    kernel: Kernel,
    product: GemmView,
    tiling: Tiling,
    asynchronous: bool,
    computed: ComputedLeft | None,
    images: frozenset[Value],
    facts: DeviceFacts,
) -> Source:
    more = () if computed is None else computed.values
    values = kernel_arguments(
        kernel.output, (product.left, product.right, *more), used_values(kernel), images
    )
    has_workspace = tiling.split > 1 and not tiling.adds
    groups = product.tiles(tiling) * product.batches * tiling.split

    def code() -> Code:
        after = epilogue(
            kernel,
            values,
            is_vector=product.has_vectors,
            is_fetched=facts.is_nvidia and not images,
        )
        added = split_k.add4_text(kernel, values, facts) if tiling.adds else ""
        parameters = values.parameters_with_workspace if has_workspace else values.parameters
        return Code(
            _text(
                product, tiling, after, parameters, asynchronous, computed, added, is_shared=facts.is_nvidia
            )
        )

    return Source(
        code=LazyCode(code),
        arguments=values.values,
        images=values.image_positions,
        groups=groups,
        local_size=tiling.items,
        scratch_bytes=tiling.scratch_bytes,
        workspace_bytes=workspace_bytes(
            product, _accumulators(product, tiling), tiles=product.tiles(tiling), split=tiling.split
        )
        if has_workspace
        else 0,
        adds=tiling.adds,
        has_barriers=True,
        label=f"{'' if computed is None else 'depthwise and '}tile {tiling.rows} x {tiling.columns} x "
        f"{tiling.depth}, split by {tiling.split}"
        f" and {tiling.slices}, {tiling.stages} stages{', added' if tiling.adds else ''}",
        operations=kernel.operations
        if computed is None
        else tuple(sorted({*computed.kernel.operations, *kernel.operations})),
    )


def _text(
    product: GemmView,
    tiling: Tiling,
    after: Epilogue,
    head: str,
    asynchronous: bool,
    computed: ComputedLeft | None,
    added: str,
    *,
    is_shared: bool,
) -> str:
    kind = "int" if product.is_integer else "float"
    names = {
        "T": kind,
        "BM": tiling.rows,
        "BN": tiling.columns,
        "KC": tiling.depth,
        "AST": tiling.depth + 4,
        "TM": tiling.item_rows,
        "TJ": tiling.item_columns // 4,
        "ITEMS": tiling.items,
        "KS": tiling.slices,
        "STAGES": tiling.stages,
        "STEP": tiling.rows * (tiling.depth + 4) + tiling.depth * tiling.columns,
        "NA": -(-tiling.rows * tiling.depth // 4 // tiling.items) or 1,
        "NB": -(-tiling.columns * tiling.depth // 4 // tiling.items) or 1,
        "NE": max(1, tiling.rows * tiling.columns // 4 // tiling.items),
        "SHARE": share_text(product, split=tiling.split),
        "BASE": product.right_base if product.batches > 1 else "0",
        "PRODUCTS": " ".join(
            multiply_add(kind, "sums[i][j]", f"({kind}4)(part.s{k})", f"right_part[{k}][j]") for k in range(4)
        ),
    }
    sizes = {
        **(computed.sizes if computed is not None else {}),
        **product.sizes,
        **after.sizes,
        **product.tile_sizes(tiling),
        "split": tiling.split,
        "steps": tiling.steps(product),
        "each": -(-tiling.steps(product) // tiling.split),
    }
    pieces = [
        readers(
            product,
            after.arguments.images,
            None if computed is None else computed.left4(after.arguments),
        ),
        after.text,
        added,
        fill(_TEMPLATES["begin"], **names),
        fill(_TEMPLATES["left_by_row" if product.is_left_by_row else "left_by_column"], **names),
        fill(
            _TEMPLATES["asynchronous" if asynchronous and tiling.stages > 2 else "through_registers"],
            **names,
            COPY_BEGIN=_COPY_TEMPLATES["begin"],
            COPY_NEXT=_COPY_TEMPLATES["next"],
            COPY_END=_COPY_TEMPLATES["end"],
            MULTIPLY_STEP=_TEMPLATES["multiply_step"],
            LEFT_AT=after.arguments[1].call_arguments if computed is None else after.call_arguments,
            RIGHT_AT=after.arguments[2].call_arguments,
            **_right_places(product, names),
            # Constants are requested before the inputs from other kernels are ready.
            AHEAD=int(product.right.constant is not None),
            WAIT=WAIT,
            FETCH=fetch_text(product, after, _accumulators(product, tiling)),
        ),
        fill(_TEMPLATES["slices"], **names, ADD_SLICES=ADD_SLICES) if tiling.slices > 1 else "",
        finish_text(product, after, _accumulators(product, tiling), split=tiling.split, adds=tiling.adds),
    ]
    return resolved("".join(pieces), head, sizes, is_shared=is_shared)


def _accumulators(product: GemmView, tiling: Tiling) -> AccumulatorLayout:
    """Returns the location of a work-item's accumulators at the end."""
    kind = "int" if product.is_integer else "float"
    if tiling.slices > 1:
        return gathered_layout(kind, tiling.rows, tiling.columns, tiling.items)
    across = tiling.item_columns // 4
    return AccumulatorLayout(
        kind=kind,
        count=tiling.item_rows * across,
        items=tiling.items,
        vector=f"sums[e / {across}][e % {across}]",
        row=f"m0 + e / {across} * {tiling.rows // tiling.item_rows} + down",
        column=f"n0 + e % {across} * {tiling.columns // across} + across * 4",
        is_first=f"e < {across}",
    )


def _right_places(product: GemmView, names: dict[str, object]) -> dict[str, str]:
    """Returns the index texts of a work-item's right elements, and their store statement."""
    if product.is_right_by_column:
        kept = "const int n = e / ($KC / 4), k = (e % ($KC / 4)) * 4; " + " ".join(
            f"(buffer)[$BM * $AST + (k + {i}) * $BN + n] = right[i].s{i};" for i in range(4)
        )
        across, along = "e / ($KC / 4)", "(e % ($KC / 4)) * 4"
    else:
        kept = "*(__local ${T}4 *)((buffer) + $BM * $AST + e * 4) = right[i];"
        across, along = "(e % ($BN / 4)) * 4", "e / ($BN / 4)"
    return {
        name: fill(text, **{key: names[key] for key in ("KC", "BN", "BM", "AST", "T")})
        for name, text in (("RIGHT_N", across), ("RIGHT_K", along), ("KEPT", kept))
    }
