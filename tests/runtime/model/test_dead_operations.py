"""Operations that nobody needs, and those that only seem so."""

from collections.abc import Mapping, Sequence

import pytest
from support.models.graphs import Line, graph, model

from neurald.drivers.sample.extension import GRAY_TO_PIXELS
from neurald.hal.model.operation_type import OperationType
from neurald.runtime.model.dead_operations import dead_operations, without_dead_branches

pytestmark = pytest.mark.quick

ABS, ADD, IF = OperationType.ABS, OperationType.ADD, OperationType.IF


@pytest.mark.parametrize(
    ("lines", "dead"),
    [
        ([(ABS, "x", "out")], {}),
        ([(ABS, "x", "a"), (ABS, "x", "out")], {0: {0}}),
        # A chain, of which only the last result is unread.
        ([(ABS, "x", "a"), (ABS, "x", "out"), (ABS, "a", "b"), (ABS, "b", "c")], {0: {0, 2, 3}}),
        # One of two results is needed.
        ([(ADD, "x", "a b"), (ABS, "b", "out")], {}),
        # An output may be read only by an operation that nobody needs.
        ([(ABS, "x", "out"), (ABS, "out", "a")], {0: {1}}),
        # What the operation of a vendor does is not known.
        ([(ABS, "x", "a"), (GRAY_TO_PIXELS, "a", "b"), (ABS, "x", "out")], {}),
        ([(GRAY_TO_PIXELS, "x", "a"), (ABS, "a", "b"), (ABS, "x", "out")], {0: {1}}),
    ],
)
def test_dead_operations(lines: Sequence[Line], dead: Mapping[int, set[int]]) -> None:
    assert dead_operations(model("x", lines, "out")) == dead


def test_control_flow() -> None:
    pure = graph("p", [(ABS, "p", "q"), (ABS, "p", "r")], "q")
    of_vendor = graph("p", [(GRAY_TO_PIXELS, "p", "q")], "q")
    nested = graph("p", [(IF, "p @2 @2 p", "q")], "q")
    lines = [(ABS, "x", "out"), (IF, "x @1 @1 x", "a"), (IF, "x @1 @3 x", "b")]
    subject = model("x", lines, "out", referenced=[pure, of_vendor, nested])
    assert dead_operations(subject) == {0: {1}, 1: {1}}


def test_branches_without_what_nobody_needs() -> None:
    branch = graph("p", [(ADD, "p", "unread"), (ABS, "p", "q"), (IF, "p @2 @2 p", "r")], "q")
    nested = graph("p", [(ABS, "p", "q")], "q")
    lines = [(ABS, "x", "a"), (IF, "x @1 @1 x", "out")]
    subject = model("x", lines, "out", referenced=[branch, nested])
    found = without_dead_branches(subject)
    assert found is without_dead_branches(subject)
    assert found.main is subject.main
    assert found.referenced[1] is subject.referenced[1]
    (only,) = found.referenced[0].operations
    assert (only.type, only.number) == (ABS, 1)
    assert [each.number for each in found.referenced[0].operands] == [
        each for each in range(len(branch.operands)) if each in (branch.inputs[0], branch.outputs[0])
    ]
    assert not dead_operations(found).keys() - {0}
    assert without_dead_branches(found) is found
