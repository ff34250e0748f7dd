"""The life of a daemon, from its start to its end."""

import contextlib
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from support.daemon.processes import daemon_process, running_daemon, stop_process
from support.models.addition import AddingDevice, addition, request
from support.sweeps import sweep
from support.waiting import wait_until

from neurald.hal.device import Capabilities, ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, BadState, DeadObject, UnavailableDevice
from neurald.hal.registry import running_daemons
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server import server as server_module
from neurald.service.daemon import daemon as daemon_module
from neurald.service.daemon.daemon import Daemon
from neurald.service.daemon.running import run_daemon

DEVICE_SERVICE = "neurald.v1.Device"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "neurald"


@pytest.fixture
def daemon(directory: Path) -> Iterator[Daemon]:
    daemon = Daemon("cpu")
    daemon.startup()
    yield daemon
    daemon.shutdown()


def add(remote: RemoteDevice, number: float) -> float:
    """Computes 1 + `number` on the daemon's device."""
    prepared = remote.prepare_model(addition(np.ones(2)), PrepareOptions())
    values = np.full(2, number, np.float32)
    assert prepared.execute(request(values, values), ExecuteOptions()).is_sufficient
    return float(values[0])


def health(address: str, service: str = "") -> "health_pb2.HealthCheckResponse.ServingStatus":
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        return stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=60).status


def test_it_serves_in_the_runtime_directory(daemon: Daemon, directory: Path) -> None:
    assert daemon.address == f"unix://{directory}/cpu.sock"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for path in directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert running_daemons() == (daemon.address,)
    remote = connect(daemon.address)
    assert remote.name == "cpu@cpu"
    assert add(remote, 4) == 5
    remote.close()


def test_nothing_is_left_behind(directory: Path) -> None:
    daemon = Daemon("cpu")
    daemon.startup()
    daemon.shutdown()
    assert [path.name for path in directory.iterdir()] == []
    daemon = Daemon("cpu")
    daemon.startup()
    assert running_daemons() == (daemon.address,)
    daemon.shutdown()
    assert running_daemons() == ()


def test_the_standard_health_service(daemon: Daemon) -> None:
    serving = health_pb2.HealthCheckResponse.SERVING
    assert health(daemon.address) == serving
    assert health(daemon.address, DEVICE_SERVICE) == serving


def test_a_second_daemon_is_refused(daemon: Daemon) -> None:
    with pytest.raises(BadState, match=r"another daemon already serves unix://.*cpu\.sock"):
        Daemon("cpu").startup()
    # Even by a daemon that fails before it loads its driver.
    with pytest.raises(BadState, match="already"):
        Daemon("no.such.module:create", daemon.address).startup()
    assert add(connect(daemon.address), 1) == 2


def test_a_second_daemon_is_refused_on_a_port() -> None:
    first = Daemon("cpu", "127.0.0.1:0")
    first.startup()
    assert not first.address.endswith(":0")
    with pytest.raises(BadState, match="cannot be bound"):
        Daemon("cpu", first.address).startup()
    assert add(connect(first.address), 1) == 2
    first.shutdown()


def test_of_many_that_start_one_wins(directory: Path) -> None:
    daemons = [Daemon("support.models.addition:create", f"unix://{directory}/d.sock") for _ in range(6)]
    barrier = threading.Barrier(len(daemons))

    def start(daemon: Daemon) -> Daemon | None:
        barrier.wait()
        try:
            daemon.startup()
        except BadState:
            return None
        return daemon

    with ThreadPoolExecutor(len(daemons)) as pool:
        (winner,) = filter(None, pool.map(start, daemons))
    assert add(connect(winner.address), 2) == 3
    winner.shutdown()


