"""Compares outputs with the tolerances of Android's `TestGenerated`."""

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

_FLOAT32_EPSILON = 1.19e-7
_FLOAT16_EPSILON = 0.000977

#: Operations with random results, of which only the shape is compared.
_RANDOM = frozenset(
    (
        OperationType.RANDOM_MULTINOMIAL,
        OperationType.TFLITE_MULTINOMIAL,
        OperationType.TFLITE_RANDOM_UNIFORM,
        OperationType.TFLITE_RANDOM_STANDARD_NORMAL,
    )
)


def tolerances(kind: OperandType, *, relaxed: bool) -> tuple[float, float]:
    """Returns the allowed absolute and relative error of outputs of a type."""
    if kind.dtype.kind in "fc":
        if relaxed or kind in (OperandType.TENSOR_FLOAT16, OperandType.FLOAT16):
            return 5 * _FLOAT16_EPSILON, 5 * _FLOAT16_EPSILON
        return 1e-5, 5 * _FLOAT32_EPSILON
    return (1.0, 0.0) if kind in QUANTIZED else (0.0, 0.0)


def describe_difference(
    operation: OperationType, kind: OperandType, expected: Array, found: Array, *, relaxed: bool
) -> str:
    """Returns a description of what is wrong with an output, or "" if it is correct.

    Args:
        operation: the operation that computed the output.
        kind: the type of the output.
        expected: the result of the reference.
        found: the result of the device.
        relaxed: whether the model allows float16 precision.
    """
    if found.shape != expected.shape:
        return f"shape {list(found.shape)}; expected {list(expected.shape)}"
    if operation in _RANDOM or not expected.size:
        return ""
    absolute, relative = tolerances(kind, relaxed=relaxed)
    wide = np.complex128 if kind.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):
        wanted, given = expected.astype(wide), found.astype(wide)
    if kind.dtype.kind in "iu" and kind.dtype.itemsize == 8:
        is_correct = np.asarray(expected == found)  # float64 has too few digits for 64-bit integers
    else:
        with np.errstate(invalid="ignore"):
            is_near = np.abs(given - wanted) <= absolute + relative * np.abs(wanted)
            is_near &= np.isfinite(wanted)
            is_correct = is_near | (given == wanted) | (np.isnan(given) & np.isnan(wanted))
    wrong = np.flatnonzero(~is_correct.reshape(-1))
    if not wrong.size:
        return ""
    first = int(wrong[0])
    return (
        f"{wrong.size} of {expected.size} elements of {kind.name} differ, the first at {first}: "
        f"{found.reshape(-1)[first]!s}; expected {expected.reshape(-1)[first]!s}"
    )
