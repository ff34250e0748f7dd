"""Fuses a pointwise expansion, a depthwise convolution and a pointwise projection on tensor cores.

The expansion is optional. It multiplies like `tensor_core`: FLOAT16, 8 bits, and FLOAT32 as sums of
two TF32. Each warp holds its part of the weights in registers, requested before the grid barrier.
They are packed in the order in which tensor cores read them, 16 columns at a time, of which a
work-item gets the accumulators of four adjacent ones.

A group computes a part of an image of the output, from all wide channels or a share of them; then
each group adds its part to the output (see `split_k`), or the last group to finish adds up all of
them. After the grid barrier a group copies the input to local memory and computes its wide
channels, their depthwise convolution, and the projection, each from local memory to local memory.
Positions outside of the image hold the zero point there, so that windows need no bounds checks.
Per-channel operands of epilogues are in local memory, too: there are too few warps to hide longer
latencies.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.dialect import memory_type, multiply_add
from neurald.drivers.opencl.codegen.kernel_source import NAME, WAIT, Source
from neurald.drivers.opencl.codegen.lazy_code import Code, LazyCode
from neurald.drivers.opencl.codegen.lazy_sources import LazySources
from neurald.drivers.opencl.codegen.template import fill, kernel_arguments, resolved, templates
from neurald.drivers.opencl.kernels.epilogue.epilogue import Epilogue, epilogue, used_values
from neurald.drivers.opencl.kernels.fused.block import NamedEpilogue, block_of, named_epilogue
from neurald.drivers.opencl.kernels.fused.patch import PLACE
from neurald.drivers.opencl.kernels.fused.tensor_bottleneck_operands import operands_of, weight_fragments
from neurald.drivers.opencl.kernels.fused.tensor_bottleneck_tiling import (
    COLUMNS,
    ITEMS,
    FusedBlockTiling,
    steps_of,
    tilings_of,
)
from neurald.drivers.opencl.kernels.gemm import split_k
from neurald.drivers.opencl.kernels.gemm.accumulate import (
    ADD_SLICES,
    AccumulatorLayout,
    fetch_text,
    finish_text,
    gathered_layout,
    share_text,
    workspace_bytes,
)
from neurald.drivers.opencl.kernels.gemm.gemm_view import four_bytes
from neurald.drivers.opencl.kernels.gemm.int8_dot import dot_text, instruction_of
from neurald.drivers.opencl.kernels.gemm.tensor_core import MULTIPLY, PART_BYTES, SPLITTING
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.hal.records import replace

_TEMPLATES = templates(__name__, "tensor_bottleneck.cl")
#: Maximum number of candidates: their functions are large and slow to compile.
_MAX_CANDIDATES = 4


def candidates(
    expand: Kernel | None,
    depthwise: Kernel,
    project: Kernel,
    facts: DeviceFacts,
) -> Sequence[Source]:
    """Returns every way to compute `project` from the inputs of `expand` (or else `depthwise`).

    The best one comes first. Intermediate values stay in local memory.

    The caller ensures that no other kernel reads these. All candidates give the same integers.
    There are none if the operands are not supported by tensor cores.
    """
    if not facts.has_nvidia_capability((8, 0)) or facts.images is not None:
        return ()
    block = block_of(expand, depthwise, project)
    operands = None if block is None else operands_of(block, facts)
    if block is None or operands is None:
        return ()
    return LazySources(
        _source(tiling, facts) for tiling in islice(tilings_of(block, operands, facts), _MAX_CANDIDATES)
    )


def _source(tiling: FusedBlockTiling, facts: DeviceFacts) -> Source:
    block, operands = tiling.block, tiling.operands
    weights = [
        operands.taps,
        weight_fragments(
            operands.narrow,
            tiling.column_groups * tiling.column_blocks * COLUMNS,
            steps_of(tiling.channels * tiling.shares, tiling.depth_step),
        ),
    ]
    source = block.convolution.input
    if block.wide is not None and operands.wide is not None:
        source = block.wide.left
        weights.append(weight_fragments(operands.wide, tiling.channels * tiling.shares, tiling.wide_steps))
    used = dict.fromkeys(
        value for kernel in (*operands.before.values(), operands.project) for value in used_values(kernel)
    )
    values = kernel_arguments(block.project.output, (source, *weights), tuple(used))
    sums = _accumulators(tiling)
    narrow = block.narrow
    has_workspace = tiling.shares > 1 and not tiling.adds
    kinds = "bottleneck" if block.wide is not None else "depthwise and products"

    def code() -> Code:
        inner = replace(values, near=frozenset(tiling.constants))
        functions = {name: named_epilogue(name, kernel, inner) for name, kernel in operands.before.items()}
        after = epilogue(operands.project, inner, is_vector=True, is_fetched=True)
        head = values.parameters_with_workspace if has_workspace else values.parameters
        whole = "".join(
            (
                *(each.text for each in functions.values()),
                after.text,
                split_k.add4_text(operands.project, inner, facts) if tiling.adds else "",
                _dot_functions(tiling, facts) if narrow.is_integer else "",
                _function(tiling, functions, after, sums),
                finish_text(narrow, after, sums, split=tiling.shares, adds=tiling.adds),
            )
        )
        sizes: dict[str, int] = {**narrow.sizes, **after.sizes}
        for each in functions.values():
            sizes |= each.sizes
        sizes |= {
            "tiles": tiling.tiles,
            "split": tiling.shares,
            "zeros": four_bytes(block.convolution.input_zero),
        }
        return Code(resolved(whole, head, sizes, is_shared=True))

    return Source(
        code=LazyCode(code),
        arguments=values.values,
        groups=tiling.tiles * tiling.shares,
        local_size=ITEMS,
        scratch_bytes=tiling.scratch_bytes,
        workspace_bytes=workspace_bytes(
            narrow, sums, tiles=tiling.tiles, split=tiling.shares if has_workspace else 1
        ),
        adds=tiling.adds,
        has_barriers=True,
        label=f"tensor cores{', 3xTF32' if tiling.is_split else ''}, {kinds}, {tiling.patch.lines} x "
        f"{tiling.patch.length} positions and {tiling.column_blocks * COLUMNS} columns, split by {tiling.shares}"
        f" and {tiling.narrow_warps.slices}{', added' if tiling.adds else ''}",
        operations=tuple(sorted({each for kernel in block.kernels for each in kernel.operations})),
    )


def _dot_functions(tiling: FusedBlockTiling, facts: DeviceFacts) -> str:
    """Returns functions for the depthwise convolution of integers."""
    instruction = instruction_of(facts)
    assert instruction is not None  # noqa: S101 - every device with tensor cores has one
    return dot_text(instruction, tiling.block.convolution.input.type is Scalar.INT8, True)


def _function(
    tiling: FusedBlockTiling, functions: Mapping[str, NamedEpilogue], after: Epilogue, sums: AccumulatorLayout
) -> str:
    """Returns the function up to where its accumulators are known, and what it calls.

    Args:
        tiling: the block, and the tiles in which a work-group computes it.
        functions: the epilogues of the kernels before the last one.
        after: the epilogue of the last one.
        sums: the location of a work-item's accumulators.
    """
    narrow = tiling.block.narrow
    fetched = "".join(
        f"  if (lid < $KC / 4 && k0 + lid * 4 < $CHANNELS)"
        f" {NAME}_{name}_fetch4(0, k0 + lid * 4, 1, $ARGUMENTS$SIZE_ARGUMENTS);\n"
        for name, each in functions.items()
        if each.has_fetch
    )
    names = _names(tiling, after.arguments, sums)
    names |= {
        "PLACE": PLACE,
        "SHARE": share_text(narrow, split=tiling.shares),
        "LOAD_WIDE_WEIGHTS": _TEMPLATES["load_wide_weights"] if tiling.wide_steps else "",
        "COPY_CONSTANTS": _copy_constants(tiling, after.arguments),
        "PAD_INPUT": _TEMPLATES["pad_input"]
        if not narrow.is_integer and tiling.depth_bytes % PART_BYTES
        else "",
        "COPY_INPUT": _TEMPLATES["copy_input" if tiling.wide_steps else "copy_wide_channels"],
        "EXPAND": _TEMPLATES["expand"] if tiling.wide_steps else "",
        "FETCH_CHANNELS": fetched,
        "FETCH": fetch_text(narrow, after, sums),
        "DEPTHWISE": _depthwise(tiling),
        "TOTALS": _TEMPLATES["slices" if tiling.narrow_warps.slices > 1 else "totals"],
        "ADD_SLICES": ADD_SLICES,
    }
    multiply = _TEMPLATES["multiply_split" if tiling.is_split else "multiply"]
    names["MULTIPLY_WIDE"] = fill(
        multiply,
        STEP="k",
        SUMS="wide_sums",
        COUNT=names["WIDE_PARTS"],
        DEPTH=names["WIDE_STEPS"],
        FROM_PITCH=names["NEAR_PITCH"],
        RIGHT="wide_weights",
    )
    names["MULTIPLY_NARROW"] = fill(
        multiply,
        STEP=f"min(slice + k * {names['KS']}, {names['SHARE_STEPS']} - 1)",
        SUMS="sums[i]",
        COUNT=names["PARTS"],
        DEPTH=names["STEPS"],
        FROM_PITCH=names["WIDE_PITCH"],
        RIGHT="weights",
    )
    return "".join(
        (
            *map(_copy, sorted(tiling.copies)),
            fill(SPLITTING) if tiling.is_split else "",
            fill(_TEMPLATES["taps"]) if narrow.is_integer else "",
            fill(_TEMPLATES["function"], **names),
        )
    )


def _copy(count: int) -> str:
    """Returns a function that copies this many bytes; only copies of 16 can bypass the L1 cache."""
    return fill(_TEMPLATES["copy"], CACHE="cg" if count == 16 else "ca", BYTES=count)


def _copy_constants(tiling: FusedBlockTiling, values: KernelArguments) -> str:
    """Returns statements that copy constants of epilogues to local memory."""
    lines, at = [], tiling.constants_offset
    for value, count in tiling.constants.items():
        is_wide = value in tiling.operands.of_channels
        # A loop would be unrolled, which makes more code than there is work.
        each = _TEMPLATES["all_items" if count // 4 > ITEMS else "first_items"]
        lines.append(
            fill(
                _TEMPLATES["copy_constant"],
                EACH=each,
                NUMBER=values.values.index(value),
                KIND=memory_type(value.type),
                AT=at,
                FIRST="k0" if is_wide else "n0",
                COUNT=count // 4,
                LIMIT=tiling.block.convolution.input.shape[3] if is_wide else tiling.block.narrow.columns,
                BYTES=4 * value.type.size_bytes,
                ITEMS=ITEMS,
            )
        )
        at += count * value.type.size_bytes
    return "".join(lines)


def _accumulators(tiling: FusedBlockTiling) -> AccumulatorLayout:
    """Returns the location of a work-item's final accumulators."""
    warps, columns = tiling.narrow_warps, tiling.column_blocks * COLUMNS
    _, height, width, _ = tiling.block.convolution.output.shape
    kind = "int" if tiling.block.narrow.is_integer else "float"
    tiles = steps_of(tiling.patch.rows, 16)
    place = f"y = y0 + m_at / {tiling.patch.length}, x = x0 + m_at % {tiling.patch.length};"
    guard = f"m_at < {tiling.patch.rows} && y < {height} && x < {width} && "
    row = f"(image * {height} + y) * {width} + x"
    if warps.slices > 1:
        found = gathered_layout(kind, tiles * 16, columns, ITEMS)
        before = f"{found.before} const int m_at = at / {columns}, {place}"
        return replace(found, before=before, guard=guard, row=row)
    parts = steps_of(tiling.column_blocks, warps.across)
    down, across = f"e / {2 * parts} * {warps.down}", f"e / 2 % {parts} * {warps.across}"
    return AccumulatorLayout(
        kind=kind,
        count=steps_of(tiles, warps.down) * parts * 2,
        items=ITEMS,
        vector="totals[e]",
        before=f"const int m_at = (down + {down}) * 16 + g + e % 2 * 8, part = across + {across}, {place}",
        row=row,
        column="n0 + part * 16 + t * 4",
        guard=f"part < {tiling.column_blocks} && {guard}",
        is_first=f"e < {2 * parts} && e % 2 == 0",
    )


