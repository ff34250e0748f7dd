"""Computes positions of a quantised depthwise convolution: rows one by one, or tiles at once.

In a row, each position reuses the columns that previous ones have loaded and interleaved.

A row that only a rescaling follows is a subroutine that takes sizes as arguments and is shared by
all kernels with the same window. So is a tile, whose results are stored to scratch memory if more
follows.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeAlias

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, opaque
from neurald.drivers.cpu.kernels.common.function import subroutine_of
from neurald.drivers.cpu.kernels.common.window import WindowDimension
from neurald.drivers.cpu.kernels.int8.depthwise.interleaving import Addresses, Interleaving
from neurald.drivers.cpu.kernels.int8.depthwise.micro_kernel import DepthwiseMicroKernel
from neurald.drivers.cpu.kernels.int8.depthwise.plan import ChannelBlock, DepthwisePlan
from neurald.drivers.cpu.kernels.int8.epilogue.epilogue import QuantizedEpilogue
from neurald.drivers.cpu.kernels.int8.epilogue.stores import store_lanes
from neurald.drivers.cpu.target.routine import Subroutine
from neurald.hal.records import replace

#: Returns the addresses of the window at a position's index.
Windows: TypeAlias = Callable[[str], Addresses]
#: Takes a position's index, the distance to another one, and the totals of that one.
Finish: TypeAlias = Callable[[str, int, list[list[str]]], None]

#: Parameters: addresses of the first window, the channel block's constants and the first result;
#: distances in bytes of a window's rows, of pixels, of output positions and of output rows; and the
#: number of positions of a row.
_POINTERS, _SIZES = ("%source", "%weights", "%to"), ("%row", "%pixel", "%pitch", "%line")
_COUNT = "%count"
#: Size of the subroutine cache, the oldest first.
_CACHE_SIZE = 128
_cache: dict[Hashable, Subroutine] = {}


def write_rolling(
    code: Instructions,
    plan: DepthwisePlan,
    epilogue: QuantizedEpilogue,
    channel_block: ChannelBlock,
    *,
    weights: str,
    windows: Windows,
    count: str,
    finish: Finish,
) -> None:
    """Writes the sums of consecutive positions, and their results.

    Args:
        code: receives the instructions.
        plan: the plan of the kernel.
        epilogue: the epilogue of the kernel.
        channel_block: the channels; see `DepthwisePlan.is_rolling`.
        weights: address of the channel block's constants.
        windows: returns addresses of the input.
        count: number of positions, a multiple of `DepthwisePlan.positions_per_iteration`.
        finish: writes the results of sums.
    """
    interleaving, sums, pixels = (
        Interleaving(code, plan),
        DepthwiseMicroKernel(code, plan, epilogue),
        plan.positions_per_iteration(channel_block),
    )
    kept = [(word, column) for word in range(plan.words) for column in plan.kept_columns]
    kind = Vector(code, plan.scheme.target, plan.scheme.lanes).type("i32")
    first = windows("0")
    carried = [
        (kind, each)
        for word, column in kept
        for each in interleaving.words(channel_block, first, word, column)
    ]
    with code.loop("0", count, carried, step=pixels) as loop:
        at = windows(loop.index)
        names = iter(loop.carried)
        known = {each: [next(names) for _ in range(channel_block.vectors)] for each in kept}
        for word in range(plan.words):
            for column in plan.new_columns(pixels):
                known[word, column] = interleaving.words(channel_block, at, word, column)
        totals = sums.totals(channel_block, pixels, weights, lambda word, column: known[word, column])
        for pixel, rows in enumerate(totals):
            finish(loop.index, pixel, rows)
        further = pixels * plan.layout.columns.stride
        loop.results = [each for word, column in kept for each in known[word, column + further]]


def shared_positions(
    plan: DepthwisePlan, epilogue: QuantizedEpilogue, channel_block: ChannelBlock, pixels: int | None
) -> Subroutine:
    """Returns the subroutine that stores the sums of positions, rescaled if the epilogue does so.

    Args:
        plan: the plan of the kernel.
        epilogue: the epilogue of the kernel.
        channel_block: the channels.
        pixels: number of positions of a tile; None for a row whose length is an argument, see
            `DepthwisePlan.is_rolling`.
    """
    positions = plan.positions_per_iteration(channel_block) if pixels is None else pixels
    plan, channel_block = _common(plan, channel_block, positions), replace(channel_block, first=0, count=1)
    form = None if epilogue.rescaling is None else epilogue.rescaling.form
    key = plan, channel_block, epilogue.rows, form, pixels
    known = _cache.get(key)
    if known is None:
        while len(_cache) >= _CACHE_SIZE:
            _cache.pop(next(iter(_cache)), None)
        known = _cache[key] = _new_positions(plan, epilogue, channel_block, pixels)
    return known


def _common(plan: DepthwisePlan, channel_block: ChannelBlock, positions: int) -> DepthwisePlan:
    """Returns a plan with only the properties that the subroutine depends on."""
    rows, columns = plan.layout.rows, plan.layout.columns
    layout = replace(
        plan.layout,
        type=Scalar.INT8,
        rows=WindowDimension(length=0, positions=0, taps=rows.taps),
        columns=replace(columns, length=0, padding_before=0, positions=positions),
        channels=1,
        repeat=1,
        pixel_elements=1,
        row_elements=1,
        unit=1,
        block=1,
    )
    stored = min(channel_block.channels, plan.channels)
    return replace(plan, layout=layout, images=1, channels=stored, channel_blocks=())


def _new_positions(
    plan: DepthwisePlan, epilogue: QuantizedEpilogue, channel_block: ChannelBlock, pixels: int | None
) -> Subroutine:
    source, weights, start = _POINTERS
    row, pixel, pitch, line = _SIZES
    sizes = _SIZES if pixels is not None else (*_SIZES, _COUNT)
    code = Instructions((*_POINTERS, *sizes))
    v, sums = Vector(code, plan.scheme.target, 1), DepthwiseMicroKernel(code, plan, epilogue)
    words, stored = sums.epilogue_constants(channel_block, weights), plan.channels

    def times(name: str, factor: int) -> str:
        return name if factor == 1 else v.binary("mul", "i64", name, str(factor)) if factor else "0"

    def windows(index: str) -> Addresses:
        step = times(pixel, plan.layout.columns.stride)
        window = source if index == "0" else address(code, source, v.binary("mul", "i64", index, step))
        lines: dict[int, str] = {}

        def at(down: int, across: int) -> str:
            if down not in lines:
                lines[down] = opaque(code, address(code, window, times(row, down)))
            return address(code, lines[down], times(pixel, across))

        return at

    def finish(index: str, after: int, totals: list[list[str]]) -> None:
        before = "0" if index == "0" else v.binary("mul", "i64", index, pitch)
        position = address(code, start, before, times(pitch, after))
        for number, each in enumerate(sums.results(channel_block, totals, words)):
            to = address(code, position, times(line, number))
            store_lanes(code, each, sums.element, channel_block.channels, to, stored)

    if pixels is None:
        write_rolling(
            code,
            plan,
            epilogue,
            channel_block,
            weights=weights,
            windows=windows,
            count=_COUNT,
            finish=finish,
        )
    else:
        inputs = partial(Interleaving(code, plan).words, channel_block, windows("0"))
        for number, each in enumerate(sums.totals(channel_block, pixels, weights, inputs)):
            finish("0", number, each)
    return subroutine_of(code, [*(("ptr", each) for each in _POINTERS), *(("i64", each) for each in sizes)])
