"""Devices of drivers that have never run are measured, and only some callers wait for that.

`test_on_demand.py` has real drivers.
"""

import threading
import time

import pytest
from support.waiting import wait_until

from neurald.hal.errors import DriverUnable, UnavailableDevice
from neurald.runtime.devices import discovery, listing, measuring
from neurald.runtime.devices.daemons import DaemonConnection
from neurald.runtime.devices.measurements import Failure


class Connection(DaemonConnection):
    """A connection to a driver of which nothing is known, and which cannot start."""

    def __init__(self) -> None:
        super().__init__("unix:///run/new.sock")
        self.error: UnavailableDevice = DriverUnable("there is no platform")
        self.connects: list[float | None] = []
        self.kept = ""
        self.starts_manager = True

    def _known(self) -> Failure | None:
        return Failure(reason=self.kept, is_due=self.kept == "retry") if self.kept else None

    def _starts_when_needed(self) -> bool:
        return True

    def connect(self, deadline_s: float | None = None, token_file: object = None) -> None:  # type: ignore[override]
        self.connects.append(deadline_s)
        raise self.error

    def keep_failure(self, reason: str) -> None:
        self.kept = reason


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Connection:
    found = Connection()
    for module in (measuring, discovery):
        monkeypatch.setattr(module, "on_demand_connections", lambda: (found,))
    monkeypatch.setattr(discovery, "connection_to", lambda address: found)
    monkeypatch.setattr(measuring, "_next_s", -float("inf"))
    monkeypatch.setattr(measuring, "_DELAY_S", 0.05)
    return found


def names() -> list[str]:
    return [device.name for device in listing.devices() if device.name == "cpu"]


def test_who_asks_for_devices_waits_once(connection: Connection) -> None:
    assert names() == ["cpu"]
    (limit_s,) = connection.connects
    assert limit_s is not None
    assert limit_s <= time.monotonic() + 10
    assert measuring.failures() == {connection.address: "there is no platform"}
    assert names() == ["cpu"]
    assert len(connection.connects) == 1


def test_a_timeout_of_the_application_says_nothing_about_the_driver(connection: Connection) -> None:
    listing.devices(timeout=60)
    assert not connection.kept
    assert len(connection.connects) == 1


def test_compilations_do_not_wait(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[threading.Timer] = []

    class Later(threading.Timer):
        """A timer whose time comes when the test says so."""

        def start(self) -> None:
            timers.append(self)

    monkeypatch.setattr(measuring, "CheckedTimer", Later)
    discovery.devices()
    assert not connection.connects
    (timer,) = timers
    assert timer.interval == measuring._DELAY_S
    timer.run()
    assert connection.kept
    assert len(connection.connects) == 1
    discovery.devices()
    assert timers == [timer]


def test_a_driver_that_could_not_start_is_tried_again_later(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_PAUSE_S", 0.0)
    connection.kept = "not yet"
    measuring.measure_soon([connection])
    connection.kept = "retry"
    measuring.measure_soon([connection])
    wait_until(lambda: connection.connects)


def test_an_operator_has_it_tried_at_once(connection: Connection) -> None:
    assert measuring.unmeasured() == (connection.address,)
    connection.kept = "not yet"
    assert measuring.unmeasured() == ()
    measuring.measure_new()
    assert not connection.connects
    measuring.measure_new(time.monotonic() + 60, retries=True)
    assert len(connection.connects) == 1
    assert measuring.failures() == {connection.address: "not yet"}
    measuring.measure_new(retries=True)
    assert len(connection.connects) == 2
    assert connection.kept == "there is no platform"


def test_a_child_that_may_not_connect_remembers_nothing(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "grpc_obstacle", lambda: "forked")
    assert names() == ["cpu"]
    assert not connection.connects
    assert not connection.kept
