"""MEAN, SUM, REDUCE_ALL, _ANY, _MAX, _MIN and _PROD, and CUMSUM."""

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    LegalizationRule,
    covers,
    list_operand,
)


def reduction(operation_type: OperationType, to_any_rank: OperationType) -> LegalizationRule:
    """Builds the rule for a reduction; axes are a list or a scalar.

    Android NN's results have rank 1 where TFLite's have rank 0.

    Args:
        operation_type: Android NN's operation.
        to_any_rank: TFLite's operation, for operands that Android NN's does not accept, or whose
            rank is 0 or unknown before execution. Its results have TFLite's ranks, so that no
            reshape must follow.
    """
    is_mean = operation_type is OperationType.MEAN

    def rule(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
        source = graph.input(operator, 0)
        axes = list_operand(graph, graph.input(operator, 1), "the list of axes")
        keeps = bool(options["keep_dims"])
        flag = graph.int32(keeps) if is_mean else graph.boolean(value=keeps)
        inputs, result = (source, axes, flag), graph.output(operator)
        dimensions, values = graph.operand(source).dimensions, graph.value(axes)
        _expect_rank(graph, source, axes, result, keeps=keeps)
        # An unknown length may be 0; only TFLite's operation defines the mean of nothing.
        rank = len(dimensions or ())
        gone = range(rank) if values is None else values.tolist()
        if is_mean and dimensions and any(not dimensions[axis % rank] for axis in gone):
            graph.emit(to_any_rank, inputs, (result,))
            return
        if not dimensions or not (keeps or values is not None):
            graph.emit(to_any_rank, inputs, (result,))
            return
        if keeps or values is None or not covers(values.tolist(), len(dimensions)):
            graph.emit(operation_type, inputs, (result,))
            return
        target = graph.temporary(result, (1,))
        if not graph.takes(operation_type, inputs, (target,)):
            graph.emit(to_any_rank, inputs, (result,))
            return
        graph.emit(operation_type, inputs, (target,))
        graph.reshape(target, (), result)

    return rule


def _product(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes REDUCE_PROD. Products of integers without a scale wrap around; others saturate."""
    if not graph.is_whole(operator):
        _SCALED_PRODUCT(graph, operator, options)
        return
    source = graph.input(operator, 0)
    axes = list_operand(graph, graph.input(operator, 1), "the list of axes")
    keeps = bool(options["keep_dims"])
    result = graph.output(operator)
    _expect_rank(graph, source, axes, result, keeps=keeps)
    wide = Operand(type=OperandType.TENSOR_INT32, dimensions=None)
    factors, product = graph.value_like(wide), graph.value_like(wide)
    graph.emit(OperationType.TFLITE_CAST, (source,), (factors,))
    inputs = factors, axes, graph.boolean(value=keeps)
    graph.emit(OperationType.TFLITE_REDUCE_PROD, inputs, (product,))
    graph.emit(OperationType.TFLITE_CAST, (product,), (result,))


def _expect_rank(graph: SubgraphBuilder, source: int, axes: int, result: int, *, keeps: bool) -> None:
    """Corrects the rank of a result in the file, which is taken if lengths of the source are open.

    Files of vectors that may be empty state rank 1 for their sum.
    """
    dimensions, values = graph.operand(source).dimensions, graph.value(axes)
    if dimensions is None:
        return
    if keeps:
        graph.expect_rank(result, len(dimensions))
    elif values is not None:
        gone = {axis % len(dimensions) for axis in values.ravel().tolist()} if dimensions else set()
        graph.expect_rank(result, len(dimensions) - len(gone))
    elif dimensions and graph.operand(axes).dimensions == (1,):
        graph.expect_rank(result, len(dimensions) - 1)


def cumulative_sum(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes CUMSUM along one axis."""
    flags = (graph.boolean(value=bool(options[name])) for name in ("exclusive", "reverse"))
    inputs = graph.input(operator, 0), graph.input(operator, 1), *flags
    graph.emit(OperationType.TFLITE_CUMSUM, inputs, (graph.output(operator),))


_SCALED_PRODUCT = reduction(OperationType.REDUCE_PROD, OperationType.TFLITE_REDUCE_PROD)


def _reduced(operation_type: OperationType, to_any_rank: OperationType) -> Legalization:
    return Legalization(rule=reduction(operation_type, to_any_rank), options="ReducerOptions", inputs=(2, 2))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.CUMSUM: Legalization(rule=cumulative_sum, options="CumsumOptions", inputs=(2, 2)),
    BuiltinOperator.MEAN: _reduced(OperationType.MEAN, OperationType.TFLITE_MEAN),
    BuiltinOperator.REDUCE_ALL: _reduced(OperationType.REDUCE_ALL, OperationType.TFLITE_REDUCE_ALL),
    BuiltinOperator.REDUCE_ANY: _reduced(OperationType.REDUCE_ANY, OperationType.TFLITE_REDUCE_ANY),
    BuiltinOperator.REDUCE_MAX: _reduced(OperationType.REDUCE_MAX, OperationType.TFLITE_REDUCE_MAX),
    BuiltinOperator.REDUCE_MIN: _reduced(OperationType.REDUCE_MIN, OperationType.TFLITE_REDUCE_MIN),
    BuiltinOperator.REDUCE_PROD: Legalization(rule=_product, options="ReducerOptions", inputs=(2, 2)),
    BuiltinOperator.SUM: _reduced(OperationType.REDUCE_SUM, OperationType.TFLITE_SUM),
}
