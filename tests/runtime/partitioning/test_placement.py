"""find_best_device_for_each_operation: scores, ties, control flow and reasons, as on Android."""

import math

import pytest
from support.models.graphs import FLOAT, all_but, candidate, chain, graph, model, only
from support.sweeps import sweep

import neurald as nd
from neurald.hal.device import Performance
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType, Preference
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.placement import (
    INTERPRETER,
    Candidate,
    PlacementConstraints,
    find_best_device_for_each_operation,
)

pytestmark = pytest.mark.quick

FAST = Preference.FAST_SINGLE_ANSWER
ADD, MUL, IF, WHILE = OperationType.ADD, OperationType.MUL, OperationType.IF, OperationType.WHILE
LESS = OperationType.LESS
BOOL = OperandType.TENSOR_BOOL8


def winners(
    subject: Model, candidates: list[Candidate], preference: Preference = FAST, number: int = MAIN
) -> list[int]:
    placements = find_best_device_for_each_operation(subject, candidates, preference)
    return [placement.device for placement in placements[number]]


ONE = chain(ADD)


def one(
    name: str, time: float | None, *, power: float = 1.0, is_cpu: bool = False, ok: bool = True
) -> Candidate:
    return candidate(
        name,
        lambda _: ok,
        model=ONE,
        time=time or 1.0,
        power=power,
        performance={} if time is None else None,
        is_cpu=is_cpu,
    )


@sweep(
    ("candidates", "winner"),
    [
        ([one("a", 0.9), one("b", 0.8)], 1),
        ([one("a", 1.0), one("cpu", 1.0, is_cpu=True)], 1),
        ([one("cpu", 1.0, is_cpu=True), one("a", 1.0)], 0),
        ([one("cpu", 1.0, is_cpu=True), one("a", 1.5), one("b", 2.0)], 0),
        ([one("a", 1.0), one("b", 1.0)], 0),
        ([one("a", None), one("b", 100.0)], 1),
        ([one("a", None), one("b", None)], 0),
        ([one("a", None), one("cpu", None, is_cpu=True)], 1),
        ([one("a", 0.1, ok=False), one("b", 100.0)], 1),
        ([one("a", math.nan), one("b", 100.0)], 1),
    ],
)
def test_the_smallest_score_wins(candidates: list[Candidate], winner: int) -> None:
    (placement,) = find_best_device_for_each_operation(ONE, candidates, FAST)[MAIN]
    assert placement.device == winner
    assert "score" in placement.reason
    assert set(placement.rejected) == set(range(len(candidates))) - {winner}
    assert all(placement.rejected.values())


def test_why_not_the_others() -> None:
    candidates = [
        one("a", 2.0),
        one("cpu", 1.0, is_cpu=True),
        one("b", 1.0),
        one("c", 0.5, ok=False),
    ]
    (placement,) = find_best_device_for_each_operation(ONE, candidates, FAST)[MAIN]
    assert placement.reason == "score 1 against a 2, b 1"
    assert placement.rejected == {
        0: "score 2 against 1",
        2: "the same score, 1; a tie goes to the CPU device",
        3: "no rule for ADD",
    }


def test_no_device_error() -> None:
    candidates = [one("a", 1.0, ok=False), one("b", 1.0, ok=False)]
    with pytest.raises(
        nd.Error, match=r"operation 0 ADD \(a: no rule for ADD; b: no rule for ADD\)"
    ) as caught:
        find_best_device_for_each_operation(ONE, candidates, FAST)
    assert caught.value.code is nd.ResultCode.BAD_DATA


def test_preference_decides_between_time_and_power() -> None:
    candidates = [one("fast", 0.5, power=2.0), one("frugal", 2.0, power=0.5)]
    assert winners(ONE, candidates, Preference.LOW_POWER) == [1]
    assert winners(ONE, candidates, Preference.FAST_SINGLE_ANSWER) == [0]
    assert winners(ONE, candidates, Preference.SUSTAINED_SPEED) == [0]


TYPES: list[OperandType] = [kind for kind in OperandType if kind is not OperandType.MODEL]


@sweep("kind", TYPES, ids=lambda kind: kind.name)
def test_performance_is_looked_up_by_the_first_operands_type(kind: OperandType) -> None:
    lines = [(ADD, "a b", "c"), (ADD, "b a", "d")]
    other = OperandType.TENSOR_INT32 if kind is not OperandType.TENSOR_INT32 else FLOAT
    subject = model("a b", lines, "c d", types={"a": kind, "b": other})
    good, poor = (Performance(exec_time=t, power_usage=t) for t in (0.5, 0.9))
    base: dict[OperandType, Performance] = {
        each: Performance(exec_time=0.7, power_usage=0.7) for each in TYPES
    }
    figures: dict[OperandType, Performance] = {each: good if each is kind else poor for each in TYPES}
    special = candidate("special", model=subject, performance=figures)
    plain = candidate("plain", model=subject, performance=base)
    assert winners(subject, [plain, special]) == [1, 0]


