"""STABLEHLO_ADD, STABLEHLO_MULTIPLY, STABLEHLO_MAXIMUM and STABLEHLO_MINIMUM on raw numbers.

Integers wrap around; sums and products of bools are `or` and `and`. Scales are ignored.
"""

from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, tensor
from neurald.hal.operations.tflite.machinery.elements import ORDERED_ELEMENTS, element_rows

_FORM = Form(
    inputs=(tensor("input1", rank=ANY_RANK), tensor("input2", rank=ANY_RANK)),
    outputs=(tensor("output", rank=ANY_RANK),),
)


def _shape(call: Call) -> tuple[Shape, ...]:
    first, second = call.shape("input1"), call.shape("input2")
    if first != second:
        raise BadData(
            f"{call.name('input2')} has shape {list(second)}; that of input1, {list(first)}, is expected"
        )
    return (first,)


def _definition(operation_type: OperationType, function: Callable[[Array, Array], Array]) -> Definition:
    def reference(call: Call) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return (np.asarray(function(call.array("input1"), call.array("input2"))),)

    return Definition(
        type=operation_type,
        forms=(_FORM,),
        rows=element_rows(ORDERED_ELEMENTS),
        shape=_shape,
        reference=reference,
        arithmetic=frozenset({"input1", "input2"}),
    )


DEFINITIONS = (
    _definition(OperationType.TFLITE_STABLEHLO_ADD, np.add),
    _definition(OperationType.TFLITE_STABLEHLO_MULTIPLY, np.multiply),
    _definition(OperationType.TFLITE_STABLEHLO_MAXIMUM, np.maximum),
    _definition(OperationType.TFLITE_STABLEHLO_MINIMUM, np.minimum),
)
