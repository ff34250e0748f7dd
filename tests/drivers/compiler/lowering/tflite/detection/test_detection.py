from typing import Any

import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.single_operation import given, scalars, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT, QUANT8 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_QUANT8_ASYMM
DETECTION = OperationType.TFLITE_DETECTION_POSTPROCESS
SETTINGS: dict[str, Any] = {
    "detections": 6,
    "classes_per_detection": 1,
    "detections_per_class": 100,
    "classes": 3,
    "per_class": False,
    "score_threshold": 0.3,
    "iou_threshold": 0.4,
    "scale_y": 10.0,
    "scale_x": 9.0,
    "scale_height": 5.0,
    "scale_width": 4.0,
}
generator = np.random.default_rng(5)


@sweep("per_class", [False, True])
@sweep("kind", [FLOAT, QUANT8])
def test_detections(kind: OperandType, *, per_class: bool) -> None:
    for anchors, background, changes in (
        (40, 0, {}),
        (40, 1, {"classes_per_detection": 2}),
        (7, 1, {"detections": 50, "classes_per_detection": 5}),
        (30, 0, {"detections_per_class": 3, "score_threshold": 0.9}),
        (1, 0, {"score_threshold": 2.0}),
        *(() if per_class else [(30, 0, {"detections_per_class": 0})]),
    ):
        settings = scalars(*{**SETTINGS, **changes, "per_class": per_class}.values())
        arrays = (
            generator.standard_normal((1, anchors, 4)),
            generator.random((1, anchors, 3 + background)),
            generator.random((anchors, 4)),
        )
        if kind is FLOAT:
            inputs = [given(kind, each) for each in arrays]
        else:
            inputs = [
                given(kind, generator.integers(0, 256, each.shape), scale=scale, zero_point=zero)
                for each, scale, zero in zip(arrays, (0.02, 1 / 256, 1 / 256), (128, 0, 0), strict=True)
            ]
        expect_same(DETECTION, [*inputs, *settings], *[wanted(FLOAT)] * 4, data=(0, 1, 2), compare=close)
