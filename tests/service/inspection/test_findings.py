"""Findings about models that users are told."""

import numpy as np
import pytest
from support.models.control_flow import Graph

import neurald as nd
from neurald.hal.model.model import StateVariable
from neurald.hal.records import replace
from neurald.service.inspection import findings as module
from neurald.service.inspection.findings import findings
from neurald.service.inspection.summary import summarize

ADD = nd.OperationType.ADD


def found(model: nd.Model) -> list[str]:
    return list(findings(model, summarize(model)))


def test_nothing_is_said_of_an_ordinary_model() -> None:
    graph = Graph()
    x = graph.value()
    assert found(graph.finish([x], [graph.binary(ADD, x, graph.constant([1.0]), graph.value())])) == []


def test_open_inputs() -> None:
    graph = Graph()
    inputs = [graph.value(shape=(0, 4)) for _ in range(6)]
    model = graph.finish(inputs, [graph.binary(ADD, inputs[0], inputs[1], graph.value(shape=(0, 4)))])
    opened, unread = found(replace(model, input_names=tuple("abcdef")))
    assert opened.startswith("6 inputs (a, b, c, d, …): lengths are open")
    assert unread.startswith("4 inputs (")


def test_what_is_not_used() -> None:
    graph = Graph()
    x = graph.value()
    graph.binary(ADD, x, x, graph.value())
    (idle,) = found(graph.finish([x], [graph.binary(ADD, x, x, graph.value())]))
    assert idle == "1 operation (ADD 0): the results are not used"


def test_random_numbers_and_state() -> None:
    graph = Graph()
    x = graph.value()
    model = graph.finish([x], [graph.binary(ADD, x, x, graph.value())])
    variable = StateVariable(name="memory", initial=np.zeros(2, np.float32))
    (state,) = found(replace(model, state=(variable,), input_names=(), output_names=()))
    assert state.startswith("1 variable (memory): an execution depends on those before it")


def test_constants_that_are_converted() -> None:
    graph = Graph()
    stored = graph.builder.add_operand(nd.OperandType.TENSOR_FLOAT16, (2,))
    graph.builder.set_operand_value(stored, np.ones(2, np.float16))
    x, weights = graph.value(), graph.value()
    graph.builder.add_operation(nd.OperationType.CAST, [stored], [weights])
    (note,) = found(graph.finish([x], [graph.binary(ADD, x, weights, graph.value())]))
    assert note.startswith("1 constant is stored in another type")


def test_constants_that_no_daemon_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph()
    x = graph.value()
    model = graph.finish([x], [graph.binary(ADD, x, graph.constant([1.0]), graph.value())])
    monkeypatch.setattr(module, "Limits", lambda: type("Few", (), {"model_bytes": 3}))
    (note,) = found(model)
    assert "4 bytes; daemons accept 3" in note
