"""Comparisons, logical operators and selections."""

import math
from collections.abc import Sequence

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.records import replace
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    LegalizationRule,
    operation,
    unary,
)


def compare(operation_type: OperationType, quantized_type: OperationType) -> LegalizationRule:
    """Builds the rule for a comparison; on quantised values it differs from Android NN's."""

    def rule(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
        quantized = is_quantized(graph.operand(graph.input(operator, 0)))
        operation(quantized_type if quantized else operation_type)(graph, operator, options)

    return rule


def choose(operation_type: OperationType, scaled_type: OperationType) -> LegalizationRule:
    """Builds the rule for a choice of one of two values.

    Android NN's operation rescales them to one scale, while TFLite takes the quantised values
    unchanged.
    """

    def rule(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
        inputs = tuple(graph.input(operator, position) for position in range(len(operator.inputs)))
        result = graph.output(operator, typed_as=len(inputs) - 1)
        is_same = _have_one_scale(graph, (*inputs[-2:], result))
        graph.emit(operation_type if is_same else scaled_type, inputs, (result,))

    return rule


def _have_one_scale(graph: SubgraphBuilder, indexes: Sequence[int]) -> bool:
    return len({(graph.operand(i).scale, graph.operand(i).zero_point) for i in indexes}) == 1


def _select_one(graph: SubgraphBuilder, operator: Operator) -> bool:
    """Legalizes a selection of one element, and returns whether it is one.

    TFLite then leaves the result the shape that the file states.
    """
    indexes = [graph.input(operator, position) for position in range(3)]
    shape = graph.shape_in_file(operator)
    shapes = [graph.operand(index).dimensions for index in indexes]
    if any(each is None or math.prod(each) != 1 for each in (shape, *shapes)) or shapes.count(shape) == 3:
        return False
    inputs = []
    for index in indexes:
        reshaped = index
        if graph.operand(index).dimensions != shape:
            reshaped = graph.value_like(replace(graph.operand(index), dimensions=None))
            graph.reshape(index, shape, reshaped)
        inputs.append(reshaped)
    graph.emit(OperationType.TFLITE_SELECT, inputs, (graph.output(operator, typed_as=2),))
    return True


def select(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes SELECT."""
    if not _select_one(graph, operator):
        choose(OperationType.SELECT, OperationType.TFLITE_SELECT)(graph, operator, options)


def select_v2(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes SELECT_V2, as SELECT if the shapes are known to be equal."""
    if _select_one(graph, operator):
        return
    shapes = [graph.operand(graph.input(operator, position)).dimensions for position in range(3)]
    is_plain = shapes[0] is not None and 0 not in shapes[0] and shapes.count(shapes[0]) == 3
    plain = OperationType.SELECT if is_plain else OperationType.TFLITE_SELECT_V2
    choose(plain, OperationType.TFLITE_SELECT_V2)(graph, operator, options)


def _compared(operation_type: OperationType, quantized_type: OperationType) -> Legalization:
    return Legalization(rule=compare(operation_type, quantized_type), inputs=(2, 2))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.EQUAL: _compared(OperationType.EQUAL, OperationType.TFLITE_EQUAL),
    BuiltinOperator.GREATER: _compared(OperationType.GREATER, OperationType.TFLITE_GREATER),
    BuiltinOperator.GREATER_EQUAL: _compared(OperationType.GREATER_EQUAL, OperationType.TFLITE_GREATER_EQUAL),
    BuiltinOperator.LESS: _compared(OperationType.LESS, OperationType.TFLITE_LESS),
    BuiltinOperator.LESS_EQUAL: _compared(OperationType.LESS_EQUAL, OperationType.TFLITE_LESS_EQUAL),
    BuiltinOperator.LOGICAL_AND: Legalization(rule=operation(OperationType.LOGICAL_AND), inputs=(2, 2)),
    BuiltinOperator.LOGICAL_NOT: Legalization(rule=unary(OperationType.LOGICAL_NOT)),
    BuiltinOperator.LOGICAL_OR: Legalization(rule=operation(OperationType.LOGICAL_OR), inputs=(2, 2)),
    BuiltinOperator.MAXIMUM: Legalization(
        rule=choose(OperationType.MAXIMUM, OperationType.TFLITE_MAXIMUM), inputs=(2, 2)
    ),
    BuiltinOperator.MINIMUM: Legalization(
        rule=choose(OperationType.MINIMUM, OperationType.TFLITE_MINIMUM), inputs=(2, 2)
    ),
    BuiltinOperator.NOT_EQUAL: _compared(OperationType.NOT_EQUAL, OperationType.TFLITE_NOT_EQUAL),
    BuiltinOperator.SELECT: Legalization(rule=select, inputs=(3, 3)),
    BuiltinOperator.SELECT_V2: Legalization(rule=select_v2, inputs=(3, 3)),
}
