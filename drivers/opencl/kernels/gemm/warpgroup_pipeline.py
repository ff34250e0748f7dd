"""Large matrix products by warpgroups with two roles: one copies, the others multiply and store.

A group computes several tiles. Its last warpgroup copies steps of both matrices to local memory, as
in `warpgroup`, and runs ahead into the next tile while the others still store. Counters in local
memory say which steps have arrived and which places are free, so that no warpgroup waits for all
others. Several warpgroups share a tile, or each has a tile of its own ("teams"): then one
multiplies while another one stores.

The warpgroup that copies gives registers to the others. A warp stores whole rows through a part of
local memory of its own, some columns at a time. So it can also add up the moments of these rows,
and what its results need of each row is computed once for the rows of a tile, by a work-item each.
What they need of each column is copied to local memory while steps are multiplied, and elements of
another matrix, which are added for instance, are loaded before the columns before them are stored.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.dialect import memory_type, raw4_type
from neurald.drivers.opencl.codegen.kernel_source import WORKSPACE_ZEROS, Source
from neurald.drivers.opencl.codegen.lazy_code import Code, LazyCode
from neurald.drivers.opencl.codegen.template import fill, kernel_arguments, templates, with_numbers
from neurald.drivers.opencl.kernels.epilogue.epilogue import used_values, value4_function
from neurald.drivers.opencl.kernels.epilogue.epilogue_reads import EpilogueReads, epilogue_reads
from neurald.drivers.opencl.kernels.gemm.accumulate import share_text
from neurald.drivers.opencl.kernels.gemm.correction import corrected
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView, gemm_view
from neurald.drivers.opencl.kernels.gemm.tensor_core import by_column
from neurald.drivers.opencl.kernels.gemm.warpgroup import (
    BLOCK,
    DESCRIPTOR,
    MULTIPLY,
    PART_BYTES,
    STEP_BYTES,
    UNIT_BYTES,
    fits,
    packed_blocks,
    storing,
)
from neurald.drivers.opencl.kernels.gemm.warpgroup_remainders import split, step_lines
from neurald.drivers.opencl.kernels.normalized.row_moments import MOMENT_COLUMNS
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.retargeting import HIDDEN
from neurald.hal.records import replace

_TEMPLATES = templates(__name__, "warpgroup_pipeline.cl")
#: Work-items and warps of a warpgroup, and the rows that an instruction multiplies.
_WARPGROUP, _WARPS, _ROWS = 128, 4, 64
#: Rows that a warp stores at a time.
_SLAB_ROWS = 16
#: Registers of a work-item that copies and of one that multiplies, by the number of warpgroups that
#: multiply. A compute unit has 65,536.
_REGISTERS = {2: (40, 232), 3: (32, 160)}
#: Registers besides accumulators, elements that are loaded ahead, and those that are stored
#: together.
_OTHER_REGISTERS = 40
#: Local memory that a group may have.
_MAX_SCRATCH_BYTES = 226 * 1024
#: How many candidates are worth a trial: the estimate of the first ones is good enough.
MAX_CANDIDATES = 6
#: Numbers of tiles that share a depth, and the least number of steps of each.
_SPLITS, _MIN_STEPS = (1, 2, 3, 4, 6), 4
#: Number of steps from which on a tile is stored in a loop: its code is shorter, so it is built
#: sooner, but takes longer.
_MIN_LOOP_STEPS = 8
#: Templates for values of columns, for elements that are loaded ahead, for results that need
#: numbers of each row, and for moments of rows.
_COLUMN_TEMPLATES = ("copy_columns", "await_columns")
_AHEAD_TEMPLATES = ("begin_ahead", "load_ahead")
_ROW_TEMPLATES = ("numbers_of_row", "compute_numbers", "numbers")
_MOMENT_TEMPLATES = ("summed", "begin_moments", "add_moments", "store_moments")


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineTiling:
    """Tiling of a product.

    Attributes:
        columns: the columns of a tile.
        blocks: the number of times that a warpgroup has 64 rows.
        sharing: the number of warpgroups that share a tile.
        teams: the number of tiles that a group has under way.
        stages: the number of steps in local memory.
        slab: the number of columns that a warp stores at a time.
        split: the number of tiles that share the depth of one; they may belong to different groups.
        parts: 2 if FLOAT32 are split into sums of two TF32, or 1.
    """

    columns: int
    blocks: int = 1
    sharing: int = 1
    teams: int = 1
    stages: int
    slab: int = 32
    split: int = 1
    parts: int = 1

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return _ROWS * self.blocks * self.sharing

    @property
    def multiplying(self) -> int:
        """Work-items that multiply."""
        return self.sharing * self.teams * _WARPGROUP

    @property
    def step_bytes(self) -> int:
        """Bytes of a step of both matrices."""
        return (self.rows + self.parts * self.columns) * STEP_BYTES

    @property
    def slab_pitch(self) -> int:
        """Accumulators between stored rows, such that rows begin at different banks."""
        return self.slab + 8

    @property
    def slabs_at(self) -> int:
        """Bytes of the steps, and of the counters behind them."""
        return self.step_bytes * self.stages + (self.stages + self.teams) * 16

    @property
    def scratch_bytes(self) -> int:
        """Bytes of local memory; the warps' parts for storing come last."""
        return self.slabs_at + self.multiplying // 32 * _SLAB_ROWS * self.slab_pitch * 4

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of a work-item that copies, and of one that multiplies."""
        return _REGISTERS[self.sharing * self.teams]

    def has_registers(self, number: int) -> bool:
        """Returns True if a work-item has registers left for this many numbers while it stores."""
        accumulators = self.blocks * self.columns // 2 * (1 if self.parts == 1 else 3)
        return accumulators + number + _OTHER_REGISTERS <= self.registers[1]

    @property
    def unrolled(self) -> int:
        """Vectors of four that a work-item computes before it stores them."""
        return self.slab // 8 if self.has_registers(self.slab // 2) else 1

    def can_load_ahead(self, kind: Scalar) -> bool:
        """Returns True if registers are left for elements of a type that are loaded ahead."""
        return self.has_registers(self.slab // 2 + self.slab // 8 * kind.size_bytes)


_TILINGS = (
    PipelineTiling(columns=192, sharing=3, stages=4),
    PipelineTiling(columns=192, blocks=2, sharing=2, stages=3),
    PipelineTiling(columns=256, sharing=2, stages=4),
    PipelineTiling(columns=192, sharing=2, stages=5),
    PipelineTiling(columns=128, blocks=2, sharing=2, stages=4),
    PipelineTiling(columns=192, teams=2, stages=6),
    PipelineTiling(columns=256, teams=2, stages=5),
    PipelineTiling(columns=192, blocks=2, teams=2, stages=5),
    PipelineTiling(columns=128, blocks=2, teams=2, stages=6),
    PipelineTiling(columns=128, blocks=2, teams=2, stages=5, slab=64),
    PipelineTiling(columns=128, teams=2, stages=8),
)
#: Each accumulator takes three registers there.
_SPLIT_TILINGS = (
    PipelineTiling(columns=128, sharing=2, stages=4, parts=2),
    PipelineTiling(columns=64, sharing=3, stages=4, slab=32, parts=2),
    PipelineTiling(columns=64, sharing=2, stages=6, parts=2),
)


def product_of_rows(kernel: Kernel, facts: DeviceFacts) -> GemmView | None:
    """Returns a product for which there are candidates, also with moments of its rows; else None.

    Such are products of FLOAT16 whose results are computed four at a time.
    """
    product = gemm_view(kernel)
    if product is None or product.left.type is not Scalar.FLOAT16 or not fits(product, facts):
        return None
    is_constant = product.right.type is Scalar.FLOAT16 and product.right.constant is not None
    if not is_constant or product.is_windowed or kernel.output_offset is not None or kernel.limit is not None:
        return None
    return product if _computes_vectors(kernel, product) else None


def _computes_vectors(kernel: Kernel, product: GemmView) -> bool:
    """Returns True if results are computed four at a time."""
    values = KernelArguments((kernel.output, *used_values(kernel)))
    return product.has_vectors and value4_function(kernel, values) is not None


def candidates(
    kernel: Kernel,
    product: GemmView,
    facts: DeviceFacts,
    *,
    relaxed: bool,
    has_workspace: bool = False,
    moments: Value | None = None,
) -> Iterator[Source]:
    """Yields every tiling, the best first; those that split the depth need a workspace.

    There are none where `warpgroup` has none, for windows of images, and unless the right matrix is
    a constant, which is packed in blocks.

    Args:
        kernel, product: what is computed.
        facts: the device.
        relaxed: whether FLOAT32 factors may be rounded.
        has_workspace: whether the caller provides the workspace that a source requests.
        moments: the moments of the output, which are computed as well; only of a `product_of_rows`.
    """
    right = by_column(product) if fits(product, facts) else None
    if right is None or right.constant is None or product.is_windowed:
        return
    is_exact = product.left.type is Scalar.FLOAT32 and not relaxed
    if product.left_zero:
        kernel = corrected(kernel, product, right)
    splits = _SPLITS if has_workspace else (1,)
    tilings = [
        replace(each, split=number)
        for each in (_SPLIT_TILINGS if is_exact else _TILINGS)
        for number in splits
    ]
    reads = _early_reads(kernel, product)
    fitting = [each for each in tilings if each.split == 1 or _is_worth(each, product, facts)]
    for tiling in sorted(fitting, key=lambda each: _cost(each, product, facts)):
        yield _source(kernel, product, right, tiling, facts, moments, reads)


def _early_reads(kernel: Kernel, product: GemmView) -> EpilogueReads:
    """Returns the values that a warp can copy or load before results need them.

    There are none unless results are computed four at a time.
    """
    if not _computes_vectors(kernel, product):
        return EpilogueReads()
    reads = epilogue_reads(kernel, product.rows)
    columns = {
        value: is_of_batch
        for value, is_of_batch in reads.columns.items()
        if value is not product.left
        # Chunks of 16 bytes are copied.
        and (kernel.shape[-1] if is_of_batch else product.column_step) * value.type.size_bytes % 16 == 0
    }
    return EpilogueReads(columns=columns, element=reads.element)


def _steps(product: GemmView) -> int:
    return math.ceil(product.depth * product.left.type.size_bytes / STEP_BYTES)


def _is_worth(tiling: PipelineTiling, product: GemmView, facts: DeviceFacts) -> bool:
    """Returns True if a split of the depth is possible, and keeps more compute units busy."""
    steps, tiles = _steps(product), product.tiles(tiling) * product.batches
    return (
        steps % tiling.split == 0
        and steps >= _MIN_STEPS * tiling.split
        and tiles <= facts.compute_units
        and tiles * tiling.split <= 2 * facts.compute_units
        and tiles * tiling.sharing * _WARPS <= WORKSPACE_ZEROS // 4
    )


def _cost(tiling: PipelineTiling, product: GemmView, facts: DeviceFacts) -> float:
    each = math.ceil(product.tiles(tiling) * product.batches * tiling.split / facts.compute_units)
    steps = _steps(product) // tiling.split
    elements = tiling.rows * tiling.columns
    products = 1 if tiling.parts == 1 else 3
    multiplying = steps * max(products * elements * STEP_BYTES / 4096, tiling.step_bytes / UNIT_BYTES)
    storing = 1500 + elements / 12
    if tiling.split > 1:
        # Accumulators go through memory.
        storing += elements * 4 * (1 + tiling.split) / UNIT_BYTES
    begin = 1500
    if tiling.teams > 1 and each > 1:
        return begin + max(each * multiplying, each / tiling.teams * (multiplying + storing)) + storing
    return begin + each * (multiplying + storing)


def _source(
    kernel: Kernel,
    product: GemmView,
    right: Value,
    tiling: PipelineTiling,
    facts: DeviceFacts,
    moments: Value | None,
    reads: EpilogueReads,
) -> Source:
    has_remainders = tiling.parts > 1
    operands = [product.left, packed_blocks(split(right) if has_remainders else right)]
    values = kernel_arguments(kernel.output, operands, used_values(kernel))
    if moments is not None:
        values = KernelArguments((*values.values, moments), written=frozenset((moments,)))
    size = product.left.type.size_bytes
    blocks, steps = math.ceil(product.columns / BLOCK), _steps(product) // tiling.split
    block_pitch = _steps(product) * BLOCK * STEP_BYTES // size
    tiles, is_split = product.tiles(tiling), tiling.split > 1
    items = tiles * product.batches * tiling.split
    groups = min(items, facts.compute_units)
    columns, column_bytes = _copied_columns(tiling, reads)
    ahead = reads.element
    if ahead is not None and not tiling.can_load_ahead(ahead.type):
        ahead = None
    also_written = () if moments is None else (len(values.values) - 1,)
    way = f"{tiling.teams} tiles under way" if tiling.teams > 1 else f"{tiling.sharing} warpgroups"
    if is_split:
        way += f", split by {tiling.split}"

    def code() -> Code:
        inner = replace(values, near=frozenset(columns))
        stored = storing(kernel, product, inner, _TEMPLATES, "found[i - some]", ahead)
        fewer, more = tiling.registers
        position = {value: place for place, value in enumerate(values.values)}
        names: dict[str, object] = {
            "T": "int" if product.is_integer else "float",
            "BM": tiling.rows,
            "BN": tiling.columns,
            "BYTES": STEP_BYTES,
            "STEP": tiling.step_bytes,
            "STAGES": tiling.stages,
            "SIZE": size,
            "NA": tiling.rows * STEP_BYTES // 16 // _WARPGROUP,
            "COUNT": tiling.columns // 2,
            "BLOCKS": tiling.blocks,
            "SHARING": tiling.sharing,
            "TEAMS": tiling.teams,
            "MULTIPLYING": tiling.multiplying,
            "BLOCK_BYTES": BLOCK * STEP_BYTES,
            "SLAB": tiling.slab,
            "SLAB_PITCH": tiling.slab_pitch,
            "SLABS_AT": tiling.slabs_at,
            "UNROLLED": tiling.unrolled,
            "LEFT": memory_type(product.left.type),
            "RIGHT": memory_type(right.type),
            "BASE": "0" if right.shape[0] == 1 else f"batch * {tiling.parts * blocks * block_pitch}",
            "PARTS": tiling.parts,
            "SHARE": share_text(product, split=tiling.split, number="number"),
            "SPLIT": tiling.split,
            "ZEROS": WORKSPACE_ZEROS,
            **_split_names(is_split=is_split),
            "FEWER": f"{HIDDEN} setmaxnreg.dec.sync.aligned.u32 {fewer};",
            "MORE": f"{HIDDEN} setmaxnreg.inc.sync.aligned.u32 {more};",
            "INSTRUCTIONS": _strings(
                step_lines(columns=tiling.columns, right_bytes=tiling.columns * STEP_BYTES)
                if has_remainders
                else _instructions(product, tiling, steps)
            ),
            "OPERANDS": _operands(product, tiling),
            "RUNNING": _TEMPLATES["running_remainders" if has_remainders else "running"],
            "RUN": _TEMPLATES["run_remainders" if has_remainders else "run"],
            "STORING": _storing(tiling, is_loop=steps >= _MIN_LOOP_STEPS),
            "FETCH_NUMBERS": "".join(
                fill(_TEMPLATES["fetch_number"], PART=part) for part in "xyzw"[: stored.row_numbers]
            ),
            "COLUMNS_AT": tiling.scratch_bytes,
            "COLUMNS_BYTES": column_bytes,
            **_column_names(
                columns,
                position,
                {
                    value: kernel.shape[-1] if reads.columns[value] else product.column_step
                    for value in columns
                },
            ),
            **_ahead_names(ahead, position),
            **{name.upper(): _TEMPLATES[name] if stored.row_numbers else "" for name in _ROW_TEMPLATES},
            **{name.upper(): "" if moments is None else _TEMPLATES[name] for name in _MOMENT_TEMPLATES},
            "MOMENTS": "".join(f"a{each}" for each in also_written),
            "MOMENT_COLUMNS": MOMENT_COLUMNS,
            **stored.names,
        }
        sizes = {
            **product.sizes,
            **stored.sizes,
            "column_blocks": blocks,
            "block_pitch": block_pitch,
            **product.tile_sizes(tiling),
            "split": tiling.split,
            "all_tiles": items,
            "groups": groups,
            "steps": steps,
        }
        whole = product.text + stored.text + fill(_TEMPLATES["function"], **names)
        head = values.parameters_with_workspace if is_split else values.parameters
        return with_numbers(whole, head, sizes, stored.numbers)

    return Source(
        code=LazyCode(code),
        arguments=values.values,
        groups=groups,
        local_size=tiling.multiplying + _WARPGROUP,
        scratch_bytes=tiling.scratch_bytes + 2 * tiling.teams * column_bytes,
        workspace_bytes=WORKSPACE_ZEROS + items * tiling.rows * tiling.columns * 4 if is_split else 0,
        has_barriers=True,
        is_retargeted=True,
        also_written=also_written,
        label=f"warpgroups, pipeline, {'3xTF32, ' if has_remainders else ''}tile {tiling.rows} x {tiling.columns}, {tiling.stages} stages, {way}",
        operations=kernel.operations,
    )


def _copied_columns(tiling: PipelineTiling, reads: EpilogueReads) -> tuple[Mapping[Value, int], int]:
    """Returns where values of columns lie, as far as local memory is left for them, and their size.

    Places are bytes from the first of them. Each team has two of all: warps may still read those of
    one tile while others have begun to copy those of the next.
    """
    places: dict[Value, int] = {}
    size = 0
    for value in reads.columns:
        more = tiling.columns * value.type.size_bytes
        if tiling.scratch_bytes + 2 * tiling.teams * (size + more) <= _MAX_SCRATCH_BYTES:
            places[value] = size
            size += more
    return places, size


def _split_names(*, is_split: bool) -> dict[str, str]:
    """Returns what placeholders of the sums of all shares stand for."""
    return {
        "FOUR": _TEMPLATES["all_shares" if is_split else "own"],
        "HAND_ON": _TEMPLATES["hand_on"] if is_split else "",
        "TOTAL": _TEMPLATES["total"] if is_split else "",
    }


def _column_names(
    columns: Mapping[Value, int], position: Mapping[Value, int], steps: Mapping[Value, int]
) -> dict[str, str]:
    """Returns what placeholders of values of columns in local memory stand for.

    Args:
        columns: where they lie, see `_copied_columns`.
        position: the positions of arguments.
        steps: the offsets of the values between consecutive batches.
    """
    copies = (
        _TEMPLATES["copy_column"]
        .replace("$POSITION", f"{position[value]}")
        .replace("$TYPE", memory_type(value.type))
        .replace("$EACH", f"{value.type.size_bytes}")
        .replace("$OFFSET", f"{offset}")
        .replace("$FIRST", f"batch * {steps[value]}")
        for value, offset in columns.items()
    )
    used = {name.upper(): _TEMPLATES[name] if columns else "" for name in _COLUMN_TEMPLATES}
    return {"COPY_EACH": "".join(copies), **used}


def _ahead_names(ahead: Value | None, position: Mapping[Value, int]) -> dict[str, str]:
    """Returns what placeholders of elements that are loaded ahead stand for.

    Args:
        ahead: the value that they belong to; None if none are.
        position: the positions of arguments.
    """
    used = {name.upper(): "" if ahead is None else _TEMPLATES[name] for name in _AHEAD_TEMPLATES}
    if ahead is None:
        return {"AHEAD": "", "AHEAD_TYPE": "", "GIVEN": "", **used}
    return {
        "AHEAD": f"a{position[ahead]}",
        "AHEAD_TYPE": raw4_type(ahead.type),
        "GIVEN": "ahead[i], ",
        **used,
    }


def _storing(tiling: PipelineTiling, *, is_loop: bool) -> str:
    """Returns the statements that store all parts of a tile.

    Compilers do not unroll a loop of this size, so each part has statements where there is none.
    """
    across = tiling.columns // tiling.slab
    parts = [
        {
            "PART": part,
            "BLOCK": part // across,
            "FIRST": part % across * tiling.slab // 2,
            "BEHIND": part % across * tiling.slab,
        }
        for part in range(tiling.blocks * across)
    ]
    if not is_loop:
        return "".join(fill(_TEMPLATES["storing_part"], **part) for part in parts)
    keeping = "".join(fill(_TEMPLATES["keeping_part"], **part) for part in parts)
    return fill(
        _TEMPLATES["storing_loop"], SLABS=len(parts), KEEPING=keeping, SLAB=tiling.slab, BN=tiling.columns
    )


def _strings(lines: list[str]) -> str:
    """Returns lines of PTX as strings of C."""
    return "\n               ".join(f'"{line}\\n"' for line in lines)


def _instructions(product: GemmView, tiling: PipelineTiling, steps: int) -> list[str]:
    """Returns the instructions that multiply all steps of a tile.

    The operands are, in this order:

    - the accumulators, which these instructions clear;
    - the addresses of the counters of steps that have arrived, and of places that are free;
    - the addresses of the rows of this warpgroup and of the right matrix in the first place;
    - the number and the phase of the first place of this tile;
    - the number of this work-item in its warp, whose first one reports for all that a place is
      free;
    - the address of the counter of the next team's turns.
    """
    kind, rest = MULTIPLY[product.left.type]
    count = tiling.columns // 2
    sums = tiling.blocks * count
    full, empty, left, right, first_stage, first_phase, lane, next_turn = (f"%{sums + i}" for i in range(8))
    lines = [
        "{",
        ".reg .pred p, says;",
        ".reg .b32 step, stage, phase, at, counter, before, address;",
        ".reg .b64 left, right, first_left, first_right;",
        "bar.warp.sync 0xffffffff;",
        f"setp.eq.u32 says, {lane}, 0;",
        "mov.b32 step, 0;",
        f"mov.b32 stage, {first_stage};",
        f"mov.b32 phase, {first_phase};",
        f"mov.b32 before, {empty};",
        "NEXT_STEP:",
        "shl.b32 counter, stage, 3;",
        f"add.u32 at, counter, {full};",
        "AWAIT:",
        "mbarrier.try_wait.parity.shared.b64 p, [at], phase;",
        "@!p bra AWAIT;",
        "fence.proxy.async.shared::cta;",
        f"mul.lo.u32 at, stage, {tiling.step_bytes};",
        *_description("first_left", left),
        *_description("first_right", right),
        f"{HIDDEN} wgmma.fence.sync.aligned;",
    ]
    for block in range(tiling.blocks):
        names = ", ".join(f"%{block * count + number}" for number in range(count))
        # The first instruction replaces the accumulators.
        lines.append("setp.ne.u32 p, step, 0;")
        for part in range(STEP_BYTES // PART_BYTES):
            # Addresses in a description count 16 bytes.
            at = part * PART_BYTES // 16
            lines += [
                f"add.u64 left, first_left, {at + block * _ROWS * STEP_BYTES // 16};",
                f"add.u64 right, first_right, {at};",
                f"{HIDDEN} wgmma.mma_async.sync.aligned.m64n{tiling.columns}{kind} {{{names}}}, left, right, {rest};",
            ]
            if part == 0:
                lines.append("setp.eq.u32 p, 0, 0;")
    lines += [
        f"{HIDDEN} wgmma.commit_group.sync.aligned;",
        # The step before this one is multiplied now.
        f"{HIDDEN} wgmma.wait_group.sync.aligned 1;",
        "setp.ne.and.u32 p, step, 0, says;",
        "@p mbarrier.arrive.shared.b64 _, [before];",
        f"add.u32 before, counter, {empty};",
        "add.u32 step, step, 1;",
        "add.u32 stage, stage, 1;",
        f"setp.eq.u32 p, stage, {tiling.stages};",
        "@p mov.b32 stage, 0;",
        "@p xor.b32 phase, phase, 1;",
        f"setp.lt.u32 p, step, {steps};",
        "@p bra NEXT_STEP;",
        *([f"@says mbarrier.arrive.shared.b64 _, [{next_turn}];"] if tiling.teams > 1 else []),
        f"{HIDDEN} wgmma.wait_group.sync.aligned 0;",
        "@says mbarrier.arrive.shared.b64 _, [before];",
        "}",
    ]
    return lines


def _description(name: str, address: str) -> list[str]:
    """Returns the instructions that describe a matrix at an address behind that of the step."""
    return [
        f"add.u32 address, at, {address};",
        "and.b32 address, address, 0x3ffff;",
        "shr.u32 address, address, 4;",
        f"cvt.u64.u32 {name}, address;",
        f"or.b64 {name}, {name}, {DESCRIPTOR:#x};",
    ]


def _operands(product: GemmView, tiling: PipelineTiling) -> str:
    hold, numbers = "r" if product.is_integer else "f", range(tiling.columns // 2)
    if tiling.parts > 1:
        return ", ".join(
            [f'"=&f"(sums[{number}])' for number in numbers]
            + [f'"+f"(rests[{number}])' for number in numbers]
        )
    return ", ".join(
        f'"=&{hold}"(sums[{block}][{number}])' for block in range(tiling.blocks) for number in numbers
    )
