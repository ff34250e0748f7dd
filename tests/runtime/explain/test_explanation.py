"""Explanations as text, JSON and HTML, with sizes and transfers."""

import json
import random
from typing import Any

import pytest
from support.models.graphs import all_but, candidate, chain, model, only, random_graph
from support.models.small import add_model
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.sample.device import create_all
from neurald.hal.errors import BadData, WrongType
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType, Preference
from neurald.runtime.explain.explanation import Explanation, explain
from neurald.runtime.partitioning.options import Partitioning
from neurald.runtime.partitioning.overrides import pin
from neurald.runtime.partitioning.partitioner import partition
from neurald.runtime.partitioning.placement import Candidate

ADD, MUL, SUB, IF = OperationType.ADD, OperationType.MUL, OperationType.SUB, OperationType.IF


def explained(
    subject: Model, candidates: list[Candidate], *notes: str, options: Partitioning | None = None
) -> Explanation:
    result = partition(subject, candidates, Preference.FAST_SINGLE_ANSWER, options or Partitioning())
    return explain(subject, candidates, result, notes)


def pair(subject: Model) -> list[Candidate]:
    return [
        candidate("cpu", model=subject, is_cpu=True),
        candidate("gpu:0", all_but(MUL), model=subject, time=0.5, control_flow=0.5),
    ]


CHAIN = chain(ADD, MUL, ADD)


def test_one_line_for_each_operation() -> None:
    found = explained(
        CHAIN, pair(CHAIN), "gpu:0 failed: step 0", options=Partitioning(overrides=(pin("cpu", 2),))
    )
    assert str(found).splitlines() == [
        "operation 0 ADD -> gpu:0: score 0.5 against cpu 1",
        "operation 1 MUL -> cpu: score 1, the only device that can run it",
        "operation 2 ADD -> cpu: pin operations 2 to cpu",
        "note: gpu:0 failed: step 0",
    ]
    assert found.text() == str(found)


def test_every_other_device_and_why_not() -> None:
    found = explained(CHAIN, pair(CHAIN))
    assert [[(r.device, r.reason) for r in o.rejected] for o in found.operations] == [
        [("cpu", "score 1 against 0.5")],
        [("gpu:0", "no rule for MUL")],
        [("cpu", "score 1 against 0.5")],
    ]
    assert [(r.device, r.type, r.reason, r.operations) for r in found.refusals()] == [
        ("cpu", "ADD", "score 1 against 0.5", ("0", "2")),
        ("gpu:0", "MUL", "no rule for MUL", ("1",)),
    ]


def test_steps_shares_and_transfers() -> None:
    found = explained(CHAIN, pair(CHAIN))
    assert [(s.device, s.operations, s.steps) for s in found.shares] == [("cpu", 1, 1), ("gpu:0", 2, 2)]
    assert [(s.step, s.device, s.operations) for s in found.steps] == [
        (0, "gpu:0", (0,)),
        (1, "cpu", (1,)),
        (2, "gpu:0", (2,)),
    ]
    (value,) = found.steps[1].inputs
    assert (value.operand, value.name, value.type, value.dimensions, value.bytes) == (
        1,
        "v1",
        "TENSOR_FLOAT32",
        (2, 3),
        24,
    )
    assert [(t.source, t.target, t.value.name) for t in found.transfers] == [
        ("gpu:0", "cpu", "v1"),
        ("cpu", "gpu:0", "v2"),
    ]
    assert found.transferred_bytes == 48
    assert [o.steps for o in found.operations] == [(0,), (1,), (2,)]
    assert [o.after for o in found.operations] == [(), (0,), (1,)]


def test_a_value_that_two_operations_of_a_device_read_moves_once() -> None:
    subject = model("a", [(ADD, "a", "b"), (MUL, "b", "c"), (MUL, "b", "d")], "c d")
    assert len(explained(subject, pair(subject)).transfers) == 1


def test_unknown_sizes() -> None:
    lines = [(ADD, "a", "b"), (MUL, "b", "c"), (MUL, "s", "d")]
    subject = model(
        "a s",
        lines,
        "c d",
        types={"s": OperandType.TENSOR_STRING},
        dimensions={"b": (0, 3), "c": None},
    )
    found = explained(subject, pair(subject))
    assert {v.name: v.bytes for s in found.steps for v in (*s.inputs, *s.outputs)} == {
        "a": 24,
        "b": None,
        "c": None,
        "s": None,
        "d": 24,
    }
    assert found.transferred_bytes == 0
    values = {value.name: value for value in found.graphs[0].values}
    assert values["b"].dimensions == (0, 3)
    assert values["c"].dimensions is None


def flow() -> Model:
    inner = [chain(ADD, MUL).main, chain(SUB).main]
    lines = [(IF, "c @1 @2 x", "y"), (IF, "c @1 @1 y", "z"), (ADD, "z", "w")]
    types = {"c": OperandType.TENSOR_BOOL8}
    return model("c x", lines, "w", referenced=inner, types=types, dimensions={"c": (1,)})


