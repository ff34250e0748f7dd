"""Tests `neurald.hal.records`."""

from dataclasses import FrozenInstanceError, dataclass

import pytest
from msgspec import Struct

from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.records import replace


class Light(Struct, frozen=True, kw_only=True):
    number: int
    name: str = ""


@dataclass(frozen=True)
class Plain:
    number: int
    name: str = ""


@pytest.mark.parametrize("kind", [Light, Plain])
def test_a_copy_has_the_changes_and_the_original_has_not(kind: type[Light] | type[Plain]) -> None:
    original = kind(number=1, name="a")
    changed = replace(original, number=2)
    assert (type(changed), changed.number, changed.name) == (kind, 2, "a")
    assert original == kind(number=1, name="a")


@pytest.mark.parametrize("kind", [Light, Plain])
def test_a_field_that_does_not_exist_is_an_error(kind: type[Light] | type[Plain]) -> None:
    with pytest.raises(TypeError, match="size"):
        replace(kind(number=1), size=3)


def test_parts_of_models_are_immutable() -> None:
    operand = Operand(type=OperandType.INT32)
    with pytest.raises((AttributeError, FrozenInstanceError)):
        operand.scale = 1.0  # type: ignore[misc]


def test_the_number_for_messages_does_not_affect_comparisons() -> None:
    operand = Operand(type=OperandType.INT32, name="a")
    assert replace(operand, number=3) == operand
    assert hash(replace(operand, number=3)) == hash(operand)
    assert replace(operand, name="b") != operand
    operation = Operation(type=OperationType.ADD, inputs=(0, 1, 2), outputs=(3,))
    assert replace(operation, number=3) == operation
    assert replace(operation, outputs=(4,)) != operation
    assert operand != operation
    graph = Subgraph(operands=(operand,), operations=(operation,), inputs=(), outputs=())
    assert replace(graph, number=3) == graph
    # Records that are equal must not differ, too.
    for record in (operand, operation, graph):
        assert (replace(record, number=3) != record) is False
