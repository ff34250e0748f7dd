import base64
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.daemon.command_line import error_of, start
from support.sweeps import sweep
from support.waiting import wait_until

import neurald as nd
from neurald.service.demo.digits import MODEL


def environment(folder: Path) -> dict[str, str]:
    """Returns an environment whose processes find each other's daemons and no others."""
    return {**os.environ, "XDG_RUNTIME_DIR": str(folder)}


@contextmanager
def serving(*arguments: str, folder: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Runs a daemon and yields the address that it prints."""
    process = start("driver", *arguments, env=environment(folder), cwd=folder)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith(f"serving {arguments[0]} on "), line + process.stderr.read()
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


def run(*arguments: str | Path, folder: Path) -> str:
    process = start(*arguments, env=environment(folder))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def test_a_daemon_is_a_device(tmp_path: Path) -> None:
    with serving("cpu", folder=tmp_path) as (_, address):
        assert address == f"unix://{tmp_path}/neurald/cpu.sock"
        _, remote = json.loads(run("devices", "--json", folder=tmp_path))["devices"]
        assert remote["address"] == address
        for name in (remote["name"], address):
            document = json.loads(run("run", MODEL, "--device", name, "--json", folder=tmp_path))
            assert [step["device"] for step in document["steps"]] == [remote["name"]]
        document = json.loads(
            run("benchmark", MODEL, "--device", address, "--max-secs", "0.1", "--json", folder=tmp_path)
        )
        assert document["steady"]["runs"] >= 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_nothing_stays_behind(tmp_path: Path, number: signal.Signals) -> None:
    with serving("cpu", "--listen", f"unix://{tmp_path}/d.sock", folder=tmp_path) as (process, _):
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0
        assert out == err == ""
        assert list(tmp_path.iterdir()) == []


def test_tcp(tmp_path: Path) -> None:
    with serving("cpu", "--listen", "localhost:0", folder=tmp_path) as (_, address):
        (token,) = (tmp_path / "neurald").glob("*.token")
        assert nd.connect(f"tcp://{address}", token_file=token).type is nd.DeviceType.CPU
        assert run(
            "run", MODEL, "--device", address, folder=tmp_path
        )  # The client finds the token without help.
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        assert run("--token-file", token, "run", MODEL, "--device", address, folder=elsewhere)
        process = start("run", MODEL, "--device", address, env=environment(elsewhere))
        assert str(token) in process.communicate(timeout=60)[1]
        assert process.returncode == 1


def test_a_factory_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from neurald.drivers.cpu.device import CpuDevice\n\nclass Mine(CpuDevice):\n    name = 'mine'\n"
    )
    with serving("mine:Mine", "--listen", f"unix://{tmp_path}/d.sock", folder=tmp_path) as (_, address):
        assert nd.connect(address).name.startswith("mine")


def test_verbose_logs_to_stderr(tmp_path: Path) -> None:
    process = start("driver", "cpu", "-v", "--listen", f"unix://{tmp_path}/d.sock")
    assert process.stderr is not None
    assert process.stdout is not None
    first = process.stderr.readline()
    process.terminate()
    # communicate() would lose the lines that were buffered while the first one was read.
    lines = [first, *process.stderr]
    assert "INFO" in first
    assert any("serving cpu on" in line for line in lines)
    assert process.stdout.read() == ""
    assert process.wait(timeout=120) == 0


@sweep(
    ("arguments", "words"),
    [
        (["tpu"], ["'tpu'", "cpu"]),
        (["no_such_module:create"], ["no_such_module"]),
        (["json:no_such_factory"], ["no_such_factory"]),
        (["json:JSONDecoder"], ["a device is expected"]),
        (["cpu", "--listen", "nowhere"], ["'nowhere'"]),
        (["cpu", "--listen", "unix:///" + 200 * "x"], ["201 bytes"]),
        (["cpu", "--listen", "localhost:99999"], ["99999"]),
        (["cpu", "--listen", "0.0.0.0:0"], ["0.0.0.0", "insecure"]),
        (["cpu", "--listen", "unix:///proc/d.sock"], ["/proc"]),
    ],
    ids=range(9),
)
def test_invalid_addresses_and_drivers_are_refused(arguments: list[str], words: list[str]) -> None:
    message = error_of("driver", *arguments)
    for word in words:
        assert word in message


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    address = f"unix://{tmp_path}/d.sock"
    with serving("cpu", "--listen", address, folder=tmp_path):
        assert address in error_of("driver", "cpu", "--listen", address)
        (tmp_path / "file.sock").write_text("precious")
        error_of("driver", "cpu", "--listen", f"unix://{tmp_path}/file.sock")
        assert (tmp_path / "file.sock").read_text() == "precious"


@sweep("name", ["nope", "json:JSONDecoder"])
def test_a_daemon_that_does_not_start_leaves_nothing(tmp_path: Path, name: str) -> None:
    error_of("driver", name, "--listen", f"unix://{tmp_path}/d.sock")
    assert list(tmp_path.iterdir()) == []


def test_listening_beyond_this_host_gives_a_warning(tmp_path: Path) -> None:
    process = start("driver", "cpu", "--listen", "0.0.0.0:0", "--insecure", env=environment(tmp_path))
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(
            "warning: --insecure: every host that can reach this address"
        )
        assert process.stderr.readline().startswith("serving cpu on 0.0.0.0:")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_a_daemon_ends_with_the_process_that_it_was_given(tmp_path: Path, number: signal.Signals) -> None:
    # These tests may run under nohup, so that programs ignore SIGHUP.
    parent = subprocess.Popen(["env", "--default-signal=HUP", "sleep", "600"])
    listen = f"unix://{tmp_path}/d.sock"
    with serving("cpu", "--listen", listen, "--until-exit-of", str(parent.pid), folder=tmp_path) as (
        process,
        _,
    ):
        parent.send_signal(number)
        parent.wait(30)
        assert process.wait(30) == 0
        assert list(tmp_path.iterdir()) == []


def test_a_process_that_does_not_exist_cannot_be_waited_for(tmp_path: Path) -> None:
    listen = f"unix://{tmp_path}/d.sock"
    message = error_of("driver", "cpu", "--listen", listen, "--until-exit-of", str(2**22 + 1))
    assert "cannot watch process 4194305" in message


def test_secrets_are_in_their_files_only(tmp_path: Path) -> None:
    variables = {**environment(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "neurald",
                "driver",
                "cpu",
                "--listen",
                "127.0.0.1:0",
                "--log-level",
                "debug",
            ],
            env=variables,
            stderr=file,
        )
    try:
        wait_until(lambda: "serving cpu on" in log.read_text() or process.poll() is not None)
        found = re.search(r"serving cpu on (\S+)", log.read_text())
        assert found is not None
        address = found[1]
        (token_file,) = (tmp_path / "neurald").glob("*.token")
        assert run("run", MODEL, "--device", address, folder=tmp_path)
        refused = tmp_path / "refused.token"
        refused.write_bytes(bytes(32))
        told = error_of("--token-file", str(refused), "run", str(MODEL), "--device", address)
        secret_file = tmp_path / "state" / "neurald" / "secret"
        secrets = [token_file.read_bytes(), *([secret_file.read_bytes()] if secret_file.exists() else [])]
        seen = {
            "command line": Path(f"/proc/{process.pid}/cmdline").read_bytes(),
            "environment": Path(f"/proc/{process.pid}/environ").read_bytes(),
            "log": log.read_bytes(),
            "error": told.encode(),
        }
        for place, content in seen.items():
            for secret in secrets:
                for shown in (secret, secret.hex().encode(), base64.b64encode(secret)):
                    assert shown not in content, place
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_one_that_waits_for_its_start_opens_the_device_when_told(tmp_path: Path) -> None:
    arguments = ("driver", "sample-all", "--listen", f"unix://{tmp_path}/d.sock", "--await-start")
    process = start(*arguments, env=environment(tmp_path), stdin=subprocess.PIPE)
    assert process.communicate("", timeout=60) == ("", "")
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []
    process = start(*arguments, env=environment(tmp_path), stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write("begin\n")
    process.stdin.flush()
    assert process.stderr.readline().startswith("serving sample-all on ")
    process.terminate()
    process.communicate(timeout=60)
