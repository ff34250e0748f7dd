"""The service manager, with real processes: start on demand, supervision, replacement, the end."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from support.daemon.managed import Managed
from support.daemon.processes import bare_environment, is_alive, run_command
from support.models.addition import addition, request
from support.waiting import wait_until

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import DeadObject, UnavailableDevice
from neurald.hal.process.activation import is_served
from neurald.hal.process.orphans import ORPHANS
from neurald.hal.registry import running_daemons
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.service.manager.manager import Manager
from neurald.service.manager.state import DriverState

#: SIGSTOP and the like must be noticed within this time, which leaves much for a busy machine.
_NOTICED_S = 30.0


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("m")


@pytest.fixture
def managed(folder: Path) -> Iterator[Managed]:
    with Managed(folder) as manager:
        yield manager


@pytest.fixture
def with_spare(folder: Path) -> Iterator[Managed]:
    with Managed(folder, settings={"spare": True}) as manager:
        yield manager


def add(device: RemoteDevice, number: float) -> float:
    """Computes 1 + `number` on a device."""
    prepared = device.prepare_model(addition(np.ones(2)), PrepareOptions())
    result = np.zeros(2, np.float32)
    prepared.execute(request(np.full(2, number, np.float32), result), ExecuteOptions())
    return float(result[0])


def connected(managed: Managed) -> RemoteDevice:
    return connect(str(managed.address))


def test_a_driver_starts_at_its_first_connection_and_no_earlier(managed: Managed) -> None:
    assert managed.status().state is DriverState.STOPPED
    assert is_served(managed.address.path or Path())
    time.sleep(0.1)
    assert managed.status().starts == 0
    # It has imported nothing that only models need, which would double its start and its memory.
    mapped = Path(f"/proc/{managed.process.pid}/maps").read_text()
    assert [name for name in ("numpy", "cygrpc", "llvmlite") if name in mapped] == []
    device = connected(managed)
    assert add(device, 2) == 3
    status = managed.status()
    assert (status.state, status.starts, status.deaths, status.reason) == (DriverState.READY, 1, 0, "")
    assert status.process in managed.starts
    wait_until(lambda: managed.status().sessions == 1)
    device.close()
    wait_until(lambda: managed.status().sessions == 0)


def test_many_clients_at_once_start_one_process(managed: Managed) -> None:
    results: list[float] = []

    def use() -> None:
        device = connected(managed)
        results.append(add(device, 1))
        device.close()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [2.0] * 8
    assert len(managed.starts) == 1


def test_a_client_of_another_protocol_starts_the_driver_too(managed: Managed) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(managed.address.path))
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        managed.wait_for(DriverState.READY)


def test_a_killed_driver_is_started_again(managed: Managed) -> None:
    device = connected(managed)
    assert add(device, 1) == 2
    (process,) = managed.starts
    wait_until(lambda: managed.status().sessions == 1)
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: managed.status().deaths == 1)
    # A client had a session, so nobody needs to ask for it.
    assert managed.wait_for(DriverState.READY).last_exit == "signal SIGKILL"
    wait_until(lambda: _added_again(device) == 2)
    assert len(managed.starts) == 2


def test_a_spare_process_takes_the_place_of_one_that_dies(with_spare: Managed) -> None:
    device = connected(with_spare)
    assert add(device, 1) == 2
    spare = _spare_of(with_spare)
    # It has opened no device yet.
    assert len(with_spare.starts) == 1
    os.kill(with_spare.starts[0], signal.SIGKILL)
    wait_until(lambda: _added_again(device) == 2)
    assert with_spare.starts[1:] == [spare]
    status = with_spare.status()
    assert (status.starts, status.deaths) == (2, 1)
    assert _spare_of(with_spare, other_than=spare) not in with_spare.starts


@pytest.mark.full
def test_the_spare_process_ends_with_the_version_that_it_is_of(with_spare: Managed) -> None:
    device = connected(with_spare)
    assert add(device, 1) == 2
    spare = _spare_of(with_spare)
    with_spare.command("restart", "adder")
    _wait_for_process(with_spare, 2)
    assert with_spare.starts[1] != spare
    wait_until(lambda: not is_alive(spare))
    spare = _spare_of(with_spare)
    with_spare.process.kill()
    with_spare.process.wait()
    wait_until(lambda: not is_alive(spare))


@pytest.mark.full
def test_without_a_spare_process(folder: Path) -> None:
    with Managed(folder) as managed:
        device = connected(managed)
        assert add(device, 1) == 2
        time.sleep(1.0)
        assert managed.status().spare is None
        os.kill(managed.starts[0], signal.SIGKILL)
        wait_until(lambda: _added_again(device) == 2)


def _spare_of(managed: Managed, other_than: int | None = None) -> int:
    """Waits until the driver has another spare process; returns its id."""
    found: list[int | None] = []

    def is_there() -> bool:
        found[:] = [managed.status().spare]
        return found[0] not in (None, other_than)

    wait_until(is_there)
    assert found[0] is not None
    return found[0]


def _added_again(device: RemoteDevice) -> float:
    with contextlib.suppress(DeadObject, UnavailableDevice):
        device.reconnect(at_once=True)
        return add(device, 1)
    return 0.0


def _fails(device: RemoteDevice, number: float) -> None:
    """Makes a call whose driver ends."""
    with contextlib.suppress(DeadObject, UnavailableDevice):
        add(device, number)


def test_a_frozen_driver_is_replaced(managed: Managed) -> None:
    assert add(connected(managed), 1) == 2
    (process,) = managed.starts
    wait_until(lambda: managed.status().sessions is not None)
    os.kill(process, signal.SIGSTOP)
    wait_until(lambda: managed.status().deaths == 1, _NOTICED_S)
    assert not is_alive(process)
    assert "silent for 2 s" in managed.log
    wait_until(lambda: managed.status().state in (DriverState.STOPPED, DriverState.READY))
    assert add(connected(managed), 1) == 2


def test_a_driver_that_cannot_start_is_quarantined_until_an_operator_restarts_it(managed: Managed) -> None:
    managed.behaviour.write_text("fail")
    reasons: list[str] = []

    def tried() -> bool:
        with pytest.raises(UnavailableDevice) as refused:
            connected(managed)
        reasons.append(str(refused.value))
        return managed.status().state is DriverState.QUARANTINED

    wait_until(tried)
    status = managed.status()
    assert (status.starts, status.deaths, status.last_exit) == (5, 5, "status 1")
    assert "it died 5 times within 60 s" in status.reason
    assert any("the device is out of order" in line for line in status.last_lines)
    assert status.is_unable
    assert managed.command("status").stdout.count("the device is out of order") == 1
    levels = {
        state: {line.split()[2] for line in managed.log.splitlines() if f"adder: {state}: " in line}
        for state in ("STOPPED", "BACKOFF", "QUARANTINED")
    }
    assert levels == {"STOPPED": {"INFO"}, "BACKOFF": {"WARNING"}, "QUARANTINED": {"ERROR"}}
    with pytest.raises(UnavailableDevice, match="`neurald restart adder` starts it again"):
        connected(managed)
    assert managed.status().starts == 5
    managed.behaviour.write_text("")
    assert managed.command("restart", "adder").stdout == (
        "adder: it does not run, and starts at its next connection\n"
    )
    assert managed.status().state is DriverState.STOPPED
    assert not managed.status().is_unable
    assert add(connected(managed), 1) == 2
    assert managed.command("forgive").stdout == "there is nothing to forgive\n"


def test_a_driver_that_ends_at_once_is_told_of(managed: Managed) -> None:
    managed.behaviour.write_text("exit")
    with pytest.raises(UnavailableDevice, match=r"it did not become ready \(status 7\)"):
        connected(managed)


@pytest.mark.full
def test_what_a_driver_leaves_behind_does_not_keep_the_manager_from_its_work(managed: Managed) -> None:
    managed.behaviour.write_text("flood")
    with pytest.raises(UnavailableDevice):
        connected(managed)
    managed.behaviour.write_text("")
    wait_until(lambda: managed.status().state in (DriverState.STOPPED, DriverState.BACKOFF))
    managed.command("restart", "adder")
    assert add(connected(managed), 2) == 3


def test_a_driver_that_takes_too_long_to_start_is_ended(folder: Path) -> None:
    with (
        Managed(folder, settings={"start_s": 0.01}) as managed,
        pytest.raises(UnavailableDevice, match=r"not ready within 0\.01 s"),
    ):
        connected(managed)


def test_an_idle_driver_stops_and_starts_again(folder: Path) -> None:
    with Managed(folder, "--idle", "0.2") as managed:
        device = connected(managed)
        assert add(device, 1) == 2
        time.sleep(0.7)
        assert managed.status().state is DriverState.READY
        device.close()
        assert managed.wait_for(DriverState.STOPPED).reason == "it had no clients"
        assert managed.status().last_exit == "status 0"
        device = connected(managed)
        assert add(device, 1) == 2
        assert len(managed.starts) == 2


def test_a_restart_leaves_no_gap(managed: Managed) -> None:
    assert add(connected(managed), 1) == 2
    done, failures = threading.Event(), list[str]()
    calls = 0

    def use() -> None:
        nonlocal calls
        while not done.is_set():
            try:
                device = connected(managed)
                try:
                    add(device, 1)
                except DeadObject:
                    # The session was opened just before the old process ended.
                    device.reconnect(at_once=True)
                    add(device, 1)
                device.close()
            except Exception as error:
                failures.append(repr(error))
            calls += 1

    user = threading.Thread(target=use)
    user.start()
    wait_until(lambda: calls > 3)
    for number in (2, 3):
        said = managed.command("restart", "adder").stdout
        assert len(managed.starts) == number
        assert said == f"adder: process {managed.starts[-1]} serves\n"
        assert managed.status().process == managed.starts[-1]
        _wait_for_calls(lambda: calls)
    done.set()
    user.join()
    assert not failures
    wait_until(lambda: not any(is_alive(process) for process in managed.starts[:-1]))
    assert managed.status().deaths == 0


def _wait_for_process(managed: Managed, number: int) -> None:
    """Waits until the driver's process of this number serves."""
    wait_until(lambda: len(managed.starts) == number and managed.status().process == managed.starts[-1])


