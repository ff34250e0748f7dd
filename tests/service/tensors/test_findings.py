import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.resources import constant

from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.runtime.tflite import load_tflite
from neurald.service.tensors.findings import (
    find_detections,
    find_keypoints,
    find_segments,
    find_transcript,
    finding_table,
)
from neurald.service.tensors.packed_labels import packed_labels


def passing(*shapes: tuple[int, ...]) -> TfliteModel:
    """Builds a model that adds 0 to inputs of these shapes."""
    file = TfliteModel()
    graph = file.subgraph()
    inputs = [graph.tensor(shape, name=f"i{n}") for n, shape in enumerate(shapes)]
    outputs = [graph.tensor(shape, name=f"o{n}") for n, shape in enumerate(shapes)]
    zero = constant(graph, [0.0])
    for source, result in zip(inputs, outputs, strict=True):
        graph.operator("ADD", (source, zero), (result,), "AddOptions")
    graph.inputs, graph.outputs = inputs, outputs
    return file


def image_model(*shapes: tuple[int, ...], operations: tuple[Operation, ...] = ()) -> Model:
    """Returns a model of an image of 20 rows and 10 columns, whose outputs have these shapes."""
    operands = tuple(
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=shape, lifetime=lifetime)
        for shape, lifetime in [
            ((1, 20, 10, 3), Lifetime.SUBGRAPH_INPUT),
            *((shape, Lifetime.SUBGRAPH_OUTPUT) for shape in shapes),
        ]
    )
    outputs = tuple(range(1, len(operands)))
    return Model(main=Subgraph(operands=operands, operations=operations, inputs=(0,), outputs=outputs))


def detector() -> TfliteModel:
    from flatbuffers import flexbuffers

    file = TfliteModel()
    graph = file.subgraph()
    codes, scores = graph.tensor((1, 3, 4)), graph.tensor((1, 3, 3))
    outputs = [graph.tensor(()) for _ in range(4)]
    options = {
        "max_detections": 4,
        "max_classes_per_detection": 1,
        "nms_score_threshold": 0.5,
        "nms_iou_threshold": 0.5,
        "num_classes": 2,
        **dict.fromkeys(("y_scale", "x_scale", "h_scale", "w_scale"), 1.0),
    }
    graph.operator(
        "CUSTOM",
        (codes, scores, constant(graph, np.ones((3, 4), np.float32))),
        outputs,
        custom_code="TFLite_Detection_PostProcess",
        custom_options=bytes(flexbuffers.Dumps(options)),
    )
    graph.inputs = (codes, scores)
    graph.outputs = [outputs[each] for each in (3, 0, 2, 1)]
    return file


def test_detections_are_found_whatever_the_order_of_outputs() -> None:
    model = load_tflite(detector().build())
    boxes = np.array([[[0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1], [0, 0, 0, 0]]], np.float32)
    outputs = [
        np.array([2], np.float32),
        boxes,
        np.array([[0.5, 0.9, 0.99]], np.float32),
        np.array([[1, 7, 0]], np.float32),
    ]
    found = find_detections(model, outputs, ["cat", "dog"], 5)
    assert found is not None
    assert [(each["class"], each["label"]) for each in found] == [(7, None), (1, "dog")]
    assert found[1]["bottom"] == pytest.approx(0.3)
    table = finding_table({"detections": found})
    assert table is not None
    assert table[1][1] == ["50.00 %", "1", "dog", "0.100", "0.200", "0.300", "0.400"]
    assert find_detections(load_tflite(passing((2, 2)).build()), [np.zeros((2, 2))], None, 5) is None


def test_keypoints() -> None:
    model = load_tflite(passing((1, 1, 17, 3)).build())
    values = np.arange(51, dtype=np.float32).reshape(1, 1, 17, 3) / 100
    found = find_keypoints(model, [values])
    assert found is not None
    assert found[1] == {
        "name": "left eye",
        "score": pytest.approx(0.05),
        "y": pytest.approx(0.03),
        "x": pytest.approx(0.04),
    }
    table = finding_table({"keypoints": found})
    assert table is not None
    assert table[1][0] == ["nose", "2.00 %", "0.000", "0.010"]
    assert find_keypoints(model, [values[:, :, :5]]) is None


def test_points_of_hands_and_faces() -> None:
    for points, name in ((21, "index finger tip"), (468, "point 8")):
        model = image_model((1, 3 * points), (1, 1))
        values = np.arange(3 * points, dtype=np.float32).reshape(1, -1)
        found = find_keypoints(model, [values, np.ones((1, 1), np.float32)])
        assert found is not None
        assert len(found) == points
        assert found[8] == {"name": name, "score": None, "y": 25 / 20, "x": 24 / 10}
        table = finding_table({"keypoints": found})
        assert table is not None
        assert table[0] == ["keypoint", "y", "x"]
        assert table[1][8] == [name, "1.250", "2.400"]
        assert len(table[1]) == min(points, 41)
        assert find_keypoints(model, [values, values]) is None
        assert find_keypoints(model, [values[:, 3:], values[:, :1]]) is None


