"""Slices of a few elements of a list whose length is data have as many as there are."""

import logging
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice

_ROWS, _COLUMNS = 9, 3
_MASKS = ("EllipsisMask", "NewAxisMask", "ShrinkAxisMask")
_LIMITS = ((None, 1), (1, None), (-1, None), (None, -1), (1, 3), (-3, -1), (0, 2), (1, -2), (2, 1), (-1, -2))


@pytest.fixture(scope="module")
def model() -> nd.Model:
    """Returns a model of slices of the rows from an index on, and of what is joined from them."""
    file = TfliteModel()
    graph = file.subgraph()
    value, at = graph.tensor((_ROWS, _COLUMNS)), graph.tensor((1,), "INT32")
    one = graph.tensor((1,), "INT32", data=[1])
    rest = graph.tensor((_ROWS, _COLUMNS), shape_signature=(-1, _COLUMNS))
    masks: dict[str, Any] = dict.fromkeys(_MASKS, 0)
    graph.operator(
        "STRIDED_SLICE", [value, at, one, one], [rest], "StridedSliceOptions", **masks, BeginMask=0, EndMask=1
    )
    parts = []
    for begin, end in _LIMITS:
        given = [graph.tensor((1,), "INT32", data=[each or 0]) for each in (begin, end)]
        parts.append(graph.tensor((1, _COLUMNS), shape_signature=(-1, _COLUMNS)))
        masks |= {"BeginMask": int(begin is None), "EndMask": int(end is None)}
        graph.operator("STRIDED_SLICE", [rest, *given, one], parts[-1:], "StridedSliceOptions", **masks)
    joined, total = graph.tensor((_ROWS, _COLUMNS), shape_signature=(-1, _COLUMNS)), graph.tensor((_COLUMNS,))
    graph.operator("CONCATENATION", [parts[3], parts[2], parts[0]], [joined], "ConcatenationOptions", Axis=0)
    axis = graph.tensor((1,), "INT32", data=[0])
    graph.operator("SUM", [parts[6], axis], [total], "ReducerOptions", KeepDims=False)
    graph.inputs, graph.outputs = [value, at], [*parts, joined, total]
    return nd.load_tflite(file.build())


def test_slices_of_lists_that_may_be_empty(
    model: nd.Model, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    builder = nd.CompilationBuilder(model, [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    array = np.arange(_ROWS * _COLUMNS, dtype=np.float32).reshape(_ROWS, _COLUMNS)
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        for first in (*range(_ROWS, -1, -1), _ROWS):
            *parts, joined, total = compilation.run(array, np.array([first], np.int32))
            rest = array[first:]
            for limits, part in zip(_LIMITS, parts, strict=True):
                np.testing.assert_array_equal(part, rest[slice(*limits)], str(limits))
            np.testing.assert_array_equal(joined, np.concatenate([rest[:-1], rest[-1:], rest[:1]]))
            np.testing.assert_array_equal(total, rest[:2].sum(0))
    assert "runs on references" not in caplog.text
