"""pin, forbid and prefer: what they select, which rule wins, and which combinations are errors."""

import pytest
from support.models.graphs import all_but, candidate, chain, graph, model, only
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType, Preference
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.options import Partitioning, PartitioningMode
from neurald.runtime.partitioning.overrides import Override, OverrideKind, forbid, pin, prefer
from neurald.runtime.partitioning.partitioner import PartitionResult, partition
from neurald.runtime.partitioning.placement import INTERPRETER, Candidate

ADD, MUL, IF = OperationType.ADD, OperationType.MUL, OperationType.IF
FAST = Preference.FAST_SINGLE_ANSWER

SUBJECT = chain(ADD, MUL, ADD, MUL)


def trio(subject: Model) -> list[Candidate]:
    """Returns the CPU device, one that is better at everything, and a worse one without MUL."""
    return [
        candidate("cpu", model=subject, is_cpu=True),
        candidate("good", model=subject, time=0.5, control_flow=0.5),
        candidate("poor", all_but(MUL), model=subject, time=2.0, control_flow=2.0),
    ]


def split(*overrides: Override, subject: Model = SUBJECT, policy: str = "android") -> PartitionResult:
    partitioning = Partitioning(policy=policy, overrides=overrides)
    return partition(subject, trio(subject), FAST, partitioning)


def devices(*overrides: Override, subject: Model = SUBJECT, policy: str = "android") -> list[int]:
    return [p.device for p in split(*overrides, subject=subject, policy=policy).placements[MAIN]]


@sweep(
    ("overrides", "expected"),
    [
        ([], [1, 1, 1, 1]),
        ([pin("cpu", 0)], [0, 1, 1, 1]),
        ([pin("poor", operation_type=ADD)], [2, 1, 2, 1]),
        ([pin("cpu", range(1, 3))], [1, 0, 0, 1]),
        ([pin("cpu", [0, 3])], [0, 1, 1, 0]),
        ([pin("cpu", output="v2")], [1, 0, 1, 1]),
        ([pin("cpu", 1), pin("cpu", operation_type=MUL)], [1, 0, 1, 0]),
        ([forbid("good", operation_type=MUL)], [1, 0, 1, 0]),
        ([forbid("good", range(4))], [0, 0, 0, 0]),
        ([prefer("cpu", operation_type=MUL)], [1, 0, 1, 0]),
        # A preference has no effect if the device cannot run the operation, or if a stronger rule
        # applies.
        ([prefer("poor", range(4))], [2, 1, 2, 1]),
        ([prefer("cpu", range(4)), pin("good", 2)], [0, 0, 1, 0]),
        ([prefer("cpu", range(4)), forbid("cpu", 2)], [0, 0, 1, 0]),
        # A type that does not occur in the model.
        ([pin("poor", operation_type=OperationType.CONV_2D)], [1, 1, 1, 1]),
    ],
)
def test_rules(overrides: list[Override], expected: list[int]) -> None:
    assert devices(*overrides) == expected
    # pin and forbid have the same effect under every policy.
    found = devices(*overrides, policy="tengine")
    for rule in overrides:
        device = [c.name for c in trio(SUBJECT)].index(rule.device)
        for position in rule.operations:
            if rule.kind is OverrideKind.PIN:
                assert found[position] == device
            elif rule.kind is OverrideKind.FORBID:
                assert found[position] != device


def test_reasons_name_the_rule() -> None:
    result = split(pin("cpu", range(2)), forbid("good", operation_type=MUL), prefer("poor", output="v3"))
    first, _, third, fourth = result.placements[MAIN]
    assert first.reason == "pin operations 0-1 to cpu"
    assert first.rejected[1] == "pinned to another device (pin operations 0-1 to cpu)"
    assert third.reason == "prefer poor for the writer of 'v3'"
    assert third.rejected[1] == third.reason
    assert fourth.rejected[1] == "forbidden (forbid MUL on good)"


@sweep(
    ("overrides", "words"),
    [
        ([pin("gpu", 0)], ["pin operations 0 to gpu", "no device 'gpu'", "cpu, good, poor"]),
        ([forbid("good", [1, 9])], ["forbid operations 1, 9 on good", "no operation 9; the model has 4"]),
        ([forbid("good", -1)], ["no operation -1"]),
        ([forbid("good", range(2, 5000))], ["no operation 4-4999; the model has 4"]),
        ([prefer("good", output="v9")], ["prefer good for the writer of 'v9'", "no operation writes"]),
        (
            [pin("cpu", 1), pin("good", range(3))],
            ["operation 1 MUL: pin", "to cpu contradicts pin operations 0-2"],
        ),
        (
            [pin("good", 0), forbid("good", operation_type=ADD)],
            ["operation 0 ADD: pin", "forbid ADD on good"],
        ),
        ([pin("poor", 1)], ["pin operations 1 to poor: it cannot run operation 1 MUL: no rule for MUL"]),
        (
            [prefer("cpu", 0), prefer("good", operation_type=ADD)],
            ["operation 0 ADD: prefer cpu", "prefer good"],
        ),
        (
            [forbid(name, 0) for name in ("cpu", "good", "poor")],
            ["no device can run operation 0 ADD", "cpu: forbidden (forbid operations 0 on cpu)"],
        ),
    ],
)
def test_conflicts(overrides: list[Override], words: list[str]) -> None:
    with pytest.raises(BadData) as caught:
        split(*overrides)
    for word in words:
        assert word in str(caught.value)