def test_relaxed_models_use_the_relaxed_rows() -> None:
    for kind in (FLOAT, OperandType.FLOAT32):
        for relaxed, winner in ((False, 0), (True, 1)):
            subject = model("a", [(ADD, "a", "b")], "b", relaxed=relaxed, types={"a": kind})
            plain = candidate("plain", model=subject, time=0.5, relaxed_time=0.9)
            half = candidate("half", model=subject, time=0.9, relaxed_time=0.5)
            assert winners(subject, [plain, half]) == [winner]
            assert winners(subject, [plain, half], Preference.LOW_POWER) == [1 if relaxed else 0]


def test_relaxation_is_no_matter_of_other_types() -> None:
    kind = OperandType.TENSOR_FLOAT16
    subject = model("a", [(ADD, "a", "b")], "b", relaxed=True, types={"a": kind})
    plain = candidate("plain", model=subject, time=0.5, relaxed_time=0.9)
    half = candidate("half", model=subject, time=0.9, relaxed_time=0.5)
    assert winners(subject, [plain, half]) == [0]


def test_an_operation_without_inputs_is_scored_by_its_output() -> None:
    subject = model("", [(ADD, "", "a")], "a")
    fast = Performance(exec_time=0.5, power_usage=0.5)
    candidates = [
        candidate("integers", model=subject, performance={OperandType.TENSOR_INT32: fast}),
        candidate("floats", model=subject, performance={FLOAT: fast}),
    ]
    assert winners(subject, candidates) == [1]


def test_an_operation_goes_to_the_only_device_that_supports_it() -> None:
    # Android's OEM and extension operations.
    subject = chain(MUL, ADD, MUL)
    cpu = candidate("cpu", all_but(ADD), model=subject, is_cpu=True)
    slow = candidate("slow", only(ADD), model=subject, time=9.0)
    slower = candidate("slower", only(ADD), model=subject, time=10.0)
    assert winners(subject, [cpu, slower, slow]) == [0, 2, 0]
    with pytest.raises(BadData, match=r"operation 1 ADD \(cpu: no rule for ADD\)"):
        winners(subject, [cpu])


def branch(*types: OperationType) -> Subgraph:
    lines = [(kind, f"v{n}", f"v{n + 1}") for n, kind in enumerate(types)]
    return graph("v0", lines, f"v{len(types)}")


def condition() -> Subgraph:
    return graph("v0", [(LESS, "v0 v0", "done")], "done", types={"done": BOOL}, dimensions={"done": (1,)})


def if_model(then: Subgraph, other: Subgraph, *, size: int = 2) -> Model:
    return model(
        "c x",
        [(ADD, "x x", "y"), (IF, "c @1 @2 y", "z"), (MUL, "z z", "w")],
        "w",
        referenced=[then, other],
        types={"c": BOOL},
        dimensions={"c": (1,), "y": (size, 3)},
    )


def while_model(body: Subgraph) -> Model:
    return model("x", [(WHILE, "@1 @2 x", "y")], "y", referenced=[condition(), body])


@sweep(
    ("time", "flow", "winner"),
    # The CPU's score is 1 + 0.5 * (1 + 3) = 3, the device's flow + 0.5 * 4 * time.
    [(0.5, 1.9, 1), (0.5, 2.0, 0), (0.5, 2.1, 0), (1.4, 0.1, 1), (1.5, 0.1, 0)],
)
def test_score_of_an_if(time: float, flow: float, winner: int) -> None:
    subject = if_model(branch(ADD), branch(ADD, MUL, ADD))
    cpu = candidate("cpu", model=subject, is_cpu=True)
    device = candidate("device", model=subject, time=time, control_flow=flow)
    # A faster device takes the operations of an IF that the CPU device wins.
    expected = INTERPRETER if winner == 0 and time < 1 else winner
    assert winners(subject, [cpu, device])[1] == expected


