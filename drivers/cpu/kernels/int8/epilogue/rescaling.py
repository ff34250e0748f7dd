"""Requantisation of 32-bit sums: bias, multiplier, zero point and range, on vectors.

See `neurald.hal.operations.arithmetic.fixed_point`. With v = sum + bias, mantissa m and exponent
-r, the result is

    (x + 2^(r - 1) - [x < 0]) >> r  with  x = (2·m·v + 2^31) >> 32,  and x itself if r is 0.

x is computed by unsigned 32×32-bit products: sums begin at 2^31, so that u = v + 2^31 is not
negative. Since 2·m·2^31 is a multiple of 2^32, x is the upper half of 2·m·u + 2^31, less m. The
rounding term and the shifted zero point are combined to one number, which is added before the upper
half is taken.

If every r is positive, [x < 0] can be replaced by [v < 0]: they only differ if x is 0, where both
give the same result. The combined number is then one less, and the highest bit of u, which is set
if v is not negative, is added to it.

If floats give the same results (see `float_scale.py`), they take half as many instructions.
Products that are rounded once, floor(m·v / 2^(31 + r) + 1/2), are only computed with floats.
"""

from collections.abc import Hashable

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.analysis.single_rounding import match_rounded_once
from neurald.drivers.compiler.ir.expression import AccumulatorRef, Apply, Constant, Expression, Load
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.int8.epilogue import float_scale
from neurald.drivers.cpu.kernels.int8.epilogue.float_scale import FloatScale, RescalingRule
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Added to sums to make them non-negative.
_BIAS = 1 << 31
#: Number of word rows per channel; see `Rescaling.rows`.
_ROWS = 4
#: Size of vectors with explicit rounding modes.
_FLOAT_SCALE_BYTES = 64
_MAX_INT32 = (1 << 31) - 1
_HALVES = "<32 x i16>"


