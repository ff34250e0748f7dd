"""Arrays as inputs and outputs of runs: conversion, and shapes of outputs."""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.types import Dimensions, Model, OperandType, as_elements

if TYPE_CHECKING:
    # Imported on demand: a model that runs in one call of its device needs none of these.
    pass


#: Number of input shape combinations whose output shapes are cached.
SHAPE_CACHE_SIZE = 256


def may_have_shape(declared: Dimensions, shape: tuple[int, ...]) -> bool:
    """Returns True if a shape that is not fully known may be this one."""
    if declared is None:
        return True
    return (
        0 in declared
        and len(declared) == len(shape)
        and all(length in (0, found) for length, found in zip(declared, shape, strict=True))
    )


_OutputShapes: TypeAlias = tuple[Dimensions, ...]


def output_shapes_of(model: Model) -> Callable[[tuple[tuple[int, ...] | None, ...]], _OutputShapes]:
    """Returns a function that infers the output shapes from the input shapes, where possible."""
    graph = model.main
    declared = tuple(graph.operands[index] for index in model.inputs)
    results = tuple(graph.operands[index] for index in model.outputs)
    are_known = all(operand.is_fully_specified for operand in (*declared, *results))

    @lru_cache(maxsize=SHAPE_CACHE_SIZE)
    def output_shapes(inputs: tuple[tuple[int, ...] | None, ...]) -> _OutputShapes:
        if are_known and inputs == tuple(operand.dimensions for operand in declared):
            return tuple(operand.dimensions for operand in results)
        from neurald.hal.validation.shape_inference import bind_operations, infer_shapes

        given = {index: shape for index, shape in zip(model.inputs, inputs, strict=True) if shape is not None}
        shapes = infer_shapes(model, graph, bind_operations(graph), given)
        return tuple(shapes.get(index, graph.operands[index].dimensions) for index in model.outputs)

    return output_shapes


def contiguous(value: Any, operand_type: OperandType, position: int) -> Array:
    """Converts `value` to a C-contiguous array.

    A value without a dtype gets that of the operand's type.
    """
    dtype = operand_type.dtype
    try:
        array = np.asarray(value, None if isinstance(value, np.ndarray | np.generic) else dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadData(f"input {position} cannot be stored as {dtype}: {error}") from None
    return as_elements(np.ascontiguousarray(array).reshape(array.shape), operand_type)
