"""Padding around and between elements."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.operands import Unsupported
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator

_REALS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16)
_STORED = (OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)


def _paddings(graph: Graph, operator: Operator) -> int:
    """Returns the paddings as TENSOR_INT32 pairs if they are constant, otherwise unchanged."""
    index = graph.input(operator, 1)
    value = graph.value(index)
    if value is None or value.dtype.kind != "i" or value.ndim != 2 or value.shape[1] != 2:
        return index
    return graph.pairs(value.tolist())


def pad(graph: Graph, operator: Operator, _: Options) -> None:
    """PAD with the quantised value of 0."""
    inputs = graph.input(operator, 0), _paddings(graph, operator)
    graph.emit(OperationType.PAD, inputs, (graph.output(operator),))


def _scalar(graph: Graph, index: int) -> int | None:
    """Converts a one-element constant to the scalar type that Android NN's operation takes.

    None if not possible.
    """
    value, operand_type = graph.value(index), graph.operand(index).type
    if value is None or value.size != 1:
        return None
    if operand_type in _REALS:
        return graph.real(float(value.item()), like=index)
    return graph.int32(int(value.item())) if operand_type in _STORED else None


def pad_v2(graph: Graph, operator: Operator, _: Options) -> None:
    """PADV2: the padding value is an input."""
    source, value, result = graph.input(operator, 0), graph.input(operator, 2), graph.output(operator)
    paddings, scalar = _paddings(graph, operator), _scalar(graph, value)
    if scalar is not None:
        try:
            graph.emit(OperationType.PAD_V2, (source, paddings, scalar), (result,))
        except Unsupported:
            pass
        else:
            return
    graph.emit(OperationType.TFLITE_PADV2, (source, paddings, value), (result,))


def mirror_pad(graph: Graph, operator: Operator, options: Options) -> None:
    """MIRROR_PAD; the modes have Android NN's numbers."""
    inputs = graph.input(operator, 0), _paddings(graph, operator), graph.int32(options["mode"])
    graph.emit(OperationType.MIRROR_PAD, inputs, (graph.output(operator),))


def dilate(graph: Graph, operator: Operator, _: Options) -> None:
    """DILATE: the value between elements is an input."""
    inputs = [graph.input(operator, position) for position in range(3)]
    graph.emit(OperationType.TFLITE_DILATE, inputs, (graph.output(operator),))


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.DILATE: Lowering(rule=dilate, inputs=(3, 3)),
    BuiltinOperator.MIRROR_PAD: Lowering(rule=mirror_pad, options="MirrorPadOptions", inputs=(2, 2)),
    BuiltinOperator.PAD: Lowering(rule=pad, inputs=(2, 2)),
    BuiltinOperator.PADV2: Lowering(rule=pad_v2, inputs=(3, 3)),
}
