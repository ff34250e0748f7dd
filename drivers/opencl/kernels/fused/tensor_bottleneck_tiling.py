"""Tiling of fused blocks on tensor cores: work-groups, warps, and the layout of local memory."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.kernels.fused.block import Block
from neurald.drivers.opencl.kernels.fused.patch import Patch, parts_of, patches
from neurald.drivers.opencl.kernels.fused.tensor_bottleneck_operands import PackedOperands
from neurald.drivers.opencl.kernels.gemm.accumulate import MAX_TILES, split_cycles
from neurald.drivers.opencl.kernels.gemm.tensor_core import PART_BYTES
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

#: Work-items of a group.
ITEMS = 256
_WARPS = ITEMS // 32
#: Columns whose weights are adjacent, and that a warp multiplies at a time.
COLUMNS = 16
#: Limit on a group's local memory.
_MAX_LOCAL_BYTES = 48 * 1024
#: Registers of a work-item for weights and accumulators; as many remain for other uses.
_MAX_REGISTERS = 128
#: Maximum number of output positions of a group, and of groups that split the wide channels.
_MAX_ROWS, _MAX_SHARES = 128, 16
_POWERS = (1, 2, 4, 8)
#: How many divisions among warps are kept.
_KEPT = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class WarpLayout:
    """Division of a matrix product among the warps of a group.

    Attributes:
        across, down: warps along the columns and the rows.
        slices: warps that split the depth.
    """

    across: int
    down: int
    slices: int = 1


@dataclass(frozen=True, kw_only=True)
class FusedBlockTiling:
    """Tiling of a block.

    A group computes a patch of an image for some of the columns, from a share of the wide channels.

    Attributes:
        shares: the number of groups that share the wide channels.
        column_blocks: the number of blocks of 16 columns.
    """

    block: Block
    operands: PackedOperands
    patch: Patch
    column_blocks: int
    shares: int

    @property
    def size(self) -> int:
        """Size of an element in bytes."""
        return self.block.convolution.input.type.size_bytes

    @property
    def is_split(self) -> bool:
        """True if elements are represented as sums of two that tensor cores multiply."""
        return self.size == 4

    @property
    def adds(self) -> bool:
        """True if groups add their shares to the output."""
        return self.shares > 1 and self.operands.adds

    @property
    def depth_step(self) -> int:
        """Elements along the depth that are multiplied at a time."""
        return PART_BYTES // self.size

    @cached_property
    def channels(self) -> int:
        """Wide channels of a group, rounded up; the last ones may not exist."""
        return _channel_parts(self.block) // self.shares * _unit(self.block)

    @property
    def column_groups(self) -> int:
        """Number of groups that divide the columns of a position."""
        return steps_of(steps_of(self.block.narrow.columns, COLUMNS), self.column_blocks)

    @cached_property
    def tiles(self) -> int:
        """Number of groups with the same wide channels."""
        return self.patch.count * self.column_groups

    @property
    def wide_steps(self) -> int:
        """Steps of the depth of the expansion; 0 if there is none."""
        return 0 if self.block.wide is None else steps_of(self.block.wide.depth, self.depth_step)

    @property
    def narrow_steps(self) -> int:
        """Steps of the depth of a group's projection."""
        return self.channels // self.depth_step

    @cached_property
    def wide_warps(self) -> WarpLayout:
        """Division of the wide channels among warps."""
        return _wide_warps(self.patch.positions, self.channels, self.wide_steps, self.is_split)

    def wide_turns(self, warps: WarpLayout) -> int:
        """Returns how often each warp multiplies 16 rows by 16 columns in the expansion."""
        return _wide_turns(warps, self.patch.positions, self.channels)

    def wide_registers(self, warps: WarpLayout) -> int:
        """Returns the number of registers for weights of the expansion."""
        return _wide_registers(warps, self.channels, self.wide_steps, self.is_split)

    @cached_property
    def narrow_warps(self) -> WarpLayout:
        """Division of the projection among warps."""
        return _narrow_warps(self.patch.rows, self.column_blocks, self.narrow_steps, self.is_split)

    def narrow_cycles(self, warps: WarpLayout) -> int:
        """Estimates the cycles of multiplying, and of adding up over slices."""
        return _narrow_cycles(warps, self.patch.rows, self.column_blocks, self.narrow_steps)

    def narrow_registers(self, warps: WarpLayout) -> int:
        """Returns the number of registers for weights and accumulators of the projection."""
        return _narrow_registers(warps, self.patch.rows, self.column_blocks, self.narrow_steps, self.is_split)

    @property
    def registers(self) -> int:
        """Number of registers for all weights, and the final accumulators."""
        return self.wide_registers(self.wide_warps) + self.narrow_registers(self.narrow_warps)

    @property
    def depth_bytes(self) -> int:
        """Bytes of an input position of the expansion; 0 if there is none."""
        return 0 if self.block.wide is None else self.block.wide.depth * self.size

    @property
    def copied_bytes(self) -> int:
        """Bytes of the input that are copied at a time."""
        all_channels = self.block.convolution.input.shape[3] * self.size
        return math.gcd(16, self.depth_bytes or math.gcd(all_channels, self.channels * self.size))

    @property
    def copies(self) -> set[int]:
        """Sizes in bytes for which copy functions are needed."""
        constants = (4 * value.type.size_bytes for value in self.constants)
        return {self.copied_bytes, self.tap_row_bytes, *constants}

    @property
    def input_pitch(self) -> int:
        """Bytes of an input position in local memory, padded against bank conflicts."""
        return self.wide_steps * PART_BYTES + 16

    @property
    def wide_pitch(self) -> int:
        """Bytes of a position of the wide channels, and of the depthwise output."""
        return self.channels * self.size + 16

    @property
    def tap_row_bytes(self) -> int:
        """Bytes of a tap row: consecutive weights of a window for four channels."""
        return 8 if self.size == 2 else 16

    @property
    def tap_rows(self) -> int:
        """Number of tap rows."""
        depth = self.block.convolution.depth
        return steps_of(depth, 4) + 1 if self.size == 1 else depth

    @property
    def input_offset(self) -> int:
        """Offset of the input in local memory: behind the wide channels."""
        return self.patch.positions * self.wide_pitch

    @property
    def middle_offset(self) -> int:
        """Offset of the depthwise output.

        It replaces the input, but lies behind the accumulators of the slices.
        """
        slices = self.narrow_warps.slices
        sums = (
            slices * steps_of(self.patch.rows, 16) * 16 * self.column_blocks * COLUMNS * 4
            if slices > 1
            else 0
        )
        return max(self.input_offset, sums)

    @property
    def taps_offset(self) -> int:
        """Offset of the depthwise weights."""
        near = steps_of(self.patch.positions, 16) * 16 * self.input_pitch if self.wide_steps else 0
        middle = steps_of(self.patch.rows, 16) * 16 * self.wide_pitch
        return max(self.input_offset + near, self.middle_offset + middle)

    @property
    def constants(self) -> dict[Value, int]:
        """Constants that epilogues read from local memory, with their lengths in a group."""
        return {
            **dict.fromkeys(self.operands.of_channels, self.channels),
            **dict.fromkeys(self.operands.of_columns, self.column_blocks * COLUMNS),
        }

    @property
    def constants_offset(self) -> int:
        """Offset of these constants."""
        return self.taps_offset + self.tap_rows * self.channels // 4 * self.tap_row_bytes

    @property
    def scratch_bytes(self) -> int:
        """Total local memory in bytes."""
        return self.constants_offset + sum(
            count * value.type.size_bytes for value, count in self.constants.items()
        )

    def cost(self, facts: DeviceFacts) -> float:
        """Estimates the time in cycles of a compute unit."""
        waves = math.ceil(self.tiles * self.shares / facts.compute_units)
        step = 100 if self.is_split else 50
        wide = self.wide_turns(self.wide_warps) * (400 + self.wide_steps * step) if self.wide_steps else 0
        taps = self.block.convolution.depth
        depthwise = math.ceil(self.patch.rows * self.channels / 4 / ITEMS) * (150 + taps * 40)
        depth = self.channels if self.block.wide is None else self.block.wide.depth
        read = self.patch.positions * depth * self.size / 32
        rows = steps_of(self.patch.rows, 16) * 16
        split = 0.0
        if self.adds:
            split = 500
        elif self.shares > 1:
            split = 1500 + split_cycles(rows * self.column_blocks * COLUMNS, self.shares)
        return waves * (2500 + wide + depthwise + self.narrow_cycles(self.narrow_warps) + read + split)


