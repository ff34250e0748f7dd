"""Notifications to a supervisor, as systemd defines them."""

import os
import socket
from pathlib import Path

import pytest
from support.sweeps import sweep

from neurald.service.daemon.notifications import (
    READY,
    SOCKET_VARIABLE,
    STATUS,
    WATCHDOG_PROCESS_VARIABLE,
    WATCHDOG_VARIABLE,
    Notifier,
    supervisor_address,
    watchdog_interval_s,
)


def bound(address: str | bytes) -> socket.socket:
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.settimeout(30)
    receiver.bind(address)
    return receiver


def test_values_are_sent_as_lines(tmp_path: Path) -> None:
    with bound(str(tmp_path / "notify")) as receiver:
        notifier = Notifier(str(tmp_path / "notify"))
        notifier.send(**{READY: 1, STATUS: "serving"})
        assert receiver.recv(1000) == b"READY=1\nSTATUS=serving"
        notifier.close()
        notifier.send(**{READY: 1})


def test_an_abstract_address() -> None:
    name = f"neurald-test-{os.getpid()}"
    with bound(b"\0" + name.encode()) as receiver:
        Notifier(f"@{name}").send(**{READY: 1})
        assert receiver.recv(1000) == b"READY=1"


def test_a_supervisor_that_is_gone_or_does_not_read_is_no_obstacle(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    Notifier(path).send(**{READY: 1})
    Notifier(None).send(**{READY: 1})
    with bound(path):
        notifier = Notifier(path)
        for _ in range(10_000):
            notifier.send(**{STATUS: "x" * 100})
    notifier.send(**{READY: 1})


def test_the_address_is_for_one_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOCKET_VARIABLE, "/run/notify")
    assert supervisor_address() == "/run/notify"
    assert SOCKET_VARIABLE not in os.environ
    assert supervisor_address() is None


@sweep(
    ("time", "process", "expected"),
    [
        ("10000000", "", 5.0),
        ("10000000", str(os.getpid()), 5.0),
        ("10000000", "1", None),
        ("", "", None),
        ("soon", "", None),
        ("-1", "", None),
        ("0", "", None),
    ],
)
def test_how_often_a_supervisor_wants_to_hear(
    time: str, process: str, expected: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WATCHDOG_VARIABLE, time)
    monkeypatch.setenv(WATCHDOG_PROCESS_VARIABLE, process)
    assert watchdog_interval_s() == expected
    assert WATCHDOG_VARIABLE not in os.environ
    assert watchdog_interval_s() is None
