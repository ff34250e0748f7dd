"""Plans of least cost: what is chosen, and why."""

import math
import random
from collections.abc import Mapping, Sequence

import pytest
from support.models.graphs import FLOAT, candidate, chain, graph, model, random_graph

import neurald as nd
from neurald.hal.device import Capabilities, Link, Performance, Verdict
from neurald.hal.errors import BadData
from neurald.hal.records import replace
from neurald.runtime.costs import estimate
from neurald.runtime.costs.estimate import DeviceCosts, device_costs
from neurald.runtime.costs.table import Average, CostTable, DeviceLink
from neurald.runtime.costs.work import OperationKind
from neurald.runtime.partitioning.groups import IfGroup, StepGroup
from neurald.runtime.partitioning.options import Partitioning
from neurald.runtime.partitioning.overrides import pin
from neurald.runtime.partitioning.partitioner import PartitionResult, partition
from neurald.runtime.partitioning.placement import INTERPRETER, Candidate

T = nd.OperationType
ADD, MUL, CONV = T.ADD, T.MUL, T.CONV_2D
FAST, LOW_POWER = nd.Preference.FAST_SINGLE_ANSWER, nd.Preference.LOW_POWER
COST = Partitioning(policy="min_cost")


@pytest.fixture(autouse=True)
def _speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "host_multiplications_per_s", lambda: 1e9)


def table(
    seconds: Mapping[str, float] = {}, *, launch_s: float = 1e-6, link: DeviceLink | None = None
) -> CostTable:
    """Returns measured costs: of operations of 2 x 3 elements by their names."""
    found = CostTable(launch=Average(seconds=launch_s), link=link or DeviceLink())
    for name, each in seconds.items():
        for work in (16.0 * 12, 16.0 * 18):
            found = found.observed(OperationKind(operation=name, operand=FLOAT.name), work, each)
    return found


def measured(subject: Candidate, costs: CostTable, *, is_remote: bool = False) -> Candidate:
    return replace(
        subject,
        costs=device_costs(costs, subject.capabilities, is_cpu=subject.is_cpu, is_remote=is_remote),
    )


def split(
    subject: nd.Model,
    candidates: Sequence[Candidate],
    preference: nd.Preference = FAST,
    partitioning: Partitioning = COST,
) -> PartitionResult:
    return partition(subject, candidates, preference, partitioning)


def devices(result: PartitionResult) -> list[int]:
    return [placement.device for placement in result.placements[0]]


def test_what_is_measured_decides_not_what_is_declared() -> None:
    subject = chain(ADD, ADD)
    cpu = candidate("cpu", model=subject, is_cpu=True)
    device = candidate("device", model=subject, time=0.5)
    fast = measured(device, table({"ADD": 1e-6}))
    slow = measured(device, table({"ADD": 0.3}))
    cpu = measured(cpu, table({"ADD": 1e-3}))
    assert devices(split(subject, [cpu, fast])) == [1, 1]
    assert devices(split(subject, [cpu, slow])) == [0, 0]
    reason = split(subject, [cpu, fast]).placements[0][0].reason
    assert reason == "0.001 ms (measured) against cpu 1 ms (measured)"


def test_alternating_operations_stay_together() -> None:
    """Android's rule makes 20 steps, each with a launch that takes longer than all on the CPU."""
    subject = chain(*[ADD, MUL] * 10)
    cpu = measured(candidate("cpu", model=subject, is_cpu=True), table({"ADD": 4e-6, "MUL": 4e-6}))
    device = candidate("device", lambda kind: kind is ADD, model=subject, time=0.5)
    device = measured(device, table({"ADD": 1e-6}, launch_s=1e-3))
    android = split(subject, [cpu, device], partitioning=Partitioning(policy="android"))
    assert len(android.groups) == 20
    result = split(subject, [cpu, device])
    assert result.groups == (StepGroup(graph=0, device=0, operations=tuple(range(20))),)
    assert result.predicted_s["the plan"] == result.predicted_s["all on cpu"]
    assert result.predicted_s["policy android"] > 100 * result.predicted_s["the plan"]
    placement = result.placements[0][0]
    assert "the whole plan costs least so" in placement.reason
    assert "but with launches and transfers" in placement.rejected[1]


