"""Runs a whole model with the references of its operations."""

from typing import Any

import numpy as np

from neurald.hal.model.model import Model
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.validation.shape_inference import bind_operations, infer_shapes


def run_references(model: Model, *inputs: Any) -> list[Array]:
    """Computes the outputs; asserts that every result has the inferred type and shape."""
    graph = model.main
    operands, bindings = graph.operands, bind_operations(graph)
    values = {
        index: np.asarray(value, operands[index].type.dtype)
        for index, value in zip(graph.inputs, inputs, strict=True)
    }
    shapes = infer_shapes(model, graph, bindings, {index: value.shape for index, value in values.items()})

    def value_of(index: int) -> Array:
        value = values[index] if index in values else model.constant(operands[index])
        assert value is not None
        return value

    for operation, binding in zip(graph.operations, bindings, strict=True):
        call = Call(binding, operands, lambda index: value_of(index).shape, value_of)
        results = DEFINITIONS[operation.type].reference(call)
        foretold = DEFINITIONS[operation.type].shape(call)
        for index, result, shape in zip(operation.outputs, results, foretold, strict=True):
            assert result.dtype == operands[index].type.dtype
            assert result.shape == shape == shapes.get(index, shape)
            values[index] = result
    return [value_of(index) for index in graph.outputs]
