from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.operator import Load, fixed, random, shaped, types

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Model
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite import load_tflite


def long(*values: int) -> Any:
    """A list of int64, as these operators have them in their options."""
    return np.array(values, np.int64)


def with_body(
    folder: Path,
    code: str,
    shapes: list[tuple[int, ...]],
    kinds: list[str],
    body: list[str],
    options: str,
    *,
    output: str = "FLOAT32",
    inner_options: tuple[str | None, dict[str, Any]] = (None, {}),
    **values: Any,
) -> Model:
    """A model of one operator that refers to a subgraph of two scalars, whose operators all have the same options."""
    file = TfliteModel()
    graph, inner = file.subgraph(), file.subgraph()
    graph.inputs = [
        graph.tensor(shape, kind, has_rank=True) for shape, kind in zip(shapes, kinds, strict=True)
    ]
    graph.outputs = (graph.tensor((1,) * len(shapes[0]), output),)
    graph.operator(code, graph.inputs, graph.outputs, options, **values)
    inner.inputs = [inner.tensor((), has_rank=True) for _ in range(2)]
    last = inner.inputs[1]
    for name in body:
        result = inner.tensor((), has_rank=True)
        inner.operator(name, (inner.inputs[0], last), (result,), inner_options[0], **inner_options[1])
        last = result
    inner.outputs = (last,)
    return load_tflite(file.write(folder / "body.tflite"))


@pytest.mark.parametrize("kind", ["FLOAT32", "INT32", "INT8", "BOOL"])
@pytest.mark.parametrize("name", ["ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"])
def test_elementwise(load: Load, kind: str, name: str) -> None:
    source = shaped(3, type_=kind)
    model = load(f"STABLEHLO_{name}", (source, source), source)
    android = {"MULTIPLY": "MUL"}.get(name, name)
    is_plain = kind in ("FLOAT32", "INT32")
    assert types(model) == [OperationType[android if is_plain else f"TFLITE_STABLEHLO_{name}"]]
    function = getattr(np, {"MULTIPLY": "multiply"}.get(name, name.lower()))
    dtype = {"FLOAT32": np.float32, "INT32": np.int32, "INT8": np.int8, "BOOL": np.bool_}[kind]
    x: Array = np.array([100, 3, 0]).astype(dtype)
    y: Array = np.array([100, 0, 0]).astype(dtype)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run_references(model, x, y)[0], function(x, y))


def test_stablehlo_pad(load: Load) -> None:
    options = {"EdgePaddingLow": long(1, -1), "EdgePaddingHigh": long(0, 2), "InteriorPadding": long(1, 0)}
    model = load("STABLEHLO_PAD", (shaped(2, 3), fixed(5.0)), shaped(1, 1), "StablehloPadOptions", **options)
    x = random(2, 3)
    expected = np.full((4, 4), 5, np.float32)
    expected[1::2, :2] = x[:, 1:]
    np.testing.assert_array_equal(run_references(model, x)[0], expected)


def test_windows(load: Load) -> None:
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


WINDOW = {
    "WindowDimensions": long(2, 1),
    "WindowStrides": long(1, 1),
    "WindowDilations": long(1, 1),
    "BodySubgraphIndex": 1,
}


