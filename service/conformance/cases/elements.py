"""Random elements of inputs, chosen so that results do not hang on the order in which a device adds."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array, Shape
from neurald.service.conformance.recipes.draw import Draw

#: Larger recurrent weights multiply the rounding of one step in the next ones.
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
    """Random elements of an input.

    Args:
        draw: what they follow from.
        operation, name: which input of which operation it is.
        kind, shape: of the tensor.
        spread: standard deviation of floats.
        step: that floats are multiples of; 0 for any floats.
    """
    if "recurrent" in name:
        spread = min(spread, _RECURRENT_SPREAD)
    if kind is OperandType.TENSOR_FLOAT16 and any(word in operation.name for word in ("SUM", "MEAN")):
        step = max(step, _FLOAT16_STEP)
    return draw.array(kind, shape, spread, step)
