"""Matches epilogues that combine a rescaled sum with another byte, such as quantised additions.

There are only 65,536 pairs of bytes, so the result of a kernel's body can be computed for each of
them at compile time. If that is a clamped, rounded-down sum a·p + b·q + c, a few 16-bit
instructions compute it.
"""

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import Array, evaluate_node
from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Constant,
    Expression,
    Load,
    axis,
    load,
)
from neurald.drivers.compiler.ir.graph import Compute, linearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import rewrite, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.int8.epilogue.rescaling import Rescaling, as_halves
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
from neurald.drivers.cpu.target.target import Target

_BYTES = (Scalar.INT8, Scalar.UINT8)
#: Bits of half a factor.
_HALF, _LOWER = 16, 0xFFFF
#: Shifted factors stay below 2^14, so that rounding keeps them within 16 bits.
_MAX_FACTOR_BITS = 14
#: More fraction bits would leave no room for the integer part of constants.
_MAX_SHIFTED = 20
#: Limit on constants added to sums of upper halves, which are below 2^24.
_MAX_ADDED = 1 << 30
#: More than any sum, as INT64.
_UNBOUNDED = 1 << 62


class Residual(Struct, frozen=True, kw_only=True):
    """Clamped (a·p + b·q + c) >> (16 + shift) of a rescaled sum p and a loaded byte q.

    Since nested floors collapse, the products of the lower halves of a, b and c (32 bits each) can
    be summed and shifted before those of the upper halves are added.

    Attributes:
        other: the value of q, at the same index as the result.
        type: the type of the result, of one byte.
        upper, lower: the halves of (a, b), signed.
        start, end: constants added to the sums of lower and upper halves.
        shift: the shift of the sums of the upper halves.
        low, high: bounds of the result.
    """

    other: Value
    type: Scalar
    upper: tuple[int, int]
    lower: tuple[int, int]
    start: int
    end: int
    shift: int
    low: int
    high: int

    @property
    def words(self) -> tuple[int, ...]:
        """Constants that kernels load instead of embedding, so that similar layers share code."""
        lower, upper = ((second << _HALF) + (first & _LOWER) for first, second in (self.lower, self.upper))
        return self.start, lower, self.end, upper

    @property
    def form(self) -> Hashable:
        """Key of everything that instructions depend on."""
        return self.type, self.other.type, self.shift, self.low, self.high

    def sums(self, code: Instructions, target: Target, pairs: str, words: Sequence[str]) -> str:
        """Computes unclamped results, vectors of i32.

        Args:
            code: receives the instructions.
            target: the target of the code.
            pairs: vectors of i32 with p in the lower halves and q in the upper ones.
            words: `Residual.words`, each broadcast to a vector of i32.
        """
        v = Vector(code, target, target.lanes(4))
        scheme = Scheme(target=target, is_bytes=False)
        start, lower, end, upper = words
        total = scheme.step(code, start, pairs, lower)
        if target.has_short_dots:
            # A single instruction adds the upper half, multiplied by 1.
            total = scheme.step(code, end, total, v.number("i32", 1 << _HALF))
        else:
            total = v.binary("ashr", "i32", total, v.number("i32", _HALF))
            total = v.binary("add", "i32", total, end)
        total = scheme.step(code, total, pairs, upper)
        return v.binary("ashr", "i32", total, v.number("i32", self.shift))

    def write(
        self, code: Instructions, target: Target, stored_sums: str, others: str, words: Sequence[str]
    ) -> str:
        """Computes quantised values.

        Args:
            code: receives the instructions.
            target: the target of the code.
            stored_sums: vectors of i32, in the range of a byte.
            others: vectors of i8.
            words: see `sums`.
        """
        v = Vector(code, target, target.lanes(4))
        wide = v.cast(self._extension, "i8", others, "i32")
        upper = v.binary("shl", "i32", wide, v.number("i32", _HALF))
        lower = v.binary("and", "i32", stored_sums, v.number("i32", _LOWER))
        result = self.sums(code, target, v.binary("or", "i32", upper, lower), words)
        result = v.call("llvm.smax", "i32", result, v.number("i32", self.low))
        result = v.call("llvm.smin", "i32", result, v.number("i32", self.high))
        return v.cast("trunc", "i32", result, "i8")

    def halves(
        self, code: Instructions, target: Target, stored_sums: str, others: str, words: Sequence[str]
    ) -> str:
        """Computes unclamped results as vectors of i16, for AVX-512.

        Args:
            code: receives the instructions.
            target: the target of the code.
            stored_sums: vectors of i16, in the range of a byte.
            others: vectors of as many i8.
            words: see `sums`.
        """
        v = Vector(code, target, target.lanes(2))
        kind = v.type("i16")
        wide = v.cast(self._extension, "i8", others, "i16")
        results = []
        # Each 128 bits become four pairs of lower lanes and four of upper ones; narrowing restores
        # the order.
        for half in (0, 4):
            order = ", ".join(
                f"i32 {start + half + each + source * v.lanes}"
                for start in range(0, v.lanes, 8)
                for each in range(4)
                for source in (0, 1)
            )
            mixed = code.fresh(
                f"shufflevector {kind} {stored_sums}, {kind} {wide}, <{v.lanes} x i32> <{order}>"
            )
            pairs = code.fresh(f"bitcast {kind} {mixed} to <{v.lanes // 2} x i32>")
            results.append(self.sums(code, target, pairs, words))
        return as_halves(code, *results)

    @property
    def _extension(self) -> str:
        return "sext" if self.other.type is Scalar.INT8 else "zext"


