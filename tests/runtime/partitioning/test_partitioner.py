"""partition: modes, limits and full delegation, and a check that every result can run."""

import random
from collections.abc import Callable
from typing import Any, cast

import pytest
from support.models.graphs import all_but, candidate, chain, graph, model, only, random_graph
from support.sweeps import sweep

from neurald.hal.errors import BadData, OpFailed
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType, Preference
from neurald.hal.records import replace
from neurald.runtime.costs import estimate
from neurald.runtime.model.branches import MAIN
from neurald.runtime.model.dead_operations import dead_operations
from neurald.runtime.partitioning.groups import IfGroup, StepGroup
from neurald.runtime.partitioning.limits import step_groups
from neurald.runtime.partitioning.options import (
    ANDROID,
    POLICY_NAMES,
    TENGINE,
    Partitioning,
    PartitioningMode,
)
from neurald.runtime.partitioning.overrides import forbid, pin, prefer
from neurald.runtime.partitioning.partitioner import POLICIES, PartitionResult, partition
from neurald.runtime.partitioning.placement import NOT_RUN, Candidate

pytestmark = pytest.mark.quick

ADD, MUL, SUB, DIV, IF = (
    OperationType.ADD,
    OperationType.MUL,
    OperationType.SUB,
    OperationType.DIV,
    OperationType.IF,
)
FAST = Preference.FAST_SINGLE_ANSWER
#: The policies that give a device whatever it can run, so that the steps of these tests are its
#: regions.
BY_REGION = (ANDROID, TENGINE)


def pair(subject: Model, *, cpu_first: bool = True) -> list[Candidate]:
    """Returns the CPU device and a better device without MUL."""
    both = [
        candidate("cpu", model=subject, is_cpu=True),
        candidate("device", all_but(MUL), model=subject, time=0.5, control_flow=0.5),
    ]
    return both if cpu_first else both[::-1]


def split(
    subject: Model, candidates: list[Candidate], partitioning: Partitioning | None = None
) -> PartitionResult:
    return partition(subject, candidates, FAST, partitioning or Partitioning())


def steps(result: PartitionResult) -> list[tuple[int, tuple[int, ...]]]:
    return [(step.device, step.operations) for step in step_groups(result.groups)]


