"""SLICE, SPLIT, SPLIT_V, STRIDED_SLICE and DYNAMIC_UPDATE_SLICE."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    constant_scalar,
    narrow_to_int32,
    operation,
)


def _results(graph: SubgraphBuilder, operator: Operator, options: Options) -> list[int]:
    if options["num_splits"] != len(operator.outputs):
        raise UnsupportedFeature(
            f"it splits in {options['num_splits']}, but has {len(operator.outputs)} outputs"
        )
    return [graph.output(operator, position) for position in range(len(operator.outputs))]


def slice_(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes SLICE: a begin and a size for each axis."""
    lists = [narrow_to_int32(graph, graph.input(operator, position)) for position in (1, 2)]
    graph.emit(OperationType.SLICE, (graph.input(operator, 0), *lists), (graph.output(operator),))


def split(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes SPLIT into equal parts; the axis is the first input."""
    results = _results(graph, operator, options)
    axis = constant_scalar(graph, graph.input(operator, 0))
    inputs = graph.input(operator, 1), axis, graph.int32(len(results))
    graph.emit(OperationType.SPLIT, inputs, results)


def split_v(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes SPLIT_V into parts of given lengths."""
    results = _results(graph, operator, options)
    inputs = (
        graph.input(operator, 0),
        graph.input(operator, 1),
        constant_scalar(graph, graph.input(operator, 2)),
    )
    graph.emit(OperationType.TFLITE_SPLIT_V, inputs, results)


def strided_slice(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes STRIDED_SLICE.

    Android NN's operation is used if there is a begin, end and stride per axis and all axes remain.

    For a removed axis Android NN takes the elements between begin and end, TFLite one element
    regardless of the end.
    """
    source, result = graph.input(operator, 0), graph.output(operator)
    lists = [narrow_to_int32(graph, graph.input(operator, position)) for position in (1, 2, 3)]
    dimensions, entries = graph.operand(source).dimensions, graph.operand(lists[0]).dimensions
    is_plain = (
        dimensions is not None
        and entries == (len(dimensions),)
        and not any(
            options[name] for name in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")
        )
    )
    names = ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"]
    if is_plain:
        masks = [
            graph.int32(options[name]) for name in names if name not in ("ellipsis_mask", "new_axis_mask")
        ]
        try:
            graph.emit(OperationType.STRIDED_SLICE, (source, *lists, *masks), (result,))
        except UnsupportedFeature:
            pass
        else:
            return
    masks = [graph.int32(options[name]) for name in names]
    offset = graph.boolean(value=bool(options["offset"]))
    graph.emit(OperationType.TFLITE_STRIDED_SLICE, (source, *lists, *masks, offset), (result,))


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.DYNAMIC_UPDATE_SLICE: Legalization(
        rule=operation(OperationType.TFLITE_DYNAMIC_UPDATE_SLICE), inputs=(3, 3)
    ),
    BuiltinOperator.SLICE: Legalization(rule=slice_, inputs=(3, 3)),
    BuiltinOperator.SPLIT: Legalization(rule=split, options="SplitOptions", inputs=(2, 2), outputs=None),
    BuiltinOperator.SPLIT_V: Legalization(rule=split_v, options="SplitVOptions", inputs=(3, 3), outputs=None),
    BuiltinOperator.STRIDED_SLICE: Legalization(
        rule=strided_slice, options="StridedSliceOptions", inputs=(4, 4)
    ),
}
