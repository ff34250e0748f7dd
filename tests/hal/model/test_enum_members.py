"""Members that are added to enumerations at run time."""

from enum import IntEnum

import pytest

from neurald.hal.model.enum_members import add_member

pytestmark = pytest.mark.quick


class Kind(IntEnum):
    ONE = 1


def test_an_added_member_is_found_by_its_number_and_not_listed() -> None:
    assert (added := add_member(Kind, 7, "SEVEN")) is Kind(7)
    assert type(added) is Kind
    assert (added.name, added.value, int(added)) == ("SEVEN", 7, 7)
    assert [*Kind] == [Kind.ONE]


def test_a_number_has_one_member() -> None:
    assert add_member(Kind, 8, "EIGHT") is add_member(Kind, 8, "EIGHT")
    assert add_member(Kind, 1, "FIRST") is Kind.ONE
