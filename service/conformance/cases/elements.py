"""Draws elements of inputs such that results do not depend on the order in which a device adds."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array, Shape
from neurald.service.conformance.recipes.draw import Draw

#: Larger recurrent weights amplify rounding errors from step to step.
_RECURRENT_SPREAD = 0.5
#: Sums of multiples of it are exact in float16.
_FLOAT16_STEP = 1 / 16


def elements(
    draw: Draw,
    operation: OperationType,
    name: str,
    kind: OperandType,
    shape: Shape,
    *,
    spread: float = 2.0,
    step: float = 0.0,
) -> Array:
    """Draws elements of an input.

    Args:
        draw: the source of random choices.
        operation, name: the operation and the name of its input.
        kind, shape: of the tensor.
        spread: the standard deviation of floats.
        step: floats are multiples of it; 0 for any floats.
    """
    if "recurrent" in name:
        spread = min(spread, _RECURRENT_SPREAD)
    if kind is OperandType.TENSOR_FLOAT16 and any(word in operation.name for word in ("SUM", "MEAN")):
        step = max(step, _FLOAT16_STEP)
    return draw.array(kind, shape, spread, step)
