"""The operations of expressions, and the combiners of reductions."""

from enum import Enum, auto

import numpy as np

from neurald.drivers.compiler.ir.scalar import Scalar

Number = int | float | bool


class Op(Enum):
    """Operation of an `Apply`."""

    #: Members are compared by identity; Enum's own hash function is slow.
    __hash__ = object.__hash__

    # Binary operations.
    ADD = auto()
    SUBTRACT = auto()
    MULTIPLY = auto()
    #: Floats only.
    DIVIDE = auto()
    #: Rounds towards minus infinity; a divisor of integers is not 0. The quotient of floats is that
    #: of doubles, which only reaches an integer if the exact one does.
    FLOOR_DIVIDE = auto()
    #: Remainder of FLOOR_DIVIDE, with the sign of the divisor. Also exact for floats: C's `fmod`,
    #: plus the divisor if the remainder is not 0 and its sign differs from the divisor's.
    MODULO = auto()
    #: Integers only. Rounds towards zero; the divisor is not 0.
    TRUNCATE_DIVIDE = auto()
    #: NaN if either of two floats is NaN.
    MINIMUM = auto()
    MAXIMUM = auto()
    POWER = auto()
    ATAN2 = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    #: Shift amounts are 0 to bits - 1; results of others are undefined. Right shifts of signed
    #: integers are arithmetic.
    SHIFT_LEFT = auto()
    SHIFT_RIGHT = auto()

    # Comparisons of two numbers of one type, with a BOOL result.
    EQUAL = auto()
    NOT_EQUAL = auto()
    LESS = auto()
    LESS_EQUAL = auto()

    # Unary operations.
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
    #: Rounds to nearest, ties to even.
    ROUND_EVEN = auto()
    #: Rounds to nearest, ties away from zero.
    ROUND_AWAY = auto()
    #: -1, 0 or 1; NaN for NaN.
    SIGN = auto()
    IS_NAN = auto()
    #: Converts to the type of the result.
    CONVERT = auto()
    #: Reinterprets the bits as a type of the same size.
    REINTERPRET = auto()

    #: Takes (condition, a, b): a where the BOOL holds, else b.
    SELECT = auto()
    #: Takes (value, mantissa, exponent), all INT64 or INT32, and yields INT64. The value must be in
    #: the range of INT32; drivers compute with its lower 32 bits. Exponents are -31 to 31; results
    #: of others are undefined. See `neurald.hal.operations.arithmetic.fixed_point.multiply`.
    FIXED_POINT = auto()
    #: FIXED_POINT with ties rounded upwards when shifting.
    FIXED_POINT_UP = auto()


#: Operations with a BOOL result for any operand type.
COMPARISONS = frozenset((Op.EQUAL, Op.NOT_EQUAL, Op.LESS, Op.LESS_EQUAL, Op.IS_NAN))
#: Operations that drivers compute in FLOAT32 and that yield a float16 for float16 operands, so that
#: the result need not be rounded.
EXACT_ON_FLOAT16 = frozenset(
    (
        Op.MINIMUM,
        Op.MAXIMUM,
        Op.NEGATE,
        Op.ABSOLUTE,
        Op.SELECT,
        Op.FLOOR,
        Op.CEIL,
        Op.ROUND_EVEN,
        Op.ROUND_AWAY,
        Op.SIGN,
    )
)


class ReductionOp(Enum):
    """Combiner of a reduction. The order in which SUM adds floats is not specified."""

    SUM = auto()
    PRODUCT = auto()
    #: NaN if any of the floats is NaN.
    MINIMUM = auto()
    MAXIMUM = auto()
    #: The maximum of the floats that are not NaN.
    MAXIMUM_NUMBER = auto()
    ANY = auto()
    ALL = auto()


#: Reductions to one of the elements.
EXTREMES = frozenset((ReductionOp.MINIMUM, ReductionOp.MAXIMUM, ReductionOp.MAXIMUM_NUMBER))


def reduction_identity(reduction: ReductionOp, type: Scalar) -> Number:  # noqa: A002 - the field's name
    """Returns the result of a reduction over no elements."""
    if reduction is ReductionOp.SUM or reduction is ReductionOp.ANY:
        return 0
    if reduction is ReductionOp.PRODUCT or reduction is ReductionOp.ALL:
        return 1
    lowest = reduction in (ReductionOp.MAXIMUM, ReductionOp.MAXIMUM_NUMBER)
    if type.is_float:
        return float("-inf") if lowest else float("inf")
    if type is Scalar.BOOL:
        return not lowest
    info = np.iinfo(type.dtype.name)
    return int(info.min) if lowest else int(info.max)
