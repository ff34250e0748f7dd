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
from dataclasses import replace
from itertools import islice

from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.arguments import Arguments
from neurald.drivers.opencl.codegen.dialect import multiply_add, stored
from neurald.drivers.opencl.codegen.kernel_source import NAME, WAIT, Source
from neurald.drivers.opencl.codegen.lazy_sources import LazySources
from neurald.drivers.opencl.codegen.template import arguments, fill, resolved
from neurald.drivers.opencl.kernels.epilogue.epilogue import Epilogue, epilogue, used_values
from neurald.drivers.opencl.kernels.fused import tensor_bottleneck_text as texts
from neurald.drivers.opencl.kernels.fused.block import Named, block_of, named
from neurald.drivers.opencl.kernels.fused.patch import PLACE
from neurald.drivers.opencl.kernels.fused.tensor_bottleneck_cut import COLUMNS, ITEMS, Cut, cuts_of, steps_of
from neurald.drivers.opencl.kernels.fused.tensor_bottleneck_operands import fragments, operands_of
from neurald.drivers.opencl.kernels.gemm import split_k
from neurald.drivers.opencl.kernels.gemm.accumulate import (
    GATHERED,
    Sums,
    fetch,
    finish,
    gathered,
    share_text,
    workspace_bytes,
)
from neurald.drivers.opencl.kernels.gemm.int8_dot import dot_text, instruction_of
from neurald.drivers.opencl.kernels.gemm.tensor_core import MULTIPLY, PART_BYTES
from neurald.drivers.opencl.kernels.gemm.tensor_core_text import SPLITTING
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

#: Maximum number of candidates: their functions are large and slow to compile.
_CHOICES = 4


def candidates(
    expand: Kernel | None,
    depthwise: Kernel,
    project: Kernel,
    facts: DeviceFacts,
) -> Sequence[Source]:
    """Returns every way to compute `project` from the inputs of `expand` (or else `depthwise`).

    The best comes first. Intermediate values are not stored.

    The caller ensures that no other kernel reads these. All candidates give the same integers.
    There are none if the operands are not supported by tensor cores.
    """
    if not facts.is_nvidia_from((8, 0)) or facts.images is not None:
        return ()
    block = block_of(expand, depthwise, project)
    operands = None if block is None else operands_of(block, facts)
    if block is None or operands is None:
        return ()
    return LazySources(_source(cut, facts) for cut in islice(cuts_of(block, operands, facts), _CHOICES))


def _source(cut: Cut, facts: DeviceFacts) -> Source:
    block, operands = cut.block, cut.operands
    weights = [
        operands.taps,
        fragments(
            operands.narrow, cut.across * cut.parts * COLUMNS, steps_of(cut.channels * cut.shares, cut.each)
        ),
    ]
    source = block.convolution.input
    if block.wide is not None and operands.wide is not None:
        source = block.wide.left
        weights.append(fragments(operands.wide, cut.channels * cut.shares, cut.wide_steps))
    used = dict.fromkeys(
        value for kernel in (*operands.before.values(), operands.project) for value in used_values(kernel)
    )
    values = arguments(block.project.output, (source, *weights), tuple(used))
    inner = replace(values, near=frozenset(cut.constants))
    functions = {name: named(name, kernel, inner) for name, kernel in operands.before.items()}
    after = epilogue(operands.project, inner, is_vector=True, is_fetched=True)
    sums = _sums(cut)
    narrow = block.narrow
    head = values.parameters
    has_workspace = cut.shares > 1 and not cut.adds
    if has_workspace:
        head = head.replace("__global int *status", "__global uchar *workspace, __global int *status")
    whole = "".join(
        (
            *(each.text for each in functions.values()),
            after.text,
            split_k.adding_text(operands.project, inner, facts) if cut.adds else "",
            _dots(cut, facts) if narrow.is_integer else "",
            fill(_function(cut, functions, after, sums), **_names(cut, inner, sums)),
            finish(narrow, after, sums, split=cut.shares, adds=cut.adds),
        )
    )
    sizes: dict[str, int] = {**narrow.sizes, **after.sizes}
    for each in functions.values():
        sizes |= each.sizes
    sizes |= {
        "tiles": cut.tiles,
        "split": cut.shares,
        "zeros": int.from_bytes(bytes((block.convolution.input_zero & 255,)) * 4, "little", signed=True),
    }
    kinds = "bottleneck" if block.wide is not None else "depthwise and products"
    return Source(
        text=resolved(whole, head, sizes, is_shared=True),
        arguments=values.values,
        groups=cut.tiles * cut.shares,
        local_size=ITEMS,
        scratch_bytes=cut.scratch_bytes,
        workspace_bytes=workspace_bytes(
            narrow, sums, tiles=cut.tiles, split=cut.shares if has_workspace else 1
        ),
        adds=cut.adds,
        has_barriers=True,
        label=f"tensor cores{', twice' if cut.is_twice else ''}, {kinds}, {cut.patch.lines} x {cut.patch.length} positions and {cut.parts * COLUMNS} columns, split by {cut.shares}"
        f" and {cut.narrow_warps.slices}{', added' if cut.adds else ''}",
        operations=tuple(sorted({each for kernel in block.kernels for each in kernel.operations})),
    )


