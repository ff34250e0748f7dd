"""The reasons why a daemon cannot be reached."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.daemon.processes import freeze_process

from neurald.hal.errors import UnavailableDevice
from neurald.hal.process.address import Address
from neurald.hal.process.files.runtime_directory import MACHINE_VARIABLE
from neurald.hal.rpc.client.channel import ChannelClient
from neurald.hal.rpc.client.reach import require_listener

_LISTENER = """
import socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
time.sleep(60)
"""
_FORBIDDEN = """
import os, sys, time
from neurald.hal.process.address import Address
from neurald.hal.errors import UnavailableDevice
from neurald.hal.rpc.client.reach import require_listener
if not os.geteuid():
    os.setuid(65534)
try:
    require_listener(Address.parse(sys.argv[1]), time.monotonic() + 5)
except UnavailableDevice as error:
    print(error)
"""


def reason(address: str) -> str:
    with pytest.raises(UnavailableDevice) as caught:
        require_listener(Address.parse(address), time.monotonic() + 5)
    return str(caught.value)


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left.sock"))
    (tmp_path / "file.sock").touch()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody else can listen there meanwhile
        port = silent.getsockname()[1]
        for address in (
            f"unix://{tmp_path}/none.sock",
            f"unix://{tmp_path}/left.sock",
            f"unix://{tmp_path}/file.sock",
            f"127.0.0.1:{port}",
        ):
            told = reason(address)
            assert told.startswith(f"no driver daemon listens at {address}")
            assert f"neurald driver NAME --listen {address}" in told


def test_nobody_listens_for_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MACHINE_VARIABLE, str(tmp_path))
    assert reason(f"unix://{tmp_path}/none.sock").endswith(
        "none.sock; `systemctl status neurald` shows the state of the machine's service"
    )


def test_another_kind_of_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.bind(str(tmp_path / "d.sock"))
        other.listen()
        assert "is not a driver daemon" in reason(f"unix://{tmp_path}/d.sock")


def test_permission_denied(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind(str(tmp_path / "d.sock"))
        closed.listen()
        (tmp_path / "d.sock").chmod(0)
        told = subprocess.run(
            [sys.executable, "-c", _FORBIDDEN, f"unix://{tmp_path}/d.sock"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
    assert told.startswith("permission denied: user ")


def test_a_host_that_is_not_known() -> None:
    assert "is not known" in reason("no-such-host.invalid:4000")


@pytest.mark.timed
@pytest.mark.slow
def test_a_process_that_is_stopped(tmp_path: Path) -> None:
    address = f"unix://{tmp_path}/d.sock"
    process = subprocess.Popen(
        [sys.executable, "-c", _LISTENER, str(tmp_path / "d.sock")], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        require_listener(Address.parse(address), time.monotonic() + 5)
        freeze_process(process)
        started = time.monotonic()
        assert f"kill -CONT {process.pid}" in reason(address)
        assert time.monotonic() < started + 1, "nobody has to wait to find out"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_what_another_user_serves_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the socket of gRPC, nor by the side channel."""
    # The kernel reports the user that called listen().
    script = _LISTENER.replace("listener.listen()", "import os; os.setuid(54321); listener.listen()")
    connects: dict[str, Callable[[Path], object]] = {
        "SOCK_STREAM": lambda path: require_listener(Address.parse(f"unix://{path}"), time.monotonic() + 5),
        "SOCK_SEQPACKET": lambda path: ChannelClient.connect(path, 5.0),
    }
    for kind, connect in connects.items():
        path = tmp_path / kind
        code = script.replace("AF_UNIX)", f"AF_UNIX, socket.{kind})")
        process = subprocess.Popen([sys.executable, "-S", "-c", code, str(path)], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
            with pytest.raises(UnavailableDevice, match="belongs to user 54321"):
                connect(path)
        finally:
            monkeypatch.undo()
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
