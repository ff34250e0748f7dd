"""A stored byte from a rescaled sum and another stored byte, as quantised additions make it: see `Residual`.

Of two bytes there are 65,536 pairs, so that a compiler can find out what a kernel's body gives for each of them. Where that
is a sum a·p + b·q + c, rounded down and cut to a range, a few instructions on halves give the same.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

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
from neurald.drivers.compiler.ir.graph import Compute, Value, linearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import rewrite, walk
from neurald.drivers.cpu.instructions import Instructions
from neurald.drivers.cpu.kernels.int8.rescaling import Rescaling, as_halves
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
from neurald.drivers.cpu.target import Target
from neurald.drivers.cpu.vector import Vector

_BYTES = (Scalar.INT8, Scalar.UINT8)
#: Bits of a half: factors have two of them.
_HALF, _LOWER = 16, 0xFFFF
#: Factors are below 2^14 once they are shifted, so that they stay within halves when they are rounded.
_FACTOR_BITS = 14
#: More bits after the point than this leave no room for constants before it.
_MAX_SHIFTED = 20
#: What may be added to sums of upper halves, which are below 2^24, within 32 bits.
_MAX_ADDED = 1 << 30
#: More than any sum, as INT64.
_FAR = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """What a body makes of the rescaled sum p and of a loaded byte q: (a·p + b·q + c) >> (16 + shift), cut to a range.

    Since nested floors collapse, the lower halves of a, b and c, which have 32 bits, can be summed and shifted before the
    upper ones are added.

    Attributes:
        other: what q is an element of, at the same position as the result.
        type: of the result, of one byte.
        upper, lower: the halves of (a, b), signed.
        start, end: what is added to the sums of the lower halves, and to those of the upper ones.
        shift: of the sums of the upper halves.
        low, high: the range.
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
        """The numbers that kernels read rather than have in their code, which layers that only differ in them then share."""
        lower, upper = ((second << _HALF) + (first & _LOWER) for first, second in (self.lower, self.upper))
        return self.start, lower, self.end, upper

    @property
    def form(self) -> Hashable:
        """All that instructions depend on."""
        return self.type, self.other.type, self.shift, self.low, self.high

    def sums(self, code: Instructions, target: Target, pairs: str, words: Sequence[str]) -> str:
        """Results before they are cut to the range, vectors of i32.

        Args:
            code: where instructions go.
            target: what they are for.
            pairs: vectors of i32: p in the lower halves, q in the upper ones.
            words: `Residual.words`, each in all lanes of a vector of i32.
        """
        v = Vector(code, target, target.lanes(4))
        scheme = Scheme(target=target, is_bytes=False)
        start, lower, end, upper = words
        total = scheme.step(code, start, pairs, lower)
        if target.has_vnni:
            # The upper half, times 1, is added by one instruction.
            total = scheme.step(code, end, total, v.number("i32", 1 << _HALF))
        else:
            total = v.two("ashr", "i32", total, v.number("i32", _HALF))
            total = v.two("add", "i32", total, end)
        total = scheme.step(code, total, pairs, upper)
        return v.two("ashr", "i32", total, v.number("i32", self.shift))

    def write(
        self, code: Instructions, target: Target, stored_sums: str, others: str, words: Sequence[str]
    ) -> str:
        """The name of stored values.

        Args:
            code: where instructions go.
            target: what they are for.
            stored_sums: vectors of i32, within the range of a byte.
            others: vectors of i8.
            words: as for `sums`.
        """
        v = Vector(code, target, target.lanes(4))
        wide = v.cast(self._extension, "i8", others, "i32")
        upper = v.two("shl", "i32", wide, v.number("i32", _HALF))
        lower = v.two("and", "i32", stored_sums, v.number("i32", _LOWER))
        result = self.sums(code, target, v.two("or", "i32", upper, lower), words)
        result = v.call("llvm.smax", "i32", result, v.number("i32", self.low))
        result = v.call("llvm.smin", "i32", result, v.number("i32", self.high))
        return v.cast("trunc", "i32", result, "i8")

    def halves(
        self, code: Instructions, target: Target, stored_sums: str, others: str, words: Sequence[str]
    ) -> str:
        """Results as vectors of i16 before they are cut to the range, for AVX-512.

        Args:
            code: where instructions go.
            target: what they are for.
            stored_sums: vectors of i16, within the range of a byte.
            others: vectors of as many i8.
            words: as for `sums`.
        """
        v = Vector(code, target, target.lanes(2))
        kind = v.type("i16")
        wide = v.cast(self._extension, "i8", others, "i16")
        results = []
        # Each 128 bits become four pairs of lower lanes and four of upper ones; narrowing them puts lanes where they were.
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
    """What a kernel's body is; None where it is something else, or no such sum.

    Args:
        kernel: flattened; `AccumulatorRef` in its body is what the rescaling gives.
        rescaling: of a sum.
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
    """The numbers with which the formula of `Residual` gives what the body does for all pairs; None: there are none."""
    _, exponent = math.frexp(max(abs(each) for each in factors))
    shift = min(_FACTOR_BITS - exponent, _MAX_SHIFTED)
    if shift < 0:
        return None
    first, second = (round(math.ldexp(each, shift + _HALF)) for each in factors)
    limits = np.iinfo(loaded.type.dtype.name)
    sums_of = np.arange(rescaling.low, rescaling.high + 1)
    others = np.arange(int(limits.min), int(limits.max) + 1)
    wanted = _table(body, loaded, (sums_of, others))
    low, high = int(wanted.min()), int(wanted.max())
    # What is left for c: sums whose results are cut off may be anything beyond.
    step = 1 << (shift + _HALF)
    sums = sums_of[:, None] * first + others * second
    least = int(np.max(wanted * step - sums, where=wanted > low, initial=-_FAR))
    most = int(np.min((wanted + 1) * step - 1 - sums, where=wanted < high, initial=_FAR))
    if least > most or low == high:
        return None
    last = least if most == _FAR else most if least == -_FAR else (least + most) // 2
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
    """What the body gives for stored sums, by row, and for loaded bytes, by column: INT64."""
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
    """What the sum and the loaded byte are multiplied with, roundings and limits apart; None where there is more to it."""
    known: dict[Expression, tuple[float, float, float] | None] = {}
    for expression in walk(body):
        known[expression] = _linear(expression, loaded, known)
    found = known[body]
    return None if found is None or not any(found[:2]) else found[:2]


def _linear(
    expression: Expression, loaded: Load, known: Mapping[Expression, tuple[float, float, float] | None]
) -> tuple[float, float, float] | None:
    """An expression as (a, b, c): a × sum + b × loaded byte + c."""
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
    """What an operation gives; `numbers` are the others as far as they are constants."""
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