def test_sockets_of_the_dead_are_replaced(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    for name, kind in (("cpu.sock", socket.SOCK_STREAM), ("cpu.sock.memory", socket.SOCK_SEQPACKET)):
        with socket.socket(socket.AF_UNIX, kind) as left:
            left.bind(str(directory / name))
    daemon = Daemon("cpu")
    daemon.startup()
    assert add(connect(daemon.address), 2) == 3
    daemon.shutdown()


@pytest.mark.parametrize("name", ["cpu.sock", "cpu.sock.memory"])
def test_nothing_else_is_replaced(directory: Path, name: str) -> None:
    directory.mkdir(mode=0o700)
    (directory / name).write_text("dear diary")
    with pytest.raises(BadState, match="exists and is not a socket"):
        Daemon("cpu").startup()
    assert (directory / name).read_text() == "dear diary"
    (directory / name).unlink()
    kind = socket.SOCK_STREAM if name == "cpu.sock" else socket.SOCK_SEQPACKET
    with socket.socket(socket.AF_UNIX, kind) as other:
        other.bind(str(directory / name))
        other.listen()
        with pytest.raises(BadState, match="another process serves"):
            Daemon("cpu").startup()
    daemon = Daemon("cpu")  # a failed start leaves nothing behind
    daemon.startup()
    daemon.shutdown()


def test_directories_that_others_can_write(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    for mode in (0o777, 0o775, 0o722):
        folder.chmod(mode)
        with pytest.raises(BadState, match="other users"):
            Daemon("cpu", f"unix://{folder}/d.sock").startup()
    folder.chmod(0o777 | stat.S_ISVTX)
    daemon = Daemon("cpu", f"unix://{folder}/d.sock")
    daemon.startup()
    daemon.shutdown()
    (tmp_path / "file").touch()
    with pytest.raises(BadState, match="cannot be used"):
        Daemon("cpu", f"unix://{tmp_path}/file/d.sock").startup()


@sweep("owner", [0, 54321])
def test_a_link_planted_in_place_of_the_runtime_directory_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    victim = tmp_path / "victim"
    victim.mkdir()
    victim.chmod(0o755)
    planted = tmp_path / "tmp" / f"neurald-{os.getuid()}"
    planted.symlink_to(victim)
    if os.geteuid() == 0:
        os.lchown(planted, owner, owner)
    # With `fs.protected_symlinks`, the kernel refuses the links of others in such a directory.
    with pytest.raises(BadState, match=r"symbolic link|Permission denied"):
        Daemon("cpu").startup()
    assert stat.S_IMODE(victim.stat().st_mode) == 0o755
    assert not list(victim.iterdir())


def test_stalled_reflection_does_not_block_others(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Old streams are not closed here: a new one replaces them, or is refused.
    monkeypatch.setattr(daemon_module, "_MAX_REFLECTION_IDLE_S", 600.0)
    daemon = Daemon("cpu")
    daemon.startup()
    ends = threading.Event()

    def questions() -> Iterator[reflection_pb2.ServerReflectionRequest]:
        yield reflection_pb2.ServerReflectionRequest(list_services="")
        ends.wait()

    with grpc.insecure_channel(daemon.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        calls = [stub.ServerReflectionInfo(questions()) for _ in range(100)]
        remote = connect(daemon.address)
        assert add(remote, 2) == 3
        # gRPC may leave some of a connection with so many streams unanswered, which harms its
        # client.
        wait_until(lambda: sum(not call.is_active() for call in calls) >= 50, timeout_s=60)
        with contextlib.closing(connect(daemon.address)) as other:
            assert add(other, 3) == 4
        ended = [call.code() for call in calls if not call.is_active()]
        # A stream that was opened while another one stalled replaced it. Most are refused before
        # they take a thread, which gRPC reports as a method that is not there.
        refused = {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNIMPLEMENTED}
        assert set(ended) <= refused | {grpc.StatusCode.CANCELLED}
        remote.close()
        ends.set()
        for call in calls:
            call.cancel()
    daemon.shutdown()


@pytest.mark.timed
def test_bytes_that_are_no_question_do_not_hold_up_the_end(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How long gRPC is waited for.
    monkeypatch.setattr(server_module, "_STOP_S", 60.0)
    daemon = Daemon("cpu", drain_s=0)
    daemon.startup()
    with grpc.insecure_channel(daemon.address) as channel:
        ask: Any = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        for _ in range(5):
            call = ask(iter([b"\xff" * 100]), timeout=60)
            assert call.code() is grpc.StatusCode.INVALID_ARGUMENT
    started = time.monotonic()
    assert daemon.shutdown()
    assert time.monotonic() - started < 30


def test_a_daemon_that_serves_no_more_ends(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must end, so that its supervisor can start another one at the same address."""

    def leave(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(type(daemon._server), "is_serving", False)
    with pytest.raises(SystemExit) as caught:
        daemon.serve()
    assert caught.value.code == os.EX_SOFTWARE


@pytest.mark.parametrize(
    "what", ["neurald.hal.rpc.server.channel.ChannelServer.start", "grpc._server._Server.start"]
)
def test_a_start_that_fails_half_way_leaves_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    before = set(threading.enumerate())
    with monkeypatch.context() as patch:
        patch.setattr(what, fails)
        with pytest.raises(RuntimeError, match="new thread"):
            Daemon("cpu").startup()
    assert [path.name for path in directory.iterdir()] == []
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread not in before])
    daemon = Daemon("cpu")
    daemon.startup()
    daemon.shutdown()


def test_a_start_after_which_grpc_cannot_even_stop_leaves_no_files(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC needs a thread to stop, which it may not get if memory was too short to start."""

    def fails(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    daemon = Daemon("cpu", "127.0.0.1:0")
    with monkeypatch.context() as patch:
        patch.setattr("grpc._server._Server.start", fails)
        patch.setattr("grpc._server._Server.stop", fails)
        with pytest.raises(RuntimeError, match="new thread"):
            daemon.startup()
        with pytest.raises(RuntimeError, match="new thread"):
            Daemon("cpu").startup()
    assert [path.name for path in directory.iterdir()] == []


def test_invalid_addresses_and_drivers_are_refused(tmp_path: Path, directory: Path) -> None:
    with pytest.raises(UnavailableDevice, match="no driver 'nothing'"):
        Daemon("nothing").startup()
    assert not list(directory.iterdir())
    with pytest.raises(BadData, match="address"):
        Daemon("cpu", "nowhere")
    with pytest.raises(BadData, match="--insecure"):
        Daemon("cpu", "0.0.0.0:0").startup()
    with pytest.raises(BadData, match="use a shorter path"):
        Daemon("cpu", f"unix://{tmp_path}/{'x' * 108}")


def test_what_a_device_measures_is_measured_before_clients_come(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[bool] = []

    class Measuring(AddingDevice):
        def measure(self) -> None:
            served.append((directory / "measuring.sock").exists())

        def capabilities(self) -> Capabilities:
            served.append((directory / "measuring.sock").exists())
            return super().capabilities()

    monkeypatch.setattr("neurald.service.daemon.daemon.create_device", lambda driver: Measuring())
    daemon = Daemon("measuring")
    daemon.startup()
    daemon.shutdown()
    assert served == [False, False]


def test_a_device_that_says_what_none_may_is_not_served(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "neurald.service.daemon.daemon.create_device", lambda driver: AddingDevice(version="")
    )
    with pytest.raises(BadData, match="driver wrong has a fault: its version is ''"):
        Daemon("wrong").startup()
    assert not list(directory.iterdir())


@pytest.mark.parametrize("error", [None, UnavailableDevice("it is lost"), RuntimeError("no luck")])
def test_a_device_is_opened_while_its_first_client_connects(
    directory: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    may_open, opened = threading.Event(), threading.Event()

    class Opening(AddingDevice):
        def open_ahead(self) -> None:
            may_open.wait(30)
            opened.set()
            if error is not None:
                raise error

    monkeypatch.setattr("neurald.service.daemon.daemon.create_device", lambda driver: Opening())
    daemon = Daemon("opening")
    daemon.startup()
    assert not opened.is_set()
    may_open.set()
    assert opened.wait(30)
    remote = connect(daemon.address)
    assert add(remote, 2) == 3
    remote.close()
    daemon.shutdown()


def test_stop_from_another_thread(directory: Path) -> None:
    daemon = Daemon("cpu")
    daemon.startup()
    threading.Timer(0.1, daemon.stop).start()
    daemon.serve()
    daemon.shutdown()
    daemon = Daemon("cpu")
    daemon.startup()
    daemon.stop()  # before the process is waited for
    daemon.serve()
    daemon.shutdown()


def test_running_a_daemon_leaves_the_process_as_it_was(directory: Path) -> None:
    before, interval_s = signal.getsignal(signal.SIGTERM), sys.getswitchinterval()
    space = resource.getrlimit(resource.RLIMIT_AS)
    said: list[str] = []

    def ready(address: str) -> None:
        said.append(address)
        assert resource.getrlimit(resource.RLIMIT_AS) != space
        os.kill(os.getpid(), signal.SIGTERM)

    assert run_daemon(Daemon("cpu"), ready=ready) == 0
    assert said == [f"unix://{directory}/cpu.sock"]
    assert signal.getsignal(signal.SIGTERM) is before
    assert (sys.getswitchinterval(), resource.getrlimit(resource.RLIMIT_AS)) == (interval_s, space)
    with pytest.raises(UnavailableDevice):
        run_daemon(Daemon("nothing"))
    assert signal.getsignal(signal.SIGTERM) is before


# In a separate process


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it(number: int) -> None:
    with daemon_process("cpu") as (process, address):
        path = Path(address.removeprefix("unix://"))
        remote = connect(address)
        assert add(remote, 1) == 2
        process.send_signal(number)
        assert process.wait(20) == 0
        assert [each.name for each in path.parent.iterdir()] == []
        with pytest.raises(DeadObject):
            add(remote, 1)
        remote.close()


def test_it_says_once_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 100.0
    monkeypatch.setattr("neurald.service.daemon.daemon.time.monotonic", lambda: now_s)
    is_forced = Daemon("cpu", "unix:///tmp/x/waits.sock", drain_s=7)._reports_while_it_drains()
    assert not is_forced()
    assert not caplog.records
    for _ in range(3):
        now_s += 2
        assert not is_forced()
    (record,) = caplog.records
    assert "running calls, for 7 s at most; a second signal" in record.getMessage()


@pytest.mark.slow
def test_while_it_drains() -> None:
    with daemon_process("support.models.addition:create_slow") as (process, address):
        remote = connect(address)
        prepared = remote.prepare_model(addition(np.ones(2)), PrepareOptions())
        values = np.full(2, -2, np.float32)
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(prepared.execute, request(values, values), ExecuteOptions())
            wait_until(lambda: remote.status().calls == 1)
            process.terminate()
            wait_until(lambda: health(address) == health_pb2.HealthCheckResponse.NOT_SERVING)
            assert health(address, DEVICE_SERVICE) == health_pb2.HealthCheckResponse.NOT_SERVING
            with pytest.raises(DeadObject):
                add(remote, 1)
            with pytest.raises(BadState, match="already"):
                Daemon("cpu", address).startup()
            assert slow.result().is_sufficient
        assert values.tolist() == [-1, -1]
        assert process.wait(20) == 0
        remote.close()


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize("how", ["second signal", "time"])
def test_a_call_that_does_not_end(how: str) -> None:
    drain_s = 0.3 if how == "time" else 30.0
    with daemon_process("support.models.addition:create_slow", drain_s=drain_s) as (process, address):
        remote = connect(address)
        prepared = remote.prepare_model(addition(np.ones(2)), PrepareOptions())
        values = np.full(2, -60, np.float32)
        with ThreadPoolExecutor(1) as pool:
            endless = pool.submit(prepared.execute, request(values, values), ExecuteOptions())
            wait_until(lambda: remote.status().calls == 1)
            started = time.monotonic()
            process.terminate()
            # A second signal that arrives before the first one is handled is merged with it.
            while how == "second signal" and not wait([endless], 0.3).done:
                process.terminate()
            with pytest.raises(DeadObject):
                endless.result()
            assert process.wait(20) == 0
            assert time.monotonic() < started + 20
        assert not Path(address.removeprefix("unix://")).exists()
        remote.close()


@pytest.mark.slow
def test_a_killed_daemon_does_not_block_the_next_one(tmp_path: Path) -> None:
    place = f"unix://{tmp_path}/d.sock"
    with daemon_process("cpu", place) as (process, _):
        process.kill()
        process.wait()
    assert (tmp_path / "d.sock").exists()
    with running_daemon("cpu", place):
        assert add(connect(place), 3) == 4


@pytest.mark.slow
def test_a_daemon_at_the_default_address_is_found(directory: Path) -> None:
    directory.parent.chmod(0o700)
    with daemon_process("cpu", "") as (process, address):
        assert running_daemons() == (address,)
        stop_process(process)
        assert running_daemons() == ()


@pytest.mark.slow
def test_starting_loads_little(tmp_path: Path) -> None:
    program = (
        "import sys, neurald.service.daemon.daemon\n"
        "print(*(name for name in ('llvmlite', 'tflite', 'PIL', 'rich', 'typer') if name in sys.modules))\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