def test_transfers_are_weighed() -> None:
    subject = chain(CONV, ADD)
    cpu = measured(candidate("cpu", model=subject, is_cpu=True), table({"CONV_2D": 10e-3, "ADD": 1e-6}))
    device = candidate("device", model=subject)
    near, far = (
        measured(
            device,
            table(
                {"CONV_2D": 1e-3, "ADD": 1e-6},
                link=DeviceLink(input_bytes_per_s=speed, output_bytes_per_s=speed, shares_memory=False),
            ),
        )
        for speed in (1e9, 1e3)
    )
    assert devices(split(subject, [cpu, near]))[0] == 1
    assert devices(split(subject, [cpu, far])) == [0, 0]


def test_a_fresh_machine_goes_by_what_drivers_declare() -> None:
    small, large = (
        model("x", [(ADD, "x", "y")], "y", dimensions=dict.fromkeys("xy", shape))
        for shape in ((2,), (1 << 22,))
    )
    for subject, expected in ((small, 0), (large, 1)):
        both = [
            candidate("cpu", model=subject, is_cpu=True),
            candidate("device", model=subject, time=0.5),
        ]
        result = split(subject, both)
        assert devices(result) == [expected]
        assert "(declared)" in result.reasons[0]
        # A device that is slower by its own account is never chosen.
        both[1] = candidate("device", model=subject, time=1.5)
        assert devices(split(subject, both)) == [0]


def test_low_power_minimises_energy() -> None:
    subject = chain(ADD, ADD)
    cpu = measured(candidate("cpu", model=subject, is_cpu=True), table())
    frugal = measured(
        candidate("frugal", model=subject, time=5.0, power=0.1), table({"ADD": 1.0}, launch_s=1e-9)
    )
    both = [cpu, replace(frugal, costs=replace(frugal.costs, launch_s=1e-12))]
    assert devices(split(subject, both, FAST)) == [0, 0]
    large = model("x", [(ADD, "x", "y")], "y", dimensions=dict.fromkeys("xy", (1 << 20,)))
    both = [
        candidate("cpu", model=large, is_cpu=True),
        candidate("frugal", model=large, time=5.0, power=0.1),
    ]
    result = split(large, both, LOW_POWER)
    assert devices(result) == [1]
    assert "relative" in result.reasons[0]
    assert devices(split(large, both, FAST)) == [0]


def test_rules_of_the_application_are_obeyed() -> None:
    subject = chain(ADD, ADD, ADD)
    cpu = measured(candidate("cpu", model=subject, is_cpu=True), table({"ADD": 1e-6}))
    slow = measured(candidate("slow", model=subject), table({"ADD": 1.0}))
    pinned = replace(COST, overrides=(pin("slow", [1]),))
    result = split(subject, [cpu, slow], partitioning=pinned)
    assert devices(result) == [0, 1, 0]
    assert "pin" in result.placements[0][1].reason
    limited = replace(COST, overrides=(pin("slow", [1]),), min_operations=2)
    assert devices(split(subject, [cpu, slow], partitioning=limited))[0] == 0


def test_rules_for_operations_of_branches_are_obeyed() -> None:
    inner = graph("p", [(ADD, "p", "q")], "q")
    outer = graph("c p", [(T.IF, "c @1 @1 p", "q")], "q")
    for number, lines in ((1, "c @1 @1 x"), (2, "c @2 @2 c x")):
        subject = model("c x", [(T.IF, lines, "y")], "y", referenced=[inner, outer][:number])
        fast = candidate("cpu", model=subject, time=1e-6, control_flow=1e-6, is_cpu=True)
        both = [fast, candidate("device", lambda kind: kind is ADD, model=subject, time=10.0)]
        assert isinstance(split(subject, both).groups[0], StepGroup)
        rule = pin("device", operation_type=ADD)
        result = split(subject, both, partitioning=replace(COST, overrides=(rule,)))
        assert [placement.device for placement in result.placements[1]] == [1]


def test_no_device() -> None:
    subject = chain(ADD)
    nothing = candidate("cpu", lambda _: False, model=subject, is_cpu=True)
    with pytest.raises(BadData, match="no device can run operation 0 ADD"):
        split(subject, [nothing])


def test_devices_that_list_no_figure_are_the_last_choice() -> None:
    subject = chain(ADD)
    silent = replace(candidate("silent", model=subject), capabilities=capabilities(1.0, {}))
    cpu = candidate("cpu", model=subject, is_cpu=True)
    assert devices(split(subject, [cpu, silent])) == [0]
    assert devices(split(subject, [silent])) == [0]
    unable = candidate("cpu", lambda _: False, model=subject, is_cpu=True)
    result = split(subject, [unable, silent])
    assert devices(result) == [1]
    assert "no figure for its type" in result.reasons[0]


