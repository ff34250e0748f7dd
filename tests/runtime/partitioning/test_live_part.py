"""Operations that nobody needs change no placement, whatever the policy."""

from collections.abc import Callable
from typing import TypeAlias

import pytest
from support.models.graphs import all_but, candidate, graph, model, only
from support.sweeps import sweep

from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType, Preference
from neurald.runtime.model.branches import MAIN
from neurald.runtime.model.dead_operations import dead_operations
from neurald.runtime.partitioning.groups import IfGroup, StepGroup, WhileGroup
from neurald.runtime.partitioning.limits import step_groups
from neurald.runtime.partitioning.options import MIN_COST, POLICY_NAMES, Partitioning
from neurald.runtime.partitioning.overrides import pin
from neurald.runtime.partitioning.partitioner import PartitionResult, partition
from neurald.runtime.partitioning.placement import NOT_RUN, Candidate

pytestmark = pytest.mark.quick

ABS, ADD, IF, LESS, MUL, TANH, WHILE = (
    OperationType[name] for name in ["ABS", "ADD", "IF", "LESS", "MUL", "TANH", "WHILE"]
)
FAST = Preference.FAST_SINGLE_ANSWER
_Candidates: TypeAlias = Callable[[Model], list[Candidate]]


def chain_with(dead: dict[int, OperationType], count: int = 5) -> Model:
    """Builds a chain of ADD and TANH; dead operations read the value before a position."""
    lines = []
    for position in range(count):
        if position in dead:
            lines.append((dead[position], f"v{position}", f"d{position}"))
        lines.append(((ADD, TANH)[position % 2], f"v{position}", f"v{position + 1}"))
    if count in dead:
        lines.append((dead[count], f"v{count}", "d"))
    return model("v0", lines, f"v{count}")


def trio(subject: Model) -> list[Candidate]:
    return [
        candidate("cpu", model=subject, is_cpu=True),
        candidate("a", only(ADD, ABS), model=subject, time=0.01),
        candidate("b", only(TANH), model=subject, time=0.02),
    ]


def pair(subject: Model) -> list[Candidate]:
    """Returns two devices that have to share the operations of a chain; none of them runs MUL."""
    return [candidate("a", only(ADD, ABS), model=subject), candidate("b", only(TANH), model=subject)]


def types_of_steps(subject: Model, result: PartitionResult) -> list[tuple[int, list[str]]]:
    """Returns the devices of the steps, and the types of their operations that somebody needs."""
    dead = dead_operations(subject).get(MAIN, frozenset())
    operations = subject.main.operations
    return [
        (step.device, [operations[n].type.name for n in step.operations if n not in dead])
        for step in step_groups(result.groups)
    ]


def assert_placed_alike(subject: Model, alone: Model, candidates: _Candidates, policy: str) -> None:
    options = Partitioning(policy=policy)
    result = partition(subject, candidates(subject), FAST, options)
    wanted = partition(alone, candidates(alone), FAST, options)
    assert types_of_steps(subject, result) == types_of_steps(alone, wanted)
    assert result.predicted_s == wanted.predicted_s
    dead = dead_operations(subject)[MAIN]
    devices = [each.device for n, each in enumerate(result.placements[MAIN]) if n not in dead]
    assert devices == [each.device for each in wanted.placements[MAIN]]


