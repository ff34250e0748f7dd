"""Commands of operators, and clients of the manager's socket that misbehave."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from support.daemon.managed import Managed
from support.daemon.processes import freeze_process
from support.models.addition import one_plus


def test_operators_are_told_that_the_manager_is_stopped(managed: Managed) -> None:
    freeze_process(managed.process)
    found = managed.command("status")
    managed.process.send_signal(signal.SIGCONT)
    assert found.returncode == 1
    assert f"kill -CONT {managed.process.pid}" in found.stderr


def test_requests_that_are_not_understood_are_refused(managed: Managed) -> None:
    for message in (
        b"\n",
        b"{}\n",
        b'{"type": "stop"}\n',
        b"\xff" * 5000 + b"\n",
        b"[" * 4000 + b"\n",
        b'{"type": "\xff"}\n',
    ):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(managed.directory / "manager.sock"))
            client.sendall(message)
            assert b"not understood" in client.recv(4096)
    refused = managed.command("restart", "nothing")
    assert refused.returncode == 1
    assert "there is no driver 'nothing'; there are adder" in refused.stderr


def test_the_status_is_shown(managed: Managed) -> None:
    assert one_plus(managed.connect(), 1) == 2
    text = managed.command("status")
    assert text.returncode == 0
    assert "adder" in text.stdout
    assert "READY" in text.stdout
    assert f'"process": {managed.starts[0]}' in managed.command("status", "--json").stdout


def test_without_a_manager_commands_say_how_to_start_one(folder: Path) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    for arguments in (["status"], ["restart", "cpu"]):
        ended = subprocess.run(
            [sys.executable, "-m", "neurald", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 1
        assert "`neurald serve` starts one" in ended.stderr


def test_a_user_who_says_nothing_takes_no_more_than_a_share_of_the_manager(managed: Managed) -> None:
    with contextlib.ExitStack() as cleanup:
        path = str(managed.directory / "manager.sock")
        silent = [cleanup.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(40)]
        for each in silent:
            each.settimeout(30)
            each.connect(path)
        # The others are kept, until they have had their time.
        closed = [each for each in silent[16:] if each.recv(1) == b""]
        assert len(closed) == 24
        silent[0].sendall(b'{"type": "status"}\n')
        assert silent[0].recv(1) == b"{"
