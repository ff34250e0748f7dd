from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel
from support.tflite.operator import (
    Load,
    fixed,
    random,
    shaped,
    types,
)
from support.tflite.results import run_on_cpu, run_with_kernels

import neurald as nd
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite import load_tflite

NUMBERS: dict[str, Any] = {
    "MEAN": np.mean,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
    "REDUCE_PROD": np.prod,
    "SUM": np.sum,
}
BOOLEANS: dict[str, Any] = {"REDUCE_ALL": np.all, "REDUCE_ANY": np.any}
_TYPES = ("FLOAT32", "INT32", "INT64", "INT8", "UINT8", "INT16")
CASES = [(code, type_) for code in NUMBERS for type_ in _TYPES] + [(code, "BOOL") for code in BOOLEANS]
DTYPES = {
    "FLOAT32": "f4",
    "INT32": "i4",
    "INT64": "i8",
    "INT8": "i1",
    "UINT8": "u1",
    "INT16": "i2",
    "BOOL": "?",
}


def add_reduction(graph: TfliteGraph, code: str, type_: str, rank: int) -> None:
    """Fills a subgraph with a reduction over all axes of an input of unknown lengths."""
    fields: dict[str, Any] = {"scale": 1.0} if type_ in ("INT8", "UINT8", "INT16") else {}
    source = graph.tensor((1,) * rank, type_, name="x", shape_signature=(-1,) * rank, **fields)
    axes = graph.tensor((rank,), "INT32", data=list(range(rank)))
    result = graph.tensor((), type_, name="y", **fields)
    graph.operator(code, (source, axes), (result,), "ReducerOptions", KeepDims=False)
    graph.inputs, graph.outputs = (source,), (result,)


def integral(type_: str, rank: int) -> Array:
    values = np.abs(random(*(2, 3, 1, 2, 1)[:rank])) // 4
    return (values > 0 if type_ == "BOOL" else values + 1).astype(DTYPES[type_])


def expect(result: Array, code: str, values: Array) -> None:
    expected = {**NUMBERS, **BOOLEANS}[code](values)
    assert result.shape == ()
    assert result.dtype == values.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=0 if values.dtype.kind == "f" else 1)


@sweep(("code", "type_"), CASES)
@sweep("rank", [1, 2, 5])
def test_reduction_to_a_scalar_of_unknown_lengths(tmp_path: Path, code: str, type_: str, rank: int) -> None:
    file = TfliteModel()
    add_reduction(file.subgraph(), code, type_, rank)
    values = integral(type_, rank)
    (result,) = run_references(load_tflite(file.write(tmp_path / "model.tflite")), values)
    expect(result, code, values)


@sweep(("code", "type_"), CASES)
def test_reduction_to_a_scalar_inside_a_branch(tmp_path: Path, code: str, type_: str) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    fields: dict[str, Any] = {"scale": 1.0} if type_ in ("INT8", "UINT8", "INT16") else {}
    condition = graph.tensor((), "BOOL", name="p")
    source = graph.tensor((1, 1), type_, name="x", shape_signature=(-1, -1), **fields)
    result = graph.tensor((), type_, name="y", **fields)
    graph.operator(
        "IF", (condition, source), (result,), "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2
    )
    graph.inputs, graph.outputs = (condition, source), (result,)
    for _ in range(2):
        add_reduction(file.subgraph(), code, type_, 2)
    model = load_tflite(file.write(tmp_path / "model.tflite"))
    values = integral(type_, 2)
    (found,) = nd.CompilationBuilder(model, [ReferenceDevice()]).finish().run(np.array(True), values)
    expect(found, code, values)