def _wait_for_calls(calls: Callable[[], int]) -> None:
    before = calls()
    wait_until(lambda: calls() > before + 2)


def test_a_new_process_that_does_not_become_ready_changes_nothing(managed: Managed) -> None:
    device = connected(managed)
    assert add(device, 1) == 2
    managed.behaviour.write_text("fail")
    begun = managed.command("restart", "adder", "--no-wait")
    assert (begun.returncode, begun.stdout) == (0, "")
    wait_until(lambda: "the old one stays" in managed.log)
    failed = managed.command("restart", "adder")
    assert failed.returncode == 1
    assert "adder: a new process ended before it was ready (status 1); the old one stays" in failed.stderr
    status = managed.status()
    assert (status.state, status.process) == (DriverState.READY, managed.starts[0])
    assert add(device, 1) == 2
    assert add(connected(managed), 1) == 2


@pytest.mark.full
def test_a_new_process_that_hangs_is_given_up_soon(managed: Managed) -> None:
    device = connected(managed)
    assert add(device, 1) == 2
    managed.configure(update_s=0.5)
    managed.behaviour.write_text("hang")
    managed.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the old one stays" in managed.log)
    assert managed.status().reason == (
        "a new process ended before it was ready (it was not ready within 0.5 s)"
    )
    # Clients that do not wait for it take no room of others.
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(managed.directory / "manager.sock"))
            client.sendall(b'{"type": "restart", "driver": "adder"}\n')
            assert b"within_s" in client.recv(4096)
    assert managed.status().state is DriverState.READY
    assert add(device, 1) == 2


