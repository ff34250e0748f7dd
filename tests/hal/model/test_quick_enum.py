"""Enumerations that are made quickly are like those that Python makes."""

import copy
import pickle
from enum import IntEnum

import pytest

from neurald.hal.model.operation_type import OperationType

#: The same enumeration, as Python makes it.
SLOW = IntEnum("SLOW", {each.name: each.value for each in OperationType})  # type: ignore[misc]


def test_members_are_those_of_an_ordinary_enumeration() -> None:
    assert [(each.name, each.value) for each in OperationType] == [(each.name, each.value) for each in SLOW]
    assert list(OperationType.__members__) == list(SLOW.__members__)
    assert len(OperationType) == len(SLOW)
    assert len({*OperationType}) == len(OperationType)
    assert {*dir(SLOW)} - {*dir(OperationType)} == set()


def test_a_member_behaves_as_usual() -> None:
    member = OperationType.CONV_2D
    assert OperationType(3) is OperationType["CONV_2D"] is member
    assert type(member) is OperationType
    assert member in OperationType
    assert (repr(member), str(member), f"{member:>2}", member + 1) == (
        "<OperationType.CONV_2D: 3>",
        "3",
        " 3",
        4,
    )
    assert pickle.loads(pickle.dumps(member)) is copy.deepcopy(member) is member
    with pytest.raises(AttributeError, match="reassign"):
        OperationType.CONV_2D = 5  # type: ignore[misc]
    with pytest.raises(ValueError, match="987654321 is not a valid OperationType"):
        OperationType(987_654_321)
    with pytest.raises(KeyError):
        OperationType["NONE_OF_THEM"]
