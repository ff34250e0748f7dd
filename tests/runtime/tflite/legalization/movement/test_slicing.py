from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.operator import Load, fixed, random, shaped, types
from support.tflite.results import DTYPES, check, counted

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite import load_tflite


def several(
    path: Path, code: str, inputs: list[dict[str, Any]], count: int, *options: Any, **values: Any
) -> Any:
    """Builds a model of one operator with several outputs of the type of its first input."""
    file = TfliteModel()
    graph = file.subgraph()
    indexes = [graph.tensor(**fields) for fields in inputs]
    kind = next(fields for fields in inputs if "data" not in fields).get("type_", "FLOAT32")
    graph.outputs = [graph.tensor((1, 1, 1), kind) for _ in range(count)]
    graph.inputs = [index for index, fields in zip(indexes, inputs, strict=True) if "data" not in fields]
    graph.operator(code, indexes, graph.outputs, *options, **values)
    return load_tflite(file.write(path / "several.tflite"))


@sweep("kind", DTYPES)
def test_splits(tmp_path: Path, kind: str) -> None:
    x, source = counted(kind, 2, 4, 2), shaped(2, 4, 2, type_=kind)
    model = several(tmp_path, "SPLIT", [fixed(-2, "INT32"), source], 2, "SplitOptions", NumSplits=2)
    for part, expected in zip(run_references(model, x), np.split(x, 2, 1), strict=True):
        np.testing.assert_array_equal(part, expected)
    sizes = fixed([1, -1], "INT64")
    model = several(tmp_path, "SPLIT_V", [source, sizes, fixed(1, "INT32")], 2, "SplitVOptions", NumSplits=2)
    for part, expected in zip(run_references(model, x), (x[:, :1], x[:, 1:]), strict=True):
        np.testing.assert_array_equal(part, expected)
    model = several(tmp_path, "UNPACK", [source], 2, "UnpackOptions", Num=2, Axis=-1)
    for part, expected in zip(run_references(model, x), (x[..., 0], x[..., 1]), strict=True):
        np.testing.assert_array_equal(part, expected)
    with pytest.raises(BadData, match="splits in 3, but has 2 outputs"):
        several(tmp_path, "SPLIT", [fixed(1, "INT32"), source], 2, "SplitOptions", NumSplits=3)


def test_slices(load: Load) -> None:
    x, result = random(3, 4, 5), shaped(1, 1, 1)
    lists = fixed([1, 0, 2], "INT64"), fixed([-1, 2, 3], "INT64")
    model = load("SLICE", (shaped(3, 4, 5), *lists), result)
    assert types(model) == [OperationType.SLICE]
    check(model, x[1:, :2, 2:], x)

    def strided(*lists: list[int], is_fed: bool = False, **options: int) -> Any:
        given = [shaped(len(x), type_="INT32") if is_fed else fixed(x, "INT32") for x in lists]
        return load("STRIDED_SLICE", (shaped(3, 4, 5), *given), result, "StridedSliceOptions", **options)

    model = strided([0, 3, 1], [3, 0, 5], [1, -1, 2], EndMask=2)
    assert types(model) == [OperationType.STRIDED_SLICE]
    check(model, x[:, ::-1, 1::2], x)
    model = strided([1], [0], [1], ShrinkAxisMask=1)
    assert types(model) == [OperationType.TFLITE_STRIDED_SLICE]
    check(model, x[1], x)
    check(strided([0, 0, 1], [0, 0, 3], [1, 1, 1], EllipsisMask=1, NewAxisMask=2), x[..., None, 1:3], x)
    lists32 = [1, 0, 2], [3, 4, 3], [1, 2, 1]
    check(strided(*lists32, is_fed=True), x[1:, ::2, 2:3], x, *lists32)


def test_an_empty_slice_is_no_slice_of_unknown_size(tmp_path: Path) -> None:
    """The operation after it must accept its shape, which nothing but the constants tells."""
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((3, 4))
    lists = [graph.tensor((2,), "INT32", data=values) for values in ([2, 0], [2, 0], [1, 1])]
    empty, result = graph.tensor((0, 0)), graph.tensor((3, 4))
    graph.operator("STRIDED_SLICE", (x, *lists), (empty,), "StridedSliceOptions")
    graph.operator("MUL", (x, empty), (result,), "MulOptions")
    graph.inputs, graph.outputs = (x,), (result,)
    with pytest.raises(BadData, match=r"cannot broadcast input1 \[3, 4\], input2 \[0, 0\]"):
        load_tflite(file.write(tmp_path / "empty.tflite"))
