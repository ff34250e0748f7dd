"""The transformations of a Winograd convolution of bytes: of weights, pixels and sums.

Usually the weights are transformed with fractions. Here they are whole multiples, so that all
points fit in 16 bits, and the last transformation yields results times 9 · 2^n. It is computed
modulo 2^32, in which 9 has an inverse, so that only the result itself, times 2^n, must fit in 32
bits; sums need not.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.function import subroutine_of
from neurald.drivers.cpu.target.routine import Subroutine
from neurald.drivers.cpu.target.target import Target

#: Positions of a tile per dimension, the pixels it depends on, and the number of transformed
#: points.
TILE_SIZE, _PIXELS = 4, 6
POINTS = _PIXELS * _PIXELS
#: Transformation of the weights along a dimension: of any byte less a zero point it fits in 16
#: bits.
_WEIGHTS = np.array([[6, 0, 0], [1, 1, 1], [1, -1, 1], [1, 2, 4], [1, -2, 4], [0, 0, 6]])
#: The results along a dimension are 3 · 2^n times the sums: these n. The inverse of 9 modulo 2^32.
_SHIFTS, _INVERSE = (3, 2, 1, 1), pow(9, -1, 1 << 32)
#: Results must be smaller, to fit in 32 bits when multiplied by 2^n for both dimensions.
MAX_SUM = 1 << 31 - 2 * max(_SHIFTS)
#: Bytes of a transformed pixel or weight.
HALF_BYTES = 2


def transformed_weights(weights: Array, zero: int) -> Array:
    """Returns the transformed weights, (36, channels, depth) INT16.

    Args:
        weights: bytes of (channels, 3, 3, depth).
        zero: their zero point.
    """
    channels, rows, columns, depth = weights.shape
    taps = (weights.astype(np.int64) - zero).reshape(channels, rows * columns, depth)
    return (np.kron(_WEIGHTS, _WEIGHTS) @ taps).transpose(1, 0, 2).astype(np.int16)


@cache
def pixels_subroutine(
    kind: Scalar,
    target: Target,
    lanes: int,
    depth: int,
    distance: int,
    *,
    has_zero: bool,
    is_inside: bool,
) -> Subroutine:
    """Returns the function that transforms the pixels of a tile.

    Its arguments are the address of the first pixel, the destination, and the width of the image;
    unless all pixels are inside of the image, also the address of a pixel outside, row and column
    of the first pixel, and the height; and the zero point, if there is one.

    Args:
        kind: the type of the pixels.
        target: the target of the code.
        lanes: number of channels that are transformed at once; the last ones overlap those before
            if they do not divide the depth.
        depth: number of channels, not fewer.
        distance: of the transformed pixels at two points, in bytes.
        has_zero: whether the pixels have a zero point.
        is_inside: True if all pixels are inside of the image.
    """
    parameters = [("ptr", "%source"), ("ptr", "%to"), ("i64", "%width")]
    if not is_inside:
        parameters.append(("ptr", "%outside"))
        parameters += (("i64", f"%{each}") for each in ("row", "column", "height"))
    if has_zero:
        parameters.append(("i16", "%zero"))
    code = Instructions(name for _, name in parameters)
    v = Vector(code, target, lanes)
    line_bytes = code.value(f"mul i64 %width, {depth}")
    lines = [address(code, "%source", code.value(f"mul i64 {line_bytes}, {row}")) for row in range(_PIXELS)]
    chosen = None if is_inside else _chosen_pixels(code, lines, depth)
    zero = v.splat("i16", "%zero") if has_zero else None
    with code.loop("0", str(depth), step=lanes) as loop:
        channel = loop.index
        if depth % lanes:
            channel = Vector(code, target, 1).call("llvm.smin", "i64", channel, str(depth - lanes))
        if chosen is not None:
            places = [address(code, each, channel) for each in chosen]
        else:
            starts = [address(code, each, channel) for each in lines]
            places = [
                address(code, each, str(column * depth)) for each in starts for column in range(_PIXELS)
            ]
        values = []
        for place in places:
            stored = code.fresh(f"load {v.type('i8')}, ptr {place}, align 1")
            value = v.cast("sext" if kind is Scalar.INT8 else "zext", "i8", stored, "i16")
            values.append(value if zero is None else v.binary("sub", "i16", value, zero))
        to = address(code, "%to", multiple(code, channel, HALF_BYTES))
        for number, value in enumerate(_transformed_square(values, partial(_points_of, v))):
            place = address(code, to, str(number * distance))
            code.effect(f"store {v.type('i16')} {value}, ptr {place}, align {HALF_BYTES}")
    return subroutine_of(code, parameters)


def _chosen_pixels(code: Instructions, lines: Sequence[str], depth: int) -> list[str]:
    """Returns the addresses of a tile's pixels, or that of the one outside of the image."""
    # Negative indices are large when unsigned.
    rows, columns = (
        [code.value(f"icmp ult i64 {total(code, first, str(each))}, {length}") for each in range(_PIXELS)]
        for first, length in (("%row", "%height"), ("%column", "%width"))
    )
    pixels = []
    for line, is_row in zip(lines, rows, strict=True):
        for column, is_column in enumerate(columns):
            is_inside = code.value(f"and i1 {is_row}, {is_column}")
            pixel = address(code, line, str(column * depth))
            pixels.append(code.value(f"select i1 {is_inside}, ptr {pixel}, ptr %outside"))
    return pixels


