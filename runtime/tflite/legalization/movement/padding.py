"""PAD, PADV2, MIRROR_PAD, DILATE and STABLEHLO_PAD."""

from collections.abc import Sequence

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file import schema_enums
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, operation
from neurald.runtime.tflite.legalization.machinery.stablehlo import option_list, stablehlo_options

_REALS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16)


_QUANT8 = (OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)


def _paddings(graph: SubgraphBuilder, operator: Operator) -> int:
    """Returns the paddings as TENSOR_INT32 pairs if they are constant, otherwise unchanged."""
    index = graph.input(operator, 1)
    value = graph.value(index)
    if value is None or value.dtype.kind != "i" or value.ndim != 2 or value.shape[1] != 2:
        return index
    return graph.pairs(value.tolist())


def pad(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes PAD with the quantised value of 0."""
    inputs = graph.input(operator, 0), _paddings(graph, operator)
    graph.emit(OperationType.PAD, inputs, (graph.output(operator),))


def _scalar(graph: SubgraphBuilder, index: int) -> int | None:
    """Converts a one-element constant to the scalar type that Android NN's operation takes.

    None if not possible.
    """
    value, operand_type = graph.value(index), graph.operand(index).type
    if value is None or value.size != 1:
        return None
    if operand_type in _REALS:
        return graph.real(float(value.item()), like=index)
    return graph.int32(int(value.item())) if operand_type in _QUANT8 else None


def pad_v2(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes PADV2: the padding value is an input."""
    source, value, result = graph.input(operator, 0), graph.input(operator, 2), graph.output(operator)
    paddings, scalar = _paddings(graph, operator), _scalar(graph, value)
    if scalar is not None:
        try:
            graph.emit(OperationType.PAD_V2, (source, paddings, scalar), (result,))
        except UnsupportedFeature:
            pass
        else:
            return
    graph.emit(OperationType.TFLITE_PADV2, (source, paddings, value), (result,))


def mirror_pad(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes MIRROR_PAD; the modes have Android NN's numbers."""
    inputs = graph.input(operator, 0), _paddings(graph, operator), graph.int32(options["mode"])
    graph.emit(OperationType.MIRROR_PAD, inputs, (graph.output(operator),))


def emit_stablehlo_pad(
    graph: SubgraphBuilder, source: int, value: int, paddings: Sequence[Sequence[int]], result: int
) -> None:
    """Emits STABLEHLO_PAD; `paddings` are the lists before, after and between elements."""
    vectors = [graph.vector(numbers) for numbers in paddings]
    graph.emit(OperationType.TFLITE_STABLEHLO_PAD, (source, value, *vectors), (result,))


def stablehlo_pad(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes STABLEHLO_PAD: before, after, and between elements."""
    options = stablehlo_options(operator, schema_enums.BuiltinOptions2.StablehloPadOptions)
    paddings = [option_list(options, field) for field in range(3)]
    source, value = graph.input(operator, 0), graph.input(operator, 1)
    emit_stablehlo_pad(graph, source, value, paddings, graph.output(operator))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.DILATE: Legalization(rule=operation(OperationType.TFLITE_DILATE), inputs=(3, 3)),
    BuiltinOperator.MIRROR_PAD: Legalization(rule=mirror_pad, options="MirrorPadOptions", inputs=(2, 2)),
    BuiltinOperator.PAD: Legalization(rule=pad, inputs=(2, 2)),
    BuiltinOperator.PADV2: Legalization(rule=pad_v2, inputs=(3, 3)),
    BuiltinOperator.STABLEHLO_PAD: Legalization(rule=stablehlo_pad, inputs=(2, 2)),
}