def test_every_conflict_is_named() -> None:
    with pytest.raises(BadData, match=r"(?s)gpu.*npu"):
        split(pin("gpu", 0), pin("npu", 1))


@sweep(
    "wrong",
    [
        {},
        {"operations": (1,), "output": "x"},
        {"operation_type": ADD, "output": "x"},
    ],
)
def test_a_rule_selects_in_exactly_one_way(wrong: dict[str, object]) -> None:
    with pytest.raises(BadData, match="exactly one of operations, operation_type and output"):
        Override(kind=OverrideKind.PIN, device="cpu", **wrong)  # type: ignore[arg-type]


def test_a_rule_selects_by_positions_and_types() -> None:
    with pytest.raises(BadData, match="'first'; an integer is expected"):
        pin("cpu", ["first"])  # type: ignore[list-item]
    with pytest.raises(BadData, match="0 is not an OperationType"):
        pin("cpu", operation_type=0)  # type: ignore[arg-type]


def test_an_empty_range_selects_nothing_and_is_refused() -> None:
    with pytest.raises(BadData, match="0 are given"):
        pin("cpu", range(0))


def flow() -> Model:
    inner = graph("v", [(ADD, "v", "w")], "w")
    lines = [(IF, "c @1 @1 x", "y"), (MUL, "y", "z")]
    types = {"c": OperandType.TENSOR_BOOL8}
    return model("c x", lines, "z", referenced=[inner], types=types, dimensions={"c": (1,)})


def test_types_select_in_branches_and_control_flow_keeps_away() -> None:
    subject = flow()
    assert devices(subject=subject) == [1, 1]
    result = split(forbid("good", operation_type=ADD), subject=subject)
    assert [p.device for p in result.placements[MAIN]] == [0, 1]
    reason = result.placements[MAIN][0].rejected[1]
    assert reason == "it may not run graph 1 operation 0 ADD: forbidden (forbid ADD on good)"


def test_pinning_a_type_that_is_in_a_branch() -> None:
    result = split(pin("poor", operation_type=ADD), subject=flow())
    # The only device that may run the IF as a whole is slow. It would run it, but interpreting the
    # IF is cheaper.
    assert result.placements[MAIN][0].device in (INTERPRETER, 2)
    if result.placements[MAIN][0].device == INTERPRETER:
        assert [p.device for p in result.placements[1]] == [2]


def test_pinning_control_flow() -> None:
    assert devices(pin("cpu", 0), subject=flow()) == [INTERPRETER, 1]
    assert devices(pin("poor", 0), subject=flow()) == [2, 1]
    with pytest.raises(
        BadData, match="pin operations 0 to poor: it cannot run operation 0 IF: it may not run"
    ):
        split(pin("poor", 0), forbid("poor", operation_type=ADD), subject=flow())


def test_pinning_in_graphs_that_devices_were_not_asked_about() -> None:
    # Without the CPU device nothing is interpreted, so devices are not asked about branches.
    subject = flow()
    device = candidate("good", model=subject)
    asked = Candidate(name="good", verdicts={MAIN: device.verdicts[MAIN]}, capabilities=device.capabilities)
    partitioning = Partitioning(overrides=(pin("good", operation_type=ADD),))
    result = partition(subject, [asked], FAST, partitioning)
    assert [p.device for p in result.placements[MAIN]] == [0, 0]


def test_tengine_keeps_control_flow_whole() -> None:
    assert devices(forbid("good", operation_type=ADD), subject=flow(), policy="tengine") == [0, 0]


def test_without_partitioning_rules_must_still_be_possible() -> None:
    candidates = [candidate("cpu", model=SUBJECT, is_cpu=True), candidate("good", only(), model=SUBJECT)]
    off = PartitioningMode.NONE
    rule = Partitioning(mode=off, overrides=(pin("good", 0),))
    with pytest.raises(BadData, match="pin operations 0 to good: it cannot run"):
        partition(SUBJECT, candidates, FAST, rule)
    rule = Partitioning(mode=off, overrides=(forbid("cpu", 0),))
    with pytest.raises(BadData, match="no device can run operation 0"):
        partition(SUBJECT, candidates, FAST, rule)
    rule = Partitioning(mode=off, overrides=(prefer("good", 0),))
    assert len(partition(SUBJECT, candidates, FAST, rule).groups) == 1
