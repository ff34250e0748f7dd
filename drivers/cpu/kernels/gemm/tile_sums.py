"""A tile of a Winograd convolution as sums of products, for results that are not finite.

Winograd's sums have terms of pixels that cancel, which infinite pixels do not: their results would
be NaN. The weights of the window follow from the transformed ones, so that no others are kept.
"""

from functools import cache

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.function import subroutine_of
from neurald.drivers.cpu.target.routine import Subroutine
from neurald.drivers.cpu.target.target import Target

#: Results of a tile per dimension, taps of the window, pixels that the tile depends on.
_SIZE, _TAPS, _PIXELS = 2, 3, 4
_POINTS = _PIXELS * _PIXELS
_FLOAT_BYTES = 4
#: The middle of a window follows from four transformed weights. Up to this share of them it is
#: their rounding error, and the weight is 0: infinity times it is NaN.
_ROUNDING = 2.0**-20
_PARAMETERS = (
    *(("ptr", name) for name in ("%corner", "%zeros", "%weights", "%results")),
    *(("i64", name) for name in ("%top", "%left", "%height", "%width", "%line", "%pixel")),
    *(("i64", name) for name in ("%depth", "%row", "%point")),
)


@cache
def tile_sums(target: Target, lanes: int) -> Subroutine:
    """Returns the subroutine that computes the results of a tile for a vector of channels.

    Its parameters are the address of the tile's first pixel, zeros for pixels outside the image,
    the first transformed weights of the channels, and where the results go, column by column; the
    row and column of that pixel, the height and width of the image, and how many bytes the next
    line and the next pixel are further; the depth, and how many bytes the weights of the next term,
    and of the next point, are further.
    """
    code = Instructions([name for _, name in _PARAMETERS])
    v = Vector(code, target, lanes)
    kind = v.type("float")
    zero = kind, v.number("float", 0)
    pixels = [_pixel(code, down, right) for down in range(_PIXELS) for right in range(_PIXELS)]
    points = [code.value(f"mul i64 %point, {number}") for number in range(_POINTS)]
    with code.loop("0", "%depth", [zero] * _SIZE**2) as loop:
        first = address(code, "%weights", code.value(f"mul i64 {loop.index}, %row"))
        window = _window(
            v, [code.fresh(f"load {kind}, ptr {address(code, first, each)}, align 4") for each in points]
        )
        channel = multiple(code, loop.index, _FLOAT_BYTES)
        image = [
            v.splat("float", code.fresh(f"load float, ptr {address(code, each, channel)}")) for each in pixels
        ]
        for number, value in enumerate(loop.carried):
            right, below = divmod(number, _SIZE)
            for tap, weight in enumerate(window):
                down, along = divmod(tap, _TAPS)
                value = v.fma("float", image[(below + down) * _PIXELS + right + along], weight, value)
            loop.results.append(value)
    for number, value in enumerate(loop.results):
        to = address(code, "%results", str(number * lanes * _FLOAT_BYTES))
        code.effect(f"store {kind} {value}, ptr {to}, align 4")
    return subroutine_of(code, _PARAMETERS)


def _pixel(code: Instructions, down: int, right: int) -> str:
    """Returns the address of a pixel of the tile, that of zeros outside the image."""
    is_inside = []
    for start, further, length in (("%top", down, "%height"), ("%left", right, "%width")):
        place = total(code, start, str(further))
        # Negative ones are large when unsigned.
        is_inside.append(code.value(f"icmp ult i64 {place}, {length}"))
    offsets = multiple(code, "%line", down), multiple(code, "%pixel", right)
    both = code.value(f"and i1 {is_inside[0]}, {is_inside[1]}")
    return code.value(f"select i1 {both}, ptr {address(code, '%corner', *offsets)}, ptr %zeros")


def _window(v: Vector, points: list[str]) -> list[str]:
    """Returns the nine weights of a window from the 16 transformed ones."""

    def difference(one: str, other: str) -> str:
        return v.binary("fsub", "float", one, other)

    def magnitude(value: str) -> str:
        return v.call("llvm.fabs", "float", value)

    rows = [points[start : start + _PIXELS] for start in range(0, _POINTS, _PIXELS)]
    between = [difference(one, other) for one, other in zip(rows[1], rows[2], strict=True)]
    lines = [[line[0], difference(line[1], line[2]), line[3]] for line in (rows[0], between, rows[3])]
    largest = magnitude(rows[1][1])
    for each in (rows[1][2], rows[2][1], rows[2][2]):
        largest = v.call("llvm.maxnum", "float", largest, magnitude(each))
    limit = v.binary("fmul", "float", largest, v.number("float", _ROUNDING))
    is_error = v.compare("ole", "float", magnitude(lines[1][1]), limit)
    lines[1][1] = v.select(is_error, "float", v.number("float", 0), lines[1][1])
    return [each for line in lines for each in line]