@pytest.mark.parametrize("policy", POLICY_NAMES)
@sweep(
    ("dead", "candidates"),
    [
        ({0: ABS}, trio),
        ({5: MUL}, trio),
        ({2: MUL, 3: ABS}, trio),
        ({1: TANH, 4: MUL}, trio),
        ({0: ABS}, pair),
        ({2: MUL, 3: ABS}, pair),
        ({1: TANH, 4: MUL}, pair),
    ],
)
def test_the_others_are_placed_as_without_them(
    policy: str, dead: dict[int, OperationType], candidates: _Candidates
) -> None:
    """Graphs as small as these are searched exactly by `min_cost`, larger ones are not."""
    assert_placed_alike(chain_with(dead), chain_with({}), candidates, policy)
    if policy == MIN_COST:
        more = {position + 20: kind for position, kind in dead.items()}
        assert_placed_alike(chain_with(more, 40), chain_with({}, 40), candidates, policy)


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_device_of_all_that_is_needed_gets_it(policy: str) -> None:
    subject = chain_with({2: MUL})
    candidates = [
        candidate("cpu", model=subject, time=100.0, is_cpu=True),
        candidate("device", all_but(MUL), model=subject, time=0.01),
    ]
    result = partition(subject, candidates, FAST, Partitioning(policy=policy, require_full_delegation=True))
    assert types_of_steps(subject, result) == [(1, ["ADD", "TANH", "ADD", "TANH", "ADD"])]
    assert [each.device for each in result.placements[MAIN]] == [1, 1, NOT_RUN, 1, 1, 1]
    assert result.reasons[2] == "nobody needs its results"


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_one_device_gets_the_whole_model_as_it_is(policy: str) -> None:
    subject = chain_with({2: MUL})
    for candidates in (
        [candidate("device", model=subject)],
        [candidate("cpu", model=subject, is_cpu=True), candidate("none", only(), model=subject)],
    ):
        result = partition(subject, candidates, FAST, Partitioning(policy=policy))
        assert result.groups == (StepGroup(graph=MAIN, device=0, operations=tuple(range(6))),)
        assert [each.device for each in result.placements[MAIN]] == [0] * 6
        assert "the whole model" in result.reasons[2]
        assert set(result.placements[MAIN][2].rejected) == set(range(1, len(candidates)))


def test_rules_name_operations_of_the_whole_model() -> None:
    subject = chain_with({0: MUL})
    for operation, found in ((0, [1, 2, 1, 2, 1]), (3, [1, 2, 0, 2, 1])):
        options = Partitioning(policy="android", overrides=(pin("cpu", operation),))
        result = partition(subject, trio(subject), FAST, options)
        assert [each.device for each in result.placements[MAIN]] == [NOT_RUN, *found]


@pytest.mark.parametrize("policy", ["android", "min_cost"])
def test_branches_of_interpreted_control_flow(policy: str) -> None:
    branch = graph("p", [(MUL, "p", "unread"), (ADD, "p", "q")], "q")
    lines = [(MUL, "x", "d"), (IF, "c @1 @1 x", "out")]
    subject = model("c x", lines, "out", referenced=[branch])
    candidates = [
        candidate("cpu", model=subject, time=100.0, is_cpu=True),
        candidate("device", only(ADD), model=subject, time=0.001),
    ]
    options = Partitioning(policy=policy, overrides=(pin("device", operation_type=ADD),))
    result = partition(subject, candidates, FAST, options)
    (group,) = result.groups
    assert isinstance(group, IfGroup)
    assert group.operation == 1
    assert group.then_groups == group.else_groups == (StepGroup(graph=1, device=1, operations=(1,)),)
    assert [each.device for each in result.placements[1]] == [NOT_RUN, 1]


@pytest.mark.parametrize("policy", ["android", "min_cost"])
def test_loops_that_are_interpreted(policy: str) -> None:
    """One graph has an operation that nobody needs, the other has none."""
    condition = graph(
        "p", [(LESS, "p limit", "c")], "c", types={"c": OperandType.TENSOR_BOOL8}, dimensions={"c": (1,)}
    )
    body = graph("q", [(MUL, "q", "unread"), (ADD, "q", "r")], "r")
    subject = model("x", [(WHILE, "@1 @2 x", "out")], "out", referenced=[condition, body])
    candidates = [
        candidate("cpu", model=subject, time=100.0, is_cpu=True),
        candidate("device", only(ADD), model=subject, time=0.001),
    ]
    options = Partitioning(policy=policy, overrides=(pin("device", operation_type=ADD),))
    result = partition(subject, candidates, FAST, options)
    (group,) = result.groups
    assert isinstance(group, WhileGroup)
    assert group.operation == 0
    assert group.condition_groups == (StepGroup(graph=1, device=0, operations=(0,)),)
    assert group.body_groups == (StepGroup(graph=2, device=1, operations=(1,)),)
    assert [[each.device for each in result.placements[n]] for n in (1, 2)] == [[0], [NOT_RUN, 1]]
