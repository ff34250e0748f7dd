"""Tests check_groups with random steps, and with sequences that have one error each."""

import random
from itertools import pairwise

import pytest
from support.models.graphs import graph, model, random_graph
from support.sweeps import sweep

from neurald.hal.errors import OpFailed
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.runtime.model.boundary import writer_by_operand, written_inputs
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.group_order import check_groups
from neurald.runtime.partitioning.groups import IfGroup, StepGroup

pytestmark = pytest.mark.quick

ADD, IF = OperationType.ADD, OperationType.IF


def reachable(subject: Subgraph) -> list[set[int]]:
    """Returns for each operation all operations that it depends on."""
    written_by = writer_by_operand(subject)
    before: list[set[int]] = []
    for position in range(len(subject.operations)):
        sources = {written_by[index] for index in written_inputs(subject, position)}
        before.append(sources.union(*(before[source] for source in sources)))
    return before


@sweep("seed", range(40))
def test_a_step_may_not_need_what_needs_it(seed: int) -> None:
    generator = random.Random(seed)
    subject = random_graph(generator, 14, (ADD,))
    whole, before = Model(main=subject), reachable(subject)
    everything = range(len(subject.operations))
    for _ in range(40):
        members = set(generator.sample(everything, k=generator.randint(0, 8)))
        passes_outside = any(
            first in before[between] and between in before[last]
            for first in members
            for last in members
            for between in set(everything) - members
        )
        others = sorted(set(everything) - members)
        earlier = [each for each in others if any(each in before[member] for member in members)]
        later = [each for each in others if each not in earlier]
        groups = [step(*each) for each in (earlier, sorted(members), later)]
        if passes_outside:
            with pytest.raises(OpFailed, match="before operand"):
                check_groups(whole, groups)
        else:
            check_groups(whole, groups)


DIAMOND = model("a", [(ADD, "a", "b"), (ADD, "b", "c"), (ADD, "b", "d"), (ADD, "c d", "e")], "e")


def step(*operations: int, number: int = MAIN) -> StepGroup:
    return StepGroup(graph=number, device=0, operations=operations)


def test_right_sequences() -> None:
    for groups in ([step(0, 1, 2, 3)], [step(0), step(2, 1), step(3)], [step(0, 2), step(1, 3)]):
        check_groups(DIAMOND, groups)


@sweep(
    ("groups", "words"),
    [
        ([step(0, 3), step(1, 2)], "operation 3 ADD runs before operand 2 is written"),
        ([step(1, 0, 2, 3)], "operation 1 ADD runs before operand 1"),
        ([step(0, 1, 2)], "operation 3 is in no step"),
        ([], "operation 0 is in no step"),
        ([step(0, 1), step(1, 2, 3)], "operation 1 ADD is in more than one step"),
        ([step(0, 1), step(2, 3, 4)], "there is no operation 4"),
        ([step(0, 1, 2, -1)], "there is no operation -1"),
        ([step(0, 1), step(2, 3, number=1)], "operation 2 ADD is in more than one step"),
    ],
)
def test_wrong_sequences(groups: list[StepGroup], words: str) -> None:
    with pytest.raises(OpFailed, match=words):
        check_groups(DIAMOND, groups)


def test_long_sequences() -> None:
    """They are checked at once, and only wrong ones operation by operation."""
    names = [f"v{n}" for n in range(151)]
    subject = model("v0", [(ADD, a, b) for a, b in pairwise(names)], "v150")
    everything = list(range(150))
    check_groups(subject, [step(*everything[:70]), step(*everything[70:])])
    everything[20], everything[21] = 21, 20
    with pytest.raises(OpFailed, match="operation 21 ADD runs before operand 21 is written"):
        check_groups(subject, [step(*everything)])
    with pytest.raises(OpFailed, match="operation 8 ADD is in more than one step"):
        check_groups(subject, [step(*range(9), *range(8, 150))])
    with pytest.raises(OpFailed, match="operation 70 ADD is in more than one step"):
        check_groups(subject, [step(*range(70)), step(*range(70, 150), number=1)])
    with pytest.raises(OpFailed, match="operation 149 is in no step"):
        check_groups(subject, [step(*range(149))])
    for wrong in (150, -1, 1 << 70):
        with pytest.raises(OpFailed, match=f"there is no operation {wrong}"):
            check_groups(subject, [step(*range(149), wrong)])


def test_branches_are_checked() -> None:
    inner = graph("a", [(ADD, "a", "b"), (ADD, "b", "c")], "c")
    subject = model("c x", [(IF, "c @1 @1 x", "y")], "y", referenced=[inner])
    right, wrong = (step(0, 1, number=1),), (step(1, 0, number=1),)
    check_groups(subject, [IfGroup(graph=MAIN, operation=0, then_groups=right, else_groups=right)])
    with pytest.raises(OpFailed, match="graph 1: operation 1 ADD runs before"):
        check_groups(subject, [IfGroup(graph=MAIN, operation=0, then_groups=right, else_groups=wrong)])
