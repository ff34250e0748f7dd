"""Fuses a pointwise expansion, a depthwise convolution and a pointwise projection of floats.

This pattern is the block of many mobile networks. The wide values stay in local memory: a group
computes some of the wide channels for a part of an image and adds its part of the sums to the
output (see `split_k`), so that the three layers need no barrier between groups. The overlap of
neighbouring parts is computed twice.

A group works in steps separated by barriers: it copies the expansion's weights (before the grid
barrier) and the input; computes the wide channels, with a split depth if there are too few
accumulators for all work-items; computes the depthwise convolution, while the projection's weights
replace the input; and computes the projection, some rows of four columns per work-item.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.dialect import multiply_add
from neurald.drivers.opencl.codegen.kernel_source import NAME, WAIT, Source
from neurald.drivers.opencl.codegen.lazy_code import Code, LazyCode
from neurald.drivers.opencl.codegen.lazy_sources import LazySources
from neurald.drivers.opencl.codegen.template import fill, kernel_arguments, resolved, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import fetch4_function, used_values
from neurald.drivers.opencl.kernels.fused.block import Block, NamedEpilogue, block_of, named_epilogue
from neurald.drivers.opencl.kernels.fused.patch import PLACE, Patch, patches
from neurald.drivers.opencl.kernels.gemm import split_k
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

_TEMPLATES = templates(__name__, "bottleneck.cl")
#: Work-items of a group.
_ITEMS = 256
#: Limit on a group's local memory.
_MAX_LOCAL_BYTES = 48 * 1024
#: Maximum number of wide channels of a group.
_MAX_CHANNELS = 64
#: Maximum number of rows of four columns per work-item: each takes a vector register.
_MAX_ROWS = 20
#: Maximum number of output positions of a group.
_MAX_POSITIONS = 256
#: Maximum number of work-items that split the depth of a sum.
_MAX_SLICES = 8
#: Positions for which a work-item computes wide channels at a time.
_POSITIONS = 2
#: Maximum number of candidates.
_MAX_CANDIDATES = 6
#: Names in the functions of the first two kernels.
_BEFORE = ("wide", "left")


@dataclass(frozen=True, kw_only=True, slots=True)
class _BottleneckTiling:
    """Work of a group: a part of an image, from some of the wide channels."""

    block: Block
    wide: GemmView
    patch: Patch
    channels: int

    @property
    def shares(self) -> int:
        """Number of groups with the same patch."""
        return self.wide.columns // self.channels

    @property
    def tasks(self) -> int:
        """Number of accumulator vectors of the expansion, one per work-item and round."""
        return -(-self.patch.positions // _POSITIONS) * (self.channels // 4)

    @property
    def slices(self) -> int:
        """Number of work-items that split the depth of each vector."""
        most = min(_MAX_SLICES, self.wide.depth // 4)
        return next((each for each in (8, 4, 2) if each <= most and each * self.tasks <= _ITEMS), 1)

    @property
    def rows_each(self) -> int:
        """Number of output rows of a work-item."""
        return -(-self.patch.rows // (_ITEMS // (self.block.narrow.right_row // 4)))

    @property
    def input_pitch(self) -> int:
        """Pitch of an input position in local memory, padded against bank conflicts."""
        return self.wide.depth + 4

    @property
    def narrow_weights_offset(self) -> int:
        """Offset of the projection's weights in floats.

        They lie behind the partial sums and the depthwise output.
        """
        parts = self.slices * self.patch.positions if self.slices > 1 else 0
        return max(parts, self.patch.rows) * self.channels

    @property
    def wide_offset(self) -> int:
        """Offset of the wide channels: behind the input, and what replaces it."""
        later = self.narrow_weights_offset + self.channels * self.block.narrow.right_row
        return max(self.patch.positions * self.input_pitch, later)

    @property
    def wide_weights_offset(self) -> int:
        """Offset of the expansion's weights."""
        return self.wide_offset + self.patch.positions * self.channels

    @property
    def taps_offset(self) -> int:
        """Offset of the depthwise weights."""
        return self.wide_weights_offset + self.wide.depth * self.channels

    @property
    def scratch_bytes(self) -> int:
        """Total local memory in bytes."""
        taps = self.block.convolution.depth
        return 4 * (self.taps_offset + taps * self.channels)

    def cost(self, facts: DeviceFacts) -> float:
        """Estimates the time in cycles of a compute unit."""
        depth, columns = self.wide.depth, self.block.narrow.right_row
        waves = math.ceil(self.patch.count * self.shares / facts.compute_units)
        rounds = math.ceil(self.tasks * self.slices / _ITEMS) * math.ceil(depth / 4 / self.slices)
        wide = rounds * 100 * _POSITIONS
        narrow = self.rows_each * self.channels * 10
        read = (self.patch.positions * depth + depth * self.channels + self.channels * columns) / 16
        # About eighty memory units add four floats per cycle each.
        added = self.patch.rows * columns * self.shares * self.patch.count / 320
        return waves * (2500 + wide + narrow + read) + added