def test_detections_in_rows() -> None:
    suppression = Operation(type=OperationType.TFLITE_NON_MAX_SUPPRESSION_V4, inputs=(), outputs=())
    model = image_model((2, 7), operations=(suppression,))
    rows = np.array([[0, 1, 0.25, 1, 2, 3, 4], [0, 5, 0.5, 5, 10, 10, 20]], np.float32)
    found = find_detections(model, [rows], ["cat", "dog"], 5)
    assert found is not None
    assert [(each["class"], each["label"], each["score"]) for each in found] == [
        (5, None, 0.5),
        (1, "dog", 0.25),
    ]
    assert [found[0][side] for side in ("top", "left", "bottom", "right")] == [0.5, 0.5, 1.0, 1.0]
    assert find_detections(image_model((2, 7)), [rows], None, 5) is None


def test_segments() -> None:
    scores = np.zeros((1, 10, 10, 3), np.float32)
    scores[:, :4, :, 2] = 1
    found = find_segments([scores], ["sky", "sea", "sand"], 5)
    assert found == [
        {"class": 0, "label": "sky", "share": 0.6},
        {"class": 2, "label": "sand", "share": 0.4},
    ]
    assert finding_table({"segments": found}) == (
        ["share", "class", "label"],
        [["60.00 %", "0", "sky"], ["40.00 %", "2", "sand"]],
    )
    for other in (scores[:, :5], scores[..., :1], scores[0], np.zeros((2, 10, 10, 3))):
        assert find_segments([other], None, 5) is None
    assert finding_table({}) is None


def test_without_labels_there_is_no_column_for_them() -> None:
    segments = [{"class": 0, "label": None, "share": 0.6}]
    assert finding_table({"segments": segments}) == (["share", "class"], [["60.00 %", "0"]])
    box = {"score": 0.5, "class": 3, "label": None, "top": 0.0, "left": 0.1, "bottom": 0.5, "right": 1.0}
    assert finding_table({"detections": [box]}) == (
        ["score", "class", "top", "left", "bottom", "right"],
        [["50.00 %", "3", "0.000", "0.100", "0.500", "1.000"]],
    )


def packed(path: Path, method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> Path:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", method) as file:
        for name, content in members.items():
            file.writestr(name.replace("_", "."), content)
    path.write_bytes(passing((2, 2)).build() + archive.getvalue())
    return path


def test_labels_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    assert packed_labels(packed(path, labels_txt=b"cat\r\ndog\n\n")) == ["cat", "dog"]
    assert packed_labels(packed(path, labels_txt=b"a", others_txt=b"b")) is None
    assert packed_labels(packed(path, meta_json=b"{}")) is None
    assert packed_labels(packed(path, labels_txt=b"\xff\xfe")) is None
    assert packed_labels(packed(path, labels_txt=b"\n")) is None
    assert packed_labels(packed(path, labels_txt=b"x" * (2 << 20))) is None
    load_tflite(path)
    path.write_bytes(passing((2, 2)).build())
    assert packed_labels(path) is None


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_damaged_archives(tmp_path: Path, method: int) -> None:
    path = packed(tmp_path / "m.tflite", method, labels_txt=b"cat\ndog" * 50)
    sound = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(sound)
        for place in rng.integers(len(sound) - 250, len(sound), 3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        found = packed_labels(path)
        assert found is None or all(isinstance(each, str) for each in found)


def test_transcripts() -> None:
    letters = ["", "a", "b", "c", "<blank>"]
    moments = [4, 1, 1, 4, 1, 2, 0, 0, 3, 4]
    outputs = [np.eye(5, dtype=np.float32)[moments][None]]
    assert find_transcript(outputs, letters) == "aab c"
    # Without a label for it, the blank is the class after the labels, or the last one.
    assert find_transcript(outputs, letters[:4]) == "aab c"
    assert find_transcript(outputs, ["|", "a", "b", "c", "d"]) == "aab c"
    for other in (None, letters[:2], letters * 2):
        assert find_transcript(outputs, other) is None
    assert find_transcript([outputs[0][0]], letters) is None
    # These are scores of classes.
    assert find_transcript([outputs[0][:, :1]], letters) is None
    assert find_transcript(outputs, ["cat", "dog", "bird", "fish", "a"]) is None
    assert finding_table({"transcript": "aab c"}) == (["transcript"], [["aab c"]])
