"""MediaPipe's custom operators for crops around landmarks, compared with direct computations."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.custom import Array, custom_file, results_of

from neurald.hal.errors import BadData
from neurald.runtime.tflite import load_tflite

pytestmark = pytest.mark.usefixtures("compiles_here")

LANDMARKS = np.random.default_rng(3).uniform(0, 256, (10, 3)).astype(np.float32)
FIRST: dict[str, Any] = {
    "input_hw": [200, 256],
    "output_hw": [9, 17],
    "dimensions": 3,
    "landmarks_range": 256,
    "bbox_size_multiplier": 1.5,
    "left_rotation_idx": 0,
    "right_rotation_idx": 4,
    "subset": [1, 2, 3, 5, 7],
}
SECOND: dict[str, Any] = {
    "subset_idxs": [0, 1, 2, 3, 9],
    "left_rotation_idx": 2,
    "right_rotation_idx": 6,
    "target_rotation_radians": 0.25,
    "output_height": 9,
    "output_width": 17,
    "scale_x": 1.5,
    "scale_y": 1.25,
}


def options(values: dict[str, Any]) -> bytes:
    """Returns a map whose lists are vectors of integers, as MediaPipe's converter writes them."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in values.items():
            builder.Key(name)
            if isinstance(value, list):
                builder.TypedVectorFromElements(value)
            elif isinstance(value, float):
                builder.Float(value)
            elif isinstance(value, str):
                builder.String(value)
            else:
                builder.Int(value)
    return bytes(builder.Finish())


def to_matrix(shape: tuple[int, ...], values: dict[str, Any]) -> TfliteModel:
    return custom_file(
        "Landmarks2TransformMatrix", [(shape, "FLOAT32")], [((1, 4, 4), "FLOAT32")], options(values)
    )


def turned(angle: float) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def box(points: Array, rotation: Any) -> tuple[Array, Array]:
    """Returns the extent of points after a rotation, and its centre before."""
    moved = points[:, :2].astype(np.float64) @ rotation.T
    low, high = moved.min(axis=0), moved.max(axis=0)
    return high - low, rotation.T @ ((low + high) / 2)


def test_the_first_matrix(tmp_path: Path) -> None:
    (found,) = results_of(to_matrix((1, 1, 1, 30), FIRST), tmp_path, LANDMARKS.reshape(1, 1, 1, 30))
    x, y = (LANDMARKS[4] - LANDMARKS[0])[:2]
    rotation = turned(-math.atan(y / x))
    extent, centre = box(LANDMARKS[FIRST["subset"]], rotation)
    image, crop = np.array([256, 200]), np.array([17, 9])
    for place in ((0, 0), (16, 8), (3, 5)):
        # From -1 to 1 on the crop, then on the image.
        relative = np.array(place) * 2 / (crop - 1) - 1
        on_image = rotation.T @ (relative * extent * 1.5 / 256) + centre / 256 * 2 - 1
        wanted = (on_image + 1) * (image - 1) / 2
        np.testing.assert_allclose((found[0] @ [*place, 0, 1])[:2], wanted, rtol=1e-4, atol=1e-2)
    np.testing.assert_array_equal(found[0, 2:], [[0, 0, 1, 0], [0, 0, 0, 1]])
    assert found[0, 0, 2] == found[0, 1, 2] == 0


def test_the_second_matrix(tmp_path: Path) -> None:
    (found,) = results_of(to_matrix((1, 10, 3), SECOND), tmp_path, LANDMARKS.reshape(1, 10, 3))
    x, y = (LANDMARKS[6] - LANDMARKS[2])[:2]
    rotation = turned(0.25 - math.atan2(y, x))
    extent, centre = box(LANDMARKS[SECOND["subset_idxs"]], rotation)
    for place in ((0, 0), (17, 9), (3, 5)):
        relative = (np.array(place) - [8.5, 4.5]) / [17, 9] * [1.5, 1.25] * extent
        wanted = rotation.T @ relative + centre
        np.testing.assert_allclose((found[0] @ [*place, 0, 1])[:2], wanted, rtol=1e-4, atol=1e-2)