@sweep(
    ("time", "flow", "winner"),
    # The CPU's score is 1 + 1 + 2 = 4, the device's flow + 3 * time.
    [(1.0, 0.9, 1), (1.0, 1.0, 0), (0.5, 2.4, 1), (0.5, 2.5, INTERPRETER)],
)
def test_score_of_a_while(time: float, flow: float, winner: int) -> None:
    subject = while_model(branch(ADD, MUL))
    cpu = candidate("cpu", model=subject, is_cpu=True)
    device = candidate("device", model=subject, time=time, control_flow=flow)
    assert winners(subject, [cpu, device]) == [winner]


def test_scores_of_nested_control_flow_add_up() -> None:
    inner = while_model(branch(ADD))
    subject = Model(
        main=if_model(branch(ADD), branch(ADD)).main,
        referenced=(inner.main, branch(ADD), condition(), branch(ADD)),
    )
    # The inner graphs are numbers 3 and 4.
    renumbered = graph("v0", [(WHILE, "@3 @4 v0", "y")], "y")
    subject = Model(main=subject.main, referenced=(renumbered, *subject.referenced[1:]))
    cpu = candidate("cpu", model=subject, is_cpu=True)
    # 1 + 0.5 * ((1 + 1 + 1) + 1) = 3 on the CPU.
    for flow, winner in ((0.9, 1), (1.01, 0)):
        device = candidate("device", model=subject, control_flow=flow)
        assert winners(subject, [cpu, device])[1] == winner


def test_branches_of_interpreted_control_flow_are_placed_as_well() -> None:
    subject = if_model(branch(ADD, MUL), branch(MUL))
    cpu = candidate("cpu", model=subject, is_cpu=True)
    device = candidate("device", only(MUL), model=subject, time=0.5)
    placements = find_best_device_for_each_operation(subject, [cpu, device], FAST)
    assert [p.device for p in placements[MAIN]] == [0, INTERPRETER, 1]
    assert [p.device for p in placements[1]] == [0, 1]
    assert [p.device for p in placements[2]] == [1]
    assert "interpreted" in placements[MAIN][1].reason
    assert placements[MAIN][1].rejected == {1: "no rule for IF"}


@sweep("nested", [False, True])
def test_control_flow_within_the_cpu_device_is_not_interpreted(nested: bool) -> None:
    """Its graphs are not placed on their own."""
    subject = if_model(branch(ADD), branch(MUL))
    if nested:
        inner = graph("c v0", [(IF, "c @2 @2 v0", "y")], "y", types={"c": BOOL}, dimensions={"c": (1,)})
        outer = graph("c x", [(IF, "c @1 @1 c x", "y")], "y", types={"c": BOOL}, dimensions={"c": (1,)})
        subject = Model(main=outer, referenced=(inner, branch(ADD)))
    cpu = candidate("cpu", model=subject, is_cpu=True)
    device = candidate("device", only(LESS), model=subject, time=0.5)
    placements = find_best_device_for_each_operation(subject, [cpu, device], FAST)
    assert placements.keys() == {MAIN}
    assert {placement.device for placement in placements[MAIN]} == {0}
    assert any("everything in it runs there" in placement.reason for placement in placements[MAIN])


def test_branches_of_what_a_device_runs_whole_are_not_placed() -> None:
    subject = if_model(branch(ADD), branch(MUL))
    cpu = candidate("cpu", model=subject, is_cpu=True)
    device = candidate("device", model=subject, time=0.5, control_flow=0.5)
    assert find_best_device_for_each_operation(subject, [cpu, device], FAST).keys() == {MAIN}


def test_an_unsupported_operation_inside_a_branch() -> None:
    subject = if_model(branch(ADD), branch(LESS))
    cpu = candidate("cpu", all_but(LESS), model=subject, is_cpu=True)
    with pytest.raises(BadData, match=r"graph 2 operation 0 LESS \(cpu: no rule for LESS\)"):
        winners(subject, [cpu])


def test_interpreted_control_flow_need_not_be_supported_as_a_whole() -> None:
    subject = if_model(branch(ADD), branch(ADD))
    cpu = candidate("cpu", all_but(IF), model=subject, is_cpu=True)
    assert winners(subject, [cpu]) == [0, INTERPRETER, 0]


