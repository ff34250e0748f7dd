"""Tensors whose shape clients see is not that of the model.

`dims` of an input or output in a configuration are what clients see. They may fix lengths that are
open in the model. If there is a `reshape`, its shape is that of the model, with as many elements.
Both are without the length of the batch.
"""

import math
from collections.abc import Sequence
from typing import Any

from neurald.hal.lanes.opening import TensorDescription
from neurald.hal.records import replace
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.worker.orders import ModelDescription

Shape = tuple[int, ...]


class Reshapes:
    """The reshapes of a model.

    Args:
        config: the config of the model, complete; a message ModelConfig.
        loaded: what its worker says of it.

    Attributes:
        described: what clients see of it.
        has_any: whether there is any.
    """

    def __init__(self, config: Any, loaded: ModelDescription) -> None:
        self._is_batched = config.max_batch_size > 0
        #: The shapes that clients see and that the model has; None for tensors without a reshape.
        self._inputs = [_shapes(each) for each in config.input]
        self._outputs = [_shapes(each) for each in config.output]
        self.has_any = any(each is not None for each in (*self._inputs, *self._outputs))
        self.described = replace(
            loaded,
            inputs=self._visible(loaded.inputs, config.input),
            outputs=self._visible(loaded.outputs, config.output),
        )

    def of_model(self, position: int, shape: Shape) -> Shape:
        """Returns the shape in which the model takes a client's input, which fits `dims`.

        Raises:
            ServiceError: there is none with as many elements.
        """
        found = self._inputs[position]
        return shape if found is None else self._changed(shape, found[1])

    def of_client(self, position: int, shape: Shape) -> Shape:
        """Returns the shape in which a client gets an output; see `of_model`."""
        found = self._outputs[position]
        return shape if found is None else self._changed(shape, found[0])

    def _changed(self, shape: Shape, wanted: Shape) -> Shape:
        batch = shape[:1] if self._is_batched else ()
        count = math.prod(shape[len(batch) :])
        known = math.prod(length for length in wanted if length >= 0)
        result = tuple(length if length >= 0 else count // known for length in wanted)
        if math.prod(result) != count:
            raise ServiceError(
                Status.INVALID,
                f"a tensor of the shape {list(shape)} cannot have the shape {list(wanted)} in the model",
            )
        return (*batch, *result)

    def _visible(
        self, tensors: Sequence[TensorDescription], declared: Sequence[Any]
    ) -> tuple[TensorDescription, ...]:
        batch = (-1,) if self._is_batched else ()
        return tuple(
            tensor
            if tensor.shape is None and list(each.dims) == [-1]
            else replace(tensor, shape=(*batch, *each.dims))
            for tensor, each in zip(tensors, declared, strict=True)
        )


def _shapes(tensor: Any) -> tuple[Shape, Shape] | None:
    return (tuple(tensor.dims), tuple(tensor.reshape.shape)) if tensor.HasField("reshape") else None


def reshape_fault(dims: Sequence[int], shape: Sequence[int]) -> str:
    """Returns what is wrong with a reshape; empty if nothing is."""
    if not dims:
        return "has a reshape, and no dims"
    if any(length < -1 or length == 0 for length in (*dims, *shape)):
        return f"has the dims {list(dims)} and the reshape {list(shape)}; lengths are 1 or more, or -1"
    if shape.count(-1) > 1 or dims.count(-1) > 1:
        return "has a reshape with several open lengths, which is not supported"
    if (-1 in dims) != (-1 in shape) or (-1 not in dims and math.prod(dims) != math.prod(shape)):
        return (
            f"has the dims {list(dims)} and the reshape {list(shape)}, which have other numbers of elements"
        )
    return ""