class Rescaling(Struct, frozen=True, kw_only=True):
    """Conversion of a sum to a quantised value.

    Attributes:
        expression: the matched part of a kernel's body.
        bias: (channels,), added to sums.
        mantissas, shifts: (channels,), m and r.
        zero_point, low, high: zero point and limits of the quantised value.
        is_by_sign: True if ties below zero round away from it.
        is_once: True if products are rounded once, with ties upwards.
        floats: equivalent floats; None to compute with integers.
    """

    expression: Expression
    bias: Array
    mantissas: Array
    shifts: Array
    zero_point: int
    low: int
    high: int
    is_by_sign: bool
    is_once: bool
    floats: FloatScale | None = None

    @property
    def type(self) -> Scalar:
        """Type of the quantised value."""
        return self.expression.type

    def fits(self, largest: Array) -> bool:
        """Returns True if sums of these magnitudes (channels,), without bias, never overflow."""
        sums = largest + np.abs(self.bias)
        moved = (sums * self.mantissas >> 31) + 2 + np.abs(self._offsets())
        return bool((sums <= _MAX_INT32).all() and (moved <= _MAX_INT32).all())

    def with_floats(self, largest: Array, target: Target) -> "Rescaling":
        """Returns the rescaling with equivalent floats, if there are any for such sums."""
        if self.type.size_bytes > 1 or target.vector_bytes != _FLOAT_SCALE_BYTES:
            return self
        powers = np.ldexp(1.0, -self.shifts)
        additions = np.where(self.shifts > 0, 0.5, 0.0) + powers / 2
        rule = RescalingRule(
            factors=np.ldexp(self.mantissas * powers, -31),
            additions=np.full(additions.shape, 0.5) if self.is_once else additions,
            below=np.where(self.shifts > 0, powers, 0.0),
            reach=largest + np.abs(self.bias),
            zero_point=self.zero_point,
            low=self.low,
            high=self.high,
            is_signed=self.minds_sign,
        )
        return replace(self, floats=float_scale.float_scale(rule))

    @property
    def is_computable(self) -> bool:
        """True if there are instructions for it: those on integers round twice."""
        return self.floats is not None or not self.is_once

    @property
    def minds_sign(self) -> bool:
        """True if the rounding of negative values matters, which it does not if all are clamped."""
        return self.is_by_sign and self.low < self.zero_point and bool(self.shifts.any())

    @property
    def form(self) -> Hashable:
        """Key of everything that instructions depend on."""
        if self.floats is not None:
            return self.type, self.low, self.high, self.floats.is_signed, self.floats.rests is None
        return self.type, self.low, self.high, self.minds_sign, self._knows_sign, bool(self.shifts.any())

    def _offsets(self) -> Array:
        """Returns the number added to x before the shift."""
        half = np.where(self.shifts > 0, np.int64(1) << np.maximum(self.shifts - 1, 0), 0)
        return np.asarray(half + (np.int64(self.zero_point) << self.shifts))

    @property
    def _knows_sign(self) -> bool:
        """True if the sign of v can replace that of x."""
        return bool((self.shifts > 0).all())

    def starts(self) -> Array:
        """Returns the addends of the initial sums, (channels,)."""
        return self.bias + (_BIAS if self.floats is None else self.floats.moves)

    @property
    def row_count(self) -> int:
        """Number of word rows per channel."""
        return _ROWS if self.floats is None else self.floats.row_count

    def rows(self) -> Array:
        """Returns the constants of each channel, (row_count, channels).

        The rows are 2·m, the added number, the threshold below which ties round down, and r; or
        those of `FloatScale`.
        """
        if self.floats is not None:
            return self.floats.rows()
        offsets = self._offsets()
        below = np.where(self.shifts > 0, offsets, -_BIAS)
        less = int(self.minds_sign and self._knows_sign)
        return np.stack((2 * self.mantissas, offsets - self.mantissas - less, below, self.shifts))

    def write(self, code: Instructions, target: Target, total: str, rows: list[str]) -> str:
        """Computes quantised values from vectors of sums and of rows."""
        v = Vector(code, target, target.lanes(4))
        result = self.results(code, target, total, rows)
        return v.cast("trunc", "i32", result, f"i{self.type.size_bytes * 8}")

    def results(self, code: Instructions, target: Target, total: str, rows: list[str]) -> str:
        """Computes clamped results as i32 from vectors of sums and of rows."""
        v, scaled = Vector(code, target, target.lanes(4)), self.scaled(code, target, total, rows)
        return self.limited(v, "i32", scaled if self.floats is None else self.floats.placed(v, scaled, rows))

    def limited(self, v: Vector, element: str, result: str) -> str:
        """Clamps results of a signed type."""
        result = v.call("llvm.smax", element, result, v.number(element, self.low))
        return v.call("llvm.smin", element, result, v.number(element, self.high))

    def packed(self, code: Instructions, target: Target, results: list[str], rows: list[str]) -> str:
        """Narrows four results of `scaled` to bytes for AVX-512, alternating every four lanes."""
        pairs = ((results[0], results[1]), (results[2], results[3]))
        first, second = (self.halves(code, target, each, rows) for each in pairs)
        return as_bytes(code, target, (first, second), self.type, (self.low, self.high))

    def halves(self, code: Instructions, target: Target, results: tuple[str, str], rows: list[str]) -> str:
        """Narrows two results of `scaled` to unclamped i16; see `as_halves`.

        Args:
            code: receives the instructions.
            target: the target of the code.
            results: the vectors.
            rows: the vectors of rows of any channels.
        """
        halves = as_halves(code, *results)
        if self.floats is None:
            return halves
        return self.floats.placed_halves(Vector(code, target, target.lanes(2)), halves, rows)

    def scaled(self, code: Instructions, target: Target, total: str, rows: list[str]) -> str:
        """Computes unclamped results from vectors of sums and of rows.

        With floats, `results` and `halves` add the zero point.
        """
        v = Vector(code, target, target.lanes(4))
        if self.floats is not None:
            return self.floats.scaled(v, total, rows)
        multiplier, offset, below, shift = rows
        moved = _upper(v, total, multiplier, offset)
        if self.minds_sign and self._knows_sign:
            moved = v.binary("add", "i32", moved, v.binary("lshr", "i32", total, v.number("i32", 31)))
        elif self.minds_sign:
            is_below = v.compare("slt", "i32", moved, below)
            less = v.cast("sext", "i1", is_below, "i32")
            moved = v.binary("add", "i32", moved, less)
        return v.binary("ashr", "i32", moved, shift) if self.shifts.any() else moved


