"""Clients ask a service manager to start a driver, and are never misled by what listens instead."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from neurald.hal.errors import DriverUnable, UnavailableDevice
from neurald.hal.process.activation import (
    GREETING,
    MANAGER_SOCKET,
    MAX_LINE_BYTES,
    READY,
    REFUSED,
    STANDBY,
    START,
    STATE,
    UNABLE,
    activate,
    is_managed,
    is_served,
    is_standing_by,
    is_vacant,
)
from neurald.hal.process.address import Address


@pytest.fixture
def address(tmp_path: Path) -> Address:
    (tmp_path / MANAGER_SOCKET).touch()
    return Address(path=tmp_path / "cpu.sock")


@contextmanager
def listening(address: Address, converse: Callable[[socket.socket], object]) -> Iterator[list[bytes]]:
    """Converses with one client; the list has what it sent first."""
    received: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address.path))
        listener.listen()

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.settimeout(30)
                converse(client)
                try:
                    received.append(client.recv(100))
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        yield received
        thread.join()


def soon(seconds: float = 30.0) -> float:
    return time.monotonic() + seconds


def test_a_driver_is_started(address: Address) -> None:
    said: list[bytes] = []

    def converse(client: socket.socket) -> None:
        client.sendall(GREETING)
        said.append(client.recv(100))
        client.sendall(READY)

    with listening(address, converse):
        activate(address, soon())
    assert said == [START]


def test_a_refusal_has_a_reason(address: Address) -> None:
    def converse(client: socket.socket) -> None:
        client.sendall(GREETING)
        client.recv(100)
        client.sendall(REFUSED + b"it is in quarantine\n")

    with listening(address, converse), pytest.raises(UnavailableDevice, match="in quarantine"):
        activate(address, soon())


def test_a_driver_that_cannot_start_is_told_from_one_that_is_not_started_now(address: Address) -> None:
    def converse(client: socket.socket) -> None:
        client.sendall(GREETING)
        client.recv(100)
        client.sendall(UNABLE + b"there is no platform\n")

    with listening(address, converse), pytest.raises(DriverUnable, match="there is no platform"):
        activate(address, soon())


def test_the_state_is_asked_for_without_a_start(address: Address) -> None:
    assert not is_standing_by(address)  # nobody listens
    said: list[bytes] = []

    def converse(answer: bytes) -> Callable[[socket.socket], object]:
        def run(client: socket.socket) -> None:
            client.sendall(GREETING)
            said.append(client.recv(100))
            client.sendall(answer)

        return run

    with listening(address, converse(STANDBY)):
        assert is_standing_by(address)
    assert address.path is not None
    for answer, kind in ((REFUSED, UnavailableDevice), (UNABLE, DriverUnable)):
        address.path.unlink()
        with listening(address, converse(answer + b"it died\n")), pytest.raises(kind, match="it died"):
            is_standing_by(address)
    address.path.unlink()
    with listening(address, lambda client: client.sendall(b"\0\0\x12\x04")):
        assert not is_standing_by(address)
    assert said == [STATE] * 3


def test_a_start_that_takes_too_long_is_given_up(address: Address) -> None:
    def converse(client: socket.socket) -> None:
        client.sendall(GREETING)
        assert client.recv(100) == START

    with (
        listening(address, converse),
        pytest.raises(UnavailableDevice, match="is being started and was not ready in time"),
    ):
        activate(address, soon(0.2))


def test_a_running_driver_receives_nothing(address: Address) -> None:
    # As an HTTP/2 server begins.
    with listening(address, lambda client: client.sendall(b"\0\0\x12\x04\0\0\0\0\0")) as received:
        activate(address, soon())
    assert received in ([b""], [])


def test_what_is_no_manager_is_left_to_the_calls_that_follow(address: Address) -> None:
    activate(address, soon())  # nobody listens
    for first in (b"", GREETING[:-1], b"neurald manager 2\n", b"n" * (2 * MAX_LINE_BYTES)):
        with listening(address, lambda client, first=first: client.sendall(first)):  # type: ignore[misc]
            activate(address, soon())
        assert address.path is not None
        address.path.unlink()


def test_without_a_manager_nobody_is_asked(tmp_path: Path) -> None:
    address = Address(path=tmp_path / "cpu.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address.path))
        listener.listen()
        listener.setblocking(False)
        activate(address, soon())
        with pytest.raises(BlockingIOError):
            listener.accept()
    activate(Address(host="127.0.0.1", port=1), soon())


def test_signs_of_life(tmp_path: Path) -> None:
    assert not is_served(tmp_path / "nothing")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as side:
        side.bind(str(tmp_path / "side"))
        side.listen()
        assert is_served(tmp_path / "side")
    assert not is_served(tmp_path / "side")
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(tmp_path / "busy"))
        busy.listen(0)
        waiting = []
        finished = threading.Event()
        for _ in range(3):  # none is accepted, and then the queue is full
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].setblocking(False)
            try:
                waiting[-1].connect(str(tmp_path / "busy"))
            except BlockingIOError:
                finished.set()
        assert finished.is_set()
        assert is_served(tmp_path / "busy")
        for each in waiting:
            each.close()


def test_a_socket_is_vacant_between_a_driver_and_its_manager(tmp_path: Path) -> None:
    path = tmp_path / "adder.sock"
    assert not is_vacant(path)
    with socket.socket(socket.AF_UNIX) as manager, socket.socket(socket.AF_UNIX) as driver:
        driver.bind(str(path))
        driver.listen()
        manager.bind(str(path.with_name(MANAGER_SOCKET)))
        manager.listen()
        assert not is_vacant(path)
        driver.close()
        assert is_vacant(path)
        manager.close()
        # Nobody will listen there.
        assert not is_vacant(path)


def test_a_folder_that_cannot_be_entered_has_no_manager() -> None:
    """Stands for the folder of another user, whose XDG_RUNTIME_DIR `su` has kept.

    The tests may run as root, who can enter that, so the path is one that nobody can enter.
    """
    hidden = Path("/tmp") / ("x" * 300) / "cpu.sock"
    assert not is_managed(hidden)
    assert not is_standing_by(Address(path=hidden))
    assert not is_vacant(hidden)
    activate(Address(path=hidden), 0.0)