def candidates(expand: Kernel, depthwise: Kernel, project: Kernel, facts: DeviceFacts) -> Sequence[Source]:
    """Returns every way to compute `project` from the inputs of `expand`, the best first.

    The caller ensures that no other kernel reads the intermediate values. There are no candidates
    unless all values are floats and the last kernel only adds terms to its sum, nor for devices
    without atomic addition.
    """
    if not split_k.is_supported(facts) or facts.max_work_group_size < _ITEMS or facts.images is not None:
        return ()
    block = block_of(expand, depthwise, project)
    if block is None or block.wide is None or not _is_supported(block):
        return ()
    return LazySources(_sources(block, block.wide, facts))


def _is_supported(block: Block) -> bool:
    assert block.wide is not None  # noqa: S101 - the caller has checked this
    right = {block.wide.right.type, block.convolution.weights.type, block.narrow.right.type}
    return (
        block.types | right == {Scalar.FLOAT32}
        and block.narrow.right_row <= 4 * _ITEMS
        and split_k.only_adds_terms(block.project)
    )


def _sources(block: Block, wide: GemmView, facts: DeviceFacts) -> Iterator[Source]:
    limit = min(_MAX_LOCAL_BYTES, facts.local_memory_bytes)
    max_groups = 5 * facts.compute_units // 2
    tilings = [
        _BottleneckTiling(block=block, wide=wide, patch=patch, channels=channels)
        for patch in patches(block.convolution, max_rows=_MAX_POSITIONS, max_count=max_groups)
        for channels in range(4, min(_MAX_CHANNELS, wide.columns) + 1, 4)
        if wide.columns % channels == 0 and patch.count * (wide.columns // channels) <= max_groups
    ]
    fitting = [
        tiling for tiling in tilings if tiling.scratch_bytes <= limit and tiling.rows_each <= _MAX_ROWS
    ]
    for tiling in sorted(fitting, key=lambda tiling: tiling.cost(facts))[:_MAX_CANDIDATES]:
        yield _source(tiling, facts)


def _source(tiling: _BottleneckTiling, facts: DeviceFacts) -> Source:
    block, wide = tiling.block, tiling.wide
    used = dict.fromkeys(value for kernel in block.kernels for value in used_values(kernel))
    values = kernel_arguments(
        block.project.output,
        (wide.left, wide.right, block.convolution.weights, block.narrow.right),
        tuple(used),
    )

    def code() -> Code:
        text = _text(tiling, values, facts)
        return Code(resolved(text, values.parameters, {}, is_shared=facts.is_nvidia))

    return Source(
        code=LazyCode(code),
        arguments=values.values,
        groups=tiling.patch.count * tiling.shares,
        local_size=_ITEMS,
        scratch_bytes=tiling.scratch_bytes,
        adds=True,
        has_barriers=True,
        label=f"bottleneck, {tiling.patch.lines} x {tiling.patch.length} positions and {tiling.channels} "
        f"channels, split by {tiling.shares} and {tiling.slices}, added",
        operations=tuple(sorted({each for kernel in block.kernels for each in kernel.operations})),
    )


def _text(tiling: _BottleneckTiling, values: KernelArguments, facts: DeviceFacts) -> str:
    block = tiling.block
    convolution, wide, narrow = block.convolution, tiling.wide, block.narrow
    before = [
        named_epilogue(name, kernel, values) for name, kernel in zip(_BEFORE, block.kernels[:2], strict=True)
    ]
    names = {
        **tiling.patch.names,
        "TILES": tiling.patch.count,
        "KC": tiling.channels,
        "QC": tiling.channels // 4,
        "DEPTH": wide.depth,
        "NEAR_PITCH": tiling.input_pitch,
        "WIDE_PITCH": wide.right_row,
        "COLUMNS": narrow.columns,
        "NARROW_PITCH": narrow.right_row,
        "EACH": _POSITIONS,
        "TASKS": tiling.tasks,
        "SLICES": tiling.slices,
        "RM": tiling.rows_each,
        "DOWN": _ITEMS // (narrow.right_row // 4),
        "ITEMS": _ITEMS,
        "WIDE_AT": tiling.wide_offset,
        "WIDE_WEIGHTS_AT": tiling.wide_weights_offset,
        "NARROW_WEIGHTS_AT": tiling.narrow_weights_offset,
        "TAPS_AT": tiling.taps_offset,
        "TAP_COUNT": convolution.depth,
        "TAP_WEIGHTS": values[3].call_arguments,
        "INPUT": values[1].call_arguments,
        "WIDE_WEIGHTS": values[2].call_arguments,
        "TAPS": _taps(tiling),
        "NARROW_WEIGHTS": values[4].call_arguments,
        "ARGUMENTS": values.call_arguments,
        "WAIT": WAIT,
        "WIDE_PRODUCTS": _products("sums[q]"),
        "NARROW_PRODUCTS": _products("sums[i]"),
        "WIDE_CHANNELS": _TEMPLATES["wide_channels_sliced" if tiling.slices > 1 else "wide_channels"],
        "EXPAND": _TEMPLATES["expand"],
        "IS_ACTIVE": "slice < $SLICES && " if tiling.slices > 1 else "",
        "COPY_NARROW_WEIGHTS": _TEMPLATES["copy_narrow_weights"],
        "FETCH": _fetch(block, before, values),
        "PLACE": PLACE,
        "INSIDE": tiling.patch.inside("m / $LENGTH", "m % $LENGTH"),
        "OUTPUT_ROW": _OUTPUT_ROW,
    }
    return "".join(
        (
            *(each.text for each in before),
            fetch4_function(block.project, values).replace("$length", str(narrow.columns)),
            split_k.add4_text(block.project, values, facts).replace("$length", str(narrow.columns)),
            fill(_TEMPLATES["copy_async" if facts.has_nvidia_capability((8, 0)) else "copy"]),
            fill(_TEMPLATES["function"], **names),
        )
    )


def _fetch(block: Block, before: Sequence[NamedEpilogue], values: KernelArguments) -> str:
    """Prefetches the epilogues' inputs while the input is being copied."""
    lines = []
    for name, functions in zip(_BEFORE, before, strict=True):
        if functions.has_fetch:
            lines.append(
                f"  if (lid < $QC) {NAME}_{name}_fetch4(0, k0 + lid * 4, 1, {values.call_arguments});\n"
            )
    if fetch4_function(block.project, values):
        lines.append(_TEMPLATES["fetch_output"])
    return "".join(lines)


def _products(total: str) -> str:
    return " ".join(multiply_add("float", total, f"(float4)(part.s{k})", f"right[{k}]") for k in range(4))


def _taps(tiling: _BottleneckTiling) -> str:
    """Returns statements that add the window whose first position is at `from` to `sum`."""
    return "\n".join(
        "    "
        + multiply_add(
            "float",
            "sum",
            f"*(__local const float4 *)(from + {place * tiling.channels})",
            f"*(__local const float4 *)(taps + {number * tiling.channels} + c)",
        )
        for number, place in enumerate(tiling.patch.taps())
    )


#: Output row of position `m` of a patch.
_OUTPUT_ROW = "(image * $OUT_HEIGHT + y0 + m / $LENGTH) * $OUT_WIDTH + x0 + m % $LENGTH"