def _upper(v: Vector, first: str, second: str, added: str) -> str:
    """Computes (first × second + 2^31) / 2^32 + added on vectors of unsigned i32."""
    wide = Vector(v.code, v.target, v.lanes // 2)
    kind, double = v.type("i32"), wide.type("i64")
    whole = [v.code.value(f"bitcast {kind} {each} to {double}") for each in (first, second, added)]
    low, half, bits = (wide.number("i64", each) for each in ((1 << 32) - 1, 1 << 31, 32))
    even = [wide.binary("and", "i64", each, low) for each in whole[:2]]
    odd = [wide.binary("lshr", "i64", each, bits) for each in whole[:2]]
    upper = (
        wide.binary("shl", "i64", whole[2], bits),
        wide.binary("and", "i64", whole[2], wide.number("i64", -1 << 32)),
    )
    parts = []
    for factors, more in zip((even, odd), upper, strict=True):
        product = wide.binary("mul", "i64", *factors)
        product = wide.binary("add", "i64", product, wide.binary("or", "i64", more, half))
        parts.append(v.code.value(f"bitcast {double} {product} to {kind}"))
    order = ", ".join(f"i32 {lane // 2 * 2 + 1 + lane % 2 * v.lanes}" for lane in range(v.lanes))
    return v.code.value(f"shufflevector {kind} {parts[0]}, {kind} {parts[1]}, <{v.lanes} x i32> <{order}>")


def as_halves(code: Instructions, first: str, second: str) -> str:
    """Narrows two vectors of i32 to saturated i16, alternating every four lanes (AVX-512)."""
    return _pack(code, "packssdw", "<16 x i32>", _HALVES, first, second)


def as_bytes(
    code: Instructions, target: Target, halves: tuple[str, str], kind: Scalar, limits: tuple[int, int]
) -> str:
    """Narrows two vectors of i16 to clamped bytes, alternating every eight lanes (AVX-512)."""
    sign = "s" if kind is Scalar.INT8 else "u"
    name = "packsswb" if kind is Scalar.INT8 else "packuswb"
    result = _pack(code, name, _HALVES, "<64 x i8>", *halves)
    v, bounds = Vector(code, target, 64), np.iinfo(kind.value)
    if limits[0] > bounds.min:
        result = v.call(f"llvm.{sign}max", "i8", result, v.number("i8", limits[0]))
    if limits[1] < bounds.max:
        result = v.call(f"llvm.{sign}min", "i8", result, v.number("i8", limits[1]))
    return result


def _pack(code: Instructions, name: str, source: str, kind: str, first: str, second: str) -> str:
    """Calls an instruction that narrows two vectors."""
    function = f"@llvm.x86.avx512.{name}.512"
    code.declarations.add(f"declare {kind} {function}({source}, {source})")
    return code.fresh(f"call {kind} {function}({source} {first}, {source} {second})")


def find_rescaling(kernel: Kernel, channels: int) -> Rescaling | None:
    """Matches the rescaling of the sums in a kernel's body, if every use of a sum begins with it.

    Args:
        kernel: has INT32 sums, with channels along its last axis.
        channels: number of channels.
    """
    for expression in walk(kernel.body):
        found = _rescaling(expression, kernel, channels)
        if found is not None:
            return found
    return None


def _rescaling(expression: Expression, kernel: Kernel, channels: int) -> Rescaling | None:
    """Matches an expression as a rescaling; None if it is not."""
    if not isinstance(expression, Apply) or expression.op is not Op.CONVERT or expression.type.size_bytes > 2:
        return None
    inner, high = _with_constant(expression.arguments[0], Op.MINIMUM)
    inner, low = _with_constant(inner, Op.MAXIMUM)
    inner, zero_point = _with_constant(inner, Op.ADD)
    if low is None or high is None or not expression.type.is_integer:
        return None
    limits = np.iinfo(expression.type.dtype.name)
    if not limits.min <= low <= high <= limits.max:
        return None
    once = match_rounded_once(inner)
    if once is not None:
        total, mantissa, exponent = once
    elif isinstance(inner, Apply) and inner.op in (Op.FIXED_POINT, Op.FIXED_POINT_UP):
        total, mantissa, exponent = inner.arguments
    else:
        return None
    bias = _bias(total, kernel, channels)
    parts = [_of_channels(each, kernel, channels) for each in (mantissa, exponent)]
    if bias is None or parts[0] is None or parts[1] is None or (parts[1] > 0).any():
        return None
    return Rescaling(
        expression=expression,
        bias=bias,
        mantissas=parts[0],
        shifts=-parts[1],
        zero_point=zero_point or 0,
        low=low,
        high=high,
        is_by_sign=once is None and isinstance(inner, Apply) and inner.op is Op.FIXED_POINT,
        is_once=once is not None,
    )


def _with_constant(expression: Expression, op: Op) -> tuple[Expression, int | None]:
    """Returns the other operand of an operation with a constant integer, and the integer."""
    if isinstance(expression, Apply) and expression.op is op:
        first, second = expression.arguments
        for one, other in ((first, second), (second, first)):
            if isinstance(one, Constant):
                return other, int(one.value)
    return expression, None


def _bias(total: Expression, kernel: Kernel, channels: int) -> Array | None:
    """Matches the bias that is added to sums; None if the expression has another form."""
    if isinstance(total, Apply) and total.op is Op.ADD:
        for one, other in (total.arguments, total.arguments[::-1]):
            if isinstance(_unwidened(one), AccumulatorRef):
                return _of_channels(_unwidened(other), kernel, channels)
        return None
    return np.zeros(channels, np.int64) if isinstance(_unwidened(total), AccumulatorRef) else None


def _unwidened(expression: Expression) -> Expression:
    """Returns the operand of a conversion to INT64."""
    if isinstance(expression, Apply) and expression.op is Op.CONVERT and expression.type is Scalar.INT64:
        source = expression.arguments[0]
        return source if source.type in (Scalar.INT32, Scalar.INT16, Scalar.INT8) else expression
    return expression


def _of_channels(expression: Expression, kernel: Kernel, channels: int) -> Array | None:
    """Returns a constant per channel, as INT64; None if it is not constant."""
    if isinstance(expression, Constant):
        return np.full(channels, int(expression.value), np.int64)
    if not isinstance(expression, Load) or expression.guard is not None or len(expression.index) != 1:
        return None
    known, index = expression.value.constant, expression.index[0]
    if known is None or not expression.type.is_integer:
        return None
    if index is kernel.axes[-1]:
        return known.astype(np.int64)
    return np.full(channels, int(known[index.low]), np.int64) if isinstance(index, Constant) else None
