"""aeq.hadamard_rotation: multiplies rows by Hadamard's matrix, for AI Edge Quantizer."""

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.runtime.tflite.file.flexbuffer import FlexMap
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.machinery.steps import constant, reshaped, step

#: Largest matrix by which rows are multiplied at once; larger ones are products of these.
_MAX_FACTOR = 64
#: Longest block of a row that is rotated.
_MAX_SIZE = 1 << 20


def hadamard_rotation(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes aeq.hadamard_rotation: rotates blocks of the last dimension, of equal length."""
    size = FlexMap(operator.custom_options).integer("hadamard_size")
    source = graph.input(operator)
    operand = graph.operand(source)
    shape = operand.dimensions or ()
    if operand.type is not OperandType.TENSOR_FLOAT32 or not shape or not shape[-1]:
        raise UnsupportedFeature(
            f"input 0 has type {operand.type.name} and shape {list(shape)}; FLOAT32 with rows of a known "
            "length is expected"
        )
    if not 1 <= size <= _MAX_SIZE or size & (size - 1) or shape[-1] % size:
        raise UnsupportedFeature(
            f"blocks of {size} in rows of {shape[-1]}; a power of 2 that divides the length is expected"
        )
    lengths = _lengths(graph, source, shape)
    rest = size
    while rest > 1:
        factor = min(rest, _MAX_FACTOR)
        rest //= factor
        source = _rotated(graph, source, size, factor)
    step(graph, OperationType.RESHAPE, source, lengths, result=graph.output(operator))


def _lengths(graph: SubgraphBuilder, source: int, shape: tuple[int, ...]) -> int:
    """Returns the operand of the shape of the result, which the input determines if unknown."""
    if shape.count(0) > 1:
        return step(graph, OperationType.TFLITE_SHAPE, source, kind=OperandType.TENSOR_INT32)
    return graph.vector(tuple(length or -1 for length in shape))


def _rotated(graph: SubgraphBuilder, source: int, size: int, factor: int) -> int:
    """Multiplies the last factor of blocks' indexes by Hadamard's matrix, and makes it first.

    Once this has been done for all factors, they are in their order again.
    """
    matrix = np.ones((1, 1))
    while len(matrix) < factor:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]]) / np.sqrt(2)
    rotated = step(
        graph,
        OperationType.FULLY_CONNECTED,
        reshaped(graph, source, (-1, factor)),
        constant(graph, matrix),
        constant(graph, np.zeros(factor)),
        graph.int32(FusedActivation.NONE),
    )
    if factor == size:
        return rotated
    split = reshaped(graph, rotated, (-1, size // factor, factor))
    return step(graph, OperationType.TRANSPOSE, split, graph.vector((0, 2, 1)))


#: Custom operators by name.
CUSTOM: dict[str, Legalization] = {"aeq.hadamard_rotation": Legalization(rule=hadamard_rotation)}
