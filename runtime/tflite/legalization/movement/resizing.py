"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    LegalizationRule,
)


def resize(operation_type: OperationType, wider: OperationType, *, needs_layout: bool) -> LegalizationRule:
    """Builds the rule for resizing.

    Optional flags are dropped if possible, for devices of lower levels.

    Args:
        operation_type: used for known sizes.
        wider: used for unknown sizes, and for quantised sums with TFLite's rounding.
        needs_layout: True if the layout flag is mandatory.
    """

    def rule(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
        source, size_operand = graph.input(operator, 0), graph.input(operator, 1)
        size, result = graph.value(size_operand), graph.output(operator)
        flags = options["align_corners"], options["half_pixel_centers"]
        is_known = size is not None and size.shape == (2,) and size.dtype.kind == "i"
        if size is None or not is_known or (is_quantized(graph.operand(source)) and not needs_layout):
            given = (graph.boolean(value=bool(flag)) for flag in flags)
            graph.emit(wider, (source, size_operand, *given), (result,))
            return
        height, width = (int(length) for length in size)
        tail: list[int] = []
        if needs_layout or any(flags):
            tail.append(graph.boolean(value=False))
        if any(flags):
            tail.extend(graph.boolean(value=bool(flag)) for flag in flags)
        inputs = source, graph.int32(width), graph.int32(height), *tail
        graph.emit(operation_type, inputs, (result,))

    return rule


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.RESIZE_BILINEAR: Legalization(
        rule=resize(OperationType.RESIZE_BILINEAR, OperationType.TFLITE_RESIZE_BILINEAR, needs_layout=False),
        options="ResizeBilinearOptions",
        inputs=(2, 2),
    ),
    BuiltinOperator.RESIZE_NEAREST_NEIGHBOR: Legalization(
        rule=resize(
            OperationType.RESIZE_NEAREST_NEIGHBOR,
            OperationType.TFLITE_RESIZE_NEAREST_NEIGHBOR,
            needs_layout=True,
        ),
        options="ResizeNearestNeighborOptions",
        inputs=(2, 2),
    ),
}
