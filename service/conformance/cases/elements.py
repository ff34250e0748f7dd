"""Draws elements of inputs for which the order of additions does not matter to the results."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array, Shape
from neurald.service.conformance.recipes.draw import Draw

#: Standard deviation of recurrent weights. Larger ones amplify rounding errors from step to step.
_MAX_RECURRENT_SPREAD = 0.5
#: Sums of multiples of this number are exact in float16.
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
        operation: the operation.
        name: the name of the parameter.
        kind: the type of the tensor.
        shape: the shape of the tensor.
        spread: the standard deviation of floats.
        step: floats are multiples of this number; 0 draws any floats.
    """
    if "recurrent" in name:
        spread = min(spread, _MAX_RECURRENT_SPREAD)
    if kind is OperandType.TENSOR_FLOAT16 and any(word in operation.name for word in ("SUM", "MEAN")):
        step = max(step, _FLOAT16_STEP)
    return draw.array(kind, shape, spread, step)