def find_residual(kernel: Kernel, rescaling: Rescaling) -> Residual | None:
    """Matches a kernel's body as a residual; None if it is not one.

    Args:
        kernel: flattened; `AccumulatorRef` in its body is the rescaled sum.
        rescaling: the rescaling of a sum.
    """
    loads = [each for each in walk(*kernel.roots) if isinstance(each, Load)]
    if (
        kernel.requirements
        or len(loads) != 1
        or kernel.body.type not in _BYTES
        or rescaling.type not in _BYTES
    ):
        return None
    (loaded,) = loads
    if loaded.guard is not None or loaded.value.constant is not None or loaded.type not in _BYTES:
        return None
    if linearize(loaded.index, loaded.value.shape) is not linearize(kernel.axes, kernel.shape):
        return None
    factors = _factors(kernel.body, loaded)
    return None if factors is None else _fitted(kernel.body, loaded, rescaling, factors)


def _fitted(
    body: Expression, loaded: Load, rescaling: Rescaling, factors: tuple[float, float]
) -> Residual | None:
    """Finds constants of a `Residual` that equals the body for all pairs of bytes.

    Returns None if there are none.
    """
    _, exponent = math.frexp(max(abs(each) for each in factors))
    shift = min(_MAX_FACTOR_BITS - exponent, _MAX_SHIFTED)
    if shift < 0:
        return None
    first, second = (round(math.ldexp(each, shift + _HALF)) for each in factors)
    limits = np.iinfo(loaded.type.dtype.name)
    sums_of = np.arange(rescaling.low, rescaling.high + 1)
    others = np.arange(int(limits.min), int(limits.max) + 1)
    wanted = _table(body, loaded, (sums_of, others))
    low, high = int(wanted.min()), int(wanted.max())
    # Bounds of c; sums of clamped results are unconstrained on one side.
    step = 1 << (shift + _HALF)
    sums = sums_of[:, None] * first + others * second
    least = int(np.max(wanted * step - sums, where=wanted > low, initial=-_UNBOUNDED))
    most = int(np.min((wanted + 1) * step - 1 - sums, where=wanted < high, initial=_UNBOUNDED))
    if least > most or low == high:
        return None
    last = least if most == _UNBOUNDED else most if least == -_UNBOUNDED else (least + most) // 2
    end = last >> _HALF
    if abs(end) >= _MAX_ADDED:
        return None
    bounds = np.iinfo(body.type.dtype.name)
    is_cut_below, is_cut_above = sums.min() + last < low * step, sums.max() + last >= (high + 1) * step
    upper = [(each + (1 << (_HALF - 1))) >> _HALF for each in (first, second)]
    return Residual(
        other=loaded.value,
        type=body.type,
        upper=(upper[0], upper[1]),
        lower=(first - (upper[0] << _HALF), second - (upper[1] << _HALF)),
        start=last & _LOWER,
        end=end,
        shift=shift,
        low=low if is_cut_below else int(bounds.min),
        high=high if is_cut_above else int(bounds.max),
    )


