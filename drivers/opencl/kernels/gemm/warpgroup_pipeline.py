"""Large matrix products by warpgroups with separate roles: one copies, the others multiply and store.

A group computes several tiles. Its last warpgroup copies steps of both matrices to local memory, as
in `warpgroup`, and runs ahead into the next tile while the others still store. Counters in local
memory say which steps have arrived and which places are free, so that no warpgroup waits for all
others. Several warpgroups share a tile, or each has a tile of its own ("teams"): then one
multiplies while another one stores.

The warpgroup that copies gives registers to the others. A warp stores whole rows through a part of
local memory of its own, some columns at a time.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.dialect import memory_type
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.template import fill, kernel_arguments, resolved, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import used_values
from neurald.drivers.opencl.kernels.gemm.accumulate import share_text
from neurald.drivers.opencl.kernels.gemm.correction import corrected
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView
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
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.retargeting import HIDDEN

_TEMPLATES = templates(__name__, "warpgroup_pipeline.cl")
#: Work-items of a warpgroup, and the rows that an instruction multiplies.
_WARPGROUP, _ROWS = 128, 64
#: Rows that a warp stores at a time.
_SLAB_ROWS = 16
#: Registers of a work-item that copies and of one that multiplies, by the number of warpgroups that
#: multiply. A compute unit has 65,536.
_REGISTERS = {2: (40, 232), 3: (32, 160)}


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineTiling:
    """Tiling of a product.

    Attributes:
        columns: of a tile.
        blocks: the number of times that a warpgroup has 64 rows.
        sharing: the number of warpgroups that share a tile.
        teams: the number of tiles that a group has under way.
        stages: the number of steps in local memory.
        slab: the number of columns that a warp stores at a time.
    """

    columns: int
    blocks: int = 1
    sharing: int = 1
    teams: int = 1
    stages: int
    slab: int = 32

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
        return (self.rows + self.columns) * STEP_BYTES

    @property
    def slab_pitch(self) -> int:
        """Accumulators between stored rows, such that rows begin at different banks."""
        return self.slab + 8

    @property
    def slabs_at(self) -> int:
        """Bytes of the steps, and of the counters behind them."""
        return self.step_bytes * self.stages + math.ceil((2 * self.stages + self.teams) / 2) * 16

    @property
    def scratch_bytes(self) -> int:
        """Bytes of local memory; the warps' parts for storing come last."""
        return self.slabs_at + self.multiplying // 32 * _SLAB_ROWS * self.slab_pitch * 4

    def tiles(self, product: GemmView) -> int:
        """Returns the number of tiles of a batch."""
        return math.ceil(product.rows / self.rows) * math.ceil(product.columns / self.columns)


_TILINGS = (
    PipelineTiling(columns=192, sharing=3, stages=4),
    PipelineTiling(columns=256, sharing=2, stages=4),
    PipelineTiling(columns=128, blocks=2, sharing=2, stages=4),
    PipelineTiling(columns=192, teams=2, stages=6),
    PipelineTiling(columns=256, teams=2, stages=5),
    PipelineTiling(columns=128, blocks=2, teams=2, stages=6),
    PipelineTiling(columns=128, blocks=2, teams=2, stages=5, slab=64),
    PipelineTiling(columns=128, teams=2, stages=8),
)


def candidates(kernel: Kernel, product: GemmView, facts: DeviceFacts, *, relaxed: bool) -> Iterator[Source]:
    """Yields every tiling, the best first.

    There are none where `warpgroup` has none, for windows of images, and unless the right matrix is
    a constant, which is packed in blocks.
    """
    right = by_column(product) if fits(product, facts, relaxed=relaxed) else None
    if right is None or right.constant is None or product.is_windowed:
        return
    if product.left_zero:
        kernel = corrected(kernel, product, right)
    for tiling in sorted(_TILINGS, key=lambda each: _cost(each, product, facts)):
        yield _source(kernel, product, right, tiling, facts)


