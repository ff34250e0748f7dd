"""The shares of users in what native code runs; how it chooses is tested with rings."""

import ctypes
import gc
import sys
import threading
import time
from collections.abc import Mapping

import pytest

from neurald.drivers.cpu.native.thread_pool import process
from neurald.drivers.cpu.target.target import host_target
from neurald.drivers.settings import Settings
from neurald.hal.admission.executions.native_gate import NativeGate, NativeShare
from neurald.hal.execution.native_serving import FACTOR_SHIFT, GATE, SHARE


def ring_functions() -> Mapping[str, int]:
    """Returns the functions of the CPU driver's native code."""
    return process.step_program(host_target(Settings("NEURALD_CPU_", environment={}))).addresses


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


def test_clients_of_a_user_that_come_at_the_same_time_have_one_share() -> None:
    gate = NativeGate(2, {})
    begin = threading.Barrier(8)
    found: list[NativeShare] = []

    def come() -> None:
        for user in range(200):
            begin.wait()
            found.append(gate.share_of(user))

    threads = [threading.Thread(target=come) for _ in range(8)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert len(set(map(id, found))) == 200


def test_an_execution_that_found_the_gate_open_is_not_missed() -> None:
    gate = NativeGate(2, {})
    lock, running = gate._number("LOCK"), gate._number("RUNNING")
    lock.value = 1  # native code has seen that the gate is open
    gate.close()
    seen: list[bool] = []
    asking = threading.Thread(target=lambda: seen.append(gate.is_empty))
    asking.start()
    time.sleep(0.05)
    assert not seen
    running.value = 1
    lock.value = 0
    asking.join()
    assert seen == [False]
    running.value = 0
    assert gate.is_empty


def test_one_that_has_waited_and_is_about_to_run_is_not_missed() -> None:
    gate = NativeGate(1, {})
    gate.close()
    lock, running, waiting = map(gate._number, ("LOCK", "RUNNING", "WAITING"))
    waiting.value = 1
    assert not gate.is_empty
    lock.value, waiting.value = 2, 0
    seen: list[bool] = []
    asking = threading.Thread(target=lambda: seen.append(gate.is_empty))
    asking.start()
    time.sleep(0.05)
    running.value, lock.value = 1, 0
    asking.join()
    assert seen == [False]


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


@pytest.mark.parametrize("is_native", [False, True])
def test_executions_of_python_take_room(is_native: bool) -> None:
    gate = NativeGate(2, {}, guests=2)
    if is_native:
        gate.begin_native(ring_functions())
    assert gate.take(2)
    assert gate.take(2)
    assert not gate.take(2)
    assert gate.take(4)
    assert gate.taken == 3
    gate.give_back(2)
    assert gate.take(2)
    assert gate.taken == 2


def test_room_is_left_for_executions_of_native_code_that_wait() -> None:
    """One of two may run whatever Python runs."""
    gate = NativeGate(2, {}, guests=2)
    gate.begin_native(ring_functions())
    running, waiting = gate._number("RUNNING"), gate._number("WAITING")
    assert gate.take(4)
    assert gate.take(4)
    waiting.value = 3
    assert gate.take(4)
    assert not gate.take(4), "the last room is theirs"
    running.value = 1
    gate.give_back(1)
    assert gate.take(4), "they have what is theirs"
    assert not gate.take(4)
    waiting.value = 0
    assert not gate.take(4)


@pytest.mark.parametrize("starts", range(3))
def test_python_never_takes_more_room_than_there_is(starts: int) -> None:
    """Threads that take and give back while native code begins to count."""
    gate = NativeGate(2, {}, guests=1)
    most, taken = [0], [0]
    changing, begin = threading.Lock(), threading.Barrier(5)

    def run() -> None:
        begin.wait()
        for turn in range(400):
            if gate.take(2 + turn % 2):
                with changing:
                    taken[0] += 1
                    most[0] = max(most[0], taken[0])
                with changing:
                    taken[0] -= 1
                gate.give_back(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        begin.wait()
        gate.begin_native(ring_functions())
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert most[0] <= 3
    assert gate.taken == 0


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
