"""Functions of elements as expressions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    clamp,
    maximum,
    minimum,
    select,
)
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.lowering.elementwise.unary import elu
from neurald.drivers.compiler.lowering.tflite.elementwise.activation import approximate_gelu, gelu
from neurald.drivers.compiler.lowering.tflite.elementwise.arithmetic import whole_power

#: Computes an element from those of the operands, and from parameters.
Function = Callable[..., Expression]
_FLOAT, _WORD, _BOOL, _LONG = Scalar.FLOAT32, Scalar.INT32, Scalar.BOOL, Scalar.INT64
_SHORT_INTEGERS: Final = (Scalar.INT8, Scalar.UINT8, Scalar.INT16, Scalar.UINT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """A function of elements.

    Attributes:
        operands: their types.
        function: computes an element.
        parameters: number of the floats among the words that are further arguments.
        is_clamped: True if two more of them are limits of the result.
        refused: a comparison; second operands of which it is true with 0 are errors. Empty if none.
    """

    operands: tuple[Scalar, ...]
    function: Function
    parameters: int = 0
    is_clamped: bool = False
    refused: str = ""


def _floats(count: int, function: Function, parameters: int = 0, *, refused: str = "") -> Elementwise:
    return Elementwise(
        operands=(_FLOAT,) * count,
        function=function,
        parameters=parameters,
        is_clamped=True,
        refused=refused,
    )


def _nearest_step(
    x: Expression, low: Expression, high: Expression, inverse: Expression, scale: Expression
) -> Expression:
    """Returns the nearest of the values from `low` to `high` at multiples of `scale`."""
    return apply(Op.ROUND_AWAY, (clamp(x, low, high) - low) * inverse) * scale + low


def _unary(op: Op) -> Elementwise:
    return _floats(1, lambda x: apply(op, x))


FUNCTIONS: Final[Mapping[str, Elementwise]] = {
    "clamp": _floats(1, lambda x: x),
    "absolute": _unary(Op.ABSOLUTE),
    "ceil": _unary(Op.CEIL),
    "cosine": _unary(Op.COS),
    "exp": _unary(Op.EXP),
    "floor": _unary(Op.FLOOR),
    "log": _unary(Op.LOG),
    "logistic": _unary(Op.LOGISTIC),
    "negative": _unary(Op.NEGATE),
    "round": _unary(Op.ROUND_EVEN),
    "rsqrt": _unary(Op.RSQRT),
    "sign": _unary(Op.SIGN),
    "sine": _unary(Op.SIN),
    "sqrt": _unary(Op.SQRT),
    "tanh": _unary(Op.TANH),
    "square": _floats(1, lambda x: x * x),
    "gelu": _floats(1, gelu),
    "approximate_gelu": _floats(1, approximate_gelu),
    "hard_swish": _floats(1, lambda x: x * clamp(x + 3.0, 0.0, 6.0) / 6.0),
    "elu": _floats(1, elu, 1),
    "leaky_relu": _floats(1, lambda x, alpha: select(x > 0.0, x, x * alpha), 1),
    "nearest_step": _floats(1, _nearest_step, 4),
    "add": _floats(2, lambda x, y: x + y),
    "subtract": _floats(2, lambda x, y: x - y),
    "multiply": _floats(2, lambda x, y: x * y),
    "divide": _floats(2, lambda x, y: x / y),
    "squared_difference": _floats(2, lambda x, y: (x - y) * (x - y)),
    "prelu": _floats(2, lambda x, slope: select(x < 0.0, x * slope, x)),
    "maximum": _floats(2, maximum),
    "minimum": _floats(2, minimum),
    # TFLite takes the second number if either is NaN.
    "larger": _floats(2, lambda x, y: select(x > y, x, y)),
    "smaller": _floats(2, lambda x, y: select(x < y, x, y)),
    "power": _floats(2, lambda x, y: apply(Op.POWER, x, y)),
    "angle": _floats(2, lambda y, x: apply(Op.ATAN2, y, x)),
    "floor_divide": _floats(2, lambda x, y: apply(Op.FLOOR_DIVIDE, x, y), refused="oeq"),
    "remainder": _floats(2, lambda x, y: apply(Op.MODULO, x, y)),
    **{
        f"{name}_{suffix}": Elementwise(
            operands=(kind, kind),
            function=function,
            refused="eq" if name in ("floor_divide", "remainder") else "",
        )
        for name, function in (
            ("add", lambda x, y: x + y),
            ("subtract", lambda x, y: x - y),
            ("multiply", lambda x, y: x * y),
            ("maximum", maximum),
            ("minimum", minimum),
            ("floor_divide", lambda x, y: apply(Op.FLOOR_DIVIDE, x, y)),
            ("remainder", lambda x, y: apply(Op.MODULO, x, y)),
        )
        for suffix, kind in (("word", _WORD), ("long", _LONG))
    },
    "divide_word": Elementwise(
        operands=(_WORD, _WORD), function=lambda x, y: apply(Op.TRUNCATE_DIVIDE, x, y), refused="eq"
    ),
    "power_word": Elementwise(operands=(_WORD, _WORD), function=whole_power, refused="slt"),
    # Of Android: it rounds down, and a divisor of 0 gives 0.
    "quotient_word": Elementwise(
        operands=(_WORD, _WORD), function=lambda x, y: select(y.equals(0), 0, x // y)
    ),
    "squared_difference_word": Elementwise(operands=(_WORD, _WORD), function=lambda x, y: (x - y) * (x - y)),
    **{
        f"{name}_word": Elementwise(operands=(_WORD,), function=function)
        for name, function in (
            ("absolute", lambda x: apply(Op.ABSOLUTE, x)),
            ("negative", lambda x: -x),
            ("square", lambda x: x * x),
            ("sign", lambda x: apply(Op.SIGN, x)),
        )
    },
    **{
        f"{name}_{suffix}": Elementwise(operands=(kind, kind), function=function)
        for name, function in (
            ("equal", lambda x, y: x.equals(y)),
            ("differs", lambda x, y: x.differs(y)),
            ("greater", lambda x, y: x > y),
            ("greater_equal", lambda x, y: x >= y),
            ("less", lambda x, y: x < y),
            ("less_equal", lambda x, y: x <= y),
        )
        for suffix, kind in (("float", _FLOAT), ("word", _WORD), ("long", _LONG))
    },
    "equal_bool": Elementwise(operands=(_BOOL, _BOOL), function=lambda x, y: x.equals(y)),
    "differs_bool": Elementwise(operands=(_BOOL, _BOOL), function=lambda x, y: x.differs(y)),
    "and": Elementwise(operands=(_BOOL, _BOOL), function=lambda x, y: x & y),
    "or": Elementwise(operands=(_BOOL, _BOOL), function=lambda x, y: x | y),
    "not": Elementwise(operands=(_BOOL,), function=lambda x: ~x),
    **{
        f"differing_bits_{kind.size_bytes}": Elementwise(operands=(kind, kind), function=lambda x, y: x ^ y)
        for kind in (Scalar.INT8, Scalar.INT16, _WORD)
    },
    **{
        f"shift_right_{suffix}": Elementwise(
            operands=(kind, kind), function=lambda x, y: x >> clamp(y, 0, 8 * x.type.size_bytes - 1)
        )
        for suffix, kind in (
            ("signed", Scalar.INT8),
            ("unsigned", Scalar.UINT8),
            ("short", Scalar.INT16),
            ("word", _WORD),
        )
    },
    **{
        f"select_{kind.size_bytes}": Elementwise(operands=(_BOOL, kind, kind), function=select)
        for kind in (Scalar.INT8, Scalar.INT16, _WORD, _LONG)
    },
    **{
        f"cast_{source.value}_{target.value}": Elementwise(
            operands=(source,), function=lambda x, target=target: x.to(target)
        )
        for source, targets in (
            (_FLOAT, (_BOOL, _WORD, _LONG)),
            (_WORD, (_BOOL, _FLOAT, _LONG)),
            (_LONG, (_BOOL, _FLOAT, _WORD)),
            (_BOOL, (_FLOAT, _WORD, _LONG)),
            *((kind, (_FLOAT, _WORD, _LONG)) for kind in (*_SHORT_INTEGERS, Scalar.UINT32)),
            # Integers of a size have the same bits.
            (_WORD, (Scalar.INT8, Scalar.INT16)),
            (_LONG, (Scalar.INT8, Scalar.INT16)),
            (_FLOAT, (Scalar.FLOAT16, Scalar.FLOAT64)),
            (_WORD, (Scalar.FLOAT64,)),
            (_LONG, (Scalar.FLOAT64,)),
            (Scalar.FLOAT16, (_FLOAT,)),
            (Scalar.FLOAT64, (_FLOAT,)),
        )
        for target in targets
    },
    # TFLite makes NaN the largest integer.
    **{
        f"cast_or_largest_{target.value}": Elementwise(
            operands=(_FLOAT,),
            function=lambda x, target=target: select(
                apply(Op.IS_NAN, x), int(np.iinfo(target.dtype.name).max), x.to(target)
            ),
        )
        for target in (_WORD, _LONG, *_SHORT_INTEGERS, Scalar.UINT32)
    },
    **{
        f"{name}_{sign}": Elementwise(operands=(kind, kind), function=function)
        for sign, kind in (("signed", Scalar.INT8), ("unsigned", Scalar.UINT8), ("short", Scalar.INT16))
        for name, function in (("maximum", maximum), ("minimum", minimum))
    },
}
