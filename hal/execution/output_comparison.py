"""Compares outputs with the tolerances of Android's `TestGenerated`, or with wider ones."""

import numpy as np
from msgspec import Struct

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

_FLOAT32_EPSILON = 1.19e-7
_FLOAT16_EPSILON = 0.000977

#: Operations with random results, of which only the shape is compared.
RANDOM = frozenset(
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


class Bounds(Struct, frozen=True, kw_only=True):
    """Bounds of the difference between an output and the expected one.

    Attributes:
        absolute: the error that any element may have.
        relative: the error in relation to the expected element.
        of_largest: the error in relation to the largest expected element.
    """

    absolute: float
    relative: float
    of_largest: float = 0.0

    @classmethod
    def of_type(cls, kind: OperandType, *, relaxed: bool) -> "Bounds":
        """Returns the bounds of one operation's output; see `tolerances`."""
        absolute, relative = tolerances(kind, relaxed=relaxed)
        return cls(absolute=absolute, relative=relative)


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
    if operation in RANDOM and found.shape == expected.shape:
        return ""
    return describe_beyond(kind, expected, found, Bounds.of_type(kind, relaxed=relaxed))


def describe_beyond(kind: OperandType, expected: Array, found: Array, bounds: Bounds) -> str:
    """Returns a description of the elements that differ by more than the bounds, or "".

    Args:
        kind: the type of the output.
        expected: the right result.
        found: the result of the device.
        bounds: what is allowed.
    """
    if found.shape != expected.shape:
        return f"shape {list(found.shape)}; expected {list(expected.shape)}"
    if not expected.size:
        return ""
    is_exact = not (bounds.absolute or bounds.relative or bounds.of_largest)
    if is_exact and expected.dtype == object:
        is_correct = np.asarray(expected == found)
    elif kind.dtype.kind in "iu" and kind.dtype.itemsize == 8:
        is_correct = np.asarray(expected == found)  # float64 has too few digits for 64-bit integers
    else:
        wide = np.complex128 if kind.dtype.kind == "c" else np.float64
        with np.errstate(invalid="ignore", over="ignore"):
            wanted, given = expected.astype(wide), found.astype(wide)
            is_finite = np.isfinite(wanted)
            sizes = np.abs(wanted)
            largest = float(np.max(sizes, initial=0.0, where=is_finite)) if bounds.of_largest else 0.0
            allowed = bounds.absolute + bounds.of_largest * largest + bounds.relative * sizes
            is_near = (np.abs(given - wanted) <= allowed) & is_finite
            is_correct = is_near | (given == wanted) | (np.isnan(given) & np.isnan(wanted))
    wrong = np.flatnonzero(~is_correct.reshape(-1))
    if not wrong.size:
        return ""
    first = int(wrong[0])
    return (
        f"{wrong.size} of {expected.size} elements of {kind.name} differ, the first at {first}: "
        f"{found.reshape(-1)[first]!s}; expected {expected.reshape(-1)[first]!s}"
    )