MATRIX = np.array([[0.5, 0.25, 9, 1], [-0.5, 0.75, 9, 2], [0, 0, 1, 0], [0, 0, 0, 1]], np.float32)[np.newaxis]


def interpolated(image: Array, x: float, y: float) -> Array:
    """Returns the elements between four neighbours of an image; 0 outside of it."""
    height, width, channels = image.shape
    if not (0 <= x <= width - 1 and 0 <= y <= height - 1):
        return np.zeros(channels)
    total = np.zeros(channels)
    for row, column in np.ndindex(height, width):
        total += max(0, 1 - abs(row - y)) * max(0, 1 - abs(column - x)) * image[row, column]
    return total


@sweep(
    ("name", "values", "centre"),
    [
        ("TransformTensor", {"mode": "bilinear", "output_size": [5, 6]}, 0.0),
        ("TransformTensorBilinear", {"mode": "bilinear", "output_size": [5, 6]}, 0.0),
        ("TransformTensorBilinear", {"output_height": 5, "output_width": 6}, 0.5),
    ],
)
def test_crops(tmp_path: Path, name: str, values: dict[str, Any], centre: float) -> None:
    image = np.random.default_rng(4).standard_normal((1, 7, 8, 3)).astype(np.float32)
    inputs = [((1, 7, 8, 3), "FLOAT32"), ((1, 4, 4), "FLOAT32")]
    file = custom_file(name, inputs, [((1, 5, 6, 3), "FLOAT32")], options(values))
    (found,) = results_of(file, tmp_path, image, MATRIX)
    outside = 0
    for row, column in np.ndindex(5, 6):
        x, y = MATRIX[0, :2, :2] @ [column + centre, row + centre] + MATRIX[0, :2, 3] - centre
        wanted = interpolated(image[0], x, y)
        outside += not wanted.any()
        np.testing.assert_allclose(found[0, row, column], wanted, rtol=1e-4, atol=1e-5)
    assert 0 < outside < 30


def test_resampling(tmp_path: Path) -> None:
    """Elements between the image and 0 around it count, too."""
    rng = np.random.default_rng(6)
    images = rng.standard_normal((2, 4, 5, 3)).astype(np.float32)
    positions = rng.uniform(-2, 6, (2, 4, 5, 2)).astype(np.float32)
    positions[0, 0, 0, 0], positions[0, 0, 1], positions[0, 0, 2] = np.nan, [-1.0, 2.0], [4.0, 3.0]
    file = custom_file(
        "Resampler", [(images.shape, "FLOAT32"), (positions.shape, "FLOAT32")], [(images.shape, "FLOAT32")]
    )
    (found,) = results_of(file, tmp_path, images, positions)
    framed = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    for batch, row, column in np.ndindex(2, 4, 5):
        x, y = positions[batch, row, column] + 1
        wanted = interpolated(framed[batch], x, y)
        np.testing.assert_allclose(found[batch, row, column], wanted, rtol=1e-4, atol=1e-5)


def test_resampling_needs_a_position_for_each_element(tmp_path: Path) -> None:
    inputs = [((1, 4, 5, 3), "FLOAT32"), ((1, 5, 4, 2), "FLOAT32")]
    file = custom_file("Resampler", inputs, [((1, 4, 5, 3), "FLOAT32")])
    with pytest.raises(BadData, match=r"positions have shape \[1, 5, 4, 2\]; \[1, 4, 5, 2\] is expected"):
        load_tflite(file.write(tmp_path / "wrong.tflite"))


