from pathlib import Path

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.operator import Load, fixed, random, shaped, types
from support.tflite.stablehlo import WINDOW, load_with_body, long

from neurald.hal.errors import BadData


def test_reduce_window(load: Load) -> None:
    lists = [fixed(values, "INT64") for values in ([2, 1], [1, 2], [1, 1])]
    inputs = shaped(3, 3), fixed(0.0), *lists
    model = load("REDUCE_WINDOW", inputs, shaped(1, 1), "ReduceWindowOptions", ReduceFunction=4)
    x = random(3, 3)
    expected = np.maximum(np.maximum(x[:2, ::2], x[1:, ::2]), 0)
    np.testing.assert_array_equal(run_references(model, x)[0], expected)
    with pytest.raises(BadData, match="ADD"):
        load("REDUCE_WINDOW", inputs, shaped(1, 1), "ReduceWindowOptions", ReduceFunction=7)
    with pytest.raises(BadData, match="options are of kind"):
        load("REDUCE_WINDOW", inputs, shaped(1, 1))


@sweep("is_padded", [False, True])
def test_stablehlo_reduce_window(tmp_path: Path, *, is_padded: bool) -> None:
    padding = long(1, 0, 0, 0) if is_padded else long(0, 0, 0, 0)
    model = load_with_body(
        tmp_path,
        "STABLEHLO_REDUCE_WINDOW",
        [(3, 2), ()],
        ["FLOAT32"] * 2,
        ["STABLEHLO_ADD"],
        "StablehloReduceWindowOptions",
        BaseDilations=long(1, 1),
        Padding=padding,
        **WINDOW,
    )
    assert len(types(model)) == 1 + is_padded
    x = random(3, 2)
    padded = np.pad(x, ((1, 0), (0, 0))) if is_padded else x
    np.testing.assert_allclose(run_references(model, x, 0)[0], padded[:-1] + padded[1:], rtol=1e-6)
