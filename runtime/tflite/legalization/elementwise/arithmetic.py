"""Arithmetic on two or more inputs."""

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    LegalizationRule,
    emit_activated,
    operation,
)


def _emit_whole(
    graph: SubgraphBuilder, operator: Operator, operation_type: OperationType, activation: int
) -> None:
    """Emits an operation on INT16 without a scale: integers that wrap around."""
    if activation:
        raise UnsupportedFeature(f"the fused activation {activation} of 16-bit integers is not supported")
    wide = Operand(type=OperandType.TENSOR_INT32, dimensions=None)
    inputs = []
    for position in range(2):
        inputs.append(graph.value_like(wide))
        graph.emit(OperationType.TFLITE_CAST, (graph.input(operator, position),), (inputs[-1],))
    total = graph.value_like(wide)
    graph.emit(operation_type, (*inputs, graph.int32(FusedActivation.NONE)), (total,))
    graph.emit(OperationType.TFLITE_CAST, (total,), (graph.output(operator),))


def arithmetic(operation_type: OperationType) -> LegalizationRule:
    """Builds a rule for two inputs and a fused activation.

    TFLite gives the result the type of the inputs, regardless of the file.
    """

    def rule(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
        inputs = graph.input(operator, 0), graph.input(operator, 1)
        emit_activated(graph, operation_type, inputs, options, graph.output(operator, typed_as=1))

    return rule


def addition(operation_type: OperationType, wider: OperationType) -> LegalizationRule:
    """Builds the rule for ADD or SUB.

    Int16 uses other arithmetic if the scales are powers of two.
    """
    plain = arithmetic(operation_type)

    def rule(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
        inputs = graph.input(operator, 0), graph.input(operator, 1)
        if graph.operand(inputs[0]).type is not OperandType.TENSOR_QUANT16_SYMM:
            plain(graph, operator, options)
            return
        if operation_type is OperationType.ADD and graph.is_whole16(operator):
            _emit_whole(graph, operator, operation_type, options["activation"])
            return
        flag = graph.boolean(value=bool(options["pot_scale_int16"]))
        emit_activated(graph, wider, inputs, options, graph.output(operator, typed_as=1), (flag,))

    return rule


def product(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes MUL, the only operator whose result has the type stated in the file."""
    inputs = graph.input(operator, 0), graph.input(operator, 1)
    if graph.is_whole16(operator):
        _emit_whole(graph, operator, OperationType.MUL, options["activation"])
        return
    emit_activated(graph, OperationType.MUL, inputs, options, graph.output(operator))


def division(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes DIV. TFLite's integer division truncates, while Android NN's rounds down."""
    is_whole = graph.operand(graph.input(operator, 0)).type is OperandType.TENSOR_INT32
    arithmetic(OperationType.TFLITE_DIV if is_whole else OperationType.DIV)(graph, operator, options)


def _of_two(operation_type: OperationType) -> Legalization:
    return Legalization(rule=operation(operation_type, typed_as=0), inputs=(2, 2))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.ADD: Legalization(
        rule=addition(OperationType.ADD, OperationType.TFLITE_ADD), options="AddOptions", inputs=(2, 2)
    ),
    BuiltinOperator.SUB: Legalization(
        rule=addition(OperationType.SUB, OperationType.TFLITE_SUB), options="SubOptions", inputs=(2, 2)
    ),
    BuiltinOperator.MUL: Legalization(rule=product, options="MulOptions", inputs=(2, 2)),
    BuiltinOperator.DIV: Legalization(rule=division, options="DivOptions", inputs=(2, 2)),
    BuiltinOperator.ADD_N: Legalization(rule=operation(OperationType.TFLITE_ADD_N, typed_as=0), inputs=None),
    BuiltinOperator.ATAN2: _of_two(OperationType.TFLITE_ATAN2),
    BuiltinOperator.FLOOR_DIV: _of_two(OperationType.TFLITE_FLOOR_DIV),
    BuiltinOperator.FLOOR_MOD: _of_two(OperationType.TFLITE_FLOOR_MOD),
    BuiltinOperator.POW: _of_two(OperationType.POW),
    BuiltinOperator.SQUARED_DIFFERENCE: _of_two(OperationType.TFLITE_SQUARED_DIFFERENCE),
}
