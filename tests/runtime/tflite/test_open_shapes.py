"""Values whose rank or lengths are unknown when the file is loaded, in loops and branches."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel
from support.tflite.operator import random

import neurald as nd
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite import load_tflite

pytestmark = pytest.mark.usefixtures("compiles_here")

_ROUNDS = 2

#: Adds an operator to a graph that reads a tensor; returns its result.
Add = Callable[[TfliteGraph, int], int]


def _one(code: str, *others: Any, type_: str = "FLOAT32", options: str | None = None, **values: Any) -> Add:
    """Returns a function that adds an operator on a tensor and constants; None is the tensor."""

    def add(graph: TfliteGraph, source: int) -> int:
        inputs = [source]
        for other in others:
            kind = "FLOAT32" if np.asarray(other).dtype.kind == "f" else "INT32"
            inputs.append(source if other is None else graph.tensor(np.shape(other), kind, data=other))
        result = graph.tensor((), type_)
        graph.operator(code, inputs, (result,), options, **values)
        return result

    return add


def _known(array: Array) -> tuple[Add, Callable[[Array], Array]]:
    """Returns an operator whose result does not depend on the value, and the same in NumPy."""

    def add(graph: TfliteGraph, source: int) -> int:
        result = graph.tensor(array.shape)
        graph.operator("NEG", (graph.tensor(array.shape, data=-array),), (result,))
        return result

    return add, lambda x: array


#: Operators of a body or a branch, and the same in NumPy.
CHANGES: dict[str, tuple[Add, Callable[[Array], Array]]] = {
    "more rows": (
        _one("CONCATENATION", None, options="ConcatenationOptions", Axis=0),
        lambda x: np.concatenate((x, x)),
    ),
    "one more dimension": (_one("EXPAND_DIMS", 0, options="ExpandDimsOptions"), lambda x: x[np.newaxis]),
    "one dimension less": (
        _one("SUM", [0], options="ReducerOptions", KeepDims=False),
        lambda x: x.sum(axis=0),
    ),
    "another shape, which is known": _known(random(1, 4, 1, 3)),
    "another rank, which is known": _known(random(5, 3)),
}

#: Operators that follow, and the same in NumPy.
FOLLOWERS: dict[str, tuple[Add, Callable[[Array], Array]]] = {
    "ADD": (_one("ADD", 2.0, options="AddOptions"), lambda x: x + 2),
    "ARG_MAX": (
        _one("ARG_MAX", -1, type_="INT32", options="ArgMaxOptions", OutputType=2),
        lambda x: x.argmax(axis=-1),
    ),
    "CONCATENATION": (
        _one("CONCATENATION", None, options="ConcatenationOptions", Axis=-1),
        lambda x: np.concatenate((x, x), axis=-1),
    ),
    "PACK": (
        _one("PACK", None, options="PackOptions", ValuesCount=2, Axis=-1),
        lambda x: np.stack((x, x), axis=-1),
    ),
    "RESHAPE": (_one("RESHAPE", [-1], options="ReshapeOptions"), lambda x: x.reshape(-1)),
    "SHAPE": (_one("SHAPE", type_="INT32", options="ShapeOptions", OutType=2), lambda x: np.array(x.shape)),
    "SOFTMAX": (
        _one("SOFTMAX", options="SoftmaxOptions", Beta=1.0),
        lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True),
    ),
    "SUM": (
        _one("SUM", [-1], options="ReducerOptions", KeepDims=False),
        lambda x: x.sum(axis=-1),
    ),
    "TANH": (_one("TANH"), np.tanh),
    "RELU": (_one("RELU"), lambda x: np.maximum(x, 0)),
}


def _reshaped_to_its_shape(graph: TfliteGraph, source: int) -> int:
    """Adds a RESHAPE to a computed list whose shape the file does not state."""
    lengths, more, result = graph.tensor((), "INT32"), graph.tensor((), "INT32"), graph.tensor(())
    graph.operator("SHAPE", (source,), (lengths,), "ShapeOptions", OutType=2)
    one = graph.tensor((1,), "INT32", data=[1])
    graph.operator("CONCATENATION", (one, lengths), (more,), "ConcatenationOptions", Axis=0)
    graph.operator("RESHAPE", (source, more), (result,), "ReshapeOptions")
    return result


def _summed_along_all_axes(graph: TfliteGraph, source: int) -> int:
    """Adds a SUM along computed axes whose shape the file does not state."""
    rank, axes, result = graph.tensor((), "INT32"), graph.tensor((), "INT32"), graph.tensor(())
    graph.operator("RANK", (source,), (rank,), "RankOptions")
    ends = [graph.tensor((), "INT32", data=number) for number in (0, 1)]
    graph.operator("RANGE", (ends[0], rank, ends[1]), (axes,), "RangeOptions")
    graph.operator("SUM", (source, axes), (result,), "ReducerOptions", KeepDims=False)
    return result


FOLLOWERS["a computed RESHAPE"] = (_reshaped_to_its_shape, lambda x: x[np.newaxis])
FOLLOWERS["a computed SUM"] = (_summed_along_all_axes, lambda x: x.sum())

#: Shapes in the file for the values inside: none, or those of the first iteration.
SAID: list[Sequence[int]] = [(), (1, 2, 1, 3)]


def _loop(change: Add, follower: Add, said: Sequence[int]) -> TfliteModel:
    """Builds a WHILE that applies `change` to the input twice, and then `follower`."""
    file = TfliteModel()
    graph, condition, body = (file.subgraph() for _ in range(3))
    source, start = graph.tensor((1, 2, 1, 3), name="x"), graph.tensor((), "INT32", data=0)
    results = graph.tensor((), "INT32"), graph.tensor(said)
    graph.operator(
        "WHILE", (start, source), results, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2
    )
    graph.inputs, graph.outputs = (source,), (follower(graph, results[1]),)
    counter, value, truth = (
        condition.tensor((), "INT32"),
        condition.tensor(said),
        condition.tensor((), "BOOL"),
    )
    condition.operator("LESS", (counter, condition.tensor((), "INT32", data=_ROUNDS)), (truth,))
    condition.inputs, condition.outputs = (counter, value), (truth,)
    counter, value = body.tensor((), "INT32"), body.tensor(said)
    following = body.tensor((), "INT32")
    body.operator("ADD", (counter, body.tensor((), "INT32", data=1)), (following,), "AddOptions")
    body.inputs, body.outputs = (counter, value), (following, change(body, value))
    return file


def _branches(change: Add, follower: Add) -> TfliteModel:
    """Builds an IF that may apply `change`, and then `follower`."""
    file = TfliteModel()
    graph, then, otherwise = (file.subgraph() for _ in range(3))
    truth, source, result = graph.tensor((), "BOOL"), graph.tensor((1, 2, 1, 3)), graph.tensor(())
    graph.operator("IF", (truth, source), (result,), "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    graph.inputs, graph.outputs = (truth, source), (follower(graph, result),)
    for branch, action in ((then, change), (otherwise, None)):
        value = branch.tensor((1, 2, 1, 3))
        branch.inputs = (value,)
        branch.outputs = (value if action is None else action(branch, value),)
    return file


def _devices() -> list[nd.Device]:
    return [nd.devices()[0], ReferenceDevice()]


def _expect(path: Path, inputs: Sequence[Array], expected: Array) -> None:
    model = load_tflite(path)
    for device in _devices():
        (found,) = nd.CompilationBuilder(model, [device]).finish().run(*inputs)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@sweep("follower", FOLLOWERS)
@sweep("said", SAID, ids=["unsaid", "said"])
@sweep("change", CHANGES)
def test_a_loop_that_changes_a_shape(tmp_path: Path, change: str, said: Sequence[int], follower: str) -> None:
    add, function = CHANGES[change]
    follow, last = FOLLOWERS[follower]
    x = random(1, 2, 1, 3)
    expected = x
    for _ in range(_ROUNDS):
        expected = function(expected)
    _expect(_loop(add, follow, said).write(tmp_path / "model.tflite"), (x,), np.asarray(last(expected)))


@sweep("follower", FOLLOWERS)
@sweep("change", CHANGES)
@sweep("truth", [True, False])
def test_branches_of_different_shapes(tmp_path: Path, change: str, follower: str, *, truth: bool) -> None:
    add, function = CHANGES[change]
    follow, last = FOLLOWERS[follower]
    x = random(1, 2, 1, 3)
    expected = np.asarray(last(function(x) if truth else x))
    _expect(_branches(add, follow).write(tmp_path / "model.tflite"), (np.array(truth), x), expected)


def test_a_value_of_unknown_rank_that_is_passed_on(tmp_path: Path) -> None:
    """Each iteration moves the second value to the first, and adds a dimension to the second."""
    file = TfliteModel()
    graph, condition, body = (file.subgraph() for _ in range(3))
    start = graph.tensor((), "INT32", data=0)
    given = [graph.tensor((1, 3), name=name) for name in "ab"]
    results = [graph.tensor((), "INT32"), graph.tensor(()), graph.tensor(())]
    graph.operator(
        "WHILE", (start, *given), results, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2
    )
    graph.inputs, graph.outputs = given, results[1:]
    counter, *values = condition.tensor((), "INT32"), condition.tensor(()), condition.tensor(())
    truth = condition.tensor((), "BOOL")
    condition.operator("LESS", (counter, condition.tensor((), "INT32", data=_ROUNDS)), (truth,))
    condition.inputs, condition.outputs = (counter, *values), (truth,)
    counter, *values = body.tensor((), "INT32"), body.tensor(()), body.tensor(())
    following = body.tensor((), "INT32")
    body.operator("ADD", (counter, body.tensor((), "INT32", data=1)), (following,), "AddOptions")
    more = CHANGES["one more dimension"][0](body, values[1])
    body.inputs, body.outputs = (counter, *values), (following, values[1], more)
    model = load_tflite(file.write(tmp_path / "model.tflite"))
    a, b = random(1, 3), random(1, 3, seed=1)
    for device in _devices():
        first, second = nd.CompilationBuilder(model, [device]).finish().run(a, b)
        assert (first.shape, second.shape) == ((1, 1, 3), (1, 1, 1, 3))
        np.testing.assert_array_equal(first[0], b)
