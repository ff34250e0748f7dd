"""The shares of users in what native code runs; how it chooses is tested with rings."""

import ctypes
import gc

import pytest

from neurald.hal.admission.native_gate import NativeGate, NativeShare
from neurald.hal.execution.native_serving import FACTOR_SHIFT, GATE, SHARE


def factor(share: NativeShare) -> int:
    return ctypes.c_int64.from_address(share.address + SHARE["FACTOR"]).value


def test_a_weight_divides_the_time() -> None:
    ordinary = 1 << FACTOR_SHIFT
    assert factor(NativeShare()) == ordinary
    assert factor(NativeShare(4)) == ordinary // 4
    assert factor(NativeShare(1e9)) == 1, "no use is free"


def test_clients_of_a_user_have_one_share() -> None:
    gate = NativeGate(2, {"one": 2.0})
    share = gate.share_of("one")
    assert gate.share_of("one") is share
    assert gate.share_of("other") is not share
    assert factor(share) == (1 << FACTOR_SHIFT) // 2
    assert share.used_s == 0


def test_shares_of_users_who_are_gone_are_forgotten() -> None:
    gate = NativeGate(2, {})
    for number in range(100):
        gate.share_of(number)
    gc.collect()
    assert not gate._users


@pytest.mark.parametrize(("cores", "polling"), [(1, 1), (2, 1), (16, 8)])
def test_the_threads_that_poll_leave_processors_to_clients(cores: int, polling: int) -> None:
    gate = NativeGate(3, {}, cores)
    assert gate._number("SPIN_LIMIT").value == polling
    assert gate._number("LIMIT").value == 3


def test_its_numbers_are_those_of_native_code() -> None:
    gate = NativeGate(2, {})
    for name, value in (("RUNNING", 1), ("WAITING", 2)):
        gate._number(name).value = value
    for name, value in (("EXECUTIONS", 3), ("BUSY", 4_000_000_000), ("QUEUED", 5_000_000_000)):
        gate._sum(name).value = value
    found = gate.running, gate.waiting, gate.executions, gate.busy_s, gate.queue_s
    assert found == (1, 2, 3, 4.0, 5.0)
    gate.close()
    assert gate._number("CLOSED").value == 1
    assert len(set(GATE.values())) == len(GATE)
