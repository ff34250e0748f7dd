"""Daemons that can no longer serve, and limits on what unauthenticated clients can occupy."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from support.daemon import memory_shortage
from support.daemon.processes import daemon_process
from support.waiting import wait_until

from neurald.hal.errors import Error
from neurald.hal.rpc.client.device import connect
from neurald.service.daemon import health
from neurald.service.daemon.daemon import Daemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon("support.models.addition:AddingDevice", f"unix://{tmp_path}/d.sock")
    daemon.startup()
    yield daemon
    daemon.shutdown()


@pytest.mark.slow
def test_a_daemon_whose_serving_thread_has_no_memory_ends(tmp_path: Path) -> None:
    """Otherwise the daemon would keep its socket and its lock, but answer no calls."""
    shortage = tmp_path / "shortage"
    environment = {memory_shortage.PATH: str(shortage)}
    listen = f"unix://{tmp_path}/d.sock"
    with daemon_process("support.daemon.memory_shortage:create", listen, environment=environment) as (
        process,
        _,
    ):
        remote = connect(listen)
        shortage.touch()
        with pytest.raises(Error):
            connect(listen)
        assert process.wait(20) == os.EX_SOFTWARE
        remote.close()
    shortage.unlink()
    with daemon_process("support.daemon.memory_shortage:create", listen, environment=environment):
        connect(listen).close()


def test_who_watches_health_for_longest_gives_way(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "MAX_WATCHES", 3)
    with grpc.insecure_channel(daemon.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watches = []
        for _ in range(5):
            watches.append(stub.Watch(health_pb2.HealthCheckRequest(), timeout=60))
            assert next(watches[-1]).status == health_pb2.HealthCheckResponse.SERVING
        wait_until(lambda: not watches[0].is_active() and not watches[1].is_active())
        assert all(watch.is_active() for watch in watches[2:])
        for watch in watches:
            watch.cancel()
        wait_until(lambda: not daemon._health[0]._watches)


def test_changes_do_not_queue_up(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast a state changes, at most one notification waits for each watch."""
    states = health_pb2.HealthCheckResponse
    queue: list[Callable[[], object]] = []
    with grpc.insecure_channel(daemon.address) as channel:
        watches = [
            health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
            for _ in range(2)
        ]
        assert [next(watch).status for watch in watches] == [states.SERVING] * 2
        monkeypatch.setattr(
            daemon._health[0]._notifiers, "submit", lambda notify, watch: queue.append(lambda: notify(watch))
        )
        for state in (states.NOT_SERVING, states.SERVING, states.NOT_SERVING) * 10:
            daemon._health[0].set("", state)
        assert len(queue) == 2
        for notify in queue:
            notify()
        assert [next(watch).status for watch in watches] == [states.NOT_SERVING] * 2
        daemon._health[0].set("", states.SERVING)
        assert len(queue) == 4
        for watch in watches:
            watch.cancel()


def _answers(stub: health_pb2_grpc.HealthStub) -> bool:
    try:
        stub.Check(health_pb2.HealthCheckRequest(), timeout=20, wait_for_ready=True)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNAVAILABLE  # noqa: PT017
        return False
    return True


def test_watches_that_end_while_others_are_notified(daemon: Daemon) -> None:
    """The thread that notifies the other watches also handles the end of a watch."""
    states = health_pb2.HealthCheckResponse
    ends = threading.Event()

    def change() -> None:
        state = states.SERVING
        while not ends.is_set():
            state = states.SERVING if state == states.NOT_SERVING else states.NOT_SERVING
            daemon._set_health(state)

    thread = threading.Thread(target=change)
    with grpc.insecure_channel(daemon.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        thread.start()
        for _ in range(20):
            watches = [stub.Watch(health_pb2.HealthCheckRequest(), timeout=60) for _ in range(8)]
            for watch in watches:
                try:
                    next(watch)
                except grpc.RpcError as error:
                    # Those that have been cancelled count until the daemon has noticed it.
                    assert error.code() is grpc.StatusCode.UNAVAILABLE  # noqa: PT017
                watch.cancel()
            # The server refuses streams while it still counts those.
            wait_until(lambda: _answers(stub))
        ends.set()
        thread.join()


def test_watches_are_notified_of_the_last_state(daemon: Daemon) -> None:
    states = health_pb2.HealthCheckResponse
    with grpc.insecure_channel(daemon.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=60)
        other = stub.Watch(health_pb2.HealthCheckRequest(service="other"), timeout=60)
        assert next(watch).status == states.SERVING
        assert next(other).status == states.SERVICE_UNKNOWN
        daemon._health[0].set("", states.NOT_SERVING)
        assert next(watch).status == states.NOT_SERVING
        assert other.is_active()
        with pytest.raises(grpc.RpcError, match="NOT_FOUND"):
            stub.Check(health_pb2.HealthCheckRequest(service="other"), timeout=20)
        for each in (watch, other):
            each.cancel()
