"""Floats at four columns, as `float4`."""

import math
from collections.abc import Mapping, Sequence

from neurald.drivers.compiler.ir.expression import AccumulatorRef, Apply, Constant, Expression, Load
from neurald.drivers.compiler.ir.nesting import BoundedRecursion
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.dialect import constant_text
from neurald.drivers.opencl.kernels.epilogue.vector4_loads import Vector4Loads

_FLOATS = (Scalar.FLOAT16, Scalar.FLOAT32)
_INFIX = {Op.ADD: "+", Op.SUBTRACT: "-", Op.MULTIPLY: "*", Op.DIVIDE: "/"}
_CALLS = {
    Op.ABSOLUTE: "fabs",
    Op.EXP: "exp",
    Op.EXPM1: "expm1",
    Op.LOG: "log",
    Op.TANH: "tanh",
    Op.ERF: "erf",
    Op.SQRT: "sqrt",
    Op.SIN: "sin",
    Op.COS: "cos",
}


class FloatVector:
    """Renders float expressions at four columns.

    Args:
        loads: renders their loads.
        known: texts of expressions, each the same for all four columns.
        is_rounded: whether results are rounded to FLOAT16. Functions may then have absolute errors
            of 7e-7.
    """

    def __init__(
        self,
        loads: Vector4Loads,
        known: Mapping[Expression, str] | None = None,
        *,
        is_rounded: bool = False,
    ) -> None:
        self.loads = loads
        self._is_rounded = is_rounded
        self._texts: dict[Expression, str | None] = {}
        for each, text in (known or {}).items():
            self.learn(each, text)
        self._nesting = BoundedRecursion[str | None](_parts)
        self._lines: list[str] = []

    @property
    def lines(self) -> list[str]:
        """Statements that the value needs."""
        return [*self.loads.lines, *self._lines]

    @property
    def sizes(self) -> Mapping[str, int]:
        """Sizes that the statements refer to; there are none, because numbers are literal."""
        return {}

    def learn(self, expression: Expression, text: str) -> None:
        """Tells the text of an expression that is the same for all four columns."""
        self._texts[expression] = f"(float4)({text})"

    def value(self, root: Expression) -> str | None:
        """Returns the text of a vector, or of a scalar for all four columns.

        Returns None if not possible.
        """
        text = self._texts.get(root)
        if root not in self._texts:
            text = self._nesting.compute(root, self._text, self.value)
            if text is not None and isinstance(root, Apply | Load):
                name = f"v{len(self._lines)}"
                self._lines.append(f"  const float4 {name} = {text};")
                text = name
            self._texts[root] = text
        return text

    def _text(self, expression: Expression) -> str | None:
        if expression.type not in _FLOATS:
            return None
        if isinstance(expression, AccumulatorRef):
            return "sum"
        if isinstance(expression, Constant):
            return None if math.isnan(expression.value) else constant_text(expression.value, Scalar.FLOAT32)
        if isinstance(expression, Load):
            found = self.loads.load(expression)
            return None if found is None else f"(float4)({found.text})" if found.is_uniform else found.text
        if isinstance(expression, Apply):
            return self._apply(expression)
        return None

    def _apply(self, expression: Apply) -> str | None:
        op = expression.op
        if op is Op.CONVERT:
            is_widened = expression.type is Scalar.FLOAT32 and expression.operands[0].type in _FLOATS
            return self.value(expression.operands[0]) if is_widened else None
        if expression.type is not Scalar.FLOAT32:
            return None
        if op is Op.SELECT:
            return self._select(expression)
        texts = [self.value(each) for each in expression.operands]
        if any(text is None for text in texts):
            return None
        wide = [f"(float4)({text})" for text in texts]
        if op in _INFIX:
            return f"{wide[0]} {_INFIX[op]} {wide[1]}"
        if op is Op.ERF and self._is_rounded:
            return f"neurald_erf4({wide[0]})"
        if op in _CALLS:
            return f"{_CALLS[op]}({wide[0]})"
        if op is Op.NEGATE:
            return f"-{wide[0]}"
        if op is Op.RSQRT:
            return f"1.0f / sqrt({wide[0]})"
        if op is Op.LOGISTIC:
            return f"1.0f / (1.0f + exp(-{wide[0]}))"
        if op in (Op.MINIMUM, Op.MAXIMUM):
            return _extreme(op, expression.operands, wide)
        return None

    def _select(self, expression: Apply) -> str | None:
        """Selects by a condition that is the same for all four columns."""
        condition, *sides = expression.operands
        holds, texts = self.loads.uniform(condition), [self.value(each) for each in sides]
        if holds is None or any(text is None for text in texts):
            return None
        first, second = texts
        return f"{holds} ? (float4)({first}) : (float4)({second})"


def _extreme(op: Op, operands: Sequence[Expression], texts: Sequence[str]) -> str:
    """Returns a minimum or maximum that propagates NaN.

    A comparison is saved if one operand is known not to be NaN.
    """
    sign = "<" if op is Op.MINIMUM else ">"
    first, second = texts
    if isinstance(operands[0], Constant):
        first, second = second, first
    if any(isinstance(each, Constant) for each in operands):
        return f"select({first}, {second}, {second} {sign}= {first})"
    return f"select({second}, {first}, ({first} {sign} {second}) | ({first} != {first}))"


def _parts(expression: Expression) -> Sequence[Expression]:
    """Returns the operands that a number is computed from."""
    return expression.operands if isinstance(expression, Apply) else ()