def test_interpreted_branches_are_explained_as_well() -> None:
    subject = flow()
    found = explained(subject, pair(subject))
    lines = str(found).splitlines()
    assert lines[0].startswith("operation 0 IF -> interpreter: score")
    assert lines[3:] == [
        "graph 1 operation 0 ADD -> gpu:0: score 0.5 against cpu 1",
        "graph 1 operation 1 MUL -> cpu: score 1, the only device that can run it",
        "graph 2 operation 0 SUB -> gpu:0: score 0.5 against cpu 1",
    ]
    branch = {(o.graph, o.operation): o.steps for o in found.operations}
    # Graph 1 is used three times.
    assert branch == {
        (0, 0): (),
        (0, 1): (),
        (0, 2): (7,),
        (1, 0): (0, 3, 5),
        (1, 1): (1, 4, 6),
        (2, 0): (2,),
    }
    assert found.shares[-1].device == "interpreter"
    assert found.shares[-1].operations == 2
    assert found.operations[0].branches == (1, 2)
    # The interpreter works in host memory, as the CPU device does.
    assert [(t.graph, t.source, t.target) for t in found.transfers] == [
        (0, "cpu", "gpu:0"),
        (1, "gpu:0", "cpu"),
    ]
    assert [graph.operations[0].type for graph in found.graphs] == ["IF", "ADD", "SUB"]
    assert found.graphs[0].operations[0].graphs == (1, 2)


def test_json_is_all_of_it() -> None:
    found = explained(CHAIN, pair(CHAIN), "a note")
    document = json.loads(json.dumps(found.to_json()))
    assert document["notes"] == ["a note"]
    assert document["transferred_bytes"] == 48
    assert document["operations"][1] == {
        "graph": 0,
        "operation": 1,
        "type": "MUL",
        "steps": [1],
        "device": "cpu",
        "reason": "score 1, the only device that can run it",
        "rejected": [{"device": "gpu:0", "reason": "no rule for MUL"}],
        "after": [0],
        "branches": [],
        "costs": [],
    }
    assert document["steps"][0]["outputs"][0]["bytes"] == 24
    assert document["shares"][1] == {"device": "gpu:0", "operations": 2, "steps": 2}


def test_a_device_may_be_called_like_the_interpreter() -> None:
    for name in ("interpreter", "not run"):
        candidates = [candidate(name, model=CHAIN), candidate("cpu", model=CHAIN, is_cpu=True, time=2)]
        assert [(each.device, each.operations) for each in explained(CHAIN, candidates).shares] == [
            (name, 3),
            ("cpu", 0),
        ]


def test_wrong_arguments() -> None:
    found = explained(CHAIN, pair(CHAIN))
    wrong: Any
    for wrong in (5, None, b"title"):
        with pytest.raises(WrongType, match="the title is"):
            found.to_html(wrong)
    for wrong in (5, None, found, [5], [None]):
        with pytest.raises(WrongType, match=r"what.if"):
            found.to_html("title", wrong)
        with pytest.raises(WrongType, match="profile"):
            found.with_kernels(wrong)


@sweep("operations", [1, 700])
def test_large_models(operations: int) -> None:
    subject = Model(main=random_graph(random.Random(2), operations, (ADD, MUL, SUB)))
    candidates = [*pair(subject), candidate("third", only(SUB), model=subject, time=0.2)]
    found = explained(subject, candidates)
    assert len(found.operations) == operations
    assert str(found).count("\n") == operations - 1
    assert len(found.graphs[0].operations) == operations


def test_costs_and_what_ifs() -> None:
    """`explain(pin=…)` says what would move, what is predicted, and changes nothing."""
    builder = nd.CompilationBuilder(add_model((64, 64), operations=3), [nd.devices()[0], create_all()])
    builder.set_partitioning("min_cost")
    compilation = builder.finish()
    explanation = compilation.explain()
    assert {each.device for each in explanation.operations} == {"cpu"}
    for operation in explanation.operations:
        assert [cost.device for cost in operation.costs] == ["cpu", "sample-all"]
        assert all(cost.seconds and cost.source for cost in operation.costs)
    assert explanation.predicted_s["the plan"] == min(explanation.predicted_s.values())
    assert "note: predicted: the plan" in explanation.text()
    what_if = compilation.explain(pin=nd.pin("sample-all", [1]))
    assert "operation 1 ADD would move from cpu to sample-all" in map(str, what_if.changes)
    assert what_if.predicted_before_s == explanation.predicted_s["the plan"]
    assert what_if.predicted_s["the plan"] > explanation.predicted_s["the plan"]
    assert "operations would move, and the plan is predicted to take" in what_if.text()
    assert {each["after"] for each in what_if.to_json()["changes"]} == {"sample-all"}
    assert len(what_if.to_html()) > 1000
    assert compilation.explain() == explanation
    both = compilation.explain(pin=[nd.pin("sample-all", [0]), nd.pin("sample-all", [2])])
    assert len(both.changes) >= 2
    with pytest.raises(BadData, match="no-such-device"):
        compilation.explain(pin=nd.pin("no-such-device", [0]))
    with pytest.raises(BadData, match="pin is 5"):
        compilation.explain(pin=5)  # type: ignore[arg-type]