def _is_there(tiling: FusedBlockTiling) -> str:
    """Returns the condition that a position of the group is one of the depthwise output."""
    channels = tiling.block.convolution.input.shape[3]
    is_whole = tiling.channels * tiling.shares == channels
    inside = tiling.patch.inside("line", "x")
    return inside if is_whole else f"k0 + q * 4 < {channels} && {inside}"


def _depthwise(tiling: FusedBlockTiling) -> str:
    """Returns statements that compute `sum` over the window whose first position is at `from`."""
    row = tiling.channels // 4 * tiling.tap_row_bytes
    places = [position * tiling.wide_pitch for position in tiling.patch.taps()]
    if not tiling.block.narrow.is_integer:
        read = (
            "*(__local const float4 *)({})"
            if tiling.is_split
            else "neurald_float4_of_halves(*(__local const uint2 *)({}))"
        )
        products = (
            multiply_add("float", "sum", read.format(f"from + {place}"), read.format(f"tap + {number * row}"))
            for number, place in enumerate(places)
        )
        return "\n".join(("      float4 sum = (float4)(0);", *(f"      {each}" for each in products)))
    lines = [f"      int4 sum = *(__local const int4 *)(tap + {(tiling.tap_rows - 1) * row});"]
    for first in range(0, len(places), 4):
        taps = [f"*(__local const uint *)(from + {place})" for place in places[first : first + 4]]
        words = f"*(__local const uint4 *)(tap + {first // 4 * row})"
        if len(taps) == 1:
            lines.append(f"      sum = {NAME}_tap4(sum, {taps[0]}, {words});")
        else:
            several = ", ".join((*taps, *("0",) * (4 - len(taps))))
            lines.append(f"      sum = {NAME}_taps4(sum, (uint4)({several}), {words});")
    return "\n".join(lines)


