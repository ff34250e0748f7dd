import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import Load, fixed, shaped, types
from support.tflite.results import int8, run_on_cpu

from neurald.hal.model.operation_type import OperationType


@pytest.mark.parametrize(
    ("code", "source", "target"),
    [
        ("DEPTH_TO_SPACE", (1, 2, 2, 4), (1, 4, 4, 1)),
        ("SPACE_TO_DEPTH", (1, 4, 4, 1), (1, 2, 2, 4)),
    ],
)
def test_blocks_are_moved_for_any_scales(
    load: Load, code: str, source: tuple[int, ...], target: tuple[int, ...]
) -> None:
    options = "".join(word.title() for word in code.split("_")) + "Options"
    inputs = [shaped(*source, **int8(1))]
    model = load(code, inputs, shaped(*target, **int8(4, 0.05)), options, BlockSize=2)
    expected = [-8, -7, -4, -3, -6, -5, -2, -1, 0, 1, 4, 5, 2, 3, 6, 7]
    assert run_on_cpu(model, np.arange(-8, 8, dtype=np.int8).reshape(source)) == expected


@pytest.mark.parametrize(
    ("crops", "type_", "name"),
    [
        ([[0, 0], [0, 0]], "FLOAT32", "BATCH_TO_SPACE_ND"),
        ([[0, 0], [0, 0]], "INT64", "TFLITE_BATCH_TO_SPACE_ND"),
        ([[1, 0], [0, 1]], "FLOAT32", "TFLITE_BATCH_TO_SPACE_ND"),
    ],
)
def test_batch_to_space(load: Load, crops: list[list[int]], type_: str, name: str) -> None:
    image = shaped(4, 1, 2, 1, type_=type_)
    model = load(
        "BATCH_TO_SPACE_ND", (image, fixed([2, 2], "INT32"), fixed(crops, "INT32")), shaped(0, type_=type_)
    )
    assert types(model) == [OperationType[name]]
    x = np.arange(8).reshape(4, 1, 2, 1)
    (top, left), (bottom, right) = (crops[0][0], crops[1][0]), (crops[0][1], crops[1][1])
    expected = np.array([[0, 2, 1, 3], [4, 6, 5, 7]])[top : 2 - bottom, left : 4 - right]
    np.testing.assert_array_equal(run_references(model, x)[0][0, ..., 0], expected)


@pytest.mark.parametrize(
    ("type_", "name"), [("INT8", "SPACE_TO_BATCH_ND"), ("BOOL", "TFLITE_SPACE_TO_BATCH_ND")]
)
def test_space_to_batch(load: Load, type_: str, name: str) -> None:
    image = shaped(1, 2, 2, 1, type_=type_)
    arguments = fixed([2, 1], "INT32"), fixed([[0, 0], [1, 0]], "INT32")
    model = load("SPACE_TO_BATCH_ND", (image, *arguments), image)
    assert types(model) == [OperationType[name]]
    (result,) = run_references(model, np.ones((1, 2, 2, 1)))
    np.testing.assert_array_equal(result[..., 0], [[[0, 1, 1]], [[0, 1, 1]]])


@pytest.mark.parametrize(
    ("code", "shape"), [("DEPTH_TO_SPACE", (1, 4, 6, 2)), ("SPACE_TO_DEPTH", (1, 1, 1, 32))]
)
@pytest.mark.parametrize(("type_", "prefix"), [("FLOAT32", ""), ("INT32", "TFLITE_")])
def test_depth_and_space(load: Load, code: str, shape: tuple[int, ...], type_: str, prefix: str) -> None:
    kind = "DepthToSpaceOptions" if code == "DEPTH_TO_SPACE" else "SpaceToDepthOptions"
    model = load(code, (shaped(1, 2, 2, 8, type_=type_),), shaped(0, type_=type_), kind, BlockSize=2)
    assert types(model) == [OperationType[prefix + code]]
    (result,) = run_references(model, np.zeros((1, 2, 2, 8)))
    assert result.shape == ((1, 4, 4, 2) if code == "DEPTH_TO_SPACE" else shape)
