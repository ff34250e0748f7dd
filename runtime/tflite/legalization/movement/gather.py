"""GATHER, GATHER_ND and LSH_PROJECTION."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file import schema_enums
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    operation,
)


def gather(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes GATHER. Only TFLite's operation supports batch dimensions."""
    values, indices = graph.input(operator, 0), graph.input(operator, 1)
    inputs = values, graph.int32(options["axis"]), indices
    if options["batch_dims"]:
        batches = graph.int32(options["batch_dims"])
        graph.emit(OperationType.TFLITE_GATHER, (*inputs, batches), (graph.output(operator),))
    else:
        graph.emit(OperationType.GATHER, inputs, (graph.output(operator),))


def lsh_projection(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes LSH_PROJECTION: hashes rows.

    The combination of bits is an option, and weights are optional.
    """
    from neurald.hal.operations.movement.projection import Projection  # few models need it

    kinds = schema_enums.LSHProjectionType
    # Android's sparse projection now adds the index of each hash function to its signature, like
    # TFLite's.
    kind = {kinds.SPARSE: Projection.SPARSE, kinds.DENSE: Projection.DENSE}.get(options["type"])
    if kind is None:
        raise UnsupportedFeature(f"projection type {options['type']} is unknown")
    functions, rows = graph.input(operator, 0), graph.input(operator, 1)
    has_weights = graph.has(operator, 2)
    weights = graph.input(operator, 2) if has_weights else graph.omitted(OperandType.TENSOR_FLOAT32)
    inputs = (functions, rows, weights, graph.int32(kind))
    graph.emit(OperationType.LSH_PROJECTION, inputs, (graph.output(operator),))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.GATHER: Legalization(rule=gather, options="GatherOptions", inputs=(2, 2)),
    BuiltinOperator.GATHER_ND: Legalization(rule=operation(OperationType.TFLITE_GATHER_ND), inputs=(2, 2)),
    BuiltinOperator.LSH_PROJECTION: Legalization(
        rule=lsh_projection, options="LSHProjectionOptions", inputs=(2, 3)
    ),
}
