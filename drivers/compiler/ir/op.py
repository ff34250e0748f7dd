"""The operations that expressions are made of."""

from enum import Enum, auto

import numpy as np

from neurald.drivers.compiler.ir.scalar import Scalar

Number = int | float | bool


class Op(Enum):
    """What an `Apply` does with its operands."""

    #: Members are compared by identity; Enum's own function is slow.
    __hash__ = object.__hash__

    # Of two numbers.
    ADD = auto()
    SUBTRACT = auto()
    MULTIPLY = auto()
    #: Of floats.
    DIVIDE = auto()
    #: Of integers, towards minus infinity; the divisor is not 0.
    FLOOR_DIVIDE = auto()
    #: What FLOOR_DIVIDE leaves: it has the sign of the divisor. Of floats too, exactly: C's `fmod`, plus the divisor where the
    #: signs of both differ and something is left.
    MODULO = auto()
    #: Of integers, towards zero; the divisor is not 0.
    TRUNCATE_DIVIDE = auto()
    #: NaN where one of two floats is.
    MINIMUM = auto()
    MAXIMUM = auto()
    POWER = auto()
    ATAN2 = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    #: Shifts are by 0 to bits - 1; to the right they keep the sign of signed integers.
    SHIFT_LEFT = auto()
    SHIFT_RIGHT = auto()

    # Comparisons, of two numbers of one type; BOOL.
    EQUAL = auto()
    NOT_EQUAL = auto()
    LESS = auto()
    LESS_EQUAL = auto()

    # Of one number.
    NEGATE = auto()
    ABSOLUTE = auto()
    NOT = auto()
    SQRT = auto()
    RSQRT = auto()
    EXP = auto()
    EXPM1 = auto()
    LOG = auto()
    LOG1P = auto()
    SIN = auto()
    COS = auto()
    TAN = auto()
    TANH = auto()
    #: 1 / (1 + e^-x).
    LOGISTIC = auto()
    ERF = auto()
    FLOOR = auto()
    CEIL = auto()
    #: To the nearest integer, ties to the even one.
    ROUND_EVEN = auto()
    #: The same, ties away from zero.
    ROUND_AWAY = auto()
    #: -1, 0 or 1; NaN of NaN.
    SIGN = auto()
    IS_NAN = auto()
    #: To the type of the result.
    CONVERT = auto()
    #: The same bits as a type of the same size.
    REINTERPRET = auto()

    #: Of a BOOL and two numbers: the second where the first holds, else the third.
    SELECT = auto()
    #: Of (value, mantissa, exponent), all INT64 or INT32: see `neurald.hal.operations.arithmetic.fixed_point.multiply`. INT64.
    FIXED_POINT = auto()
    #: The same, ties upwards when it is shifted.
    FIXED_POINT_UP = auto()


#: Operations whose result is BOOL whatever their operands are.
COMPARISONS = frozenset((Op.EQUAL, Op.NOT_EQUAL, Op.LESS, Op.LESS_EQUAL, Op.IS_NAN))


class Fold(Enum):
    """How a reduction combines elements. Nobody relies on the order of floats in a sum."""

    SUM = auto()
    PRODUCT = auto()
    MINIMUM = auto()
    MAXIMUM = auto()
    ANY = auto()
    ALL = auto()


def fold_start(fold: Fold, type: Scalar) -> Number:  # noqa: A002 - the field's name
    """What a fold over nothing gives."""
    if fold is Fold.SUM or fold is Fold.ANY:
        return 0
    if fold is Fold.PRODUCT or fold is Fold.ALL:
        return 1
    lowest = fold is Fold.MAXIMUM
    if type.is_float:
        return float("-inf") if lowest else float("inf")
    if type is Scalar.BOOL:
        return not lowest
    info = np.iinfo(type.dtype.name)
    return int(info.min) if lowest else int(info.max)