@sweep("is_padded", [False, True])
def test_windows_with_a_body(tmp_path: Path, *, is_padded: bool) -> None:
    padding = long(1, 0, 0, 0) if is_padded else long(0, 0, 0, 0)
    model = with_body(
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


REDUCTIONS: dict[str, np.ufunc] = {
    "STABLEHLO_ADD": np.add,
    "ADD": np.add,
    "STABLEHLO_MULTIPLY": np.multiply,
    "MUL": np.multiply,
    "STABLEHLO_MINIMUM": np.minimum,
    "MINIMUM": np.minimum,
    "STABLEHLO_MAXIMUM": np.maximum,
    "MAXIMUM": np.maximum,
}
TRUTHS = {
    "STABLEHLO_AND": np.logical_and,
    "LOGICAL_AND": np.logical_and,
    "STABLEHLO_OR": np.logical_or,
    "LOGICAL_OR": np.logical_or,
}


@sweep("body", [*REDUCTIONS, *TRUTHS])
def test_bodies_of_either_dialect(tmp_path: Path, body: str) -> None:
    """Converters write the body's operator as one of StableHLO or as one of TFLite."""
    kind = "BOOL" if body in TRUTHS else "FLOAT32"
    model = with_body(
        tmp_path,
        "STABLEHLO_REDUCE_WINDOW",
        [(3, 2), ()],
        [kind] * 2,
        [body],
        "StablehloReduceWindowOptions",
        output=kind,
        **WINDOW,
    )
    x = random(3, 2) > 2 if body in TRUTHS else random(3, 2)
    function = {**REDUCTIONS, **TRUTHS}[body]
    start = {"BOOL": body.endswith("AND")}.get(kind, float(function.identity or 0))
    expected = function(x[:-1], x[1:])
    if function in (np.minimum, np.maximum):
        expected = function(expected, 0)
    np.testing.assert_allclose(run_references(model, x, start)[0], expected, rtol=1e-6)


@sweep(("options", "values"), [("AddOptions", {"FusedActivationFunction": 1}), ("AddOptions", {})])
def test_a_body_with_an_activation(tmp_path: Path, options: str, values: dict[str, int]) -> None:
    def load_it() -> Model:
        return with_body(
            tmp_path,
            "STABLEHLO_REDUCE_WINDOW",
            [(3, 2), ()],
            ["FLOAT32"] * 2,
            ["ADD"],
            "StablehloReduceWindowOptions",
            inner_options=(options, values),
            **WINDOW,
        )

    if values:
        with pytest.raises(BadData, match="fused activation 1"):
            load_it()
    else:
        assert types(load_it()) == [OperationType.TFLITE_REDUCE_WINDOW]


@sweep("body", [[], ["STABLEHLO_TANH"], ["SUB"], ["STABLEHLO_ADD", "STABLEHLO_ADD"]])
def test_bodies_that_are_not_reductions(tmp_path: Path, body: list[str]) -> None:
    with pytest.raises(BadData, match="subgraph"):
        with_body(
            tmp_path,
            "STABLEHLO_REDUCE_WINDOW",
            [(3, 2), ()],
            ["FLOAT32"] * 2,
            body,
            "StablehloReduceWindowOptions",
            **WINDOW,
        )


def test_gathered(load: Load) -> None:
    model = load(
        "STABLEHLO_GATHER",
        (shaped(5, 4), shaped(3, type_="INT64")),
        shaped(1, 1),
        "StablehloGatherOptions",
        OffsetDims=long(1),
        CollapsedSliceDims=long(0),
        StartIndexMap=long(0),
        IndexVectorDim=1,
        SliceSizes=long(1, 4),
    )
    x = random(5, 4)
    np.testing.assert_array_equal(run_references(model, x, [3, 0, 9])[0], x[[3, 0, 4]])


@sweep("body", [[], *([name] for name in REDUCTIONS)])
def test_scattered(tmp_path: Path, body: list[str]) -> None:
    model = with_body(
        tmp_path,
        "STABLEHLO_SCATTER",
        [(5, 4), (2, 1), (2, 4)],
        ["FLOAT32", "INT32", "FLOAT32"],
        body,
        "StablehloScatterOptions",
        UpdateWindowDims=long(1),
        InsertedWindowDims=long(0),
        ScatterDimsToOperandDims=long(0),
        IndexVectorDim=1,
        UpdateComputationSubgraphIndex=1,
    )
    x, updates = random(5, 4), random(2, 4, seed=1)
    expected = x.copy()
    function = REDUCTIONS[body[0]] if body else None
    expected[3] = updates[0] if function is None else function(x[3], updates[0])
    np.testing.assert_array_equal(run_references(model, x, [[3], [7]], updates)[0], expected)


def test_bits(tmp_path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs = (graph.tensor((2,), "UINT64"),)
    graph.outputs = graph.tensor((2,), "UINT64"), graph.tensor((3, 5), "UINT32")
    graph.operator(
        "STABLEHLO_RNG_BIT_GENERATOR",
        graph.inputs,
        graph.outputs,
        "StablehloRngBitGeneratorOptions",
        Algorithm=2,
    )
    model = load_tflite(file.write(tmp_path / "bits.tflite"))
    following, bits = run_references(model, [5, 7])
    assert following.tolist() == [5, 15]
    assert bits.shape == (3, 5)