def _table(body: Expression, loaded: Load, operands: tuple[Array, Array]) -> Array:
    """Computes the body for quantised sums (rows) and loaded bytes (columns), INT64."""
    axes = tuple(axis(len(each)) for each in operands)
    values = [Value(each.shape, Scalar.INT64, each) for each in operands]
    first, second = (load(value, (along,)) for value, along in zip(values, axes, strict=True))

    def replaced(expression: Expression) -> Expression | None:
        if isinstance(expression, AccumulatorRef):
            return first.to(expression.type)
        return second.to(loaded.type) if expression is loaded else None

    node = Compute(
        output=Value(tuple(each.extent for each in axes), body.type),
        axes=axes,
        body=rewrite(body, replaced, {}),
    )
    arrays = dict(zip(values, operands, strict=True))
    return evaluate_node(node, arrays).astype(np.int64)


def _factors(body: Expression, loaded: Load) -> tuple[float, float] | None:
    """Returns the approximate factors of the sum and the byte; None if the body is not linear."""
    known: dict[Expression, tuple[float, float, float] | None] = {}
    for expression in walk(body):
        known[expression] = _linear(expression, loaded, known)
    found = known[body]
    return None if found is None or not any(found[:2]) else found[:2]


def _linear(
    expression: Expression, loaded: Load, known: Mapping[Expression, tuple[float, float, float] | None]
) -> tuple[float, float, float] | None:
    """Returns an expression as (a, b, c): a × sum + b × loaded byte + c."""
    if isinstance(expression, AccumulatorRef):
        return 1.0, 0.0, 0.0
    if expression is loaded:
        return 0.0, 1.0, 0.0
    if isinstance(expression, Constant) and expression.type.is_integer:
        return 0.0, 0.0, float(expression.value)
    if not isinstance(expression, Apply) or not expression.type.is_integer:
        return None
    parts = [known[each] for each in expression.arguments]
    if any(each is None for each in parts):
        return None
    first, *others = (np.array(each) for each in parts)
    numbers = [each[2] if not each[:2].any() else None for each in others]
    result = _combined(expression.op, first, others, numbers)
    return None if result is None else (float(result[0]), float(result[1]), float(result[2]))


def _combined(op: Op, first: Array, others: list[Array], numbers: list[float | None]) -> Array | None:
    """Applies an operation to linear forms; `numbers` are the other operands that are constants."""
    if op is Op.CONVERT:
        return first
    if op is Op.ADD:
        return np.asarray(first + others[0])
    if op is Op.SUBTRACT:
        return np.asarray(first - others[0])
    if op in (Op.MINIMUM, Op.MAXIMUM) and first[:2].any() and numbers[0] is not None:
        return first
    if op is Op.MULTIPLY and numbers[0] is not None:
        return np.asarray(first * numbers[0])
    if op in (Op.SHIFT_LEFT, Op.SHIFT_RIGHT) and numbers[0] is not None:
        return np.asarray(first * 2.0 ** (numbers[0] if op is Op.SHIFT_LEFT else -numbers[0]))
    if op in (Op.FIXED_POINT, Op.FIXED_POINT_UP) and numbers[0] is not None and numbers[1] is not None:
        return np.asarray(first * numbers[0] * 2.0 ** (numbers[1] - 31))
    return None
