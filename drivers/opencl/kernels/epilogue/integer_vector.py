"""Integers at four columns, as `int4`, if they are proven to fit in 32 bits.

Constants of the model become sizes, so that layers that differ only in these have the same text.
"""

from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.analysis.integer_ranges import IntegerRange, RangeAnalysis
from neurald.drivers.compiler.analysis.single_rounding import match_rounded_once
from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Constant,
    Expression,
    Load,
    constant,
)
from neurald.drivers.compiler.ir.nesting import BoundedRecursion
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.opencl.codegen.dialect import memory_type
from neurald.drivers.opencl.kernels.epilogue.rounded_sum import BYTES, RoundedSum, rounded_sum
from neurald.drivers.opencl.kernels.epilogue.vector4_loads import Vector4Loads

_INFIX = {Op.ADD: "+", Op.SUBTRACT: "-", Op.MULTIPLY: "*", Op.SHIFT_RIGHT: ">>"}
_CALLS = {Op.MINIMUM: "min", Op.MAXIMUM: "max"}
_FIXED_POINT = (Op.FIXED_POINT, Op.FIXED_POINT_UP)
#: The largest constant that is added to a product before its upper half is shifted, and the lowest
#: exponent for which their sum has 63 bits.
_MAX_ADDEND, _MIN_EXPONENT = 255, -23
#: Clamp limits that occur in every layer: the limits of the stored types.
_LIMITS = frozenset((0, -(1 << 7), (1 << 7) - 1, (1 << 8) - 1, -(1 << 15), (1 << 15) - 1, (1 << 16) - 1))


