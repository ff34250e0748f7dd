"""STABLEHLO_ADD, _MULTIPLY, _MAXIMUM and _MINIMUM."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, LegalizationRule

_ANDROID_TYPES = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, OperandType.TENSOR_INT32)


def elementwise(
    android: OperationType, tflite: OperationType, *trailing: FusedActivation
) -> LegalizationRule:
    """Builds the rule for an element-wise operator.

    Android NN's operation is used only for types without a scale: it would rescale quantised
    values.
    """

    def rule(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
        inputs = [graph.input(operator, 0), graph.input(operator, 1)]
        result = graph.output(operator)
        if graph.operand(result).type in _ANDROID_TYPES:
            inputs.extend(graph.int32(activation) for activation in trailing)
            graph.emit(android, inputs, (result,))
        else:
            graph.emit(tflite, inputs, (result,))

    return rule


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.STABLEHLO_ADD: Legalization(
        rule=elementwise(OperationType.ADD, OperationType.TFLITE_STABLEHLO_ADD, FusedActivation.NONE),
        inputs=(2, 2),
    ),
    BuiltinOperator.STABLEHLO_MAXIMUM: Legalization(
        rule=elementwise(OperationType.MAXIMUM, OperationType.TFLITE_STABLEHLO_MAXIMUM), inputs=(2, 2)
    ),
    BuiltinOperator.STABLEHLO_MINIMUM: Legalization(
        rule=elementwise(OperationType.MINIMUM, OperationType.TFLITE_STABLEHLO_MINIMUM), inputs=(2, 2)
    ),
    BuiltinOperator.STABLEHLO_MULTIPLY: Legalization(
        rule=elementwise(OperationType.MUL, OperationType.TFLITE_STABLEHLO_MULTIPLY, FusedActivation.NONE),
        inputs=(2, 2),
    ),
}
