"""Socket activation: the manager takes over what a supervisor listens at, and leaves it there."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.daemon.activating import ActivatedManager
from support.daemon.managed import BEHAVIOUR_VARIABLE
from support.daemon.processes import is_alive, python_path
from support.models.addition import addition, request
from support.sweeps import sweep
from support.waiting import wait_until

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadState, UnavailableDevice
from neurald.hal.process.activation import is_served
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.service.manager import received_sockets as module

_CONFIGURATION = """
[drivers.adder]
driver = "support.daemon.managed:create_adder"
sandbox = "off"
idle_s = {idle_s}
"""
#: Reads the variables in a process of its own, whose descriptors from number 3 on are the test's.
_READ = """
import json, os
from neurald.hal.errors import Error
from neurald.service.manager.received_sockets import received_sockets
try:
    found = received_sockets()
    print(json.dumps([sorted(map(str, found)), any(os.get_inheritable(s.fileno()) for s in found.values())]))
except Error as error:
    print(error)
print([name for name in os.environ if name.startswith("LISTEN_")])
"""


@contextlib.contextmanager
def activated(folder: Path, idle_s: float = 0.0, **environment: str) -> Iterator[ActivatedManager]:
    behaviour = folder / "behaviour"
    behaviour.write_text("")
    with ActivatedManager(
        folder,
        _CONFIGURATION.format(idle_s=idle_s),
        ("manager.sock", "adder.sock"),
        {BEHAVIOUR_VARIABLE: str(behaviour), **environment},
    ) as manager:
        yield manager


def add(manager: ActivatedManager) -> float:
    return _added(manager.directory)


def _added(directory: Path) -> float:
    opened: list[RemoteDevice] = []

    def is_open() -> bool:
        # A busy machine may take longer to start two processes than a client waits.
        with contextlib.suppress(UnavailableDevice):
            opened.append(connect(f"unix://{directory / 'adder.sock'}"))
        return bool(opened)

    wait_until(is_open)
    (device,) = opened
    prepared = device.prepare_model(addition(np.ones(2)), PrepareOptions())
    result = np.zeros(2, np.float32)
    prepared.execute(request(np.full(2, 2, np.float32), result), ExecuteOptions())
    device.close()
    return float(result[0])


def test_the_first_connection_starts_manager_and_driver(folder: Path) -> None:
    with activated(folder) as manager:
        assert manager.managers == []
        assert add(manager) == 3
        assert len(manager.managers) == 1
        assert add(manager) == 3
        assert len(manager.managers) == 1


def test_the_sockets_outlive_manager_and_driver(folder: Path) -> None:
    with activated(folder) as manager:
        files = [(manager.directory / name).stat().st_ino for name in manager.sockets]
        assert add(manager) == 3
        os.kill(manager.managers[0], signal.SIGTERM)
        wait_until(lambda: not is_alive(manager.managers[0]))
        assert [(manager.directory / name).stat().st_ino for name in manager.sockets] == files
        assert sorted(path.name for path in manager.directory.iterdir()) == sorted(manager.sockets)
        assert add(manager) == 3
        # The file of the socket comes back even if nobody tidied up.
        os.kill(manager.managers[1], signal.SIGKILL)
        wait_until(lambda: not is_alive(manager.managers[1]))
        wait_until(lambda: not is_served(manager.directory / "adder.sock"))
        # Somebody asks for the status.
        assert is_served(manager.directory / "manager.sock")
        wait_until(lambda: len(manager.managers) == 3)
        wait_until(lambda: is_served(manager.directory / "adder.sock"))
        assert add(manager) == 3
    assert [(manager.directory / name).stat().st_ino for name in manager.sockets] == files


def test_an_idle_driver_gives_the_socket_back(folder: Path) -> None:
    with activated(folder, idle_s=0.2) as manager:
        number = (manager.directory / "adder.sock").stat().st_ino
        assert add(manager) == 3
        assert (manager.directory / "adder.sock").stat().st_ino != number
        wait_until(lambda: "STOPPED" in manager.log)
        assert (manager.directory / "adder.sock").stat().st_ino == number
        assert add(manager) == 3
        assert len(manager.managers) == 1


def test_the_supervisor_is_told_that_all_is_well(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(30)
        receiver.bind(str(folder / "notify"))
        with activated(folder, NOTIFY_SOCKET=str(folder / "notify"), WATCHDOG_USEC="100000") as manager:
            assert add(manager) == 3
            said = [receiver.recv(1000) for _ in range(6)]
            assert any(each.startswith(b"READY=1\nSTATUS=supervising 1") for each in said)
            assert said.count(b"WATCHDOG=1") > 2
            os.kill(manager.managers[0], signal.SIGTERM)
            wait_until(lambda: receiver.recv(1000) == b"STOPPING=1")


def test_sockets_of_no_driver_are_reported(folder: Path) -> None:
    with ActivatedManager(
        folder, _CONFIGURATION.format(idle_s=0), ("manager.sock", "gone.sock"), {}
    ) as manager:
        assert is_served(manager.directory / "manager.sock")
        wait_until(lambda: "no driver has its name" in manager.log)
        wait_until(lambda: (manager.directory / "adder.sock").exists())
    assert "gone.sock" in manager.log
    assert not (manager.directory / "adder.sock").exists()


@pytest.mark.skipif(
    shutil.which("systemd-socket-activate") is None, reason="there is no systemd-socket-activate here"
)
def test_systemd_itself_passes_the_sockets(folder: Path) -> None:
    directory = folder / "neurald"
    directory.mkdir(mode=0o700)
    (folder / "behaviour").write_text("")
    (folder / "neurald.toml").write_text(_CONFIGURATION.format(idle_s=0))
    variables = {
        "PYTHONPATH": python_path(),
        "XDG_RUNTIME_DIR": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        BEHAVIOUR_VARIABLE: str(folder / "behaviour"),
    }
    names = ("manager.sock", "adder.sock")
    command = [
        "systemd-socket-activate",
        *(f"--listen={directory / name}" for name in names),
        *(f"--setenv={name}={value}" for name, value in variables.items()),
        *(sys.executable, "-m", "neurald", "serve", "--config", str(folder / "neurald.toml")),
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stderr=log)
    try:
        wait_until(lambda: all((directory / name).exists() for name in names))
        files = [(directory / name).stat().st_ino for name in names]
        wait_until(lambda: is_served(directory / "adder.sock"))
        # It has become the manager, which has taken over the sockets.
        wait_until(lambda: "supervising adder" in (folder / "log").read_text())
        assert _added(directory) == 3
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert [(directory / name).stat().st_ino for name in names] == files


def _listener(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


def _received(opened: list[socket.socket], count: str, process: str = "$$") -> str:
    """Returns what a process finds that got these sockets, and the variables."""
    redirections = " ".join(f"{3 + number}<&{each.fileno()}" for number, each in enumerate(opened))
    script = f"LISTEN_PID={process} LISTEN_FDS={count} LISTEN_FDNAMES=a exec {sys.executable} -c '{_READ}' {redirections}"
    return subprocess.run(
        ["/bin/bash", "-c", script],
        pass_fds=[each.fileno() for each in opened],
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


def test_sockets_are_taken_over_by_the_process_that_they_are_for(tmp_path: Path) -> None:
    with _listener(tmp_path / "a.sock") as one, _listener(tmp_path / "b.sock") as two:
        expected = f'[["{tmp_path}/a.sock", "{tmp_path}/b.sock"], false]\n[]\n'
        assert _received([one, two], "2") == expected
        assert _received([one, two], "2", process="1") == "[[], false]\n[]\n"
        assert _received([one, two], "2", process="") == "[[], false]\n[]\n"
        assert _received([one, two], "") == "[[], false]\n[]\n"


@sweep("count", ["-1", "x", "10000", "1025", "1.5"])
def test_counts_that_are_none(count: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.PROCESS_VARIABLE, str(os.getpid()))
    monkeypatch.setenv(module.COUNT_VARIABLE, count)
    with pytest.raises(BadState, match=re.escape(f"LISTEN_FDS is '{count}'")):
        module.received_sockets()


def test_descriptors_that_are_no_such_sockets(tmp_path: Path) -> None:
    wrong = "which the supervisor passed, is not a listening UNIX stream socket with a path"
    with _listener(tmp_path / "a.sock") as good:
        assert wrong in _received([good], "2")
        for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
            with socket.socket(socket.AF_UNIX, kind) as other:
                other.bind(str(tmp_path / f"{kind}.sock"))
                if kind == socket.SOCK_SEQPACKET:
                    other.listen()
                assert f"descriptor 4, {wrong}" in _received([good, other], "2")
        with socket.socket() as tcp:
            tcp.listen()
            assert wrong in _received([tcp], "1")
        with socket.socket(socket.AF_UNIX) as unnamed:
            unnamed.bind(f"\0neurald-{os.getpid()}")
            unnamed.listen()
            assert wrong in _received([unnamed], "1")
        assert f"two sockets at {tmp_path}/a.sock" in _received([good, good], "2")
