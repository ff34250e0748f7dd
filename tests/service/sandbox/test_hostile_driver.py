"""A hostile driver of the service manager harms nobody, and the status tells what restricts it."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.daemon.hostile_driver import TARGETS_VARIABLE
from support.daemon.managed import Managed
from support.models.addition import addition, request
from support.waiting import wait_until

from neurald.hal.cache.secret import secret_path
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.rpc.client.device import connect
from neurald.service.manager.state import DriverState
from neurald.service.sandbox import landlock, seccomp

needs_all = pytest.mark.skipif(
    landlock.version() < 6 or not seccomp.is_available(), reason="this kernel has not all of the sandbox"
)
_REFUSALS = {"EPERM", "EACCES"}


class Sandboxed(Managed):
    """A service manager with one driver in a sandbox.

    Attributes:
        driver: a factory, or the name of a driver.
        mode: of the sandbox.
        targets: what the driver attacks.
        keeps_environment: whether processes that it starts have its environment.
    """

    driver = "support.daemon.hostile_driver:create"
    mode = "auto"
    keeps_environment = False
    targets: dict[str, object]

    def configure(self, **settings: object) -> None:
        targets = {
            "report": str(self.directory / "report"),
            "manager": str(self.directory / "manager.sock"),
            "process": 0,
            **self.targets,
        }
        text = json.dumps({"keeps environment": self.keeps_environment, **targets})
        self.file.write_text(
            f'[drivers.adder]\ndriver = "{self.driver}"\nsandbox = "{self.mode}"\n'
            f"[drivers.adder.environment]\n{TARGETS_VARIABLE} = '{text}'\n"
        )


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("m")


@pytest.fixture
def others_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of another user, if the test can give it away."""
    file = tmp_path_factory.mktemp("home") / "secret"
    file.write_text("precious")
    file.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(file, 65534, 65534)
        os.chown(file.parent, 65534, 65534)
    return file


@pytest.fixture
def targets(folder: Path, others_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(folder / "s"))
        local.listen()
        # The manager starts in the user's home.
        monkeypatch.setenv("HOME", str(folder / "home"))
        (folder / "notes").write_text("private")
        yield {
            "file": str(others_file),
            "port": tcp.getsockname()[1],
            "socket": str(folder / "s"),
            "process": os.getpid(),
            "notes": str(folder / "notes"),
            "secret": str(secret_path()),
        }


def compute(managed: Managed) -> float:
    device = connect(str(managed.address))
    prepared = device.prepare_model(addition(np.ones(2)), PrepareOptions())
    result = np.zeros(2, np.float32)
    prepared.execute(request(np.full(2, 2, np.float32), result), ExecuteOptions())
    device.close()
    return float(result[0])


@needs_all
def test_attacks_are_refused(folder: Path, targets: dict[str, object], others_file: Path) -> None:
    Sandboxed.targets = targets
    with Sandboxed(folder) as managed:
        assert compute(managed) == 3
        outcomes: dict[str, str] = json.loads((managed.directory / "report").read_text())
        (managed.directory / "report").unlink()
        assert {name: each for name, each in outcomes.items() if each not in _REFUSALS} == {}
        assert len(outcomes) > 18
        assert others_file.read_text() == "precious"
        assert [path.name for path in others_file.parent.iterdir()] == ["secret"]
        status = managed.status()
        assert (status.state, status.sandbox, status.sandbox_missing) == (DriverState.READY, "full", ())
        assert " full " in managed.command("status").stdout


@needs_all
def test_without_the_sandbox_they_succeed(
    folder: Path, targets: dict[str, object], others_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This shows that the sandbox causes the refusals above."""
    if os.geteuid():
        pytest.skip("other users' files are protected without the sandbox, too, except from root")
    # What ends or removes something is left out.
    harmless = {**targets, "process": 2**22 + 1}
    Sandboxed.targets = harmless
    monkeypatch.setattr(Sandboxed, "mode", "off")
    with Sandboxed(folder) as managed:
        assert compute(managed) == 3
        outcomes: dict[str, str] = json.loads((managed.directory / "report").read_text())
        (managed.directory / "report").unlink()
        reached = {name for name, outcome in outcomes.items() if not outcome}
        assert reached >= {
            *("read another user's file", "read the passwords", "plant a file", "connect to a port"),
            *("connect to another service", "make a socket for another host"),
            *("command the manager", "read where the manager was started", "read the installation's secret"),
            *("connect to a port when it is loaded", "command the manager when its device is created"),
        }
        assert managed.status().sandbox == "off"
        assert " off " in managed.command("status").stdout


@pytest.mark.parametrize("mode", ["auto", "off"])
@pytest.mark.parametrize("end", ["kill", "stop the manager"])
@pytest.mark.sampled(2)
def test_what_it_starts_ends_with_it(
    folder: Path, mode: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes have left its session, lost their parents, and ignore signals."""
    left = folder / "neurald" / "left"
    Sandboxed.targets = {"left": str(left)}
    monkeypatch.setattr(Sandboxed, "mode", mode)
    # Without the sandbox only the environment tells whose they are.
    monkeypatch.setattr(Sandboxed, "keeps_environment", mode == "off")
    with Sandboxed(folder) as managed:
        assert compute(managed) == 3
        wait_until(lambda: left.read_text().count("\n") == 4)
        started = [int(line) for line in left.read_text().split()]
        left.unlink()
        assert all(status_of(each) for each in started)
        process = managed.status().process
        assert process is not None
        if end == "kill":
            os.kill(process, signal.SIGKILL)
            wait_until(lambda: not any(status_of(each) for each in started))
            assert compute(managed) == 3
            wait_until(lambda: left.read_text().count("\n") == 4)
            started = [int(line) for line in left.read_text().split()]
            left.unlink()
    wait_until(lambda: not any(status_of(each) for each in started))


@needs_all
def test_processes_that_compile_are_in_the_sandbox(
    folder: Path, targets: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    Sandboxed.targets = targets
    monkeypatch.setattr(Sandboxed, "driver", "cpu")
    with Sandboxed(folder) as managed:
        assert compute(managed) == 3
        process = managed.status().process
        assert process is not None
        assert status_of(process)["Seccomp"] == "2"
        helpers = [each for each in processes() if status_of(each).get("PPid") == str(process)]
        assert helpers, "models are compiled in another process"
        for helper in helpers:
            status = status_of(helper)
            assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
            # Landlock does not let a process outside see what it restricts, but lets it see limits.
            limits = Path(f"/proc/{helper}/limits").read_text()
            assert "Max core file size        0 " in limits
            assert "Max processes             unlimited" not in limits


def processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def status_of(process: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)
