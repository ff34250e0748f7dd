"""Converts a value to another type, quantisation and shape with operations."""

import math

import numpy as np
from random_graphs.growing import Growing

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Shape
from neurald.hal.records import replace

_T = OperandType
_FLOATS = (_T.TENSOR_FLOAT32, _T.TENSOR_FLOAT16)
_BYTES = (_T.TENSOR_QUANT8_ASYMM, _T.TENSOR_QUANT8_ASYMM_SIGNED)
#: Types that values can be converted from and to.
CONVERTIBLE = frozenset((*_FLOATS, *_BYTES, _T.TENSOR_INT32, _T.TENSOR_BOOL8))
#: Limit for CAST from floats: the result for larger numbers is undefined.
_LIMIT = 1000.0


def is_same_kind(first: Operand, second: Operand) -> bool:
    """Returns True if two operands have the same type and quantisation."""
    return (first.type, first.scale, first.zero_point, first.channel_quant) == (
        second.type,
        second.scale,
        second.zero_point,
        second.channel_quant,
    )


def converted(graph: Growing, index: int, wanted: Operand, shape: Shape) -> int:
    """Converts an operand to the type and quantisation of `wanted`, and to a shape.

    Raises:
        BadData: there is no conversion.
    """
    source = graph.operands[index]
    if is_same_kind(source, wanted):
        if graph.values[index].shape == shape:
            return graph.read(index)
        if source.type is not _T.TENSOR_BOOL8:
            return shaped(graph, index, shape)
    if source.type not in CONVERTIBLE or wanted.type not in CONVERTIBLE:
        raise BadData(f"{source.type.name} cannot be converted to {wanted.type.name}")
    return _from_float(graph, shaped(graph, _to_float(graph, index), shape), wanted)


def _to_float(graph: Growing, index: int) -> int:
    kind = graph.operands[index].type
    float32 = Operand(type=_T.TENSOR_FLOAT32)
    graph.read(index)
    if kind is _T.TENSOR_FLOAT32:
        return index
    if kind is _T.TENSOR_BOOL8:
        shape = graph.values[index].shape
        ends = [graph.constant(float32, np.full(shape, value)) for value in (1.5, -0.5)]
        return graph.add(OperationType.SELECT, [index, *ends], float32)[0]
    operation = OperationType.DEQUANTIZE if kind in _BYTES else OperationType.CAST
    return graph.add(operation, [index], float32)[0]


def _from_float(graph: Growing, index: int, wanted: Operand) -> int:
    kind = wanted.type
    graph.read(index)
    if kind is _T.TENSOR_FLOAT32:
        return index
    output = replace(wanted, dimensions=None)
    if kind is _T.TENSOR_BOOL8:
        zero = graph.constant(Operand(type=_T.TENSOR_FLOAT32), np.zeros(1))
        return graph.add(OperationType.GREATER, [index, zero], output)[0]
    if kind is _T.TENSOR_INT32:
        for operation, limit in ((OperationType.MINIMUM, _LIMIT), (OperationType.MAXIMUM, -_LIMIT)):
            bound = graph.constant(Operand(type=_T.TENSOR_FLOAT32), np.full(1, limit))
            (index,) = graph.add(operation, [index, bound], Operand(type=_T.TENSOR_FLOAT32))
            graph.read(index)
    operation = OperationType.QUANTIZE if kind in _BYTES else OperationType.CAST
    return graph.add(operation, [index], output)[0]


def shaped(graph: Growing, index: int, shape: Shape) -> int:
    """Reshapes the first elements of a value, repeating them if there are too few.

    Raises:
        BadData: there are no elements, or the type lacks the operations.
    """
    value, operand = graph.values[index], replace(graph.operands[index], dimensions=None)
    if value.shape == shape:
        return graph.read(index)
    wanted = math.prod(shape)
    if not value.size and wanted:
        raise BadData("there are no elements")
    if value.size != wanted or not value.size:
        (index,) = graph.add(
            OperationType.RESHAPE, [graph.read(index), graph.integers([value.size])], operand
        )
        count = -(-wanted // value.size) if value.size else 1
        if count > 1:
            (index,) = graph.add(OperationType.TILE, [graph.read(index), graph.integers([count])], operand)
        if graph.values[index].size != wanted:
            sizes = [graph.read(index), graph.integers([0]), graph.integers([wanted])]
            (index,) = graph.add(OperationType.SLICE, sizes, operand)
    if graph.values[index].shape == shape:
        return graph.read(index)
    return graph.read(
        graph.add(OperationType.RESHAPE, [graph.read(index), graph.integers(shape)], operand)[0]
    )