def _dots(cut: Cut, facts: DeviceFacts) -> str:
    """Returns functions for the depthwise convolution of integers."""
    instruction = instruction_of(facts)
    assert instruction is not None  # noqa: S101 - every device with tensor cores has one
    return dot_text(instruction, cut.block.convolution.input.type is Scalar.INT8, True)


def _function(cut: Cut, functions: Mapping[str, Named], after: Epilogue, sums: Sums) -> str:
    """Returns the function up to where its accumulators are known, and what it calls.

    The text still contains names.

    Args:
        functions: the epilogues of the kernels before the last one.
        after: the epilogue of the last one.
        sums: the location of a work-item's accumulators.
    """
    narrow = cut.block.narrow
    fetched = "".join(
        f"  if (lid < $KC / 4 && k0 + lid * 4 < $CHANNELS)"
        f" {NAME}_{name}_fetch4(0, k0 + lid * 4, 1, {after.handed_on}@SIZES);\n"
        for name, each in functions.items()
        if each.has_fetch
    )
    pieces = {
        "$PLACE": PLACE,
        "$SHARE_OF": share_text(narrow, split=cut.shares),
        "$WIDE_WEIGHTED": texts.WIDE_WEIGHTS if cut.wide_steps else "",
        "$CONSTANTS": _near(cut, after.arguments),
        "$PADDED": texts.REST if not narrow.is_integer and cut.depth_bytes % PART_BYTES else "",
        "$INPUT_COPIED": texts.COPIED if cut.wide_steps else texts.GIVEN,
        "$EXPANDED": texts.EXPANDED if cut.wide_steps else "",
        "$WIDE_PRODUCTS": _products(
            cut,
            STEP="k",
            SUMS="wide_sums",
            COUNT="$WIDE_PARTS",
            DEPTH="$WIDE_STEPS",
            FROM_PITCH="$NEAR_PITCH",
            RIGHT="wide_weights",
        ),
        "$PRODUCTS": _products(
            cut,
            STEP="min(slice + k * $KS, $SHARE_STEPS - 1)",
            SUMS="sums[i]",
            COUNT="$PARTS",
            DEPTH="$STEPS",
            FROM_PITCH="$WIDE_PITCH",
            RIGHT="weights",
        ),
        "$FETCHED": fetched,
        "$FETCH": fetch(narrow, after, sums),
        "$DEPTHWISE": _depthwise(cut),
        "$SUMMED": texts.SLICES + GATHERED if cut.narrow_warps.slices > 1 else texts.TOTALS,
    }
    text = texts.TEXT
    for name, piece in pieces.items():
        text = text.replace(name, piece)
    if narrow.is_integer:
        text = texts.TURNED + text
    if cut.is_twice:
        text = SPLITTING + text
    return "".join((*map(_copy, sorted(cut.copies)), text))


def _products(cut: Cut, **names: str) -> str:
    """Returns the text of `PRODUCTS` with its names replaced, in the given order."""
    lines = texts.PRODUCTS.splitlines(keepends=True)
    if cut.is_twice:
        text = "".join(lines).replace("@", "").replace("$PART[", "part[")
    else:
        text = "".join(line for line in lines if "@" not in line).replace("$PART[", "$SUMS[")
    for name, piece in names.items():
        text = text.replace(f"${name}", piece)
    return text


def _copy(count: int) -> str:
    """Returns a function that copies this many bytes; only copies of 16 can bypass the L1 cache."""
    return fill(texts.COPY, CACHE="cg" if count == 16 else "ca", BYTES=count)


def _near(cut: Cut, values: Arguments) -> str:
    """Returns statements that copy constants of epilogues to local memory."""
    lines, at = [], cut.constants_at
    for value, count in cut.constants.items():
        is_wide = value in cut.operands.of_channels
        # A loop would be unrolled, which makes more code than there is work.
        each = texts.SEVERAL if count // 4 > ITEMS else texts.ONE
        lines.append(
            fill(
                texts.NEAR.replace("$EACH", each),
                NUMBER=values.values.index(value),
                KIND=stored(value.type),
                AT=at,
                FIRST="k0" if is_wide else "n0",
                COUNT=count // 4,
                LIMIT=cut.block.convolution.input.shape[3] if is_wide else cut.block.narrow.columns,
                BYTES=4 * value.type.size_bytes,
                ITEMS=ITEMS,
            )
        )
        at += count * value.type.size_bytes
    return "".join(lines)


