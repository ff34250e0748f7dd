"""CONV_3D and CONV_3D_TRANSPOSE."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    LegalizationRule,
    emit_activated,
    padding,
)

_STEPS = tuple(f"{what}_{axis}" for what in ("stride", "dilation") for axis in ("depth", "height", "width"))


def convolve(operation_type: OperationType, *, shaped: bool) -> LegalizationRule:
    """Builds a rule for a convolution.

    A `shaped` one has the inputs output shape, filter, input, bias.
    """

    def rule(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
        order = (0, 2, 1) if shaped else (0, 1)
        inputs = [graph.input(operator, position) for position in order]
        bias = graph.omitted(OperandType.TENSOR_FLOAT32)
        if graph.has(operator, len(order)):
            bias = graph.flat(graph.input(operator, len(order)))
        steps = (graph.int32(options[name]) for name in _STEPS)
        constant_scalar = (*inputs, bias, padding(graph, options), *steps)
        emit_activated(graph, operation_type, constant_scalar, options, graph.output(operator))

    return rule


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.CONV_3D: Legalization(
        rule=convolve(OperationType.TFLITE_CONV_3D, shaped=False), options="Conv3DOptions", inputs=(2, 3)
    ),
    BuiltinOperator.CONV_3D_TRANSPOSE: Legalization(
        rule=convolve(OperationType.TFLITE_CONV_3D_TRANSPOSE, shaped=True),
        options="Conv3DOptions",
        inputs=(3, 4),
    ),
}