def _cost(tiling: PipelineTiling, product: GemmView, facts: DeviceFacts) -> float:
    each = math.ceil(tiling.tiles(product) * product.batches / facts.compute_units)
    steps = math.ceil(product.depth * product.left.type.size_bytes / STEP_BYTES)
    elements = tiling.rows * tiling.columns
    multiplying = steps * max(elements * STEP_BYTES / 4096, tiling.step_bytes / UNIT_BYTES)
    # Rows are stored 32 bytes at a time, which takes long.
    storing = 500 + elements
    begin = 1500
    if tiling.teams > 1 and each > 1:
        return begin + max(each * multiplying, each / tiling.teams * (multiplying + storing)) + storing
    return begin + each * (multiplying + storing)


def _source(
    kernel: Kernel, product: GemmView, right: Value, tiling: PipelineTiling, facts: DeviceFacts
) -> Source:
    operands = [product.left, packed_blocks(right)]
    values = kernel_arguments(kernel.output, operands, used_values(kernel))
    size = product.left.type.size_bytes
    blocks, steps = math.ceil(product.columns / BLOCK), math.ceil(product.depth * size / STEP_BYTES)
    block_pitch = steps * BLOCK * STEP_BYTES // size
    tiles = tiling.tiles(product)
    groups = min(tiles * product.batches, facts.compute_units)
    after, stored, sizes_of_epilogue = storing(kernel, product, values, _TEMPLATES, "found[i]")
    fewer, more = _REGISTERS[tiling.sharing * tiling.teams]
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
        "LEFT": memory_type(product.left.type),
        "RIGHT": memory_type(right.type),
        "BASE": "0" if right.shape[0] == 1 else f"batch * {blocks * block_pitch}",
        "SHARE": share_text(product, split=1, number="number"),
        "FEWER": f"{HIDDEN} setmaxnreg.dec.sync.aligned.u32 {fewer};",
        "MORE": f"{HIDDEN} setmaxnreg.inc.sync.aligned.u32 {more};",
        "INSTRUCTIONS": _instructions(product, tiling, steps),
        "OPERANDS": _operands(product, tiling),
        "STORING": _statements(tiling),
        **stored,
    }
    sizes = {
        **product.sizes,
        **sizes_of_epilogue,
        "column_blocks": blocks,
        "block_pitch": block_pitch,
        "tiles": tiles,
        "all_tiles": tiles * product.batches,
        "groups": groups,
        "across": math.ceil(product.columns / tiling.columns),
        "steps": steps,
    }
    text = product.text + after + fill(_TEMPLATES["function"], **names)
    way = f"{tiling.teams} tiles under way" if tiling.teams > 1 else f"{tiling.sharing} warpgroups"
    return Source(
        text=resolved(text, values.parameters, sizes, is_shared=False),
        arguments=values.values,
        groups=groups,
        local_size=tiling.multiplying + _WARPGROUP,
        scratch_bytes=tiling.scratch_bytes,
        has_barriers=True,
        is_retargeted=True,
        label=f"warpgroups, pipeline, tile {tiling.rows} x {tiling.columns}, {tiling.stages} stages, {way}",
        operations=kernel.operations,
    )


def _statements(tiling: PipelineTiling) -> str:
    """Returns the calls of a macro that stores a tile. Compilers do not unroll a loop of this size."""
    return "\n".join(
        f"      NEURALD_PART({block}, {first // 2}, {first})"
        for block in range(tiling.blocks)
        for first in range(0, tiling.columns, tiling.slab)
    )


def _instructions(product: GemmView, tiling: PipelineTiling, steps: int) -> str:
    """Returns C strings with the instructions that multiply all steps of a tile.

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
    return "\n               ".join(f'"{line}\\n"' for line in lines)


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
    hold = "r" if product.is_integer else "f"
    return ", ".join(
        f'"=&{hold}"(sums[{block}][{number}])'
        for block in range(tiling.blocks)
        for number in range(tiling.columns // 2)
    )