@sweep(
    ("shape", "dimensions", "values"),
    [
        ((1, 1, 2, 12), 2, {"dimensions": 2, "scale": 0.5}),
        ((1, 1, 1, 12), 3, {"dimensions": 3, "scale": 2.0}),
        ((1, 6, 2), 2, {}),
        ((1, 6, 3), 3, {}),
    ],
)
def test_landmarks_move(
    tmp_path: Path, shape: tuple[int, ...], dimensions: int, values: dict[str, Any]
) -> None:
    points = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    inputs = [(shape, "FLOAT32"), ((1, 4, 4), "FLOAT32")]
    file = custom_file("TransformLandmarks", inputs, [(shape, "FLOAT32")], options(values))
    (found,) = results_of(file, tmp_path, points, MATRIX)
    wanted = points.reshape(-1, dimensions).copy()
    wanted[:, :2] = wanted[:, :2] @ MATRIX[0, :2, :2].T + MATRIX[0, :2, 3] * values.get("scale", 1)
    np.testing.assert_allclose(found, wanted.reshape(shape), rtol=1e-4, atol=1e-5)


@sweep(
    ("name", "shape", "values", "message"),
    [
        ("TransformLandmarks", (1, 6, 4), {}, "landmarks of 4 coordinates in rows of 4"),
        ("TransformLandmarks", (1, 1, 1, 7), {"dimensions": 2, "scale": 1.0}, "in rows of 7 numbers"),
        ("TransformLandmarks", (1, 1, 1, 8), {"dimensions": 2, "scale": 0.0}, "the factor is 0"),
        ("TransformTensorBilinear", (2, 3, 3, 1), {"output_height": 5, "output_width": 6}, "2 images"),
        ("TransformTensorBilinear", (1, 3, 3, 1), {"output_height": 0, "output_width": 6}, "0 x 6"),
        ("TransformTensor", (1, 3, 3, 1), {"output_size": [1, 2, 3]}, "two lengths are expected"),
        ("TransformTensor", (1, 3, 3, 1), {"output_size": 4}, "no integers 'output_size'"),
    ],
)
def test_wrong_options(
    tmp_path: Path, name: str, shape: tuple[int, ...], values: dict[str, Any], message: str
) -> None:
    inputs = [(shape, "FLOAT32"), ((1, 4, 4), "FLOAT32")]
    file = custom_file(name, inputs, [((1,), "FLOAT32")], options(values))
    with pytest.raises(BadData, match=message):
        load_tflite(file.write(tmp_path / "wrong.tflite"))


def test_a_matrix_of_another_shape_is_refused(tmp_path: Path) -> None:
    inputs = [((1, 6, 2), "FLOAT32"), ((1, 3, 3), "FLOAT32")]
    file = custom_file("TransformLandmarks", inputs, [((1, 6, 2), "FLOAT32")], options({}))
    with pytest.raises(BadData, match="4 x 4 numbers are expected"):
        load_tflite(file.write(tmp_path / "wrong.tflite"))


@sweep(
    ("values", "changed", "message"),
    [
        (FIRST, {"subset": [1, 10]}, "numbers from 0 to 9 are expected"),
        (FIRST, {"left_rotation_idx": -1}, "numbers from 0 to 9 are expected"),
        (FIRST, {"output_hw": [1, 5]}, "output_hw is 1 x 5"),
        (FIRST, {"input_hw": [0, 5]}, "input_hw is 0 x 5"),
        (FIRST, {"dimensions": 2}, "landmarks have 2 coordinates"),
        (FIRST, {"landmarks_range": 0}, "landmarks_range is 0"),
        (FIRST, {"bbox_size_multiplier": 0.0}, "bbox_size_multiplier is 0"),
        (SECOND, {"output_width": 0}, "the crop is 9 x 0"),
        (SECOND, {"scale_x": -1.0}, "scale_x is -1"),
        (SECOND, {"subset_idxs": [3.5, 2.5]}, "no integers 'subset_idxs'"),
    ],
)
def test_wrong_options_of_matrices(
    tmp_path: Path, values: dict[str, Any], changed: dict[str, Any], message: str
) -> None:
    shape = (1, 1, 1, 30) if values is FIRST else (1, 10, 3)
    file = to_matrix(shape, {**values, **changed})
    with pytest.raises(BadData, match=message):
        load_tflite(file.write(tmp_path / "wrong.tflite"))
