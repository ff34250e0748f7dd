"""Slices and splits of tensors."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering, narrow, whole
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.operands import Unsupported
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator


def _results(graph: Graph, operator: Operator, options: Options) -> list[int]:
    if options["num_splits"] != len(operator.outputs):
        raise Unsupported(f"it splits in {options['num_splits']}, but has {len(operator.outputs)} outputs")
    return [graph.output(operator, position) for position in range(len(operator.outputs))]


def slice_(graph: Graph, operator: Operator, _: Options) -> None:
    """SLICE: a begin and a size for each axis."""
    lists = [narrow(graph, graph.input(operator, position)) for position in (1, 2)]
    graph.emit(OperationType.SLICE, (graph.input(operator, 0), *lists), (graph.output(operator),))


def split(graph: Graph, operator: Operator, options: Options) -> None:
    """SPLIT into equal parts; the axis is the first input."""
    results = _results(graph, operator, options)
    axis = whole(graph, graph.input(operator, 0))
    inputs = graph.input(operator, 1), axis, graph.int32(len(results))
    graph.emit(OperationType.SPLIT, inputs, results)


def split_v(graph: Graph, operator: Operator, options: Options) -> None:
    """SPLIT_V into parts of given lengths."""
    results = _results(graph, operator, options)
    inputs = graph.input(operator, 0), graph.input(operator, 1), whole(graph, graph.input(operator, 2))
    graph.emit(OperationType.TFLITE_SPLIT_V, inputs, results)


def strided_slice(graph: Graph, operator: Operator, options: Options) -> None:
    """STRIDED_SLICE.

    Android NN's operation is used if there is a begin, end and stride per axis and all axes remain.

    For a removed axis Android NN takes the elements between begin and end, TFLite one element
    regardless of the end.
    """
    source, result = graph.input(operator, 0), graph.output(operator)
    lists = [narrow(graph, graph.input(operator, position)) for position in (1, 2, 3)]
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
        except Unsupported:
            pass
        else:
            return
    masks = [graph.int32(options[name]) for name in names]
    offset = graph.boolean(value=bool(options["offset"]))
    graph.emit(OperationType.TFLITE_STRIDED_SLICE, (source, *lists, *masks, offset), (result,))


def dynamic_update_slice(graph: Graph, operator: Operator, _: Options) -> None:
    """DYNAMIC_UPDATE_SLICE: overwrites a part of a tensor."""
    inputs = [graph.input(operator, position) for position in range(3)]
    graph.emit(OperationType.TFLITE_DYNAMIC_UPDATE_SLICE, inputs, (graph.output(operator),))


def reverse(graph: Graph, operator: Operator, _: Options) -> None:
    """REVERSE_V2. Android NN's operation takes one axis that counts from the start."""
    source, axes = graph.input(operator, 0), narrow(graph, graph.input(operator, 1))
    value = graph.value(axes)
    is_plain = value is not None and value.shape == (1,) and value[0] >= 0
    operation_type = OperationType.REVERSE if is_plain else OperationType.TFLITE_REVERSE_V2
    graph.emit(operation_type, (source, axes), (graph.output(operator),))


def reverse_sequence(graph: Graph, operator: Operator, options: Options) -> None:
    """REVERSE_SEQUENCE: reverses each batch element up to its length."""
    axes = graph.int32(options["seq_dim"]), graph.int32(options["batch_dim"])
    inputs = graph.input(operator, 0), graph.input(operator, 1), *axes
    graph.emit(OperationType.TFLITE_REVERSE_SEQUENCE, inputs, (graph.output(operator),))


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.DYNAMIC_UPDATE_SLICE: Lowering(rule=dynamic_update_slice, inputs=(3, 3)),
    BuiltinOperator.REVERSE_SEQUENCE: Lowering(
        rule=reverse_sequence, options="ReverseSequenceOptions", inputs=(2, 2)
    ),
    BuiltinOperator.REVERSE_V2: Lowering(rule=reverse, inputs=(2, 2)),
    BuiltinOperator.SLICE: Lowering(rule=slice_, inputs=(3, 3)),
    BuiltinOperator.SPLIT: Lowering(rule=split, options="SplitOptions", inputs=(2, 2), outputs=None),
    BuiltinOperator.SPLIT_V: Lowering(rule=split_v, options="SplitVOptions", inputs=(3, 3), outputs=None),
    BuiltinOperator.STRIDED_SLICE: Lowering(rule=strided_slice, options="StridedSliceOptions", inputs=(4, 4)),
}
