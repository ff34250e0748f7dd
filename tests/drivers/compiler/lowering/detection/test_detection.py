from typing import Any

import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.boxes import reals
from support.operations.single_operation import FLOAT_TYPES, given, scalars, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

DETECTION = OperationType.DETECTION_POSTPROCESSING
SETTINGS: dict[str, Any] = {
    "scale_y": 10.0,
    "scale_x": 9.0,
    "scale_height": 5.0,
    "scale_width": 4.0,
    "per_class": False,
    "detections": 6,
    "classes_per_detection": 1,
    "detections_per_class": 100,
    "score_threshold": 0.3,
    "iou_threshold": 0.4,
    "background": False,
}
generator = np.random.default_rng(5)


@sweep("per_class", [False, True])
@sweep("kind", FLOAT_TYPES)
def test_detections(kind: OperandType, *, per_class: bool) -> None:
    for images, anchors, classes, changes in (
        (1, 40, 4, {}),
        (2, 40, 3, {"classes_per_detection": 2, "background": True}),
        (3, 7, 2, {"detections": 50, "classes_per_detection": 5}),
        (1, 30, 4, {"detections_per_class": 3, "score_threshold": 0.9}),
        (1, 1, 4, {"score_threshold": 2.0}),
        (0, 3, 2, {}),
        (2, 0, 2, {}),
    ):
        values = {**SETTINGS, **changes, "per_class": per_class}.values()
        settings = [
            reals(each, operand_type=kind)[0] if isinstance(each, float) else scalars(each)[0]
            for each in values
        ]
        scores = generator.integers(0, 40, (images, anchors, classes)) / 40
        if anchors > 9:
            scores[:, 3] = np.nan
            scores[:, 5, -1] = np.inf
        arrays = (
            scores,
            generator.standard_normal((images, anchors, 5)),
            generator.random((anchors, 4)),
        )
        inputs = [given(kind, each) for each in arrays]
        outputs = (
            wanted(kind),
            wanted(kind),
            wanted(OperandType.TENSOR_INT32),
            wanted(OperandType.TENSOR_INT32),
        )
        expect_same(DETECTION, [*inputs, *settings], *outputs, data=(0, 1, 2), compare=close)
