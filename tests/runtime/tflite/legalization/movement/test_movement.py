from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.operator import Load, fixed, load_operator, numbers, random, shaped, types

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite import load_tflite

DTYPES = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "INT64": np.int64,
    "INT32": np.int32,
    "INT16": np.int16,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "BOOL": np.bool_,
}


def counted(kind: str, *shape: int) -> Array:
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 100).astype(DTYPES[kind])


def check(model: Any, expected: Array, *inputs: Any) -> None:
    (result,) = run_references(model, *inputs)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("is_fed", [False, True])
@pytest.mark.parametrize("kind", DTYPES)
def test_operators_with_a_list(load: Load, kind: str, *, is_fed: bool) -> None:
    """The list is a constant, or comes with each execution."""
    x = counted(kind, 2, 3, 2)
    cases: list[tuple[str, Any, str, Array]] = [
        ("EXPAND_DIMS", [1], "INT64", x[:, np.newaxis]),
        ("TRANSPOSE", [2, 0, 1], "INT32", x.transpose(2, 0, 1)),
        ("TILE", [1, 2, 3], "INT64", np.tile(x, (1, 2, 3))),
        ("BROADCAST_TO", [2, 2, 3, 2], "INT64", np.broadcast_to(x, (2, 2, 3, 2))),
        ("PAD", [[0, 1], [1, 0], [0, 0]], "INT64", np.pad(x, ((0, 1), (1, 0), (0, 0)))),
        ("REVERSE_V2", [-2], "INT32", x[:, ::-1]),
        ("REVERSE_V2", [1], "INT32", x[:, ::-1]),
        ("GATHER_ND", [[1, 2], [0, 0]], "INT64", x[[1, 0], [2, 0]]),
        ("ARG_MAX", 1, "INT32", x.argmax(1).astype(np.int64)),
    ]
    for code, value, index, expected in cases:
        result = "INT64" if code == "ARG_MAX" else kind
        given = shaped(*np.shape(value), type_=index) if is_fed else fixed(value, index)
        model = load(code, (shaped(2, 3, 2, type_=kind), given), shaped(*(1,) * expected.ndim, type_=result))
        check(model, expected, x, *((value,) if is_fed else ()))


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_operators_with_an_axis(load: Load, kind: str, axis: int) -> None:
    x, source = counted(kind, 2, 3, 2), shaped(2, 3, 2, type_=kind)
    model = load(
        "PACK", (source, source), shaped(1, 1, 1, 1, type_=kind), "PackOptions", ValuesCount=2, Axis=axis
    )
    check(model, np.stack((x, x), axis), x, x)
    model = load(
        "CONCATENATION", (source, source), shaped(1, 1, 1, type_=kind), "ConcatenationOptions", Axis=axis
    )
    check(model, np.concatenate((x, x), axis), x, x)
    model = load(
        "GATHER", (source, shaped(2, type_="INT16")), shaped(1, 1, 1, type_=kind), "GatherOptions", Axis=axis
    )
    check(model, np.take(x, [1, 0], axis), x, [1, 0])
    one_hot = fixed(3, "INT32"), fixed(1, kind), fixed(0, kind)
    places = np.array([[0, 2], [5, 1]])
    model = load(
        "ONE_HOT",
        (shaped(2, 2, type_="INT64"), *one_hot),
        shaped(1, 1, 1, type_=kind),
        "OneHotOptions",
        Axis=axis,
    )
    expected = np.moveaxis(places[..., None] == np.arange(3), -1, axis).astype(DTYPES[kind])
    check(model, expected, places)


