"""The policy tengine: ranges for the CPU device, complexity, merging, and counts of awaited
operands.
"""

import random

import pytest
from support.models.graphs import all_but, candidate, chain, model, only, random_graph
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Preference
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.group_order import check_groups
from neurald.runtime.partitioning.groups import StepGroup
from neurald.runtime.partitioning.placement import Candidate, PlacementConstraints
from neurald.runtime.partitioning.policy_tengine import (
    group_consecutive_operations,
    place_operations,
    ranges_for_cpu,
)

pytestmark = pytest.mark.quick

ADD, MUL, SUB = OperationType.ADD, OperationType.MUL, OperationType.SUB
FC = OperationType.FULLY_CONNECTED
FAST = Preference.FAST_SINGLE_ANSWER

NONE = PlacementConstraints()

#: Whether the device runs an operation (d) or not (c); F is a FULLY_CONNECTED that it runs.
_TYPES = {"d": ADD, "c": MUL, "F": FC, "T": OperationType.TFLITE_FULLY_CONNECTED}


def pattern(text: str) -> Model:
    return chain(*(_TYPES[letter] for letter in text))


def pair(subject: Model) -> list[Candidate]:
    return [
        candidate("cpu", model=subject, is_cpu=True),
        candidate("device", all_but(MUL), model=subject),
    ]


def places(subject: Model, candidates: list[Candidate], constraints: PlacementConstraints = NONE) -> str:
    """Returns one letter for each operation: c for the CPU device, d for the device, e for a third
    one.
    """
    placements = place_operations(subject, candidates, FAST, constraints)
    assert placements.keys() == {MAIN}
    assert all(len(p.rejected) == len(candidates) - 1 for p in placements[MAIN])
    return "".join("cde"[placement.device] for placement in placements[MAIN])


@sweep(
    ("operations", "expected"),
    [
        ("dddd", "dddd"),
        ("cccc", "cccc"),
        # Enough work must follow a blocked operation.
        ("cd", "cc"),
        ("cdd", "ccc"),
        ("cddd", "cddd"),
        ("cF", "cF"),
        ("cT", "cT"),
        ("cdF", "cdF"),
        # Everything before the first blocked operation goes to the device, however small it is.
        ("dc", "dc"),
        ("dcd", "dcc"),
        ("dcddd", "dcddd"),
        # Each range is examined separately.
        ("ddcddcdddcd", "ddcccc" + "dddcc"),
        ("dddcdddcddd", "dddcdddcddd"),
        ("ccddd", "ccddd"),
        ("cdcdcdddd", "cccccdddd"),
    ],
)
def test_cuts(operations: str, expected: str) -> None:
    subject = pattern(operations)
    assert places(subject, pair(subject)) == expected.translate(str.maketrans("FT", "dd"))


def test_ranges_come_from_last_to_first() -> None:
    operations = pattern("dcddcdddd").main.operations
    assert ranges_for_cpu(operations, [1, 4]) == [range(4, 5), range(1, 4)]
    assert ranges_for_cpu(operations, []) == []


def test_reasons() -> None:
    subject = pattern("dcd")
    first, second, third = place_operations(subject, pair(subject), FAST)[MAIN]
    assert first.reason == "device can run it"
    assert second.reason == "device cannot run it"
    assert second.rejected == {1: "no rule for MUL"}
    assert "fewer than 3 operations" in third.reason
    assert third.rejected == {1: third.reason}


def steps(subject: Model, candidates: list[Candidate]) -> list[StepGroup]:
    groups = group_consecutive_operations(subject, place_operations(subject, candidates, FAST))
    check_groups(subject, groups)
    return [group for group in groups if isinstance(group, StepGroup)]


def test_neighbours_on_one_device_are_one_step() -> None:
    subject = pattern("ddcdccdcdddd")
    assert [(s.device, s.operations) for s in steps(subject, pair(subject))] == [
        (1, (0, 1)),
        (0, (2, 3, 4, 5, 6, 7)),
        (1, (8, 9, 10, 11)),
    ]
    subject = pattern("dddd")
    assert [s.operations for s in steps(subject, pair(subject))] == [(0, 1, 2, 3)]


def test_a_value_that_other_steps_read() -> None:
    # Operand s is read inside its step and by a later step, and is an output, as in SSD models.
    lines = [
        (ADD, "a", "s"),
        (ADD, "s", "t"),
        (MUL, "s t", "u"),
        (ADD, "u s", "v"),
        (ADD, "v", "w"),
        (ADD, "w", "x"),
    ]
    subject = model("a", lines, "x s")
    found = steps(subject, pair(subject))
    assert [s.operations for s in found] == [(0, 1), (2,), (3, 4, 5)]


@sweep("seed", range(60))
def test_random_graphs_give_steps_in_a_right_order(seed: int) -> None:
    generator = random.Random(seed)
    subject = Model(main=random_graph(generator, generator.randint(1, 60), (ADD, MUL, SUB)))
    assert steps(subject, pair(subject))


def test_the_device_is_the_one_that_can_run_the_most() -> None:
    subject = pattern("dddcd")
    cpu = candidate("cpu", model=subject, is_cpu=True)
    few = candidate("few", only(MUL), model=subject, time=0.1)
    many = candidate("many", only(ADD), model=subject, time=0.9)
    assert places(subject, [cpu, few, many]) == "eeecc"
    assert places(subject, [cpu, many, many]) == "dddcc"


def test_operations_that_the_cpu_device_cannot_run() -> None:
    subject = chain(ADD, MUL, SUB)
    cpu = candidate("cpu", only(ADD), model=subject, is_cpu=True)
    device = candidate("device", only(ADD, SUB), model=subject)
    third = candidate("third", only(MUL), model=subject)
    assert places(subject, [cpu, device, third]) == "ded"
    with pytest.raises(BadData, match=r"operation 1 MUL \(cpu: no rule for MUL; device: no rule for MUL\)"):
        places(subject, [cpu, device])


def test_only_the_cpu_device() -> None:
    subject = pattern("dcd")
    assert places(subject, pair(subject)[:1]) == "ccc"


def test_without_the_cpu_device() -> None:
    subject = pattern("ddd")
    assert places(subject, [candidate("device", model=subject)]) == "ccc"
    subject = pattern("dcd")
    with pytest.raises(BadData, match="no device can run operation 1 MUL"):
        places(subject, pair(subject)[1:])


def test_wishes() -> None:
    subject = pattern("ddcdd")
    constraints = PlacementConstraints(
        preferred={(MAIN, 0): (0, "rule 0"), (MAIN, 3): (1, "rule 3"), (MAIN, 2): (1, "rule 2")},
        demoted={(MAIN, 4): "too small"},
    )
    assert places(subject, pair(subject), constraints) == "cccdc"
    placements = place_operations(subject, pair(subject), FAST, constraints)[MAIN]
    assert [p.reason for p in placements][0::3] == ["rule 0", "rule 3"]
    assert placements[4].reason == "too small"
