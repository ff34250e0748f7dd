"""Evaluates a small graph while a file is loaded, to find the initial values of variables."""

import math

from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.types import byte_size
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.validation.shape_inference import bind_operations
from neurald.runtime.tflite.graph.operands import UnsupportedFeature

#: Maximum total size of all values that such a graph computes.
_MAX_BYTES = 1 << 28


def evaluate(model: Model) -> list[Array]:
    """Evaluates a model without inputs on the NumPy references; returns its outputs.

    Raises:
        UnsupportedFeature: an operation fails, the values are too large, or a shape or value does
            not follow from constants.
    """
    graph = model.main
    values: dict[int, Array] = {}
    spent = 0

    def value_of(index: int) -> Array | None:
        return values[index] if index in values else model.constant(graph.operands[index])

    def shape_of(index: int) -> tuple[int, ...] | None:
        value = value_of(index)
        return None if value is None else value.shape

    for operation, binding in zip(graph.operations, bind_operations(graph), strict=True):
        call = Call(binding, graph.operands, shape_of, value_of)
        definition = DEFINITIONS[operation.type]
        try:
            definition.check(call)
            shapes = definition.output_shapes(call)
            for index, shape in zip(operation.outputs, shapes, strict=True):
                spent += byte_size(graph.operands[index].type, shape)
            if spent > _MAX_BYTES:
                raise UnsupportedFeature(f"initial values of more than {_MAX_BYTES} bytes are not computed")
            results = definition.reference(call)
        except UnknownValue as error:
            raise UnsupportedFeature(
                f"{operation.type.name}: {error} does not follow from constants"
            ) from None
        except BadData as error:
            raise UnsupportedFeature(f"{operation.type.name}: {error}") from None
        for index, shape, result in zip(operation.outputs, shapes, results, strict=True):
            if result.size != math.prod(shape):
                raise UnsupportedFeature(
                    f"{operation.type.name}: a result has {result.size} elements, not those of {shape}"
                )
            values[index] = result.astype(graph.operands[index].type.dtype, copy=False).reshape(shape)
    outputs = [value_of(index) for index in graph.outputs]
    return [value for value in outputs if value is not None]