@cache
def results_subroutine(
    target: Target, lanes: int, vectors: int, sums_bytes: int, *, has_begins: bool
) -> Subroutine:
    """Returns the function that transforms the sums of a tile for a panel to its results.

    Args:
        target: the target of the code.
        lanes, vectors: channels of a vector, and vectors of a panel.
        sums_bytes: distance of the sums at two points.
        has_begins: whether results begin with an addend of their channel.
    """
    parameters = [("ptr", "%sums"), ("ptr", "%to"), *([("ptr", "%begins")] if has_begins else [])]
    code = Instructions(name for _, name in parameters)
    v, register = Vector(code, target, lanes), target.vector_bytes
    kind = v.type("i32")

    def load(pointer: str) -> str:
        return code.fresh(f"load {kind}, ptr {pointer}, align {register}")

    with code.loop("0", str(vectors)) as loop:
        offset = multiple(code, loop.index, register)
        sums, to = (address(code, each, offset) for each in ("%sums", "%to"))
        values = [load(address(code, sums, str(each * sums_bytes))) for each in range(POINTS)]
        begin = load(address(code, "%begins", offset)) if has_begins else None
        for each, value in enumerate(_transformed_square(values, partial(_sums_of, v))):
            row, column = divmod(each, TILE_SIZE)
            result = _divided(v, value, _SHIFTS[row] + _SHIFTS[column])
            if begin is not None:
                result = v.binary("add", "i32", result, begin)
            place = address(code, to, str(each * vectors * register))
            code.effect(f"store {kind} {result}, ptr {place}, align {register}")
    return subroutine_of(code, parameters)


class _Integers:
    """Arithmetic of vectors of integers, modulo 2^16 or 2^32.

    Args:
        vector: writes the instructions.
        element: the type of the integers: i16 or i32.
    """

    def __init__(self, vector: Vector, element: str) -> None:
        self._vector, self._element = vector, element

    def add(self, first: str, second: str) -> str:
        """Writes `first + second`."""
        return self._vector.binary("add", self._element, first, second)

    def less(self, first: str, second: str) -> str:
        """Writes `first - second`."""
        return self._vector.binary("sub", self._element, first, second)

    def times(self, first: str, bits: int) -> str:
        """Writes `first · 2^bits`."""
        return self._vector.binary("shl", self._element, first, self._vector.number(self._element, bits))


def _transformed_square(values: Sequence[str], along: Callable[[Sequence[str]], list[str]]) -> list[str]:
    """Transforms a square of values along columns, then along rows."""
    columns = [along(values[column::_PIXELS]) for column in range(_PIXELS)]
    return [each for row in zip(*columns, strict=True) for each in along(row)]


def _points_of(v: Vector, d: Sequence[str]) -> list[str]:
    """Transforms six pixels."""
    the = _Integers(v, "i16")
    add, less, times = the.add, the.less, the.times
    even, odd = less(d[4], times(d[2], 2)), less(d[3], times(d[1], 2))
    near, far = less(d[4], d[2]), times(less(d[3], d[1]), 1)
    return [
        add(times(less(d[0], d[2]), 2), near),
        add(even, odd),
        less(even, odd),
        add(near, far),
        less(near, far),
        less(less(d[5], d[3]), times(far, 1)),
    ]


def _sums_of(v: Vector, m: Sequence[str]) -> list[str]:
    """Transforms the sums of six points to multiples of four results."""
    the = _Integers(v, "i32")
    add, less, times = the.add, the.less, the.times
    near, near_odd = add(m[1], m[2]), less(m[1], m[2])
    far, far_odd = add(m[3], m[4]), less(m[3], m[4])
    return [
        add(m[0], less(far, times(near, 2))),
        less(far_odd, times(near_odd, 1)),
        less(far, near),
        add(less(m[5], near_odd), times(far_odd, 1)),
    ]


def _divided(v: Vector, value: str, bits: int) -> str:
    """Divides a multiple of 9 · 2^bits, modulo 2^32."""
    inverse = v.number("i32", _INVERSE)
    return v.binary("ashr", "i32", v.binary("mul", "i32", value, inverse), v.number("i32", bits))
