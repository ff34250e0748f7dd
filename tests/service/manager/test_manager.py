"""The service manager, with real processes: its configuration, its sockets, and its end."""

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from support.daemon.managed import NOTICED_S, Managed
from support.daemon.processes import bare_environment, is_alive, run_command
from support.models.addition import addition, one_plus, request
from support.waiting import wait_until

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import DeadObject, UnavailableDevice
from neurald.hal.process.orphans import ORPHANS
from neurald.hal.registry import running_daemons
from neurald.service.manager.manager import Manager
from neurald.service.manager.state import DriverState


class _Slow(Managed):
    """A service manager whose driver waits for as many seconds as the input says."""

    def configure(self, **settings: object) -> None:
        self.file.write_text(
            '[drivers.adder]\ndriver = "support.models.addition:create_slow"\nsandbox = "off"\n'
        )


def test_a_directory_whose_path_is_too_long_is_refused(folder: Path) -> None:
    runtime = folder / ("x" * 100)
    runtime.mkdir(mode=0o700)
    environment = {**bare_environment(), "XDG_RUNTIME_DIR": str(runtime)}
    found = run_command(["serve", "--driver", "sample-all"], environment, timeout_s=60)
    assert found.returncode == 1
    assert "use a shorter path" in found.stderr
    assert list(runtime.iterdir()) == []


def test_a_hang_up_signal_loads_the_configuration_again(managed: Managed) -> None:
    assert one_plus(managed.connect(), 1) == 2
    managed.configure(watchdog_s="soon")
    managed.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the configuration stays as it is" in managed.log)
    managed.configure(watchdog_s=3.0)
    managed.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(managed.starts) == 2)
    wait_until(lambda: managed.status().process == managed.starts[1])
    managed.file.write_text("[drivers.sample-all]\n")
    managed.process.send_signal(signal.SIGHUP)
    wait_until(lambda: [each.name for each in managed.manager_status().drivers] == ["sample-all"])
    assert "adder: STOPPED: the configuration does not name it any more" in managed.log
    assert managed.address.path is not None
    assert not managed.address.path.exists()


def test_the_end_leaves_nothing_behind(managed: Managed) -> None:
    device = managed.connect()
    assert one_plus(device, 1) == 2
    # The connection of a client that stays must not start the driver again.
    assert managed.stop() == 0
    assert not any(is_alive(process) for process in managed.starts)
    assert [path.name for path in managed.directory.iterdir()] == []


@pytest.mark.full
@pytest.mark.slow
def test_the_end_looks_again_for_what_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that replaces its program does not tell for a moment whose it is."""
    rounds = iter([False, True, False, False])
    monkeypatch.setattr(ORPHANS, "end", lambda: next(rounds))
    asyncio.run(Manager._end_orphans(cast(Manager, None)))
    assert next(rounds, None) is None


def test_a_manager_whose_directory_was_removed_ends(folder: Path) -> None:
    with Managed(folder, "--exit-when-idle", "2") as managed:
        assert one_plus(managed.connect(), 1) == 2
        shutil.rmtree(managed.directory)
        assert managed.process.wait(NOTICED_S) == 0, managed.log
        assert not any(is_alive(process) for process in managed.starts)
        assert "have been removed" in managed.log


@pytest.mark.slow
def test_a_manager_leaves_sockets_that_have_replaced_its_own(folder: Path) -> None:
    """As systemd does, which listens at the same paths."""
    with Managed(folder, "--exit-when-idle", "2") as managed, contextlib.ExitStack() as sockets:
        names = ("manager.sock", "adder.sock")
        for name in names:
            (managed.directory / name).unlink()
            listener = sockets.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(managed.directory / name))
            listener.listen()
        assert managed.process.wait(NOTICED_S) == 0, managed.log
        assert "have been removed or replaced" in managed.log
        assert sorted(path.name for path in managed.directory.iterdir()) == sorted(names)


@pytest.mark.full
def test_a_manager_that_is_idle_after_failed_starts_ends(folder: Path) -> None:
    with Managed(folder, "--exit-when-idle", "1") as managed:
        managed.behaviour.write_text("fail")
        with pytest.raises(UnavailableDevice):
            managed.connect()
        assert managed.process.wait(NOTICED_S) == 0, managed.log
        assert "BACKOFF" in managed.log


def test_the_end_is_also_that_of_a_spare_process(with_spare: Managed) -> None:
    assert one_plus(with_spare.connect(), 1) == 2
    spare = with_spare.wait_for_spare()
    assert with_spare.stop() == 0
    assert not is_alive(spare)


def test_drivers_end_with_a_killed_manager_and_the_next_one_takes_their_place(managed: Managed) -> None:
    assert one_plus(managed.connect(), 1) == 2
    managed.process.kill()
    managed.process.wait()
    wait_until(lambda: not is_alive(managed.starts[0]))
    managed.process = managed.start()
    wait_until(lambda: managed.log.count("supervising") == 2)
    assert one_plus(managed.connect(), 1) == 2


def test_only_one_process_serves_a_socket(managed: Managed) -> None:
    second = managed.start()
    assert second.wait(60) == 1
    assert "another service manager supervises drivers in" in managed.log
    daemon = managed.command("driver", "sample-all", "--listen", str(managed.address))
    assert daemon.returncode == 1
    assert "already serves" in daemon.stderr


def test_listing_daemons_leaves_out_the_manager_itself(
    managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(managed.directory.parent))
    assert running_daemons() == (str(managed.address),)
    assert managed.status().starts == 0


def test_notifications_of_other_processes_are_ignored(managed: Managed) -> None:
    assert one_plus(managed.connect(), 1) == 2
    program = (
        "import socket, sys\n"
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(bytes.fromhex(sys.argv[2]), sys.argv[1])"
    )
    notify = str(managed.directory / "manager.notify")
    for message in (b"X_NEURALD_HANGING=1", b"X_NEURALD_SESSIONS=99999999999999", b"\xff\0=", b""):
        subprocess.run([sys.executable, "-c", program, notify, message.hex()], check=True)
    status = managed.status()
    assert (status.state, status.deaths) == (DriverState.READY, 0)


@pytest.mark.timed
@pytest.mark.parametrize(("drain_s", "takes_s", "finishes"), [(30.0, 1.0, True), (0.2, 60.0, False)])
def test_running_calls_have_the_drain_time(
    folder: Path, drain_s: float, takes_s: float, finishes: bool
) -> None:
    with _Slow(folder, "--drain", str(drain_s)) as managed:
        device = managed.connect()
        prepared = device.prepare_model(addition(np.ones(1)), PrepareOptions())
        results: list[float] = []

        def compute() -> None:
            result = np.zeros(1, np.float32)
            with contextlib.suppress(DeadObject):
                prepared.execute(request(np.full(1, -takes_s, np.float32), result), ExecuteOptions())
                results.append(float(result[0]))

        caller = threading.Thread(target=compute)
        caller.start()
        wait_until(lambda: device.status().calls == 1)
        started = time.monotonic()
        assert managed.stop() == 0
        assert time.monotonic() - started < 40
        caller.join()
        assert results == ([1 - takes_s] if finishes else [])
