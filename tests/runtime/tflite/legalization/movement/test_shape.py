from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.operator import (
    ACTIVATIONS,
    Load,
    fixed,
    numbers,
    random,
    shaped,
    types,
)
from support.tflite.results import check, run_with_kernels

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite import load_tflite


def chain(path: Path, signature: tuple[int, ...] | None) -> Any:
    """Builds SHAPE → STRIDED_SLICE → PACK → RESHAPE, which flattens all axes except the first."""
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


@pytest.mark.parametrize("kind", ["FLOAT32", "INT8"])
@pytest.mark.parametrize("is_fed", [False, True])
def test_a_permutation_may_count_from_the_end(load: Load, kind: str, *, is_fed: bool) -> None:
    order = shaped(3, type_="INT32") if is_fed else fixed([-1, 0, -2], "INT32")
    scale: dict[str, Any] = {"scale": 0.5} if kind == "INT8" else {}
    model = load(
        "TRANSPOSE", (shaped(2, 3, 4, type_=kind, **scale), order), shaped(4, 2, 3, type_=kind, **scale)
    )
    x = np.arange(24).reshape(2, 3, 4).astype(np.float32 if kind == "FLOAT32" else np.int8)
    fed = (np.array([-1, 0, -2], np.int32),) if is_fed else ()
    np.testing.assert_array_equal(run_with_kernels(model, x, *fed), x.transpose(2, 0, 1))


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_concatenation(load: Load, axis: int, activation: int) -> None:
    parts = [random(2, 3), random(2, 3, seed=1), random(2, 3, seed=2)]
    model = load(
        "CONCATENATION",
        (shaped(2, 3), fixed(parts[1]), shaped(2, 3)),
        shaped(1, 1),
        "ConcatenationOptions",
        Axis=axis,
        FusedActivationFunction=activation,
    )
    (result,) = run_references(model, parts[0], parts[2])
    np.testing.assert_allclose(result, ACTIVATIONS[activation](np.concatenate(parts, axis)), rtol=1e-6)


@pytest.mark.parametrize("axis", [2, -3, 2**31 - 1, -(2**31)])
def test_concatenation_refuses_axes(load: Load, axis: int) -> None:
    with pytest.raises(BadData, match="axis"):
        load("CONCATENATION", (shaped(2, 3),), shaped(2, 3), "ConcatenationOptions", Axis=axis)


@pytest.mark.parametrize(
    ("new_shape", "expected"),
    [([3, 2], (3, 2)), ([-1, 2], (3, 2)), ([6], (6,)), ([1, 2, 3, 1], (1, 2, 3, 1))],
)
@pytest.mark.parametrize("given", ["option", "constant", "fed"])
def test_reshape(load: Load, new_shape: list[int], expected: tuple[int, ...], given: str) -> None:
    tail: dict[str, list[dict[str, Any]]] = {
        "option": [],
        "constant": [fixed(new_shape, "INT32")],
        "fed": [shaped(len(new_shape), type_="INT32")],
    }
    values = {"NewShape": new_shape if given == "option" else [7, 7]}
    output = shaped(*(1,) * len(new_shape))
    model = load("RESHAPE", (shaped(2, 3), *tail[given]), output, "ReshapeOptions", **values)
    x = random(2, 3)
    (result,) = run_references(model, x, *([new_shape] if given == "fed" else []))
    np.testing.assert_array_equal(result, x.reshape(expected))


@sweep(
    ("tail", "values"),
    [
        ((), {"NewShape": [0]}),
        ((), {"NewShape": []}),
        ((), {}),
        ((shaped(0, type_="INT32", name="none"),), {"NewShape": [5]}),
    ],
)
def test_reshape_to_a_scalar(tmp_path: Path, tail: Sequence[dict[str, Any]], values: dict[str, Any]) -> None:
    """An empty list has no bytes, so it looks like a tensor without a value."""
    file = TfliteModel()
    graph = file.subgraph()
    x, y = graph.tensor((1, 1)), graph.tensor(())
    graph.operator(
        "RESHAPE", (x, *(graph.tensor(**fields) for fields in tail)), (y,), "ReshapeOptions", **values
    )
    graph.inputs, graph.outputs = (x,), (y,)
    (result,) = run_references(load_tflite(file.write(tmp_path / "model.tflite")), [[3.0]])
    assert result.shape == ()
    assert result == 3


def test_a_constant_batch_in_the_new_shape(load: Load) -> None:
    source = shaped(1, 2, 2, shape_signature=(-1, 2, 2))
    for new_shape, works in (([1, 4], False), ([-1, 4], True)):
        model = load("RESHAPE", (source, fixed(new_shape, "INT32")), shaped(1, 4), "ReshapeOptions")
        assert run_references(model, np.zeros((1, 2, 2)))[0].shape == (1, 4)
        if works:
            assert run_references(model, np.zeros((3, 2, 2)))[0].shape == (3, 4)
        else:
            with pytest.raises(BadData, match="12"):
                run_references(model, np.zeros((3, 2, 2)))


@pytest.mark.parametrize("new_shape", [[4, 2], [-1, -1], [-2, 3], [-1, 0], [1] * 17])
@pytest.mark.parametrize("as_constant", [False, True])
def test_reshape_refuses(load: Load, new_shape: list[int], *, as_constant: bool) -> None:
    tail = [fixed(new_shape, "INT32")] if as_constant else []
    with pytest.raises(BadData, match="operator 0 RESHAPE"):
        load("RESHAPE", (shaped(2, 3), *tail), shaped(2, 3), "ReshapeOptions", NewShape=new_shape)


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((1, 2, 1, 3), [], (2, 3)),
        ((1, 2, 1, 3), [0], (2, 1, 3)),
        ((1, 2, 1, 3), [-2], (1, 2, 3)),
        ((1, 2, 1, 3), [0, 2, -2], (2, 3)),
        ((1, 1), [], ()),
        ((1, 1), [0, -1], ()),
        ((2, 3), [], (2, 3)),
        ((), [], ()),
    ],
)
def test_squeeze(load: Load, shape: tuple[int, ...], axes: list[int], expected: tuple[int, ...]) -> None:
    model = load("SQUEEZE", (shaped(*shape),), shaped(1), "SqueezeOptions", SqueezeDims=axes)
    x = random(*shape)
    (result,) = run_references(model, x)
    assert result.shape == expected
    np.testing.assert_array_equal(result.ravel(), x.ravel())


def test_squeeze_of_an_open_batch(load: Load) -> None:
    source = shaped(1, 1, 3, shape_signature=(-1, 1, 3))
    model = load("SQUEEZE", (source,), shaped(1, 3), "SqueezeOptions", SqueezeDims=[1])
    assert run_references(model, np.zeros((5, 1, 3)))[0].shape == (5, 3)


@pytest.mark.parametrize("axes", [[1], [4], [-5], [0] * 17])
def test_squeeze_refuses_axes(load: Load, axes: list[int]) -> None:
    with pytest.raises(BadData, match="operator 0 SQUEEZE"):
        load("SQUEEZE", (shaped(1, 2, 1, 3),), shaped(1), "SqueezeOptions", SqueezeDims=axes)
