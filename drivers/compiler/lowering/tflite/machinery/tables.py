"""Interpolation in TFLite's tables of 16-bit functions."""

from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.operations.tflite.machinery.tables import STEP_BITS, STEPS


def interpolated(table: Value, value: Expression) -> Expression:
    """Looks up an INT32 in int16's range, as INT32.

    See `neurald.hal.operations.tflite.machinery.tables.interpolate`.

    Args:
        table: constant from `tables.table16`.
        value: the argument.
    """
    step = (value >> STEP_BITS).to(Scalar.INDEX) + STEPS // 2
    base, following = (load(table, (index,)).to(Scalar.INT32) for index in (step, step + 1))
    # The slope is stored in 16 bits.
    slope = (following - base).to(Scalar.INT16).to(Scalar.INT32)
    offset = value & ((1 << STEP_BITS) - 1)
    return base + ((slope * offset + (1 << (STEP_BITS - 1))) >> STEP_BITS)