def test_operators_are_told_that_the_manager_is_stopped(managed: Managed) -> None:
    managed.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, managed.process.pid, os.WSTOPPED | os.WNOWAIT)
    found = managed.command("status")
    managed.process.send_signal(signal.SIGCONT)
    assert found.returncode == 1
    assert f"kill -CONT {managed.process.pid}" in found.stderr


def test_a_directory_whose_path_is_too_long_is_refused(folder: Path) -> None:
    runtime = folder / ("x" * 100)
    runtime.mkdir(mode=0o700)
    environment = {**bare_environment(), "XDG_RUNTIME_DIR": str(runtime)}
    found = run_command(["serve", "--driver", "sample-all"], environment, timeout_s=60)
    assert found.returncode == 1
    assert "use a shorter path" in found.stderr
    assert list(runtime.iterdir()) == []


def test_a_driver_that_somebody_stops_completes_its_calls_beside_another_process(folder: Path) -> None:
    with Managed(folder, driver="support.models.addition:create_slow") as managed:
        device = connected(managed)
        assert add(device, 1) == 2
        process = managed.wait_for(DriverState.READY).process
        assert process is not None
        wait_until(lambda: managed.status().sessions == 1)
        results: list[float] = []
        # It takes longer than a process may be silent.
        caller = threading.Thread(target=lambda: results.append(add(device, -5)))
        caller.start()
        time.sleep(1.0)
        os.kill(process, signal.SIGTERM)
        wait_until(lambda: managed.status().process not in (None, process))
        assert add(connected(managed), 2) == 3
        caller.join(60)
        assert results == [-4]
        assert managed.status().deaths == 0
        wait_until(lambda: not is_alive(process))


@pytest.mark.full
def test_a_driver_that_freezes_while_it_completes_its_calls_is_ended(folder: Path) -> None:
    driver = "support.models.addition:create_slow"
    with Managed(folder, driver=driver, settings={"drain_s": 600}) as managed:
        device = connected(managed)
        assert add(device, 1) == 2
        process = managed.wait_for(DriverState.READY).process
        assert process is not None
        wait_until(lambda: managed.status().sessions == 1)
        caller = threading.Thread(target=_fails, args=(device, -600))
        caller.start()
        time.sleep(1.0)
        os.kill(process, signal.SIGTERM)
        wait_until(lambda: managed.status().process not in (None, process))
        time.sleep(1.0)
        os.kill(process, signal.SIGSTOP)
        wait_until(lambda: not is_alive(process), _NOTICED_S)
        caller.join(60)
        assert not caller.is_alive()


