"""DETECTION_POSTPROCESS, the custom operator of detection models."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.file.flexbuffer import FlexMap
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization

_COUNTS = ("max_detections", "max_classes_per_detection")


_SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")


#: LiteRT's default if the options do not specify it.
_DETECTIONS_PER_CLASS = 100


def detection_postprocess(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes TFLite_Detection_PostProcess; its options are a FlexBuffers map."""
    options = FlexMap(operator.custom_options)
    scores = graph.input(operator, 1)
    inputs = (
        graph.input(operator, 0),
        scores,
        graph.input(operator, 2),
        *(graph.int32(options.integer(name)) for name in _COUNTS),
        graph.int32(options.integer("detections_per_class", _DETECTIONS_PER_CLASS)),
        graph.int32(options.integer("num_classes")),
        graph.boolean(value=options.boolean("use_regular_nms", default=False)),
        *(
            graph.real(options.real(name), like=scores)
            for name in ("nms_score_threshold", "nms_iou_threshold", *_SCALES)
        ),
    )
    outputs = [graph.output(operator, position) for position in range(4)]
    graph.emit(OperationType.TFLITE_DETECTION_POSTPROCESS, inputs, outputs)


#: Custom operators by name.
CUSTOM: dict[str, Legalization] = {
    "TFLite_Detection_PostProcess": Legalization(rule=detection_postprocess, inputs=(3, 3), outputs=(4, 4)),
}
