"""A driver's process is replaced, or stopped by somebody else, with real processes."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.daemon.managed import NOTICED_S, Managed, added_again
from support.daemon.processes import is_alive
from support.models.addition import one_plus
from support.waiting import wait_until

from neurald.hal.errors import DeadObject, UnavailableDevice
from neurald.hal.rpc.client.device import RemoteDevice
from neurald.service.manager.state import DriverState


def _wait_for_process(managed: Managed, number: int) -> None:
    """Waits until the driver's process of this number serves."""
    wait_until(lambda: len(managed.starts) == number and managed.status().process == managed.starts[-1])


def _wait_for_calls(calls: Callable[[], int]) -> None:
    before = calls()
    wait_until(lambda: calls() > before + 2)


def _process_without_clients(managed: Managed) -> int:
    """Returns the process of the driver, which a client has started and left."""
    device = managed.connect()
    process = managed.wait_for(DriverState.READY).process
    assert process is not None
    wait_until(lambda: managed.status().sessions == 1)
    device.close()
    wait_until(lambda: managed.status().sessions == 0)
    return process


def _fails(device: RemoteDevice, number: float) -> None:
    """Makes a call whose driver ends."""
    with contextlib.suppress(DeadObject, UnavailableDevice):
        one_plus(device, number)


def test_a_restart_leaves_no_gap(managed: Managed) -> None:
    assert one_plus(managed.connect(), 1) == 2
    done, failures = threading.Event(), list[str]()
    calls = 0

    def use() -> None:
        nonlocal calls
        while not done.is_set():
            try:
                device = managed.connect()
                try:
                    one_plus(device, 1)
                except DeadObject:
                    # The session was opened just before the old process ended.
                    device.reconnect(at_once=True)
                    one_plus(device, 1)
                device.close()
            except Exception as error:
                failures.append(repr(error))
            calls += 1

    user = threading.Thread(target=use)
    user.start()
    wait_until(lambda: calls > 3)
    for number in (2, 3):
        said = managed.command("restart", "adder").stdout
        assert len(managed.starts) == number
        assert said == f"adder: process {managed.starts[-1]} serves\n"
        assert managed.status().process == managed.starts[-1]
        _wait_for_calls(lambda: calls)
    done.set()
    user.join()
    assert not failures
    wait_until(lambda: not any(is_alive(process) for process in managed.starts[:-1]))
    assert managed.status().deaths == 0


@pytest.mark.full
def test_the_spare_process_ends_with_the_version_that_it_is_of(with_spare: Managed) -> None:
    device = with_spare.connect()
    assert one_plus(device, 1) == 2
    spare = with_spare.wait_for_spare()
    with_spare.command("restart", "adder")
    _wait_for_process(with_spare, 2)
    assert with_spare.starts[1] != spare
    wait_until(lambda: not is_alive(spare))
    spare = with_spare.wait_for_spare()
    with_spare.process.kill()
    with_spare.process.wait()
    wait_until(lambda: not is_alive(spare))


def test_a_new_process_that_does_not_become_ready_changes_nothing(managed: Managed) -> None:
    device = managed.connect()
    assert one_plus(device, 1) == 2
    managed.behaviour.write_text("fail")
    begun = managed.command("restart", "adder", "--no-wait")
    assert (begun.returncode, begun.stdout) == (0, "")
    wait_until(lambda: "the old one stays" in managed.log)
    failed = managed.command("restart", "adder")
    assert failed.returncode == 1
    assert "adder: a new process ended before it was ready (status 1): error: driver " in failed.stderr
    assert "the device is out of order (managed.py, line " in failed.stderr
    assert failed.stderr.endswith("; the old one stays\n")
    status = managed.status()
    assert (status.state, status.process) == (DriverState.READY, managed.starts[0])
    assert one_plus(device, 1) == 2
    assert one_plus(managed.connect(), 1) == 2