class IntegerVector:
    """Renders integer expressions at four columns.

    Args:
        loads: renders their loads.
        ranges: the bounds of expressions.
    """

    def __init__(self, loads: Vector4Loads, ranges: RangeAnalysis) -> None:
        self.loads = loads
        #: Sizes that texts refer to, in order of appearance.
        self.sizes: dict[str, int] = {}
        self._ranges = ranges
        self._texts: dict[Expression, str | None] = {}
        self._bytes: dict[Expression, str | None] = {}
        self._nesting = BoundedRecursion[str | None](_parts)
        self._lines: list[str] = []

    @property
    def lines(self) -> list[str]:
        """Statements that the value needs."""
        return [*self.loads.lines, *self._lines]

    def value(self, root: Expression) -> str | None:
        """Returns the text of an `int4`, a name or a cast; None if not possible."""
        if isinstance(root, Constant):
            # Each constant becomes a separate size: equal values in one layer may differ in
            # another.
            return self._number(root) if self._range(root) is not None else None
        if root not in self._texts:
            self._texts[root] = self._nesting.compute(root, self._text, self.value)
        return self._texts[root]

    def stored(self, root: Expression) -> str | None:
        """Returns the text of the value as a vector of its type."""
        if root.type in BYTES:
            return self._stored_bytes(root)
        text = self.value(root)
        if text is None or root.type is Scalar.INT32:
            return text
        return f"convert_{memory_type(root.type)}4({text})"

    def _stored_bytes(self, root: Expression) -> str | None:
        """Returns the text of the value as a `char4` or `uchar4`."""
        if root not in self._bytes:
            self._bytes[root] = self._nesting.compute(root, self._bytes_text, self._any)
        return self._bytes[root]

    def _any(self, part: Expression) -> str | None:
        return self._stored_bytes(part) if part.type in BYTES else self.value(part)

    def _bytes_text(self, root: Expression) -> str | None:
        kind = memory_type(root.type)
        if isinstance(root, Load):
            found = self.loads.load(root)
            if found is None:
                return None
            return f"({kind}4)({found.text})" if found.is_uniform else f"convert_{kind}4({found.text})"
        total = rounded_sum(root)
        if total is not None:
            return self._rounded_sum(total, root.type)
        limited = _limited_below(root)
        if limited is not None:
            text = self.value(limited)
            return None if text is None else f"neurald_saturated_{kind}4({text})"
        text = self.value(root)
        return None if text is None else f"convert_{kind}4({text})"

    def _range(self, expression: Expression) -> IntegerRange | None:
        """Returns the bounds of a number; None if it may not fit in 32 bits."""
        if not expression.type.is_integer or expression.type is Scalar.INDEX:
            return None
        found = self._ranges.of(expression)
        return found if found is not None and found.fits(Scalar.INT32) else None

    def _number(self, number: Constant) -> str:
        name = f"c{len(self.sizes)}"
        self.sizes[name] = int(number.value)
        return f"(int4)(${name})"

    def _limit(self, expression: Expression) -> str | None:
        """Returns the literal text of a constant that is the same in all layers."""
        is_limit = isinstance(expression, Constant) and expression.value in _LIMITS
        return f"(int4)({expression.value})" if is_limit and isinstance(expression, Constant) else None

    def _declared(self, text: str) -> str:
        name = f"v{len(self._lines)}"
        self._lines.append(f"  const int4 {name} = {text};")
        return name

    def _text(self, expression: Expression) -> str | None:
        if self._range(expression) is None:
            return None
        if isinstance(expression, AccumulatorRef):
            return "sum"
        if isinstance(expression, Load):
            return self._load(expression)
        if isinstance(expression, Apply):
            return self._apply(expression)
        return None

    def _load(self, expression: Load) -> str | None:
        found = self.loads.load(expression)
        if found is None:
            return None
        if found.is_uniform:
            return self._declared(f"(int4)((int){found.text})")
        is_plain = expression.type is Scalar.INT32
        return self._declared(found.text if is_plain else f"convert_int4({found.text})")

    def _apply(self, expression: Apply) -> str | None:
        if rounded_sum(expression) is not None:
            text = self._stored_bytes(expression)
            return None if text is None else self._declared(f"convert_int4({text})")
        parts = match_rounded_once(expression)
        if parts is not None:
            return self._rounded_once(*parts)
        op, operands = expression.op, expression.operands
        if op is Op.ADD:
            text = self._scaled_plus(expression, "plus")
            if text is not None:
                return text
            # A fixed order gives all layers the same text.
            operands = tuple(sorted(operands, key=lambda each: not _has_sum(each)))
        texts = []
        for each in operands:
            text = self._limit(each) if op in _CALLS else None
            if op is Op.MAXIMUM and text is None:
                text = self._scaled_above(each, operands)
            text = self.value(each) if text is None else text
            if text is None:
                return None
            texts.append(text)
        if op is Op.CONVERT:
            return texts[0]
        if op in _INFIX:
            return self._declared(f"{texts[0]} {_INFIX[op]} {texts[1]}")
        if op in _CALLS:
            return self._declared(f"{_CALLS[op]}({texts[0]}, {texts[1]})")
        if op is Op.SHIFT_LEFT:
            return self._declared(_shifted(*texts))
        return self._fixed_point(expression, *texts) if op in _FIXED_POINT else None

    def _fixed_point(self, expression: Apply, value: str, mantissa: str, exponent: str) -> str | None:
        """Multiplies in fixed point, with only those shifts that the exponents require."""
        values, exponents = (self._range(expression.operands[place]) for place in (0, 2))
        if values is None or exponents is None:
            return None
        if exponents.high > 0:
            left = exponent if exponents.low >= 0 else f"max({exponent}, (int4)(0))"
            is_small = (values << IntegerRange(0, exponents.high)).fits(Scalar.INT32)
            text = _shifted(value, left) if is_small else f"neurald_shifted_left4({value}, {left})"
            value = self._declared(text)
        if expression.op is Op.FIXED_POINT and exponents.high < -1:
            return self._declared(f"neurald_scaled4({value}, {mantissa}, {exponent})")
        if expression.op is Op.FIXED_POINT and exponents.low == exponents.high == -1:
            return self._declared(f"neurald_scaled_by_half4({value}, {mantissa})")
        product = self._declared(f"neurald_high_product4({value}, {mantissa})")
        if exponents.low >= 0:
            return product
        total = product if expression.op is Op.FIXED_POINT_UP else f"{product} + ({value} >> 31)"
        if exponents.high < 0:
            return self._declared(f"neurald_shifted_right4({total}, {exponent})")
        shifted = f"neurald_shifted_right4({total}, min({exponent}, (int4)(-1)))"
        return self._declared(f"select({shifted}, {product}, {exponent} >= (int4)(0))")

    def _scaled_above(self, total: Expression, operands: Sequence[Expression]) -> str | None:
        """Returns the text of a sum of which the maximum with a limit is computed.

        It may differ below that limit. Returns None if that is no shorter.
        """
        addend = _addend(total)
        limits = [int(each.value) for each in operands if isinstance(each, Constant)]
        if addend is None or not limits or int(addend.value) > limits[0]:
            return None
        return self._scaled_plus(total, "above")

    def _scaled_plus(self, total: Expression, which: str) -> str | None:
        """Returns the text of a product in fixed point plus a constant, in one step if possible."""
        addend = _addend(total)
        if addend is None or abs(int(addend.value)) > _MAX_ADDEND:
            return None
        product = next(each for each in total.operands if each is not addend)
        value, mantissa, exponent = product.operands
        values, mantissas, exponents = map(self._range, (value, mantissa, exponent))
        if values is None or mantissas is None or exponents is None or mantissas.low < 0:
            return None
        if exponents.low < _MIN_EXPONENT or exponents.high >= -1:
            return None
        texts = [self.value(each) for each in (value, mantissa, exponent, addend)]
        if any(text is None for text in texts):
            return None
        return self._declared(
            f"neurald_scaled_{which}4({', '.join(text for text in texts if text is not None)})"
        )

    def _rounded_sum(self, total: RoundedSum, kind: Scalar) -> str | None:
        """Returns the text of a `char4` or `uchar4`."""
        texts = [
            None if text is None else f"neurald_float4_of_{memory_type(operand.type)}4({text})"
            for operand in (total.first, total.second)
            for text in (self._stored_bytes(operand),)
        ]
        if any(text is None for text in texts):
            return None
        bits = [
            self._number(constant(int(np.float32(each).view(np.int32)), Scalar.INT32))
            for each in (*total.factors, total.addend)
        ]
        floats = ", ".join(f"as_float4({each})" for each in bits)
        text = f"neurald_rounded_sum4({texts[0]}, {texts[1]}, {floats})"
        limits = np.iinfo(kind.value)
        if total.low > limits.min:
            text = f"max({text}, {self._number(constant(total.low, Scalar.INT32))})"
        if total.high < limits.max:
            text = f"min({text}, {self._number(constant(total.high, Scalar.INT32))})"
        return f"neurald_saturated_{memory_type(kind)}4({self._declared(text)})"

    def _rounded_once(self, value: Expression, mantissa: Expression, exponent: Expression) -> str | None:
        texts = [self.value(each) for each in (value, mantissa, exponent)]
        exponents = self._range(exponent)
        if exponents is None or any(text is None for text in texts):
            return None
        name = "neurald_rounded_down4" if exponents.high < 0 else "neurald_rounded4"
        return self._declared(f"{name}({', '.join(text for text in texts if text is not None)})")


