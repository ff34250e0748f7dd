"""Operations on intermediate results, for rules that emit several in a row."""

from typing import Any

import numpy as np

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder


def step(
    graph: SubgraphBuilder,
    operation_type: OperationType,
    *inputs: int,
    kind: OperandType = OperandType.TENSOR_FLOAT32,
    result: int | None = None,
) -> int:
    """Emits an operation with one result.

    Args:
        graph: receives the operation.
        operation_type: the type of the operation.
        inputs: operands.
        kind: the type of an intermediate result.
        result: the operand to write; None for an intermediate result.

    Returns:
        The result.
    """
    if result is None:
        result = graph.value_like(Operand(type=kind, dimensions=None))
    graph.emit(operation_type, inputs, (result,))
    return result


def reshaped(graph: SubgraphBuilder, index: int, shape: tuple[int, ...], result: int | None = None) -> int:
    """Emits a RESHAPE, one of whose lengths may be -1; see `step`."""
    kind = graph.operand(index).type
    return step(graph, OperationType.RESHAPE, index, graph.vector(shape), kind=kind, result=result)


def constant(graph: SubgraphBuilder, value: np.ndarray[Any, np.dtype[Any]]) -> int:
    """Returns a constant TENSOR_FLOAT32."""
    return graph.constant_like(
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=value.shape), value.astype(np.float32)
    )


def known_shape(graph: SubgraphBuilder, operator: Operator, position: int, rank: int) -> tuple[int, ...]:
    """Returns the shape of one of an operator's inputs, of type FLOAT32, that must be known.

    Raises:
        UnsupportedFeature: it has another type or rank, or open lengths.
    """
    operand = graph.operand(graph.input(operator, position))
    shape = operand.dimensions
    if operand.type is not OperandType.TENSOR_FLOAT32:
        raise UnsupportedFeature(f"input {position} has type {operand.type.name}; FLOAT32 is expected")
    if shape is None or len(shape) != rank or not all(shape):
        shown = "unknown" if shape is None else list(shape)
        raise UnsupportedFeature(f"input {position} has shape {shown}; {rank} known lengths are expected")
    return tuple(shape)