def _sums(cut: Cut) -> Sums:
    """Returns the location of a work-item's final accumulators."""
    warps, columns = cut.narrow_warps, cut.parts * COLUMNS
    _, height, width, _ = cut.block.convolution.output.shape
    kind = "int" if cut.block.narrow.is_integer else "float"
    tiles = steps_of(cut.patch.rows, 16)
    place = f"y = y0 + m_at / {cut.patch.length}, x = x0 + m_at % {cut.patch.length};"
    guard = f"m_at < {cut.patch.rows} && y < {height} && x < {width} && "
    row = f"(image * {height} + y) * {width} + x"
    if warps.slices > 1:
        found = gathered(kind, tiles * 16, columns, ITEMS)
        before = f"{found.before} const int m_at = at / {columns}, {place}"
        return replace(found, before=before, guard=guard, row=row)
    parts = steps_of(cut.parts, warps.across)
    down, across = f"e / {2 * parts} * {warps.down}", f"e / 2 % {parts} * {warps.across}"
    return Sums(
        kind=kind,
        count=steps_of(tiles, warps.down) * parts * 2,
        items=ITEMS,
        vector="totals[e]",
        before=f"const int m_at = (down + {down}) * 16 + g + e % 2 * 8, part = across + {across}, {place}",
        row=row,
        column="n0 + part * 16 + t * 4",
        guard=f"part < {cut.parts} && {guard}",
        is_first=f"e < {2 * parts} && e % 2 == 0",
    )


def _is_there(cut: Cut) -> str:
    """Returns the condition that a position of the group is one of the depthwise output."""
    channels = cut.block.convolution.input.shape[3]
    is_whole = cut.channels * cut.shares == channels
    inside = cut.patch.inside("line", "x")
    return inside if is_whole else f"k0 + q * 4 < {channels} && {inside}"


def _depthwise(cut: Cut) -> str:
    """Returns statements that compute `sum` over the window whose first position is at `from`."""
    row = cut.channels // 4 * cut.taps_each
    places = [position * cut.wide_pitch for position in cut.patch.taps()]
    if not cut.block.narrow.is_integer:
        read = (
            "*(__local const float4 *)({})" if cut.is_twice else "vload_half4(0, (__local const half *)({}))"
        )
        products = (
            multiply_add("float", "sum", read.format(f"from + {place}"), read.format(f"tap + {number * row}"))
            for number, place in enumerate(places)
        )
        return "\n".join(("      float4 sum = (float4)(0);", *(f"      {each}" for each in products)))
    lines = [f"      int4 sum = *(__local const int4 *)(tap + {(cut.tap_rows - 1) * row});"]
    for first in range(0, len(places), 4):
        taps = [f"*(__local const uint *)(from + {place})" for place in places[first : first + 4]]
        words = f"*(__local const uint4 *)(tap + {first // 4 * row})"
        if len(taps) == 1:
            lines.append(f"      sum = {NAME}_tap4(sum, {taps[0]}, {words});")
        else:
            several = ", ".join((*taps, *("0",) * (4 - len(taps))))
            lines.append(f"      sum = {NAME}_taps4(sum, (uint4)({several}), {words});")
    return "\n".join(lines)


def _names(cut: Cut, values: Arguments, sums: Sums) -> dict[str, object]:
    block = cut.block
    kind = block.convolution.input.type
    wide, narrow = cut.wide_warps, cut.narrow_warps
    tiles, position_tiles = steps_of(cut.patch.rows, 16), steps_of(cut.patch.positions, 16)
    is_integer = block.narrow.is_integer
    vector = f"{stored(kind)}4" if is_integer else "float4"
    is_half = kind is Scalar.FLOAT16
    put = (
        "vstore_half4_rte(value, 0, (__local half *)to);" if is_half else f"*(__local {vector} *)to = value;"
    )
    return {
        **cut.patch.names,
        "T": sums.kind,
        "VALUE": vector,
        "PUT": put,
        "FILL": f"as_{vector}(z_zeros)" if is_integer else "(float4)(0)",
        "HOLD": "r" if is_integer else "f",
        "MULTIPLY": MULTIPLY[kind],
        "HANDED_ON": values.handed_on,
        "WAIT": WAIT,
        "ITEMS": ITEMS,
        "SIZE": cut.size,
        "KC": cut.channels,
        "IS_THERE": _is_there(cut),
        "PARTS_ACROSS": cut.across,
        "POSITION_TILES": position_tiles,
        "NEAR_AT": cut.near_at,
        "MIDDLE_AT": cut.middle_at,
        "TAPS_AT": cut.taps_at,
        "NEAR_PITCH": cut.near_pitch,
        "WIDE_PITCH": cut.wide_pitch,
        "TAPS_EACH": cut.taps_each,
        "TAP_ROWS": cut.tap_rows,
        "DEPTH_BYTES": cut.depth_bytes,
        "COPY": cut.copied_bytes,
        "WIDE_ACROSS": wide.across,
        "WIDE_DOWN": wide.down,
        "WIDE_TILES": steps_of(position_tiles, wide.down),
        "WIDE_PARTS": steps_of(cut.channels // COLUMNS, wide.across),
        "WIDE_STEPS": cut.wide_steps,
        "ACROSS": narrow.across,
        "DOWN": narrow.down,
        "KS": narrow.slices,
        "TILES": steps_of(tiles, narrow.down),
        "PARTS": steps_of(cut.parts, narrow.across),
        "STEPS": steps_of(cut.narrow_steps, narrow.slices),
        "SHARE_STEPS": cut.narrow_steps,
        "ALL_STEPS": cut.narrow_steps * cut.shares,
        "BM": tiles * 16,
        "BN": cut.parts * COLUMNS,
        "NE": sums.count,
    }
