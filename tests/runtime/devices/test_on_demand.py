"""Drivers that start when something is prepared for them, and the manager that starts them.

Each program is an application in a process of its own.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.on_demand import OnDemand, on_demand
from support.waiting import wait_until

_DEVICES = """
import json, neurald as nd
print(json.dumps({each.name: getattr(each, "is_started", True) for each in nd.devices()}))
"""

#: Adds 1 to 2 on the device that `CHOOSE` leaves; prints where.
_RUN = """
import numpy as np, neurald as nd, os
from support.models.addition import addition
model = addition(np.ones(2))
builder = nd.CompilationBuilder(model)
compilation = builder.finish()
(output,) = compilation.run(np.full(2, 2, np.float32))
print(compilation.plan.steps[0].device.name, float(output[0]))
"""


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnDemand]:
    with on_demand(tmp_path_factory.mktemp("m")) as found:
        yield found


def listed(environment: OnDemand, **variables: str) -> dict[str, bool]:
    """The devices of an application, and whether each of them runs."""
    found: dict[str, bool] = json.loads(environment.run(_DEVICES, **variables))
    return found


def measured(environment: OnDemand) -> None:
    """Has the driver measured once, and ends everything."""
    assert listed(environment) == {"cpu": True, "adder@adder": True}
    environment.stop()
    (environment.folder / "starts").unlink()
    (environment.directory / "manager.log").unlink()


def test_a_device_is_listed_before_its_driver_runs_and_runs_when_it_is_used(environment: OnDemand) -> None:
    measured(environment)
    assert listed(environment) == {"cpu": True, "adder@adder": False}
    assert not environment.managers()
    table = environment.command("devices")
    assert "its driver starts when a model is prepared for it" in " ".join(table.stderr.split())
    assert not environment.driver_starts
    assert environment.run(_RUN) == "adder@adder 3.0\n"
    assert len(environment.managers()) == len(environment.driver_starts) == 1
    # It outlives the application, and the next one finds it.
    assert listed(environment)["adder@adder"]
    assert environment.run(_RUN) == "adder@adder 3.0\n"
    assert len(environment.driver_starts) == 1


def test_a_command_does_not_wait_long_for_a_driver_that_has_never_run(environment: OnDemand) -> None:
    environment.behaviour.write_text("slow")
    found = json.loads(environment.command("devices", "--json").stdout)
    assert [each["name"] for each in found["devices"]] == ["cpu"]
    assert found["unavailable"] == {}
    (address,) = found["starting"]
    assert address.endswith("adder.sock")
    # The driver goes on starting.
    environment.behaviour.write_text("")
    wait_until(lambda: "adder@adder" in environment.command("devices").stdout)
    assert len(environment.driver_starts) == 1


def test_a_driver_is_measured_for_each_choice_of_its_device(environment: OnDemand) -> None:
    """A variable or a setting may choose a device of which nothing is known yet."""
    measured(environment)
    assert listed(environment, NEURALD_ADDER_DEVICE="1:0") == {"cpu": True, "adder@adder": True}
    assert len(environment.driver_starts) == 1
    environment.stop()
    assert not listed(environment, NEURALD_ADDER_DEVICE="1:0")["adder@adder"]
    assert not listed(environment, NEURALD_OTHER_DEVICE="1:0")["adder@adder"]
    assert len(environment.driver_starts) == 1
    environment.configure(idle_s=20)
    assert listed(environment)["adder@adder"]
    assert len(environment.driver_starts) == 2


def test_commands_tell_that_the_manager_runs_with_other_variables(environment: OnDemand) -> None:
    assert listed(environment, NEURALD_ADDER_DEVICE="1:0")["adder@adder"]
    (manager,) = environment.managers()
    for command in ("devices", "doctor"):
        found = environment.command(command)
        said = f"NEURALD_ADDER_DEVICE is not set here and '1:0' in the service manager (process {manager})"
        assert said in " ".join((found.stdout + found.stderr).split()), command
    environment.environment["NEURALD_ADDER_DEVICE"] = "1:0"
    assert "NEURALD_ADDER_DEVICE" not in environment.command("devices").stderr


@pytest.mark.full
def test_a_driver_that_could_win_nothing_is_not_started(environment: OnDemand) -> None:
    measured(environment)
    program = _RUN.replace(
        "compilation = ", "builder.set_preference(nd.Preference.LOW_POWER)\ncompilation = "
    )
    slow = program.replace(
        "compilation = ",
        "from neurald.runtime.devices.on_demand import OnDemandDevice\n"
        "OnDemandDevice.capabilities = lambda self: nd.devices()[0].capabilities()\ncompilation = ",
    )
    assert environment.run(slow) == "cpu 3.0\n"
    assert not environment.managers()
    explained = slow + "print(compilation.explain().operations[0].rejected)\n"
    assert "its driver was not started" in environment.run(explained)
    assert environment.run(program) == "adder@adder 3.0\n"


def test_many_applications_at_once_start_one_manager_and_one_driver(environment: OnDemand) -> None:
    measured(environment)
    running = [environment.start(_RUN) for _ in range(6)]
    outputs = []
    for process in running:
        with process:
            outputs.append(process.communicate(timeout=120)[0])
    assert outputs == ["adder@adder 3.0\n"] * 6
    assert len(environment.managers()) == len(environment.driver_starts) == 1
    assert environment.log.count("supervising") == 1


@pytest.mark.full
def test_neither_the_end_of_the_application_nor_its_interrupt_reaches_the_manager(
    environment: OnDemand,
) -> None:
    measured(environment)
    program = "import time, signal\n" + _RUN + "print('ready', flush=True)\ntime.sleep(60)\n"
    # It is the leader of the foreground process group of a terminal, in effect.
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    with process:
        assert process.stdout is not None
        while "ready" not in process.stdout.readline():
            assert process.poll() is None
        (manager,) = environment.managers()
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) != 0
    assert environment.managers() == [manager]
    assert listed(environment)["adder@adder"]
    assert len(environment.driver_starts) == 1


def test_a_driver_that_cannot_start_is_tried_once(environment: OnDemand) -> None:
    environment.behaviour.write_text("fail")
    assert listed(environment) == {"cpu": True}
    assert len(environment.driver_starts) == 1
    for _ in range(2):
        assert listed(environment) == {"cpu": True}
        assert environment.run(_RUN) == "cpu 3.0\n"
    assert len(environment.driver_starts) == 1
    table = environment.command("devices", "--json")
    ((address, reason),) = json.loads(table.stdout)["unavailable"].items()
    assert address.endswith("adder.sock")
    assert "the device is out of order" in reason
    wait_until(lambda: len(environment.driver_starts) == 2)
    # The remedy is noticed by who looks for it.
    environment.behaviour.write_text("")
    wait_until(lambda: "adder@adder" in environment.command("devices").stdout)
    assert listed(environment)["adder@adder"]


@pytest.mark.full
def test_a_device_that_is_gone_is_no_longer_listed(environment: OnDemand) -> None:
    measured(environment)
    environment.behaviour.write_text("fail")
    assert listed(environment) == {"cpu": True, "adder@adder": False}
    assert environment.run(_RUN) == "cpu 3.0\n"
    assert listed(environment) == {"cpu": True}
    assert environment.run(_RUN) == "cpu 3.0\n"
    assert len(environment.driver_starts) == 1


def test_it_can_be_turned_off(environment: OnDemand) -> None:
    assert listed(environment, NEURALD_AUTOSTART="0") == {"cpu": True}
    environment.configure("autostart = false")
    del environment.environment["NEURALD_AUTOSTART"]
    assert listed(environment) == {"cpu": True}
    assert environment.run(_RUN) == "cpu 3.0\n"
    assert not environment.managers()
    config = environment.command("config")
    (line,) = [each for each in config.stdout.splitlines() if each.startswith("autostart")]
    assert line.split()[1:3] == ["false", str(environment.file)]


@pytest.mark.full
def test_a_manager_that_cannot_start_costs_a_device_and_no_more(environment: OnDemand) -> None:
    environment.configure(watchdog_s='"soon"')
    assert listed(environment) == {"cpu": True}
    table = environment.command("devices", "--json")
    assert "watchdog_s" in json.loads(table.stdout)["unavailable"].popitem()[1]
    assert not environment.managers()


@pytest.mark.full
def test_without_a_writable_home_everything_works(environment: OnDemand) -> None:
    (environment.folder / "cache").touch()  # nothing can be created below it
    assert listed(environment) == {"cpu": True, "adder@adder": True}
    environment.stop()
    assert listed(environment) == {"cpu": True, "adder@adder": False}
    assert environment.run(_RUN) == "adder@adder 3.0\n"


@pytest.mark.full
def test_without_a_runtime_directory_the_one_for_temporary_files_is_used(environment: OnDemand) -> None:
    del environment.environment["XDG_RUNTIME_DIR"]
    environment.environment["TMPDIR"] = str(environment.folder)
    started: list[int] = []
    try:
        assert listed(environment) == {"cpu": True, "adder@adder": True}
        directory = environment.folder / f"neurald-{os.getuid()}"
        assert directory.stat().st_mode & 0o777 == 0o700
        status = environment.command("status", "--json")
        started.append(json.loads(status.stdout)["process"])
        assert "supervising adder" in (directory / "manager.log").read_text()
    finally:
        for pid in started:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda pid=pid: not Path(f"/proc/{pid}").exists())  # type: ignore[misc]


@pytest.mark.full
def test_a_killed_manager_is_replaced(environment: OnDemand) -> None:
    measured(environment)
    program = (
        _RUN + "import sys\nprint('ready', flush=True)\nsys.stdin.readline()\n"
        "import time\nfor _ in range(600):\n"
        "    (output,) = compilation.run(np.full(2, 2, np.float32))\n"
        "    assert float(output[0]) == 3\n"
        "    if not compilation.recovery.fallbacks: break\n"
        "    time.sleep(0.1)\n"
        "print(bool(compilation.recovery.fallbacks))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        while "ready" not in process.stdout.readline():
            assert process.poll() is None
        (manager,) = environment.managers()
        os.kill(manager, signal.SIGKILL)
        wait_until(lambda: not environment.managers())
        wait_until(lambda: not Path(f"/proc/{environment.driver_starts[0]}").exists())
        out, _ = process.communicate("\n", timeout=120)
    assert out.strip() == "False"
    (successor,) = environment.managers()
    assert successor != manager
    assert len(environment.driver_starts) == 2


def test_a_child_by_fork_uses_the_cpu(environment: OnDemand) -> None:
    measured(environment)
    program = (
        "import os\n" + _RUN + "child = os.fork()\n"
        "if child == 0:\n"
        "    names = [each.name for each in nd.devices()]\n"
        "    second = nd.CompilationBuilder(addition(np.ones(2))).finish()\n"
        "    print(names, second.plan.steps[0].device.name, second.run(np.zeros(2, np.float32))[0][0], flush=True)\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    assert environment.run(program) == "adder@adder 3.0\n['cpu'] cpu 1.0\n"


@pytest.mark.full
def test_the_last_one_leaves_without_a_gap(environment: OnDemand) -> None:
    # The manager ends as soon as no driver runs, again and again while applications come.
    measured(environment)
    boot = "from neurald.hal.process import autostart\nautostart.IDLE_S = 1.0\n"
    for _ in range(3):
        assert environment.run(boot + _RUN, NEURALD_SERVE_IDLE_S="0.1") == "adder@adder 3.0\n"
    wait_until(lambda: not environment.managers())
    left = {path.name for path in environment.directory.iterdir()}
    assert left <= {"manager.log", "manager.start"}
    assert "no driver is in use" in environment.log


@pytest.mark.full
def test_the_environment_of_a_service_stays_with_it(environment: OnDemand) -> None:
    listed(environment, NOTIFY_SOCKET="/nonexistent", LISTEN_FDS="1", LISTEN_PID="1")
    (manager,) = environment.managers()
    names = {each.split(b"=")[0] for each in Path(f"/proc/{manager}/environ").read_bytes().split(b"\0")}
    assert not names & {b"LISTEN_FDS", b"LISTEN_PID"}
    (driver,) = environment.driver_starts
    with contextlib.suppress(OSError):
        assert b"NEURALD_AUTOSTART=0" in Path(f"/proc/{driver}/environ").read_bytes()
