"""Patterns of operations."""

import numpy as np
import pytest
from support.models.addition import addition
from support.models.graphs import graph, model
from support.models.small import add_model

from neurald.hal.crashes.pattern import MAX_OPERATIONS, CrashPattern, ModelSignatures, PatternOperation
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.records import replace

ADD, MUL, RELU = OperationType.ADD, OperationType.MUL, OperationType.RELU


def pattern(found: Model) -> CrashPattern:
    return ModelSignatures(found).pattern()


def test_weights_do_not_matter_and_shapes_do() -> None:
    assert pattern(addition(np.ones(3))) == pattern(addition(np.zeros(3)))
    assert pattern(addition(np.ones(3))).digest != pattern(addition(np.ones(4))).digest
    assert pattern(addition(np.ones(3))).digest != pattern(addition(np.ones(3), dynamic=True)).digest


def test_scalars_matter() -> None:
    plain = addition(np.ones(3))
    operands = list(plain.main.operands)
    operands[2] = replace(operands[2], value=(1).to_bytes(4, "little"))
    other = replace(plain, main=replace(plain.main, operands=tuple(operands)))
    assert pattern(plain).digest != pattern(other).digest


def test_equal_operations_are_counted() -> None:
    (operation,) = pattern(add_model(operations=3)).operations
    assert operation.count == 3
    assert operation.name == "ADD FLOAT32[2,3] FLOAT32[2,3]"
    assert pattern(add_model(operations=3)).text == "3 x ADD FLOAT32[2,3] FLOAT32[2,3]"


def test_the_pattern_of_a_part_is_in_the_whole_and_not_the_other_way_round() -> None:
    part = model("a b", [(RELU, "a", "c"), (MUL, "c b none", "d")], "d")
    whole = model("a b", [(ADD, "a b none", "x"), (RELU, "x", "c"), (MUL, "c b none", "d")], "d")
    assert ModelSignatures(whole).contains(pattern(part))
    assert not ModelSignatures(part).contains(pattern(whole))
    assert ModelSignatures(whole).positions(pattern(part)) == {1, 2}


def test_operations_inside_of_control_flow_belong_to_it() -> None:
    body = graph("a", [(RELU, "a", "b")], "b")
    whole = model("p a", [(RELU, "a", "r"), (OperationType.IF, "p @1 @1 r", "c")], "c", referenced=[body])
    only = pattern(model("a", [(RELU, "a", "b")], "b"))
    assert ModelSignatures(whole).contains(only)
    assert ModelSignatures(whole).positions(only) == {0, 1}


def test_a_model_of_many_different_operations_has_a_partial_pattern() -> None:
    lines = [(RELU, f"a{number}", f"b{number}") for number in range(MAX_OPERATIONS + 1)]
    shapes = {name: (number + 1,) for number, line in enumerate(lines) for name in (line[1], line[2])}
    inputs, outputs = " ".join(line[1] for line in lines), " ".join(line[2] for line in lines)
    many = model(inputs, lines, outputs, dimensions=shapes)
    found = pattern(many)
    found.check()
    assert found.is_partial
    assert len(found.operations) == MAX_OPERATIONS
    assert ModelSignatures(many).positions(found) == frozenset(range(MAX_OPERATIONS + 1))


@pytest.mark.parametrize(
    "operation",
    [
        PatternOperation(digest="", count=1),
        PatternOperation(digest="g" * 32, count=1),
        PatternOperation(digest="a" * 32, count=0),
        PatternOperation(digest="a" * 32, count=1 << 40),
        PatternOperation(digest="a" * 32, count=1, name="\x1b[2J"),
        PatternOperation(digest="a" * 32, count=1, name="x" * 1000),
    ],
)
def test_damaged_patterns_are_refused(operation: PatternOperation) -> None:
    with pytest.raises(BadData):
        CrashPattern(operations=(operation,)).check()
    with pytest.raises(BadData):
        CrashPattern(operations=()).check()