def capabilities(
    exec_time: float, performance: dict[nd.OperandType, Performance] | None = None
) -> Capabilities:
    unit = Performance(exec_time=exec_time, power_usage=1.0)
    return Capabilities(
        operand_performance=dict.fromkeys(nd.OperandType, unit) if performance is None else performance,
        relaxed_float32_scalar=unit,
        relaxed_float32_tensor=unit,
        if_performance=unit,
        while_performance=unit,
    )


def conditional() -> nd.Model:
    """Returns a model with an IF of large operands, whose branches have an ADD and a MUL."""
    sizes = dict.fromkeys(("x", "y", "a", "b"), (1 << 20,))
    return model(
        "c x",
        [(T.IF, "c @1 @2 x", "y")],
        "y",
        referenced=[
            graph("a", [(ADD, "a", "b")], "b", dimensions=sizes),
            graph("a", [(MUL, "a", "b")], "b", dimensions=sizes),
        ],
        types={"c": nd.OperandType.TENSOR_BOOL8},
        dimensions={**sizes, "c": (1,)},
    )


def test_control_flow_is_interpreted_if_its_branches_are_worth_it() -> None:
    subject = conditional()
    cpu = candidate("cpu", model=subject, is_cpu=True)
    only_add = candidate("device", lambda kind: kind is ADD, model=subject, time=0.1)
    result = split(subject, [cpu, only_add])
    assert devices(result) == [INTERPRETER]
    (group,) = result.groups
    assert isinstance(group, IfGroup)
    assert group.then_groups == (StepGroup(graph=1, device=1, operations=(0,)),)
    assert group.else_groups == (StepGroup(graph=2, device=0, operations=(0,)),)
    slow = candidate("device", lambda kind: kind is ADD, model=subject, time=3.0)
    assert devices(split(subject, [cpu, slow])) == [0]
    everything = candidate("device", model=subject, time=0.1)
    assert devices(split(subject, [cpu, everything])) == [1]


@pytest.mark.parametrize("seed", range(60))
def test_never_worse_in_prediction_than_other_policies(seed: int) -> None:
    rng = random.Random(seed)
    subject = nd.Model(main=random_graph(rng, rng.randint(2, 40), [ADD, MUL, CONV, T.SUB]))
    kinds = sorted({operation.type for operation in subject.main.operations})
    supported = [kind for kind in kinds if rng.random() < 0.7]
    cpu = candidate("cpu", model=subject, is_cpu=True)
    device = candidate("device", supported.__contains__, model=subject, time=0.5)
    costs = {kind.name: rng.choice([1e-5, 1e-4, 1e-3]) for kind in kinds}
    faster = {name: each * rng.choice([0.1, 0.5, 2.0]) for name, each in costs.items()}
    both = [measured(cpu, table(costs)), measured(device, table(faster, launch_s=1e-4))]
    predicted = split(subject, both).predicted_s
    assert {"the plan", "all on cpu", "policy android", "policy tengine"} <= predicted.keys()
    assert all(predicted["the plan"] <= each * (1 + 1e-12) for each in predicted.values())


def add_model(elements: int) -> nd.Model:
    return model("x", [(ADD, "x", "y")], "y", dimensions=dict.fromkeys("xy", (elements,)))


@pytest.mark.parametrize(
    ("latency_s", "bytes_per_s", "expected"),
    [(1e-9, 1e15, 1), (1e-1, 1e15, 0), (1e-9, 1e7, 0)],
)
def test_links_to_other_hosts_are_weighed(latency_s: float, bytes_per_s: float, expected: int) -> None:
    subject = add_model(1 << 20)
    verdicts = {0: (Verdict(ok=True),)}
    declared = capabilities(0.1)
    costs = device_costs(
        CostTable(), declared, is_remote=True, host_link=Link(latency_s=latency_s, bytes_per_s=bytes_per_s)
    )
    both = [
        candidate("cpu", model=subject, is_cpu=True),
        Candidate(name="gpu@host", verdicts=verdicts, capabilities=declared, costs=costs),
    ]
    assert devices(split(subject, both)) == [expected]


def test_costs_without_measurements_are_those_that_are_declared() -> None:
    subject = chain(ADD)
    found = candidate("device", model=subject)
    assert found.costs is None
    result = split(subject, [candidate("cpu", model=subject, is_cpu=True), found])
    assert isinstance(result.placements[0][0].costs[1].seconds, float)
    assert math.isfinite(result.predicted_s["the plan"])
    assert isinstance(device_costs(CostTable(), found.capabilities), DeviceCosts)