@sweep("where", ["operand", "branch", "strings"])
def test_control_flow_of_unknown_size_is_for_the_cpu_device_only(where: str) -> None:
    then = branch(ADD)
    if where == "branch":
        then = graph("v0", [(ADD, "v0 v0", "v1")], "v1", dimensions={"v1": (0, 3)})
    subject = if_model(then, branch(ADD), size=0 if where == "operand" else 2)
    if where == "strings":
        lines = [(IF, "c @1 @1 s", "t")]
        strings = {"s": OperandType.TENSOR_STRING, "t": OperandType.TENSOR_STRING, "c": BOOL}
        subject = model("c s", lines, "t", referenced=[then], types=strings)
    cpu = candidate("cpu", model=subject, is_cpu=True)
    device = candidate("device", model=subject, time=0.1, control_flow=0.1)
    placements = find_best_device_for_each_operation(subject, [cpu, device], FAST)
    (placement,) = (p for p, o in zip(placements[MAIN], subject.main.operations, strict=True) if o.type is IF)
    assert placement.device == 0
    assert "unknown size, so only the CPU device may run it" in placement.rejected[1]
    with pytest.raises(BadData, match="only the CPU device may run it"):
        winners(subject, [device])


def test_an_omitted_argument_has_no_size_to_know() -> None:
    lines = [(IF, "c @1 @1 x nothing", "y")]
    two = graph("p q", [(ADD, "p p", "r")], "r")
    subject = model(
        "c x", lines, "y", referenced=[two], types={"c": BOOL}, dimensions={"c": (1,), "nothing": None}
    )
    cpu = candidate("cpu", all_but(IF), model=subject, is_cpu=True)
    assert winners(subject, [cpu]) == [INTERPRETER]


def test_without_the_cpu_device_nothing_is_interpreted() -> None:
    subject = if_model(branch(ADD), branch(MUL))
    assert winners(subject, [candidate("device", model=subject)]) == [0, 0, 0]


def test_an_empty_branch() -> None:
    nothing = graph("v0", [], "")
    subject = if_model(nothing, branch(ADD))
    cpu = candidate("cpu", all_but(IF), model=subject, is_cpu=True)
    placements = find_best_device_for_each_operation(subject, [cpu], FAST)
    assert placements[MAIN][1].device == INTERPRETER
    assert placements[1] == ()


def nested(depth: int, *, width: int = 1) -> Model:
    """Builds `depth` graphs, each of which refers to the next one from `width` operations."""
    graphs = [
        graph("c x", [(IF, f"c @{n + 2} @{n + 2} x", f"y{k}") for k in range(width)], "y0", types={"c": BOOL})
        for n in range(depth)
    ]
    graphs.append(branch(ADD))
    main = graph("c x", [(IF, "c @1 @1 x", "y")], "y", types={"c": BOOL})
    return Model(main=main, referenced=tuple(graphs))


def test_nesting_costs_linear_time() -> None:
    # Every graph is referred to twice: without caching this would take 2^2000 steps.
    subject = nested(2000)
    cpu = candidate("cpu", model=subject, is_cpu=True)
    (placement,) = find_best_device_for_each_operation(subject, [cpu], FAST)[MAIN]
    assert placement.device == 0


def test_control_flow_that_would_make_too_long_a_plan_is_not_interpreted() -> None:
    subject = nested(6, width=4)
    cpu = candidate("cpu", model=subject, is_cpu=True)
    device = candidate("device", model=subject, time=0.5, control_flow=0.5)
    (placement,) = find_best_device_for_each_operation(subject, [cpu, device], FAST)[MAIN]
    assert placement.device == 0
    assert "more than 100000 operations" in placement.rejected[1]
    cpu = candidate("cpu", all_but(IF), model=nested(2, width=4), is_cpu=True)
    assert winners(nested(2, width=4), [cpu]) == [INTERPRETER]


def test_preferences_and_demotions() -> None:
    subject = chain(ADD, ADD, ADD)
    cpu = candidate("cpu", model=subject, time=2.0, is_cpu=True)
    device = candidate("device", model=subject)
    constraints = PlacementConstraints(
        preferred={(MAIN, 0): (0, "the rule"), (MAIN, 1): (1, "the rule")}, demoted={(MAIN, 1): "too small"}
    )
    placements = find_best_device_for_each_operation(subject, [cpu, device], FAST, constraints)[MAIN]
    assert [(p.device, p.reason) for p in placements] == [
        (0, "the rule"),
        (0, "too small"),
        (1, "score 1 against cpu 2"),
    ]


def test_a_preference_gives_way_where_the_device_cannot() -> None:
    subject = chain(ADD, MUL)
    cpu = candidate("cpu", model=subject, is_cpu=True)
    device = candidate("device", only(ADD), model=subject, time=2.0)
    constraints = PlacementConstraints(preferred={(MAIN, 0): (1, "the rule"), (MAIN, 1): (1, "the rule")})
    placements = find_best_device_for_each_operation(subject, [cpu, device], FAST, constraints)[MAIN]
    assert [p.device for p in placements] == [1, 0]
