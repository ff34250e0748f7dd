from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from support.tflite.builder import TfliteModel
from support.tflite.resources import constant

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite

OPTIONS = {
    "max_detections": 4,
    "max_classes_per_detection": 1,
    "nms_score_threshold": 0.5,
    "nms_iou_threshold": 0.5,
    "num_classes": 1,
    "y_scale": 1.0,
    "x_scale": 1.0,
    "h_scale": 1.0,
    "w_scale": 1.0,
}


def detector(options: dict[str, Any] | bytes) -> TfliteModel:
    file = TfliteModel()
    graph = file.subgraph()
    codes, scores = graph.tensor((1, 3, 4)), graph.tensor((1, 3, 2))
    anchors = constant(graph, [[0, 0, 2, 2], [0, 0.1, 2, 2], [5, 5, 2, 2]])
    outputs = [graph.tensor(()) for _ in range(4)]
    graph.operator(
        "CUSTOM",
        (codes, scores, anchors),
        outputs,
        custom_code="TFLite_Detection_PostProcess",
        custom_options=options if isinstance(options, bytes) else bytes(flexbuffers.Dumps(options)),
    )
    graph.inputs, graph.outputs = (codes, scores), outputs
    return file


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"use_regular_nms": True},
        {"use_regular_nms": False},
        {"use_regular_nms": False, "detections_per_class": 0},
    ],
)
def test_detection_postprocess(path: Path, more: dict[str, Any]) -> None:
    options = {**OPTIONS, **more}
    model = load_tflite(detector(options).write(path))
    assert [o.type for o in model.main.operations] == [OperationType.TFLITE_DETECTION_POSTPROCESS]
    scores = np.array([[[0.1, 0.8], [0.1, 0.9], [0.3, 0.7]]], np.float32)
    boxes, classes, found, count = (
        CompilationBuilder(model).finish().run(np.zeros((1, 3, 4), np.float32), scores)
    )
    assert count.tolist() == [2]
    assert classes.tolist() == [[0, 0, 0, 0]]
    np.testing.assert_array_equal(found, np.array([[0.9, 0.7, 0, 0]], np.float32))
    np.testing.assert_allclose(boxes[0, :2], [[-1.0, -0.9, 1.0, 1.1], [4.0, 4.0, 6.0, 6.0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (b"", "options of 0 bytes"),
        (bytes(flexbuffers.Dumps([1, 2])), "are not a map"),
        ({**OPTIONS, "num_classes": "three"}, "no number 'num_classes'"),
        ({k: v for k, v in OPTIONS.items() if k != "y_scale"}, "no number 'y_scale'"),
        ({**OPTIONS, "max_detections": 1 << 40}, "does not fit in 32 bits"),
        ({**OPTIONS, "y_scale": 0.0}, "positive"),
        ({**OPTIONS, "num_classes": 7}, "classes"),
    ],
)
def test_refuses_options(path: Path, options: dict[str, Any] | bytes, message: str) -> None:
    with pytest.raises(BadData, match=message):
        load_tflite(detector(options).write(path))