def several(
    path: Path, code: str, inputs: list[dict[str, Any]], count: int, *options: Any, **values: Any
) -> Any:
    """A model of one operator with several outputs of the first input's type that is fed."""
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


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("is_fed", [False, True])
def test_padding_with_a_value(load: Load, kind: str, *, is_fed: bool) -> None:
    x, pairs = counted(kind, 2, 3), [[1, 0], [0, 2]]
    value = shaped(type_=kind, has_rank=True) if is_fed else fixed(1, kind)
    model = load("PADV2", (shaped(2, 3, type_=kind), fixed(pairs, "INT32"), value), shaped(1, 1, type_=kind))
    check(model, np.pad(x, pairs, constant_values=1), x, *((1,) if is_fed else ()))


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_mirror_pad(load: Load, mode: Any) -> None:
    x, pairs = counted("INT64", 2, 3), [[1, 0], [0, 2]]
    inputs = shaped(2, 3, type_="INT64"), fixed(pairs, "INT64")
    number = ["reflect", "symmetric"].index(mode)
    model = load("MIRROR_PAD", inputs, shaped(1, 1, type_="INT64"), "MirrorPadOptions", Mode=number)
    check(model, np.pad(x, pairs, mode=mode), x)


@pytest.mark.parametrize("kind", ["FLOAT32", "INT32", "INT64", "BOOL"])
def test_fill_range_and_zeros(load: Load, kind: str) -> None:
    model = load("FILL", (fixed([2, 3], "INT64"), fixed(1, kind)), shaped(1, 1, type_=kind))
    check(model, np.full((2, 3), 1, DTYPES[kind]))
    model = load("ZEROS_LIKE", (shaped(2, 3, type_=kind),), shaped(2, 3, type_=kind))
    check(model, np.zeros((2, 3), DTYPES[kind]), counted(kind, 2, 3))
    if kind != "BOOL":
        ends = [shaped(type_=kind, has_rank=True) for _ in range(3)]
        model = load("RANGE", ends, shaped(1, type_=kind))
        check(model, np.arange(1, 9, 3).astype(DTYPES[kind]), 1, 9, 3)


def test_top_k(load: Load) -> None:
    x = np.array([3, 7, 7, 1], np.float32)
    model = load("ARG_MAX", (shaped(4), fixed(0, "INT32")), shaped(type_="INT32", has_rank=True))
    check(model, np.array(1, np.int32), x)
    model = load("WHERE", (shaped(4, type_="BOOL"),), shaped(1, 1, type_="INT64"))
    check(model, np.array([[0], [3]], np.int64), [True, False, False, True])