def test_policies_split_differently() -> None:
    subject = chain(ADD, ADD, ADD, MUL, ADD)
    assert steps(split(subject, pair(subject))) == [(1, (0, 1, 2)), (0, (3,)), (1, (4,))]
    tengine = split(subject, pair(subject), Partitioning(policy="tengine"))
    assert steps(tengine) == [(1, (0, 1, 2)), (0, (3, 4))]
    assert len(tengine.reasons) == 5


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_groups_that_cannot_run_are_never_handed_out(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a policy is found before anything runs."""
    right = POLICIES[policy]
    monkeypatch.setattr(estimate, "host_multiplications_per_s", lambda: 1.0)
    subject = chain(ADD, MUL, ADD)
    for wrong, message in ((lambda groups: groups[1:], "before"), (lambda groups: groups[:-1], "in no step")):

        def damaged(*arguments: Any, wrong: Callable[..., Any] = wrong) -> Any:
            found = right.split(*arguments)
            return replace(found, groups=wrong(found.groups))

        monkeypatch.setitem(cast("dict[str, Any]", POLICIES), policy, replace(right, split=damaged))
        with pytest.raises(OpFailed, match=message):
            split(subject, pair(subject), Partitioning(policy=policy))


def test_no_device() -> None:
    with pytest.raises(BadData, match="there are no candidates"):
        split(chain(ADD), [])


def test_mode_none_places_everything_on_the_cpu_device() -> None:
    subject = chain(ADD, MUL, ADD)
    for cpu_first in (True, False):
        candidates = pair(subject, cpu_first=cpu_first)
        result = split(subject, candidates, Partitioning(mode=PartitioningMode.NONE))
        cpu = 0 if cpu_first else 1
        assert result.groups == (StepGroup(graph=MAIN, device=cpu, operations=(0, 1, 2)),)
        assert set(result.reasons) == {"partitioning is off"}


def test_mode_none_needs_the_cpu_device() -> None:
    subject = chain(ADD)
    with pytest.raises(BadData, match=r"not among the devices \(device\)"):
        split(subject, pair(subject)[1:], Partitioning(mode=PartitioningMode.NONE))
    cpu = candidate("cpu", only(MUL), model=subject, is_cpu=True)
    with pytest.raises(BadData, match="no device can run operation 0 ADD"):
        split(subject, [cpu], Partitioning(mode=PartitioningMode.NONE))


def flow() -> Model:
    inner = graph("v", [(ADD, "v", "w"), (MUL, "w", "u")], "u")
    lines = [(IF, "c @1 @1 x", "y"), (ADD, "y", "z")]
    types = {"c": OperandType.TENSOR_BOOL8}
    return model("c x", lines, "z", referenced=[inner], types=types, dimensions={"c": (1,)})


def test_mode_none_does_not_interpret() -> None:
    subject = flow()
    cpu = candidate("cpu", model=subject, is_cpu=True)
    result = split(subject, [cpu], Partitioning(mode=PartitioningMode.NONE))
    assert result.groups == (StepGroup(graph=MAIN, device=0, operations=(0, 1)),)
    result = split(subject, pair(subject))
    assert isinstance(result.groups[0], IfGroup)
    assert result.placements.keys() == {MAIN, 1}


@sweep("policy", BY_REGION)
def test_min_operations(policy: str) -> None:
    subject = chain(ADD, MUL, ADD, ADD, ADD, MUL, ADD, ADD, ADD, ADD)
    wanted = Partitioning(policy=policy, min_operations=4)
    result = split(subject, pair(subject), wanted)
    assert steps(result) == [(0, (0, 1, 2, 3, 4, 5)), (1, (6, 7, 8, 9))]
    moved = result.placements[MAIN][2]
    assert moved.reason == "a step of 3 operations on device; min_operations is 4"
    assert moved.rejected == {1: moved.reason}


@sweep("policy", BY_REGION)
def test_max_partitions_keeps_the_largest(policy: str) -> None:
    subject = chain(*[ADD] * 3, MUL, *[ADD] * 5, MUL, *[ADD] * 4, MUL, *[ADD] * 5)
    sizes = {1: [5], 2: [5, 5], 3: [5, 4, 5], 4: [3, 5, 4, 5], None: [3, 5, 4, 5]}
    for limit, expected in sizes.items():
        result = split(subject, pair(subject), Partitioning(policy=policy, max_partitions=limit))
        found = [operations for device, operations in steps(result) if device == 1]
        assert [len(operations) for operations in found] == expected
    # Of two steps of equal size the first is kept.
    result = split(subject, pair(subject), Partitioning(policy=policy, max_partitions=1))
    assert steps(result)[1] == (1, (4, 5, 6, 7, 8))
    assert (
        result.reasons[0]
        == "a step of 3 operations on device; max_partitions is 1, and larger steps are kept"
    )


def test_limits_are_for_each_device() -> None:
    subject = chain(ADD, SUB, ADD, SUB, ADD, SUB)
    cpu = candidate("cpu", model=subject, is_cpu=True)
    adder = candidate("adder", only(ADD), model=subject, time=0.5)
    subtracter = candidate("subtracter", only(SUB), model=subject, time=0.5)
    result = split(subject, [cpu, adder, subtracter], Partitioning(max_partitions=1))
    assert steps(result) == [(1, (0,)), (2, (1,)), (0, (2, 3, 4, 5))]


def test_limits_reach_into_interpreted_branches() -> None:
    subject = flow()
    result = split(subject, pair(subject), Partitioning(min_operations=2))
    # The steps of operation 0 of the branch and of operation 1 of the main graph are too small.
    # Nothing is left to interpret then.
    assert [p.device for p in result.placements[MAIN]] == [0, 0]
    assert result.placements.keys() == {MAIN}


def test_control_flow_that_limits_move_runs_as_a_whole() -> None:
    subject = flow()
    device = candidate("device", model=subject, time=0.1, control_flow=0.1)
    cpu = candidate("cpu", model=subject, is_cpu=True)
    assert steps(split(subject, [cpu, device])) == [(1, (0, 1))]
    result = split(subject, [cpu, device], Partitioning(min_operations=3))
    assert [p.device for p in result.placements[MAIN]] == [0, 0]


@sweep("policy", BY_REGION)
def test_what_the_cpu_device_cannot_run_stays_and_counts(policy: str) -> None:
    subject = chain(DIV, MUL, ADD, ADD, ADD, MUL, ADD, ADD, ADD, ADD)
    cpu = candidate("cpu", all_but(DIV), model=subject, is_cpu=True)
    device = candidate("device", all_but(MUL), model=subject, time=0.5)
    wanted = Partitioning(policy=policy, min_operations=2, max_partitions=2)
    assert steps(split(subject, [cpu, device], wanted)) == [
        (1, (0,)),
        (0, (1, 2, 3, 4, 5)),
        (1, (6, 7, 8, 9)),
    ]


@sweep("policy", POLICY_NAMES)
def test_limits_move_preferred_steps_but_not_pinned_ones(policy: str) -> None:
    subject = chain(ADD, MUL, ADD, MUL)
    limits = {"policy": policy, "min_operations": 2}
    result = split(subject, pair(subject), Partitioning(**limits, overrides=(pin("device", 0),)))  # type: ignore[arg-type]
    assert steps(result) == [(1, (0,)), (0, (1, 2, 3))]
    result = split(subject, pair(subject), Partitioning(**limits, overrides=(prefer("device", 0),)))  # type: ignore[arg-type]
    assert steps(result) == [(0, (0, 1, 2, 3))]


def test_limits_need_the_cpu_device() -> None:
    subject = chain(ADD, ADD)
    device = candidate("device", model=subject)
    with pytest.raises(
        BadData, match=r"a step of 2 operations on device; min_operations is 3.*among the devices"
    ):
        split(subject, [device], Partitioning(min_operations=3))
    assert len(split(subject, [device], Partitioning(min_operations=2, max_partitions=1)).groups) == 1


@sweep("policy", POLICY_NAMES)
def test_full_delegation(policy: str) -> None:
    wanted = Partitioning(policy=policy, require_full_delegation=True)
    subject = chain(ADD, ADD)
    assert steps(split(subject, pair(subject), wanted)) == [(1, (0, 1))]
    subject = chain(ADD, MUL, ADD, ADD, ADD, MUL)
    with pytest.raises(BadData) as caught:
        split(subject, pair(subject), wanted)
    message = str(caught.value)
    assert message.startswith("full delegation is required, but the CPU device runs 2 operations: ")
    assert "operation 1 MUL (device: no rule for MUL)" in message
    assert "operation 5 MUL (device: no rule for MUL)" in message
    assert "ADD" not in message


def test_full_delegation_counts_overrides_scores_and_interpretation() -> None:
    wanted = Partitioning(require_full_delegation=True, overrides=(forbid("device", 1),))
    subject = chain(ADD, ADD)
    with pytest.raises(BadData, match=r"operation 1 ADD \(device: forbidden"):
        split(subject, pair(subject), wanted)
    slow = candidate("device", model=subject, time=3.0)
    with pytest.raises(BadData, match=r"operation 0 ADD \(device: score 3 against 1\)"):
        split(subject, [pair(subject)[0], slow], Partitioning(require_full_delegation=True))
    with pytest.raises(BadData, match=r"graph 1 operation 1 MUL"):
        split(flow(), pair(flow()), Partitioning(require_full_delegation=True))
    with pytest.raises(BadData, match="there is no other device"):
        split(subject, pair(subject)[:1], Partitioning(require_full_delegation=True))


@sweep(
    "wrong",
    [
        {"policy": "random"},
        {"mode": 7},
        {"max_partitions": 0},
        {"min_operations": 0},
        {"overrides": ("cpu",)},
    ],
)
def test_wrong_options(wrong: dict[str, object]) -> None:
    with pytest.raises(BadData):
        Partitioning(**wrong)  # type: ignore[arg-type]


def test_modes_are_androids_numbers() -> None:
    assert Partitioning(mode=2).mode is PartitioningMode.WITHOUT_FALLBACK  # type: ignore[arg-type]


@sweep("seed", range(80))
def test_random_graphs_and_options(seed: int) -> None:
    generator = random.Random(seed)
    types = (ADD, MUL, SUB, DIV)
    subject = Model(main=random_graph(generator, generator.randint(1, 100), types))
    candidates = [candidate("cpu", model=subject, is_cpu=True)]
    for number in range(generator.randint(1, 3)):
        chosen = generator.sample(types, k=generator.randint(0, 4))
        candidates.append(
            candidate(f"d{number}", only(*chosen), model=subject, time=generator.uniform(0.2, 1.5))
        )
    generator.shuffle(candidates)
    limit = generator.choice((None, 1, 2))
    options = Partitioning(
        policy=generator.choice(POLICY_NAMES),
        max_partitions=limit,
        min_operations=generator.choice((1, 1, 3)),
    )
    # `partition` itself checks that the groups can run in their order.
    result = split(subject, candidates, options)
    dead = dead_operations(subject).get(MAIN, frozenset())
    for position, placement in enumerate(result.placements[MAIN]):
        if placement.device == NOT_RUN:
            assert position in dead
            continue
        assert not candidates[placement.device].unsupported_reason((MAIN, position))
        assert placement.rejected.keys() == set(range(len(candidates))) - {placement.device}
    count = dict.fromkeys(range(len(candidates)), 0)
    for device, operations in steps(result):
        if not candidates[device].is_cpu:
            count[device] += 1
            assert len(operations) >= options.min_operations
    assert limit is None or max(count.values()) <= limit
