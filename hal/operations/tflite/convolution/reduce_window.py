"""REDUCE_WINDOW: reductions over the windows of a tensor of any rank."""

from collections.abc import Callable
from enum import IntEnum

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.arguments import integers
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, scalar, tensor
from neurald.hal.operations.tflite.machinery.elements import ORDERED_ELEMENTS, element_rows, indexes


class Reduction(IntEnum):
    """The reduction function of REDUCE_WINDOW, with TFLite's numbers."""

    ADD = 1
    MUL = 2
    MINIMUM = 3
    MAXIMUM = 4
    ALL = 5
    ANY = 6


_FUNCTIONS: dict[int, Callable[[Array, Array], Array]] = {
    Reduction.ADD: np.add,
    Reduction.MUL: np.multiply,
    Reduction.MINIMUM: np.minimum,
    Reduction.MAXIMUM: np.maximum,
    Reduction.ALL: np.logical_and,
    Reduction.ANY: np.logical_or,
}
#: Ordered element types.


def _function(call: Call) -> None:
    number = call.scalar("function")
    if number not in _FUNCTIONS:
        names = ", ".join(f"{kind.value} ({kind.name})" for kind in Reduction)
        raise BadData(f"{call.name('function')} is {number}; one of {names} is expected")


def window_numbers(call: Call, name: str) -> list[int]:
    """Returns lengths, strides or dilations of REDUCE_WINDOW's window, selected by `name`."""
    values: list[int] = integers(call, name, (len(call.shape("input")),)).tolist()
    if min(values, default=1) < 1:
        raise BadData(f"{call.name(name)} is {values}; numbers of at least 1 are expected")
    return values


def _reduced_shape(call: Call) -> tuple[Shape, ...]:
    """Infers the output shape: windows that fit without padding."""
    sizes, strides, dilations = (window_numbers(call, name) for name in ("window", "strides", "dilations"))
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(sizes, dilations, strict=True)]
    return (
        tuple(
            (length - span) // stride + 1 if length >= span else 0
            for length, span, stride in zip(call.shape("input"), spans, strides, strict=True)
        ),
    )


def _reduce(call: Call) -> tuple[Array, ...]:
    """Reduces axis by axis, since all functions may be applied in any order."""
    (shape,) = _reduced_shape(call)
    initial, function = call.array("initial"), _FUNCTIONS[call.scalar("function")]
    if initial.size != 1:
        raise BadData(
            f"{call.name('initial')} has shape {list(initial.shape)}; exactly one element is expected"
        )
    values = call.array("input")
    if 0 in shape:
        return (np.empty(shape, values.dtype),)
    sizes, strides, dilations = (window_numbers(call, name) for name in ("window", "strides", "dilations"))
    with np.errstate(all="ignore"):
        for axis, (size, stride, dilation) in enumerate(zip(sizes, strides, dilations, strict=True)):
            before = (slice(None),) * axis
            reach = (shape[axis] - 1) * stride + 1
            total: Array | None = None
            for step in range(size):
                part = values[(*before, slice(step * dilation, step * dilation + reach, stride))]
                total = part if total is None else function(total, part)
            values = values if total is None else total
        return (np.asarray(function(initial.reshape(()), values)).astype(initial.dtype),)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_REDUCE_WINDOW,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=ANY_RANK),
                    tensor("initial", rank=ANY_RANK),
                    indexes("window"),
                    indexes("strides"),
                    indexes("dilations"),
                    scalar("function"),
                ),
                outputs=(tensor("output", rank=ANY_RANK),),
            ),
        ),
        rows=element_rows(ORDERED_ELEMENTS),
        checks=(_function,),
        shape=_reduced_shape,
        reference=_reduce,
    ),
)
