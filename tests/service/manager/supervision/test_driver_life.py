"""The life of a driver's process, with real processes: its start, deaths, and the idle end."""

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from support.daemon.managed import NOTICED_S, Managed, added_again
from support.daemon.processes import is_alive
from support.models.addition import one_plus
from support.waiting import wait_until

from neurald.hal.errors import UnavailableDevice
from neurald.hal.process.activation import is_served
from neurald.service.manager.state import DriverState


def test_a_driver_starts_at_its_first_connection_and_no_earlier(managed: Managed) -> None:
    assert managed.status().state is DriverState.STOPPED
    assert is_served(managed.address.path or Path())
    time.sleep(0.1)
    assert managed.status().starts == 0
    # It has imported nothing that only models need, which would double its start and its memory.
    mapped = Path(f"/proc/{managed.process.pid}/maps").read_text()
    assert [name for name in ("numpy", "cygrpc", "llvmlite") if name in mapped] == []
    device = managed.connect()
    assert one_plus(device, 2) == 3
    status = managed.status()
    assert (status.state, status.starts, status.deaths, status.reason) == (DriverState.READY, 1, 0, "")
    assert status.process in managed.starts
    wait_until(lambda: managed.status().sessions == 1)
    device.close()
    wait_until(lambda: managed.status().sessions == 0)


def test_many_clients_at_once_start_one_process(managed: Managed) -> None:
    results: list[float] = []

    def use() -> None:
        device = managed.connect()
        results.append(one_plus(device, 1))
        device.close()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [2.0] * 8
    assert len(managed.starts) == 1


def test_a_client_of_another_protocol_starts_the_driver_too(managed: Managed) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(managed.address.path))
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        managed.wait_for(DriverState.READY)


def test_a_killed_driver_is_started_again(managed: Managed) -> None:
    device = managed.connect()
    assert one_plus(device, 1) == 2
    (process,) = managed.starts
    wait_until(lambda: managed.status().sessions == 1)
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: managed.status().deaths == 1)
    # A client had a session, so nobody needs to ask for it.
    assert managed.wait_for(DriverState.READY).last_exit == "signal SIGKILL"
    wait_until(lambda: added_again(device) == 2)
    assert len(managed.starts) == 2


def test_a_spare_process_takes_the_place_of_one_that_dies(with_spare: Managed) -> None:
    device = with_spare.connect()
    assert one_plus(device, 1) == 2
    spare = with_spare.wait_for_spare()
    # It has opened no device yet.
    assert len(with_spare.starts) == 1
    os.kill(with_spare.starts[0], signal.SIGKILL)
    wait_until(lambda: added_again(device) == 2)
    assert with_spare.starts[1:] == [spare]
    status = with_spare.status()
    assert (status.starts, status.deaths) == (2, 1)
    assert with_spare.wait_for_spare(other_than=spare) not in with_spare.starts


@pytest.mark.full
def test_without_a_spare_process(folder: Path) -> None:
    with Managed(folder) as managed:
        device = managed.connect()
        assert one_plus(device, 1) == 2
        time.sleep(1.0)
        assert managed.status().spare is None
        os.kill(managed.starts[0], signal.SIGKILL)
        wait_until(lambda: added_again(device) == 2)


def test_a_frozen_driver_is_replaced(managed: Managed) -> None:
    assert one_plus(managed.connect(), 1) == 2
    (process,) = managed.starts
    wait_until(lambda: managed.status().sessions is not None)
    os.kill(process, signal.SIGSTOP)
    wait_until(lambda: managed.status().deaths == 1, NOTICED_S)
    assert not is_alive(process)
    assert "silent for 2 s" in managed.log
    wait_until(lambda: managed.status().state in (DriverState.STOPPED, DriverState.READY))
    assert one_plus(managed.connect(), 1) == 2


def test_a_driver_that_cannot_start_is_quarantined_until_an_operator_restarts_it(managed: Managed) -> None:
    managed.behaviour.write_text("fail")
    reasons: list[str] = []

    def tried() -> bool:
        with pytest.raises(UnavailableDevice) as refused:
            managed.connect()
        reasons.append(str(refused.value))
        return managed.status().state is DriverState.QUARANTINED

    wait_until(tried)
    status = managed.status()
    assert (status.starts, status.deaths, status.last_exit) == (5, 5, "status 1")
    assert "it died 5 times within 60 s" in status.reason
    assert any("the device is out of order" in line for line in status.last_lines)
    assert status.is_unable
    assert managed.command("status").stdout.count("the device is out of order") == 1
    levels = {
        state: {line.split()[2] for line in managed.log.splitlines() if f"adder: {state}: " in line}
        for state in ("STOPPED", "BACKOFF", "QUARANTINED")
    }
    assert levels == {"STOPPED": {"INFO"}, "BACKOFF": {"WARNING"}, "QUARANTINED": {"ERROR"}}
    with pytest.raises(UnavailableDevice, match="`neurald restart adder` starts it again"):
        managed.connect()
    assert managed.status().starts == 5
    managed.behaviour.write_text("")
    assert managed.command("restart", "adder").stdout == (
        "adder: it does not run, and starts at its next connection\n"
    )
    assert managed.status().state is DriverState.STOPPED
    assert not managed.status().is_unable
    assert one_plus(managed.connect(), 1) == 2
    assert managed.command("forgive").stdout == "there is nothing to forgive\n"


def test_a_driver_that_ends_at_once_is_told_of(managed: Managed) -> None:
    managed.behaviour.write_text("exit")
    with pytest.raises(UnavailableDevice, match=r"it did not become ready \(status 7\)"):
        managed.connect()


@pytest.mark.full
def test_what_a_driver_leaves_behind_does_not_keep_the_manager_from_its_work(managed: Managed) -> None:
    managed.behaviour.write_text("flood")
    with pytest.raises(UnavailableDevice):
        managed.connect()
    managed.behaviour.write_text("")
    wait_until(lambda: managed.status().state in (DriverState.STOPPED, DriverState.BACKOFF))
    managed.command("restart", "adder")
    assert one_plus(managed.connect(), 2) == 3


def test_a_driver_that_takes_too_long_to_start_is_ended(folder: Path) -> None:
    with (
        Managed(folder, settings={"start_s": 0.01}) as managed,
        pytest.raises(UnavailableDevice, match=r"not ready within 0\.01 s"),
    ):
        managed.connect()


def test_an_idle_driver_stops_and_starts_again(folder: Path) -> None:
    with Managed(folder, "--idle", "0.2") as managed:
        device = managed.connect()
        assert one_plus(device, 1) == 2
        time.sleep(0.7)
        assert managed.status().state is DriverState.READY
        device.close()
        assert managed.wait_for(DriverState.STOPPED).reason == "it had no clients"
        assert managed.status().last_exit == "status 0"
        device = managed.connect()
        assert one_plus(device, 1) == 2
        assert len(managed.starts) == 2
