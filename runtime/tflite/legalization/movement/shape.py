"""RESHAPE, SQUEEZE, EXPAND_DIMS, CONCATENATION, PACK, UNPACK, TRANSPOSE, SHAPE and RANK."""

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Dimensions, FusedActivation, OperandType
from neurald.hal.operations.machinery.signature import MAX_RANK
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    constant_scalar,
    covers,
    finish_with,
    list_operand,
    narrow_to_int32,
)

_CLAMPS = {
    FusedActivation.RELU: OperationType.RELU,
    FusedActivation.RELU1: OperationType.RELU1,
    FusedActivation.RELU6: OperationType.RELU6,
}


def _from_start(axis: int, dimensions: Dimensions, more: int) -> int:
    """Converts an axis that counts from the end, if the rank is known and the axis valid.

    Args:
        axis: the axis.
        dimensions: the dimensions of an input.
        more: number of additional dimensions of the result.
    """
    rank = 0 if dimensions is None else len(dimensions) + more
    return axis + rank if -rank <= axis < 0 else axis


def concatenation(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes CONCATENATION.

    The axis may count from the end; an activation becomes a separate operation.
    """
    inputs = [graph.input(operator, position) for position in range(len(operator.inputs))]
    result = graph.output(operator)
    fused, follower, target = finish_with(graph, options["activation"], result)
    if fused is not FusedActivation.NONE:
        follower, target = _CLAMPS[fused], graph.temporary(result)
    axis = _from_start(options["axis"], graph.operand(inputs[0]).dimensions, 0)
    graph.emit(OperationType.CONCATENATION, (*inputs, graph.int32(axis)), (target,))
    if follower is not None:
        graph.emit(follower, (target,), (result,))


def reshape(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes RESHAPE.

    The shape is the second input if that is a list of int32, otherwise the option.
    """
    source = graph.input(operator, 0)
    if graph.has(operator, 1):
        shape = graph.input(operator, 1)
        operand = graph.operand(shape)
        is_list = operand.dimensions is None or len(operand.dimensions) == 1
        if operand.type is OperandType.TENSOR_INT32 and is_list:
            shape = list_operand(graph, shape, "the new shape")
            graph.emit(OperationType.RESHAPE, (source, shape), (graph.output(operator),))
            return
    new_shape = options["new_shape"]
    if len(new_shape) > MAX_RANK:
        raise UnsupportedFeature(f"the new shape has rank {len(new_shape)}; at most {MAX_RANK} is supported")
    # Old converters write a scalar's shape as [0].
    graph.reshape(source, () if new_shape == (0,) else new_shape, graph.output(operator))


def squeeze(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes SQUEEZE. No axes means all of length 1. In TFLite the result may have rank 0."""
    source, axes = graph.input(operator), options["squeeze_dims"]
    result, dimensions = graph.output(operator), graph.operand(source).dimensions
    if len(axes) > MAX_RANK:
        raise UnsupportedFeature(f"{len(axes)} dimensions to squeeze; at most {MAX_RANK} are supported")
    gone = axes or [axis for axis, length in enumerate(dimensions or ()) if length == 1]
    if dimensions is not None and covers(gone, len(dimensions)):
        graph.reshape(source, (), result)
        return
    # With unknown lengths all axes may vanish, which only TFLite's operation supports.
    is_open = dimensions is None or (not axes and 0 in dimensions)
    operation_type = OperationType.TFLITE_SQUEEZE if is_open else OperationType.SQUEEZE
    chosen = graph.vector(axes) if axes else graph.omitted(OperandType.TENSOR_INT32)
    graph.emit(operation_type, (source, chosen), (result,))


def expand_dims(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes EXPAND_DIMS: the axis is an input."""
    inputs = graph.input(operator, 0), constant_scalar(graph, graph.input(operator, 1))
    graph.emit(OperationType.EXPAND_DIMS, inputs, (graph.output(operator),))


def pack(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes PACK. The axis may count from the end of the result's axes."""
    inputs = [graph.input(operator, position) for position in range(len(operator.inputs))]
    axis = _from_start(options["axis"], graph.operand(inputs[0]).dimensions, 1)
    graph.emit(OperationType.PACK, (graph.int32(axis), *inputs), (graph.output(operator),))


def unpack(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes UNPACK: one result per index of the axis."""
    inputs = graph.input(operator), graph.int32(options["axis"])
    results = [graph.output(operator, position) for position in range(len(operator.outputs))]
    graph.emit(OperationType.TFLITE_UNPACK, inputs, results)


def shape(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes SHAPE; a known shape becomes a constant."""
    source, result = graph.input(operator), graph.output(operator)
    operand = graph.operand(source)
    if operand.dimensions is not None and operand.is_fully_specified:
        graph.make_constant(result, np.array(operand.dimensions, graph.operand(result).type.dtype))
    else:
        graph.emit(OperationType.TFLITE_SHAPE, (source,), (result,))


def rank(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes RANK; a known rank becomes a constant."""
    source, result = graph.input(operator), graph.output(operator)
    dimensions = graph.operand(source).dimensions
    if dimensions is None:
        graph.emit(OperationType.TFLITE_RANK, (source,), (result,))
    else:
        graph.make_constant(result, np.array(len(dimensions), np.int32))


def transpose(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes TRANSPOSE.

    The permutation is an input; only in TFLite its axes may count from the end.
    """
    inputs = graph.input(operator, 0), narrow_to_int32(graph, graph.input(operator, 1))
    is_known = graph.value(inputs[1]) is not None
    operation_type = OperationType.TRANSPOSE if is_known else OperationType.TFLITE_TRANSPOSE
    graph.emit(operation_type, inputs, (graph.output(operator),))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.CONCATENATION: Legalization(
        rule=concatenation, options="ConcatenationOptions", inputs=None
    ),
    BuiltinOperator.EXPAND_DIMS: Legalization(rule=expand_dims, inputs=(2, 2)),
    BuiltinOperator.PACK: Legalization(rule=pack, options="PackOptions", inputs=None),
    BuiltinOperator.RANK: Legalization(rule=rank),
    BuiltinOperator.RESHAPE: Legalization(rule=reshape, options="ReshapeOptions", inputs=(1, 2)),
    BuiltinOperator.SHAPE: Legalization(rule=shape),
    BuiltinOperator.SQUEEZE: Legalization(rule=squeeze, options="SqueezeOptions"),
    BuiltinOperator.TRANSPOSE: Legalization(rule=transpose, inputs=(2, 2)),
    BuiltinOperator.UNPACK: Legalization(rule=unpack, options="UnpackOptions", outputs=None),
}