def _process_without_clients(managed: Managed) -> int:
    """Returns the process of the driver, which a client has started and left."""
    device = connected(managed)
    process = managed.wait_for(DriverState.READY).process
    assert process is not None
    wait_until(lambda: managed.status().sessions == 1)
    device.close()
    wait_until(lambda: managed.status().sessions == 0)
    return process


def test_a_driver_that_somebody_stops_is_not_started_again_without_clients(managed: Managed) -> None:
    process = _process_without_clients(managed)
    os.kill(process, signal.SIGTERM)
    status = managed.wait_for(DriverState.STOPPED)
    assert (status.starts, status.deaths) == (1, 0)
    assert "told its process to stop" in status.reason
    assert add(connected(managed), 1) == 2


def test_the_spare_process_of_a_driver_that_somebody_stops_stays_for_the_next_client(
    with_spare: Managed,
) -> None:
    process = _process_without_clients(with_spare)
    spare = _spare_of(with_spare)
    os.kill(process, signal.SIGTERM)
    assert with_spare.wait_for(DriverState.STOPPED).spare == spare
    assert add(connected(with_spare), 1) == 2
    assert with_spare.starts == [process, spare]


def test_a_client_that_has_just_come_counts_when_somebody_stops_the_driver(managed: Managed) -> None:
    process = _process_without_clients(managed)
    os.kill(managed.process.pid, signal.SIGSTOP)  # it hears of the client and of the end at once
    try:
        device = connected(managed)
        os.kill(process, signal.SIGTERM)
    finally:
        os.kill(managed.process.pid, signal.SIGCONT)
    # Nobody needs to ask for another process.
    wait_until(lambda: len(managed.starts) == 2)
    wait_until(lambda: _added_again(device) == 2)


def test_a_hang_up_signal_loads_the_configuration_again(managed: Managed) -> None:
    assert add(connected(managed), 1) == 2
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
    device = connected(managed)
    assert add(device, 1) == 2
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
        assert add(connected(managed), 1) == 2
        shutil.rmtree(managed.directory)
        assert managed.process.wait(_NOTICED_S) == 0, managed.log
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
        assert managed.process.wait(_NOTICED_S) == 0, managed.log
        assert "have been removed or replaced" in managed.log
        assert sorted(path.name for path in managed.directory.iterdir()) == sorted(names)


@pytest.mark.full
def test_a_manager_that_is_idle_after_failed_starts_ends(folder: Path) -> None:
    with Managed(folder, "--exit-when-idle", "1") as managed:
        managed.behaviour.write_text("fail")
        with pytest.raises(UnavailableDevice):
            connected(managed)
        assert managed.process.wait(_NOTICED_S) == 0, managed.log
        assert "BACKOFF" in managed.log


def test_the_end_is_also_that_of_a_spare_process(with_spare: Managed) -> None:
    assert add(connected(with_spare), 1) == 2
    spare = _spare_of(with_spare)
    assert with_spare.stop() == 0
    assert not is_alive(spare)


def test_drivers_end_with_a_killed_manager_and_the_next_one_takes_their_place(managed: Managed) -> None:
    assert add(connected(managed), 1) == 2
    managed.process.kill()
    managed.process.wait()
    wait_until(lambda: not is_alive(managed.starts[0]))
    managed.process = managed.start()
    wait_until(lambda: managed.log.count("supervising") == 2)
    assert add(connected(managed), 1) == 2


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
    assert add(connected(managed), 1) == 2
    program = (
        "import socket, sys\n"
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(bytes.fromhex(sys.argv[2]), sys.argv[1])"
    )
    notify = str(managed.directory / "manager.notify")
    for message in (b"X_NEURALD_HANGING=1", b"X_NEURALD_SESSIONS=99999999999999", b"\xff\0=", b""):
        subprocess.run([sys.executable, "-c", program, notify, message.hex()], check=True)
    status = managed.status()
    assert (status.state, status.deaths) == (DriverState.READY, 0)


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
    assert add(connected(managed), 1) == 2
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


class _Slow(Managed):
    """A service manager whose driver waits for as many seconds as the input says."""

    def configure(self, **settings: object) -> None:
        self.file.write_text(
            '[drivers.adder]\ndriver = "support.models.addition:create_slow"\nsandbox = "off"\n'
        )


@pytest.mark.timed
@pytest.mark.parametrize(("drain_s", "takes_s", "finishes"), [(30.0, 1.0, True), (0.2, 60.0, False)])
def test_running_calls_have_the_drain_time(
    folder: Path, drain_s: float, takes_s: float, finishes: bool
) -> None:
    with _Slow(folder, "--drain", str(drain_s)) as managed:
        device = connected(managed)
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
