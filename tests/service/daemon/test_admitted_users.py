"""Whom an operator admits: names and numbers, and mistakes that are named."""

import pytest
from support.sweeps import sweep

from neurald.hal.admission.access.sharing import NOBODY_ELSE
from neurald.hal.errors import BadData
from neurald.service.daemon.admitted_users import group_number, sharing_of


def test_names_and_numbers() -> None:
    found = sharing_of(["root", 1001, "1002"], ["root", 44], "0660")
    assert found.users == {0, 1001, 1002}
    assert found.groups == {0, 44}
    assert found.socket_mode == 0o660
    assert sharing_of((), (), "600") == NOBODY_ELSE
    assert group_number(4_294_967_294) == 4_294_967_294


@sweep("user", ["no such user", "", "-1", -1, "4294967295", 1 << 70, "1.5", "a\0b", "\u0661"], ids=ascii)
def test_users_that_do_not_exist(user: str | int) -> None:
    with pytest.raises(BadData, match=r"there is no user .* on this machine"):
        sharing_of([user], (), "0600")
    with pytest.raises(BadData, match=r"there is no group .* on this machine"):
        sharing_of((), [user], "0600")


@sweep("mode", ["", "0", "0060", "0700", "0777", "4660", "0o660", "rw", "0666 ", "-660", "00660"], ids=ascii)
def test_modes_that_no_socket_can_have(mode: str) -> None:
    with pytest.raises(BadData, match="is not the mode of a socket"):
        sharing_of((), (), mode)
