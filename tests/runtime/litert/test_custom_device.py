"""Custom operators that functions of the application compute."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.custom import hadamard
from support.tflite.resources import constant, plus

from neurald.hal.device import Artifact, BufferDescription, PrepareOptions
from neurald.hal.errors import BadData, MissedDeadlinePersistent, OpFailed
from neurald.litert import (
    CustomFunction,
    CustomOperators,
    Interpreter,
    InterpreterWithCustomOps,
    OpResolverType,
)
from neurald.runtime.litert.custom_device import CustomDevice
from neurald.runtime.tflite import load_tflite

Array = np.ndarray[Any, np.dtype[Any]]
X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def twice(inputs: Sequence[Array | None], options: bytes) -> Array:
    (values, _) = inputs
    assert values is not None
    assert not values.flags.writeable
    return values * 2 + len(options)


def between_sums(*, with_branch: bool = False) -> TfliteModel:
    """Builds `Twice(x + 1) + 1`; the operator has an omitted input.

    Args:
        with_branch: whether a condition chooses between two operators; only then are shapes fixed.
    """
    file = TfliteModel()
    graph = file.subgraph()
    rows: dict[str, Any] = {} if with_branch else {"shape_signature": (-1, 3)}
    x, one = graph.tensor((2, 3), name="x", **rows), constant(graph, [1.0])
    custom = graph.tensor((2, 3), name="custom", **rows)
    if with_branch:
        branches = [file.subgraph(), file.subgraph()]
        for factor, branch in enumerate(branches):
            given, found = branch.tensor((2, 3), **rows), branch.tensor((2, 3), **rows)
            branch.operator(
                "CUSTOM", (given, -1), (found,), custom_code="Twice", custom_options=b"x" * factor
            )
            branch.inputs, branch.outputs = (given,), (found,)
        condition = graph.tensor((1,), "BOOL", name="condition")
        graph.operator("IF", (condition, x), (custom,), "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
        graph.inputs = (x, condition)
    else:
        before = plus(graph, x, one, 2, 3, **rows)
        graph.operator("CUSTOM", (before, -1), (custom,), custom_code="Twice", custom_options=b"abc")
        graph.inputs = (x,)
    graph.outputs = (plus(graph, custom, one, 2, 3, **rows),)
    return file


def interpreter(file: TfliteModel, function: CustomFunction = twice, **options: Any) -> Interpreter:
    def register(operators: CustomOperators) -> None:
        operators.add("Twice", function)

    return InterpreterWithCustomOps(custom_op_registerers=[register], model_content=file.build(), **options)


def register_twice(operators: CustomOperators) -> None:
    operators.add("Twice", twice)


def test_functions_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "register_twice", register_twice, raising=False)
    monkeypatch.setitem(sys.modules, "registered", sys.modules[__name__])
    content = between_sums().build()
    for name in ("register_twice", "registered.register_twice"):
        found = InterpreterWithCustomOps(custom_op_registerers=[name], model_content=content)
        np.testing.assert_array_equal(run(found, X), (X + 1) * 2 + 4)


def run(interpreter: Interpreter, *inputs: Array) -> Array:
    for details, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.resize_tensor_input(details["index"], value.shape)
    interpreter.allocate_tensors()
    for details, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(details["index"], value)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


@pytest.mark.parametrize("kind", OpResolverType)
def test_a_function_computes_an_operator(kind: OpResolverType) -> None:
    found = interpreter(between_sums(), experimental_op_resolver_type=kind)
    for rows in (2, 5, 1):
        values = np.resize(X, (rows, 3))
        np.testing.assert_array_equal(run(found, values), (values + 1) * 2 + 3 + 1)


def test_branches_have_their_own_options() -> None:
    found = interpreter(between_sums(with_branch=True))
    for condition, more in ((True, 0), (False, 1)):
        np.testing.assert_array_equal(run(found, X, np.array([condition])), X * 2 + more + 1)


@pytest.mark.parametrize("signature", [{}, {"shape_signature": (-1, 3)}])
def test_a_function_is_called_although_nobody_reads_its_result(signature: dict[str, Any]) -> None:
    file, seen = TfliteModel(), []
    graph = file.subgraph()
    x, one = graph.tensor((2, 3), name="x", **signature), constant(graph, [1.0])
    before = plus(graph, x, one, 2, 3, **signature)
    graph.operator("CUSTOM", (before, -1), (graph.tensor((2, 3), **signature),), custom_code="Twice")
    graph.inputs, graph.outputs = (x,), (plus(graph, before, one, 2, 3, **signature),)

    def noted(inputs: Sequence[Array | None], options: bytes) -> Array:
        seen.append(inputs[0])
        return twice(inputs, options)

    found = interpreter(file, noted)
    np.testing.assert_array_equal(run(found, X), X + 2)
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], X + 1)


def test_results_of_operators_are_kept() -> None:
    with pytest.warns(UserWarning, match="experimental_preserve_all_tensors"):
        found = interpreter(between_sums(), experimental_preserve_all_tensors=True)
    run(found, X)
    np.testing.assert_array_equal(found.get_tensor(2), (X + 1) * 2 + 3)


def test_a_function_replaces_an_operator_of_neurald() -> None:
    def register(operators: CustomOperators) -> None:
        operators.add("aeq.hadamard_rotation", lambda inputs, _: -np.asarray(inputs[0]))

    content = hadamard((2, 4), 4).build()
    replaced = InterpreterWithCustomOps([register], model_content=content)
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(run(replaced, values), -values)
    assert run(Interpreter(model_content=content), values)[0, 0] == 3


def fails(*_: Any) -> Array:
    raise KeyError("nothing")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (fails, "custom operator Twice: KeyError: 'nothing'"),
        (lambda inputs, _: [inputs[0], inputs[0]], "returned 2 values; it has 1 outputs"),
        (
            lambda inputs, _: inputs[0].astype(np.float64),
            "returned float64 for output 0; float32 is expected",
        ),
        (lambda inputs, _: inputs[0][:, :2], r"output 0 has shape \[2, 2\]; \[0, 3\] is declared"),
        (lambda inputs, _: None, "returned object for output 0"),
    ],
)
def test_what_a_function_must_not_do(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        run(interpreter(between_sums(), function), X)


def test_operators_without_a_function_are_refused() -> None:
    content = between_sums().build()
    for found in (Interpreter(model_content=content), InterpreterWithCustomOps(model_content=content)):
        with pytest.raises(RuntimeError, match="operator 1 CUSTOM 'Twice': it is not supported"):
            found.allocate_tensors()


def test_what_cannot_be_registered() -> None:
    operators = CustomOperators()
    for name, function in (("", twice), (5, twice), ("Twice", None)):
        with pytest.raises(BadData, match="a name and a function are expected"):
            operators.add(name, function)  # type: ignore[arg-type]
    assert not operators
    for number in (0, -1):
        with pytest.raises(BadData, match="there are 0"):
            operators.call(number)


def test_the_device_takes_calls_only() -> None:
    model = load_tflite(hadamard((2, 4), 4).build())
    device = CustomDevice(CustomOperators())
    assert not any(verdict.ok for verdict in device.supported_operations(model))
    with pytest.raises(BadData, match="is not the call of a custom operator"):
        device.prepare_model(model, PrepareOptions())
    with pytest.raises(MissedDeadlinePersistent):
        device.prepare_model(model, PrepareOptions(deadline_s=0.0))
    with pytest.raises(OpFailed, match="caches nothing"):
        device.prepare_model_from_cache(Artifact(), PrepareOptions())
    with pytest.raises(OpFailed, match="no memory of its own"):
        device.allocate(BufferDescription(dimensions=(1,), input_roles=(), output_roles=()))
