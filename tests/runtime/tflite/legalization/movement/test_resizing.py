from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import (
    Load,
    fixed,
    inputs_of,
    numbers,
    random,
    shaped,
    types,
)
from support.tflite.results import FIRST_VALUES, INT16_FIRST, run_on_cpu

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType


def test_int16_resizing(load: Load) -> None:
    inputs = [shaped(1, 2, 3, 1, **INT16_FIRST), fixed([3, 3], "INT32")]
    model = load("RESIZE_BILINEAR", inputs, shaped(1, 3, 3, 1, **INT16_FIRST), "ResizeBilinearOptions")
    expected = [-32768, -300, -5, -10909, -73, 21854, 5, 40, 32767]
    assert run_on_cpu(model, FIRST_VALUES.reshape(1, 2, 3, 1)) == expected


@pytest.mark.parametrize("code", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True)])
def test_resize(load: Load, code: str, flags: tuple[bool, bool]) -> None:
    options = "ResizeBilinearOptions" if code == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    model = load(
        code,
        (shaped(1, 2, 3, 1), fixed([4, 9], "INT32")),
        shaped(1, 1, 1, 1),
        options,
        AlignCorners=flags[0],
        HalfPixelCenters=flags[1],
    )
    least = 3 if code == "RESIZE_BILINEAR" else 4
    assert len(inputs_of(model)) == (6 if any(flags) else least)
    assert numbers(model)[:2] == [9, 4]
    if any(flags):
        assert numbers(model)[2:] == [False, *flags]
    assert run_references(model, random(1, 2, 3, 1))[0].shape == (1, 4, 9, 1)


@pytest.mark.parametrize("size", [fixed([2], "INT32"), fixed([2.0, 2.0]), fixed([[2, 2]], "INT32")])
def test_resize_refuses_sizes(load: Load, size: dict[str, Any]) -> None:
    with pytest.raises(BadData, match="operator 0 RESIZE_BILINEAR"):
        load("RESIZE_BILINEAR", (shaped(1, 2, 2, 1), size), shaped(1, 2, 2, 1), "ResizeBilinearOptions")


@pytest.mark.parametrize("code", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
def test_resize_to_a_computed_size(load: Load, code: str) -> None:
    options = "ResizeBilinearOptions" if code == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    model = load(
        code,
        (shaped(1, 2, 3, 1), shaped(2, type_="INT32")),
        shaped(1, 4, 6, 1),
        options,
        AlignCorners=True,
    )
    assert types(model) == [OperationType[f"TFLITE_{code}"]]
    known = load(code, (shaped(1, 2, 3, 1), fixed([4, 9], "INT32")), shaped(0), options, AlignCorners=True)
    x = random(1, 2, 3, 1)
    (result,) = run_references(model, x, [4, 9])
    np.testing.assert_allclose(result, run_references(known, x)[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("type_", "name"),
    [("FLOAT32", "RESIZE_BILINEAR"), ("INT8", "TFLITE_RESIZE_BILINEAR"), ("INT16", "TFLITE_RESIZE_BILINEAR")],
)
def test_resize_of_quantized_values_rounds_like_tflite(load: Load, type_: str, name: str) -> None:
    image = shaped(1, 2, 3, 1, type_=type_, scale=() if type_ == "FLOAT32" else 0.5)
    model = load("RESIZE_BILINEAR", (image, fixed([4, 9], "INT32")), image, "ResizeBilinearOptions")
    assert types(model) == [OperationType[name]]


@pytest.mark.parametrize("size", [[0, 2], [2, -1], [2**31 - 1, 2**31 - 1]])
def test_resize_to_empty_and_huge_images(load: Load, size: list[int]) -> None:
    with pytest.raises(BadData, match="operator 0 RESIZE_BILINEAR"):
        load(
            "RESIZE_BILINEAR",
            (shaped(1, 2, 2, 1), fixed(size, "INT32")),
            shaped(1, 2, 2, 1),
            "ResizeBilinearOptions",
        )
