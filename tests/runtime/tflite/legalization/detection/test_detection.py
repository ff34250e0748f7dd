from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from support.tflite.builder import TfliteModel
from support.tflite.resources import constant

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.runtime.compilation import CompilationBuilder
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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.tflite"


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


@pytest.mark.parametrize("regular", [None, False, True])
def test_detection_postprocess(path: Path, *, regular: bool | None) -> None:
    options = OPTIONS if regular is None else {**OPTIONS, "use_regular_nms": regular}
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


@pytest.mark.parametrize("limit", ["fixed", "fed"])
@pytest.mark.parametrize("version", [4, 5])
def test_non_max_suppression(path: Path, version: int, limit: str) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    boxes, scores = graph.tensor((3, 4)), graph.tensor((3,))
    most = constant(graph, 2, "INT32") if limit == "fixed" else graph.tensor((), "INT32")
    inputs = [boxes, scores, most, constant(graph, 0.5), constant(graph, 0.0)]
    outputs = [graph.tensor((2,), "INT32"), graph.tensor((), "INT32")]
    if version == 5:
        inputs.append(constant(graph, 0.0))
        outputs.insert(1, graph.tensor((2,)))
    kind = f"NON_MAX_SUPPRESSION_V{version}"
    graph.operator(kind, inputs, outputs, f"NonMaxSuppressionV{version}Options")
    graph.inputs, graph.outputs = (boxes, scores, *([most] if limit == "fed" else [])), outputs
    values = (
        np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [3, 3, 2, 2]], np.float32),
        np.array([0.9, 0.8, 0.7], np.float32),
    )
    fed = (np.int32(2),) if limit == "fed" else ()
    results = CompilationBuilder(load_tflite(file.write(path))).finish().run(*values, *fed)
    assert results[0].tolist() == [0, 2]
    assert results[-1] == 2


def test_a_fourier_transform(path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, y = graph.tensor((3, 4, 8)), graph.tensor((3, 4, 5), "COMPLEX64")
    graph.operator("RFFT2D", (x, constant(graph, [4, 8], "INT32")), (y,), "Rfft2dOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    value = np.random.default_rng(0).random((3, 4, 8), np.float32)
    (result,) = CompilationBuilder(load_tflite(file.write(path))).finish().run(value)
    np.testing.assert_allclose(result, np.fft.rfft2(value), atol=1e-4)