def _parts(expression: Expression) -> list[Expression]:
    """Returns the operands that an expression is computed from, except constants.

    Constants are left out because each use of them has its own name.
    """
    return [each for each in expression.operands if each.operands] if isinstance(expression, Apply) else []


def _limited_below(root: Expression) -> Expression | None:
    """Returns what a number of 8 bits is the saturating conversion of, or None."""
    if not isinstance(root, Apply) or root.op is not Op.CONVERT:
        return None
    limits, (inner,) = np.iinfo(root.type.value), root.operands
    upper = _without_limit(inner, Op.MINIMUM, limits.max)
    if upper is None:
        return None
    lower = _without_limit(upper, Op.MAXIMUM, limits.min)
    is_above = isinstance(upper, Apply) and upper.op is Op.MAXIMUM
    return upper if lower is None and is_above and _is_at_least(upper, limits.min) else lower


def _without_limit(expression: Expression, op: Op, limit: int) -> Expression | None:
    """Returns the other operand of an extreme with a limit, or None."""
    if not isinstance(expression, Apply) or expression.op is not op:
        return None
    others = [
        each for each in expression.operands if not (isinstance(each, Constant) and each.value == limit)
    ]
    return others[0] if len(others) == 1 else None


def _is_at_least(maximum: Expression, limit: int) -> bool:
    """Returns True for the maximum of a number and a constant that is not below a limit."""
    return any(isinstance(each, Constant) and each.value >= limit for each in maximum.operands)


def _addend(expression: Expression) -> Constant | None:
    """Returns the constant that is added to a product in fixed point, or None."""
    if not isinstance(expression, Apply) or expression.op is not Op.ADD:
        return None
    constants = [each for each in expression.operands if isinstance(each, Constant)]
    has_product = any(isinstance(each, Apply) and each.op is Op.FIXED_POINT for each in expression.operands)
    return constants[0] if len(constants) == 1 and has_product else None


def _has_sum(expression: Expression) -> bool:
    return any(isinstance(each, AccumulatorRef) for each in walk(expression))


def _shifted(value: str, left: str) -> str:
    return f"as_int4(as_uint4({value}) << as_uint4({left}))"