def _names(tiling: FusedBlockTiling, values: KernelArguments, sums: AccumulatorLayout) -> dict[str, object]:
    block = tiling.block
    kind = block.convolution.input.type
    wide, narrow = tiling.wide_warps, tiling.narrow_warps
    tiles, position_tiles = steps_of(tiling.patch.rows, 16), steps_of(tiling.patch.positions, 16)
    is_integer = block.narrow.is_integer
    vector = f"{memory_type(kind)}4" if is_integer else "float4"
    is_half = kind is Scalar.FLOAT16
    put = (
        "*(__local uint2 *)to = neurald_halves_of_float4(value);"
        if is_half
        else f"*(__local {vector} *)to = value;"
    )
    return {
        **tiling.patch.names,
        "T": sums.kind,
        "VALUE": vector,
        "PUT": put,
        "FILL": f"as_{vector}($zeros)" if is_integer else "(float4)(0)",
        "HOLD": "r" if is_integer else "f",
        "MULTIPLY": MULTIPLY[kind],
        "ARGUMENTS": values.call_arguments,
        "WAIT": WAIT,
        "ITEMS": ITEMS,
        "SIZE": tiling.size,
        "KC": tiling.channels,
        "IS_THERE": _is_there(tiling),
        "PARTS_ACROSS": tiling.column_groups,
        "POSITION_TILES": position_tiles,
        "NEAR_AT": tiling.input_offset,
        "MIDDLE_AT": tiling.middle_offset,
        "TAPS_AT": tiling.taps_offset,
        "NEAR_PITCH": tiling.input_pitch,
        "WIDE_PITCH": tiling.wide_pitch,
        "TAPS_EACH": tiling.tap_row_bytes,
        "TAP_ROWS": tiling.tap_rows,
        "DEPTH_BYTES": tiling.depth_bytes,
        "COPY": tiling.copied_bytes,
        "WIDE_ACROSS": wide.across,
        "WIDE_DOWN": wide.down,
        "WIDE_TILES": steps_of(position_tiles, wide.down),
        "WIDE_PARTS": steps_of(tiling.channels // COLUMNS, wide.across),
        "WIDE_STEPS": tiling.wide_steps,
        "ACROSS": narrow.across,
        "DOWN": narrow.down,
        "KS": narrow.slices,
        "TILES": steps_of(tiles, narrow.down),
        "PARTS": steps_of(tiling.column_blocks, narrow.across),
        "STEPS": steps_of(tiling.narrow_steps, narrow.slices),
        "SHARE_STEPS": tiling.narrow_steps,
        "ALL_STEPS": tiling.narrow_steps * tiling.shares,
        "BM": tiles * 16,
        "BN": tiling.column_blocks * COLUMNS,
        "NE": sums.count,
    }
