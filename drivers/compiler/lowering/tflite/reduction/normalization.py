"""Lowers L2_NORMALIZATION with TFLite's arithmetic on quantised values."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, clamp, constant, load, maximum, minimum, select
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.gemmlowp import bit_length
from neurald.drivers.compiler.lowering.arithmetic.quantized import fixed_point, saturate
from neurald.drivers.compiler.lowering.machinery.reduced_axes import first_along
from neurald.drivers.compiler.lowering.reduction.normalization import lower_l2, sums_of_squares
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.hal.operations.arithmetic.gemmlowp import HALF_ROOT, NEWTON_STEPS
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.rules import resolve_axis
from neurald.hal.operations.tflite.reduction.normalization import FRACTION_BITS

_MAX_INT32 = (1 << 31) - 1


def _product(first: Expression, second: Expression | int) -> Expression:
    """Multiplies 32-bit fixed-point numbers; see `neurald.hal.operations.arithmetic.gemmlowp`."""
    return minimum((first * second + (1 << 30)) >> 31, _MAX_INT32)


def _saturated(value: Expression) -> Expression:
    return clamp(value, -_MAX_INT32 - 1, _MAX_INT32)


def _shift(squares: Expression) -> Expression:
    """Returns the right shift of the mantissa; see `gemmlowp.inverse_square_root`."""
    is_large = squares >= 1 << 29
    return select(is_large, constant(12, Scalar.INT64), 11) - _pairs(squares)


def _scaled(squares: Expression) -> Expression:
    return select(squares >= 1 << 29, squares >> 2, maximum(squares, 2))


def _pairs(squares: Expression) -> Expression:
    return ((31 - bit_length(_scaled(squares))) >> 1) - 1


def mantissa_of(squares: Expression) -> Expression:
    """Returns the mantissa of 1 / √squares, an INT64 of at most 31 bits."""
    number = (_scaled(squares) << (_pairs(squares) * 2)) >> 1
    half = (number + 1) >> 1
    root: Expression = constant(1 << 28, Scalar.INT64)
    for _ in range(NEWTON_STEPS):
        cube = _saturated(_product(_product(root, root), root) << 6)
        root = _saturated((_product(constant(3 << 27, Scalar.INT64), root) - _product(half, cube)) << 3)
    root = _product(root, HALF_ROOT)
    return select(squares <= 1, _MAX_INT32, root << maximum(-_shift(squares), 0))


def exponent_of(squares: Expression) -> Expression:
    """Returns the exponent of 1 / √squares; see `mantissa_of`."""
    return select(squares <= 1, constant(0, Scalar.INT64), -maximum(_shift(squares), 0))


def _l2(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, operand, output = builder.value(call, "input"), call.operand("input"), call.operand("output")
    if not is_quantized(output):
        return lower_l2(call, builder)
    axis = resolve_axis(call.scalar("axis"), len(source.shape), call.name("axis"))
    sums = sums_of_squares(call, builder, axis)

    def squares(at: tuple[Expression, ...]) -> Expression:
        # TFLite does not support sums beyond 31 bits.
        return minimum(load(sums, at).to(Scalar.INT64), _MAX_INT32)

    mantissas = builder.compute(sums.shape, lambda *at: mantissa_of(squares(at)).to(Scalar.INT32))
    exponents = builder.compute(sums.shape, lambda *at: exponent_of(squares(at)).to(Scalar.INT32))
    # TFLite multiplies unsigned and signed values differently, which affects rounding.
    is_unsigned = operand.type is OperandType.TENSOR_QUANT8_ASYMM
    before, after = (FRACTION_BITS, 0) if is_unsigned else (0, FRACTION_BITS)

    def body(*at: Expression) -> Expression:
        row = first_along(at, axis)
        centred = (load(source, at).to(Scalar.INT64) - operand.zero_point) << before
        result = fixed_point(centred, load(mantissas, row), load(exponents, row) + after)
        return saturate(result + output.zero_point, output)

    return (builder.compute(source.shape, body),)


LOWERINGS = {OperationType.TFLITE_L2_NORMALIZATION: _l2}
