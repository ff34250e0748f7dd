"""Functions of 16 bits by TFLite's tables, between whose steps it is interpolated."""

from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.operations.tflite.machinery.tables import STEP_BITS, STEPS


def interpolated(table: Value, value: Expression) -> Expression:
    """The result for an INT32 within int16's range, INT32: see `neurald.hal.operations.tflite.machinery.tables.interpolate`.

    Args:
        table: of `tables.table16`, a constant.
        value: the argument.
    """
    step = (value >> STEP_BITS).to(Scalar.INDEX) + STEPS // 2
    base, following = (load(table, (place,)).to(Scalar.INT32) for place in (step, step + 1))
    # The slope is kept in 16 bits.
    slope = (following - base).to(Scalar.INT16).to(Scalar.INT32)
    offset = value & ((1 << STEP_BITS) - 1)
    return base + ((slope * offset + (1 << (STEP_BITS - 1))) >> STEP_BITS)