@pytest.mark.parametrize("code", NUMBERS)
@pytest.mark.parametrize("axes", [1, [-1, 0], [0, 1, 2], []])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("type_", ["FLOAT32", "INT64"])
@pytest.mark.parametrize("is_fed", [False, True])
def test_reductions(load: Load, code: str, axes: Any, type_: str, *, keep: bool, is_fed: bool) -> None:
    x = np.round(random(2, 3, 4))
    given = shaped(*np.shape(axes), type_="INT32") if is_fed else fixed(axes, "INT32")
    source = shaped(2, 3, 4, type_=type_)
    model = load(code, (source, given), shaped(1, type_=type_), "ReducerOptions", KeepDims=keep)
    (result,) = run_references(model, x, *([axes] if is_fed else []))
    expected = NUMBERS[code](x, axis=tuple(np.atleast_1d(np.array(axes, int))), keepdims=keep)
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(
        result, expected if type_ == "FLOAT32" else np.trunc(expected), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(("code", "function"), [("REDUCE_ALL", np.all), ("REDUCE_ANY", np.any)])
def test_reductions_of_booleans(load: Load, code: str, function: Callable[..., Array]) -> None:
    x = random(2, 3) > 2
    model = load(
        code, (shaped(2, 3, type_="BOOL"), fixed([1], "INT32")), shaped(2, type_="BOOL"), "ReducerOptions"
    )
    assert types(model) == [OperationType[code]]
    np.testing.assert_array_equal(run_references(model, x)[0], function(x, axis=1))


@pytest.mark.parametrize("shape", [(2, 3), (2, 1, 3, 2, 2)])
def test_a_reduction_to_a_scalar(load: Load, shape: tuple[int, ...]) -> None:
    axes = fixed(list(range(len(shape))), "INT32")
    (result,) = run_references(
        load("SUM", (shaped(*shape), axes), shaped(), "ReducerOptions"), random(*shape)
    )
    assert result.shape == ()
    np.testing.assert_allclose(result, random(*shape).sum(), rtol=1e-5)


def test_cumulative_sum(load: Load) -> None:
    sums = load(
        "CUMSUM",
        (shaped(3), fixed(0, "INT32")),
        shaped(3),
        "CumsumOptions",
        Exclusive=True,
        Reverse=True,
    )
    assert run_references(sums, [1, 2, 4])[0].tolist() == [6, 4, 0]


def test_sums_are_rescaled_in_float32(load: Load) -> None:
    """In fixed point, which rounds twice, all sums except the first would differ by one."""
    values = np.zeros((5, 7), np.int8)
    values[:, 0] = [120, -39, -61, 115, 5]
    model = load(
        "SUM",
        [shaped(5, 7, type_="INT8", scale=0.004844472743570805, zero_point=66), fixed([1], "INT32")],
        shaped(5, type_="INT8", scale=0.05339296534657478, zero_point=12),
        "ReducerOptions",
    )
    assert run_on_cpu(model, values) == [-19, -33, -35, -19, -29]


@pytest.mark.parametrize("type_", ["INT8", "UINT8", "INT16"])
@pytest.mark.parametrize("axes", [[0], [0, 1], [1, 0, 2]])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("is_open", [False, True])
def test_products_of_integers_without_a_scale_wrap_around(
    load: Load, type_: str, axes: list[int], *, keep: bool, is_open: bool
) -> None:
    values = np.arange(3, 63).reshape(3, 4, 5).astype(DTYPES[type_]) | 1
    expected = np.prod(values, axis=tuple(axes), dtype=values.dtype, keepdims=keep)
    signature = {"shape_signature": (-1, -1, -1)} if is_open else {}
    model = load(
        "REDUCE_PROD",
        (shaped(3, 4, 5, type_=type_, **signature), fixed(axes, "INT32")),
        shaped(*expected.shape, type_=type_),
        "ReducerOptions",
        KeepDims=keep,
    )
    np.testing.assert_array_equal(run_with_kernels(model, values), expected)


@pytest.mark.parametrize("code", ["REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize("axes", [[1], [0, 1]])
def test_extremes_are_copied_to_another_scale(load: Load, code: str, axes: list[int]) -> None:
    source, target = shaped(2, 3, type_="INT8", scale=0.5), {"type_": "INT8", "scale": 0.25, "zero_point": 3}
    model = load(
        code, (source, fixed(axes, "INT32")), shaped(*[2][len(axes) - 1 :], **target), "ReducerOptions"
    )
    x = np.array([[1, -9, 5], [7, 0, 2]], np.int8)
    expected = (np.max if code == "REDUCE_MAX" else np.min)(x, axis=tuple(axes))
    np.testing.assert_array_equal(run_with_kernels(model, x), expected)


@pytest.mark.parametrize("kind", ["FLOAT32", "INT8"])
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("is_fed", [False, True])
def test_a_mean_of_nothing(load: Load, kind: str, *, keeps: bool, is_fed: bool) -> None:
    fields: dict[str, Any] = {"type_": kind, **({"scale": 0.5} if kind == "INT8" else {})}
    source = shaped(1, 3, shape_signature=(-1, 3), **fields)
    result = shaped(*((1, 3) if keeps else (3,)), **fields)
    axes, fed = (shaped(1, type_="INT32"), [np.zeros(1, np.int32)]) if is_fed else (fixed([0], "INT32"), [])
    model = load("MEAN", (source, axes), result, "ReducerOptions", KeepDims=keeps)
    nothing = np.zeros((0, 3), np.float32 if kind == "FLOAT32" else np.int8)
    expected = np.full((1, 3) if keeps else (3,), np.nan if kind == "FLOAT32" else 0, nothing.dtype)
    np.testing.assert_array_equal(run_with_kernels(model, nothing, *fed), expected)
    some = np.array([[2, 4, 6], [4, 8, 10]], nothing.dtype)
    np.testing.assert_array_equal(run_with_kernels(model, some, *fed).ravel(), [3, 6, 8])


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axes", [1, [1], [-1], [0, 2], [0, 1, 2], [2, -3, 1, 1]])
def test_mean(load: Load, axes: Any, *, keep: bool) -> None:
    model = load("MEAN", (shaped(2, 3, 4), fixed(axes, "INT32")), shaped(1), "ReducerOptions", KeepDims=keep)
    x: Any = random(2, 3, 4)
    (result,) = run_references(model, x)
    expected = x.mean(axis=tuple({axis % 3 for axis in np.atleast_1d(axes)}), keepdims=keep)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_mean_over_an_axis_that_is_an_input(load: Load, shape: tuple[int, ...]) -> None:
    model = load("MEAN", (shaped(2, 3), shaped(*shape, type_="INT32")), shaped(1, 1), "ReducerOptions")
    x = random(2, 3)
    (result,) = run_references(model, x, np.full(shape, 1))
    np.testing.assert_allclose(result, x.mean(axis=1), rtol=1e-6)


def test_mean_with_another_output_scale(load: Load) -> None:
    source, axis = shaped(1, 4, type_="INT8", scale=0.5), fixed([1], "INT32")
    same = load("MEAN", (source, axis), shaped(1, type_="INT8", scale=0.5), "ReducerOptions")
    assert types(same) == [OperationType.MEAN]
    other = load("MEAN", (source, axis), shaped(1, type_="INT8", scale=0.25), "ReducerOptions")
    assert types(other) == [OperationType.TFLITE_MEAN]
    assert run_references(other, [[1, 2, 3, 6]])[0].tolist() == [6]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (fixed([0] * 17, "INT32"), "list of at most 16"),
        (fixed([[0]], "INT32"), "list of at most 16"),
        (fixed(float("nan")), "TENSOR_INT32 is expected"),
        (fixed([0, 1], "INT8"), "TENSOR_INT32 is expected"),
        (fixed([2], "INT32"), "axis"),
    ],
)
def test_refuses_axes(load: Load, axes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadData, match=message):
        load("MEAN", (shaped(2, 3), axes), shaped(1), "ReducerOptions")


@sweep("code", ["MEAN", "SUM", "REDUCE_MAX"])
@sweep("axes", [fixed([0], "INT32"), fixed(0, "INT32"), shaped(1, type_="INT32")])
@sweep("length", [0, 3])
def test_the_rank_of_a_reduced_vector_is_0_whatever_the_file_states(
    load: Load, code: str, axes: dict[str, Any], length: int
) -> None:
    model = load(code, (shaped(1, shape_signature=(-1,)), axes), shaped(1), "ReducerOptions", KeepDims=False)
    inputs = [np.zeros(length, np.float32)] + ([] if "data" in axes else [np.zeros(1, np.int32)])
    for device in (nd.open_device("cpu"), ReferenceDevice()):
        (found,) = nd.CompilationBuilder(model, [device]).finish().run(*inputs)
        assert found.shape == ()