@pytest.mark.full
def test_a_new_process_that_hangs_is_given_up_soon(managed: Managed) -> None:
    device = managed.connect()
    assert one_plus(device, 1) == 2
    managed.configure(update_s=0.5)
    managed.behaviour.write_text("hang")
    managed.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the old one stays" in managed.log)
    assert managed.status().reason == (
        "a new process ended before it was ready (it was not ready within 0.5 s)"
    )
    # Clients that do not wait for it take no room of others.
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(managed.directory / "manager.sock"))
            client.sendall(b'{"type": "restart", "driver": "adder"}\n')
            assert b"within_s" in client.recv(4096)
    assert managed.status().state is DriverState.READY
    assert one_plus(device, 1) == 2


def test_a_driver_that_somebody_stops_completes_its_calls_beside_another_process(folder: Path) -> None:
    with Managed(folder, driver="support.models.addition:create_slow") as managed:
        device = managed.connect()
        assert one_plus(device, 1) == 2
        process = managed.wait_for(DriverState.READY).process
        assert process is not None
        wait_until(lambda: managed.status().sessions == 1)
        results: list[float] = []
        # It takes longer than a process may be silent.
        caller = threading.Thread(target=lambda: results.append(one_plus(device, -5)))
        caller.start()
        time.sleep(1.0)
        os.kill(process, signal.SIGTERM)
        wait_until(lambda: managed.status().process not in (None, process))
        assert one_plus(managed.connect(), 2) == 3
        caller.join(60)
        assert results == [-4]
        assert managed.status().deaths == 0
        wait_until(lambda: not is_alive(process))


@pytest.mark.full
def test_a_driver_that_freezes_while_it_completes_its_calls_is_ended(folder: Path) -> None:
    driver = "support.models.addition:create_slow"
    with Managed(folder, driver=driver, settings={"drain_s": 600}) as managed:
        device = managed.connect()
        assert one_plus(device, 1) == 2
        process = managed.wait_for(DriverState.READY).process
        assert process is not None
        wait_until(lambda: managed.status().sessions == 1)
        caller = threading.Thread(target=_fails, args=(device, -600))
        caller.start()
        time.sleep(1.0)
        os.kill(process, signal.SIGTERM)
        wait_until(lambda: managed.status().process not in (None, process))
        time.sleep(1.0)
        os.kill(process, signal.SIGSTOP)
        wait_until(lambda: not is_alive(process), NOTICED_S)
        caller.join(60)
        assert not caller.is_alive()


def test_a_driver_that_somebody_stops_is_not_started_again_without_clients(managed: Managed) -> None:
    process = _process_without_clients(managed)
    os.kill(process, signal.SIGTERM)
    status = managed.wait_for(DriverState.STOPPED)
    assert (status.starts, status.deaths) == (1, 0)
    assert "told its process to stop" in status.reason
    assert one_plus(managed.connect(), 1) == 2


def test_the_spare_process_of_a_driver_that_somebody_stops_stays_for_the_next_client(
    with_spare: Managed,
) -> None:
    process = _process_without_clients(with_spare)
    spare = with_spare.wait_for_spare()
    os.kill(process, signal.SIGTERM)
    assert with_spare.wait_for(DriverState.STOPPED).spare == spare
    assert one_plus(with_spare.connect(), 1) == 2
    assert with_spare.starts == [process, spare]


def test_a_client_that_has_just_come_counts_when_somebody_stops_the_driver(managed: Managed) -> None:
    process = _process_without_clients(managed)
    os.kill(managed.process.pid, signal.SIGSTOP)  # it hears of the client and of the end at once
    try:
        device = managed.connect()
        os.kill(process, signal.SIGTERM)
    finally:
        os.kill(managed.process.pid, signal.SIGCONT)
    # Nobody needs to ask for another process.
    wait_until(lambda: len(managed.starts) == 2)
    wait_until(lambda: added_again(device) == 2)