# Many tilings divide the same numbers among warps, so that these are kept.


@lru_cache(_KEPT)
def _wide_warps(positions: int, channels: int, steps: int, is_split: bool) -> WarpLayout:
    choices = (WarpLayout(across=across, down=_WARPS // across) for across in _POWERS)
    return min(
        choices,
        key=lambda warps: (
            _wide_turns(warps, positions, channels),
            _wide_registers(warps, channels, steps, is_split),
        ),
    )


def _wide_turns(warps: WarpLayout, positions: int, channels: int) -> int:
    rows = steps_of(steps_of(positions, 16), warps.down)
    return rows * steps_of(channels // COLUMNS, warps.across)


def _wide_registers(warps: WarpLayout, channels: int, steps: int, is_split: bool) -> int:
    each = steps * 4 + is_split * 24
    return steps_of(channels // COLUMNS, warps.across) * each if steps else 0


@lru_cache(_KEPT)
def _narrow_warps(rows: int, blocks: int, steps: int, is_split: bool) -> WarpLayout:
    choices = (
        WarpLayout(across=across, down=down, slices=_WARPS // across // down)
        for across in _POWERS
        for down in _POWERS
        if across * down <= _WARPS
    )
    return min(
        choices,
        key=lambda warps: (
            _narrow_cycles(warps, rows, blocks, steps),
            _narrow_registers(warps, rows, blocks, steps, is_split),
        ),
    )


def _narrow_cycles(warps: WarpLayout, rows: int, blocks: int, steps: int) -> int:
    tiles = steps_of(steps_of(rows, 16), warps.down) * steps_of(blocks, warps.across)
    gathered = rows * blocks * COLUMNS * warps.slices // 128 + 200 if warps.slices > 1 else 0
    return tiles * (steps_of(steps, warps.slices) * 30 + 100) + gathered


def _narrow_registers(warps: WarpLayout, rows: int, blocks: int, steps: int, is_split: bool) -> int:
    columns = steps_of(blocks, warps.across)
    tiles = steps_of(steps_of(rows, 16), warps.down)
    return columns * (steps_of(steps, warps.slices) * 4 + tiles * 8 + is_split * 16)


def _unit(block: Block) -> int:
    """Returns the granularity of shares of the wide channels.

    It is a block of columns or a step of the depth, whichever is larger.
    """
    return max(COLUMNS, PART_BYTES // block.convolution.input.type.size_bytes)


def _channel_parts(block: Block) -> int:
    return steps_of(block.convolution.input.shape[3], _unit(block))


def steps_of(count: int, each: int) -> int:
    """Returns the number of steps of a size that cover a count; the last one may be partial."""
    return -(-count // each)


def tilings_of(block: Block, operands: PackedOperands, facts: DeviceFacts) -> Iterator[FusedBlockTiling]:
    """Yields every tiling that fits a device, the best first."""
    parts = steps_of(block.narrow.columns, COLUMNS)
    steps = _channel_parts(block)
    limit = min(_MAX_LOCAL_BYTES, facts.local_memory_bytes)
    max_groups = 3 * facts.compute_units
    tilings = [
        FusedBlockTiling(block=block, operands=operands, patch=patch, column_blocks=each, shares=shares)
        for patch in patches(block.convolution, max_rows=_MAX_ROWS, max_count=max_groups)
        for each in parts_of(parts)
        for shares in range(1, min(steps, _MAX_SHARES) + 1)
        if steps % shares == 0
    ]
    tried = sorted(
        (
            tiling
            for tiling in tilings
            if tiling.tiles * tiling.shares <= max_groups and tiling.registers <= _MAX_REGISTERS
        ),
        key=lambda tiling: tiling.cost(facts),
    )
    for tiling in tried:
        if tiling.scratch_bytes <= limit and (tiling.shares == 1 or tiling.tiles <= MAX_TILES):
            yield tiling
