"""EMBEDDING_LOOKUP and EMBEDDING_LOOKUP_SPARSE."""

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.hal.operations.tflite.movement.embedding import FLOATS
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization


def lookup(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes EMBEDDING_LOOKUP. TFLite reads unsigned bytes as signed if the result is float."""
    rows, blockwise = graph.input(operator, 0), graph.blockwise_input(operator, 1)
    if blockwise is not None:
        _lookup_blocks(graph, operator, rows, blockwise)
        return
    values, result = graph.input(operator, 1), graph.output(operator)
    is_unsigned = graph.operand(values).type is OperandType.TENSOR_QUANT8_ASYMM
    if is_unsigned and graph.operand(result).type is OperandType.TENSOR_FLOAT32:
        values = graph.as_signed(values)
    graph.emit(OperationType.EMBEDDING_LOOKUP, (rows, values), (result,))


def _lookup_blocks(graph: SubgraphBuilder, operator: Operator, rows: int, blockwise: tuple[int, int]) -> None:
    """Looks up values and scales of a block-quantised table, and multiplies them block by block."""
    result = graph.output(operator)
    real = Operand(type=graph.operand(result).type, dimensions=None)
    if real.type not in FLOATS:
        raise UnsupportedFeature(
            f"of a table that is quantised by blocks the result is {real.type.name}; floats are expected"
        )
    values, scales = blockwise
    length = (graph.operand(values).dimensions or (0, 0))[1]
    blocks = (graph.operand(scales).dimensions or (0, 0))[1]
    found, steps = graph.value_like(real), graph.value_like(real)
    graph.emit(OperationType.EMBEDDING_LOOKUP, (rows, values), (found,))
    if real.type is OperandType.TENSOR_FLOAT32:
        wide = graph.value_like(real)
        graph.emit(OperationType.CAST, (scales,), (wide,))
        scales = wide
    graph.emit(OperationType.EMBEDDING_LOOKUP, (rows, scales), (steps,))
    parts, factors, product = (graph.value_like(real) for _ in range(3))
    graph.reshape(found, (-1, blocks, length // blocks), parts)
    graph.reshape(steps, (-1, blocks, 1), factors)
    graph.emit(OperationType.MUL, (parts, factors, graph.int32(FusedActivation.NONE)), (product,))
    graph.reshape(product, (-1, length), result)


def lookup_sparse(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes EMBEDDING_LOOKUP_SPARSE. The combiner is an option."""
    inputs = (graph.input(operator, position) for position in range(5))
    combiner = graph.int32(options["combiner"])
    graph.emit(OperationType.TFLITE_EMBEDDING_LOOKUP_SPARSE, (*inputs, combiner), (graph.output(operator),))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.EMBEDDING_LOOKUP: Legalization(rule=lookup, inputs=(2, 2)),
    BuiltinOperator.EMBEDDING_LOOKUP_SPARSE: Legalization(
        rule=lookup_sparse, options="EmbeddingLookupSparseOptions", inputs=(5, 5)
    ),
}
