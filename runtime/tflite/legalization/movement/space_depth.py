"""DEPTH_TO_SPACE, SPACE_TO_DEPTH, BATCH_TO_SPACE_ND and SPACE_TO_BATCH_ND."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization, LegalizationRule


def by_size(operation_type: OperationType) -> LegalizationRule:
    """Builds a rule for square blocks whose size is an option."""

    def rule(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
        inputs = graph.input(operator), graph.int32(options["block_size"])
        graph.emit(operation_type, inputs, (graph.output(operator),))

    return rule


def batch_to_space(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes BATCH_TO_SPACE_ND. Android NN supports only images and no crops."""
    source, block, crops = (graph.input(operator, position) for position in range(3))
    cut, dimensions, result = (
        graph.value(crops),
        graph.operand(source).dimensions,
        graph.output(operator),
    )
    is_plain = cut is not None and not cut.any() and dimensions is not None and len(dimensions) == 4
    if is_plain:
        graph.emit(OperationType.BATCH_TO_SPACE_ND, (source, block), (result,))
    else:
        graph.emit(OperationType.TFLITE_BATCH_TO_SPACE_ND, (source, block, crops), (result,))


def space_to_batch(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes SPACE_TO_BATCH_ND: blocks and paddings along one or two axes."""
    inputs = tuple(graph.input(operator, position) for position in range(3))
    graph.emit(OperationType.SPACE_TO_BATCH_ND, inputs, (graph.output(operator),))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.BATCH_TO_SPACE_ND: Legalization(rule=batch_to_space, inputs=(3, 3)),
    BuiltinOperator.DEPTH_TO_SPACE: Legalization(
        rule=by_size(OperationType.DEPTH_TO_SPACE), options="DepthToSpaceOptions"
    ),
    BuiltinOperator.SPACE_TO_BATCH_ND: Legalization(rule=space_to_batch, inputs=(3, 3)),
    BuiltinOperator.SPACE_TO_DEPTH: Legalization(
        rule=by_size(OperationType.SPACE_TO_DEPTH), options="SpaceToDepthOptions"
    ),
}