def test_top_k_prefers_lower_indexes(tmp_path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    source, k = graph.tensor((4,)), graph.tensor((), "INT32", data=np.array(3))
    graph.inputs, graph.outputs = (source,), (graph.tensor((3,)), graph.tensor((3,), "INT32"))
    graph.operator("TOPK_V2", (source, k), graph.outputs)
    values, places = run_references(load_tflite(file.write(tmp_path / "top.tflite")), [3, 7, 1, 7])
    assert values.tolist() == [7, 7, 3]
    assert places.tolist() == [1, 3, 0]


def chain(path: Path, signature: tuple[int, ...] | None) -> Any:
    """SHAPE → STRIDED_SLICE → PACK → RESHAPE: rows are kept and the rest is joined."""
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((2, 3, 4), shape_signature=signature)
    shape, rows = graph.tensor((3,), "INT32"), graph.tensor((), "INT32", has_rank=True)
    target, result = graph.tensor((2,), "INT32"), graph.tensor((2, 12))
    zero, one = (graph.tensor((1,), "INT32", data=[value]) for value in (0, 1))
    scalar = graph.tensor((), "INT32", data=np.array(-1))
    graph.operator("SHAPE", (x,), (shape,), "ShapeOptions", OutType=2)
    graph.operator("STRIDED_SLICE", (shape, zero, one, one), (rows,), "StridedSliceOptions", ShrinkAxisMask=1)
    graph.operator("PACK", (rows, scalar), (target,), "PackOptions", ValuesCount=2, Axis=0)
    graph.operator("RESHAPE", (x, target), (result,), "ReshapeOptions")
    graph.inputs, graph.outputs = (x,), (result,)
    return load_tflite(file.write(path / "chain.tflite"))


def test_known_shapes_become_constants(tmp_path: Path) -> None:
    model = chain(tmp_path, None)
    assert types(model) == [OperationType.RESHAPE]
    assert numbers(model) == [[2, -1]]
    check(model, random(2, 3, 4).reshape(2, 12), random(2, 3, 4))


def test_shapes_that_depend_on_inputs(tmp_path: Path) -> None:
    model = chain(tmp_path, (-1, 3, -1))
    assert types(model)[0] is OperationType.TFLITE_SHAPE
    check(model, random(5, 3, 2).reshape(5, 6), random(5, 3, 2))


def test_an_output_that_is_a_constant_is_copied(load: Load) -> None:
    model = load("SHAPE", (shaped(2, 3),), shaped(2, type_="INT64"), "ShapeOptions", OutType=4)
    check(model, np.array([2, 3], np.int64), random(2, 3))
    model = load("RANK", (shaped(2, 3),), shaped(type_="INT32", has_rank=True))
    check(model, np.array(2, np.int32), random(2, 3))


@sweep("code", ["SLICE", "GATHER_ND", "TILE"])
def test_refuses_axes(tmp_path: Path, code: str) -> None:
    lists = {"SLICE": ([3, 0], [1, 1]), "GATHER_ND": ([[0, 0, 0]],), "TILE": ([1, -1],)}[code]
    with pytest.raises(BadData, match=code):
        load_operator(tmp_path, code, (shaped(2, 3), *(fixed(x, "INT32") for x in lists)), shaped(1, 1))


@pytest.mark.parametrize("code", ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"])
def test_random_numbers_are_drawn_anew_with_each_execution(load: Load, code: str) -> None:
    shape = fixed([2, 3], "INT32")
    model = load(code, (shape,), shaped(1, 1), "RandomOptions", Seed=(1 << 40) + 5, Seed2=7)
    assert numbers(model, start=1) == [[5, 7]]
    (result,) = run_references(model)
    assert result.shape == (2, 3)
    model = load(
        "MULTINOMIAL", (shaped(2, 3), fixed(4, "INT32")), shaped(1, 1, type_="INT64"), "RandomOptions", Seed=5
    )
    (result,) = run_references(model, random(2, 3))
    assert result.shape == (2, 4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "name"), [(1, "SPARSE"), (2, "DENSE")])
def test_lsh_projection(load: Load, kind: int, name: str, weighted: bool) -> None:
    rng = np.random.default_rng(5)
    functions = rng.random((3, 4)).astype(np.float32)
    rows = rng.integers(-9, 9, (5, 2)).astype(np.int32)
    weights = rng.random(5).astype(np.float32)
    given = [fixed(functions.tolist(), "FLOAT32"), shaped(5, 2, type_="INT32")]
    given += [fixed(weights.tolist(), "FLOAT32")] if weighted else []
    output = shaped(12 if name == "DENSE" else 3, type_="INT32")
    (result,) = run_references(load("LSH_PROJECTION", given, output, "LSHProjectionOptions", Type=kind), rows)
    (dense,) = run_references(
        load("LSH_PROJECTION", given, shaped(12, type_="INT32"), "LSHProjectionOptions", Type=2), rows
    )
    signatures = dense.reshape(3, 4) @ [8, 4, 2, 1] + np.arange(3) * 16
    assert result.tolist() == (dense if name == "DENSE" else signatures).tolist()
    assert set(dense.tolist()) <= {0, 1}


def test_an_unknown_projection_is_refused(load: Load) -> None:
    given = [fixed([[1.0]], "FLOAT32"), shaped(5, 2, type_="INT32")]
    with pytest.raises(BadData, match="projection type 0"):
        load("LSH_PROJECTION", given, shaped(1, type_="INT32"), "LSHProjectionOptions", Type=0)
