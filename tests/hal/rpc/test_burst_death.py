"""Daemons and clients that die during a burst, and what remains of them."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.daemon.processes import daemon_process, freeze_process, running_daemon, stop_process
from support.models.addition import addition, request
from support.waiting import wait_until

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import DeadObject, MissedDeadlineTransient
from neurald.hal.rpc.client import connection_life
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.client.rings import ring_peer

NOW = PrepareOptions()
RUN = ExecuteOptions()


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize("is_under_way", [False, True])
def test_a_daemon_that_is_killed(is_under_way: bool) -> None:
    with daemon_process("support.models.addition:create_slow") as (process, address):
        remote = connect(address)
        burst = remote.prepare_model(addition(np.zeros(3)), NOW).create_burst()
        values, result = np.ones(3, np.float32), np.zeros(3, np.float32)
        wanted = request(values, result)
        burst.execute(wanted, RUN)
        killed: list[float] = []

        def kill() -> None:
            killed.append(time.monotonic())
            process.kill()

        killer = threading.Timer(0.3, kill)
        killer.start()
        if is_under_way:
            values[:] = -30
        else:
            killer.join()
            process.wait()
        with pytest.raises(DeadObject, match="gone"):
            burst.execute(wanted, RUN)
        assert time.monotonic() < killed[0] + 1
        with pytest.raises(DeadObject):
            burst.execute(wanted, RUN)
        burst.close()
        remote.close()


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_an_execution_ends_at_once_when_its_client_closes_the_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes on, so that nothing will tell a cause."""
    monkeypatch.setattr(connection_life, "_CAUSE_WAIT_S", 1000.0)
    with daemon_process("support.models.addition:create_slow") as (_, address):
        remote = connect(address)
        prepared = remote.prepare_model(addition(np.zeros(3)), NOW)
        burst = prepared.create_burst()
        # It takes longer than it takes to notice that it runs.
        values, result = np.full(3, -4, np.float32), np.zeros(3, np.float32)

        def close() -> None:
            wait_until(lambda: remote.status().calls == 1)
            burst.close()

        closer = threading.Thread(target=close)
        closer.start()
        with pytest.raises(DeadObject, match="the ring has ended"):
            burst.execute(request(values, result), RUN)
        closer.join()
        values[:] = 1
        prepared.execute(request(values, result), RUN)
        assert result.tolist() == [1, 1, 1]
        remote.close()


@pytest.mark.slow
def test_a_daemon_that_stops_lets_the_run_under_way_finish() -> None:
    with daemon_process("support.models.addition:create_slow") as (process, address):
        remote = connect(address)
        burst = remote.prepare_model(addition(np.zeros(3)), NOW).create_burst()
        values, result = np.full(3, -1, np.float32), np.zeros(3, np.float32)
        statuses: list[int] = []

        def stop() -> None:
            wait_until(lambda: remote.status().calls == 1)
            statuses.append(stop_process(process))

        stopper = threading.Thread(target=stop)
        stopper.start()
        assert burst.execute(request(values, result), RUN).is_sufficient
        stopper.join()
        assert statuses == [0]
        assert result.tolist() == [-1, -1, -1]
        with pytest.raises(DeadObject):
            burst.execute(request(values, result), RUN)
        burst.close()
        remote.close()


@pytest.mark.timed
@pytest.mark.slow
def test_a_daemon_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_peer, "_ANSWER_TIMEOUT_S", 1.0)
    with daemon_process("support.models.addition:create_slow") as (process, address):
        remote = connect(address)
        prepared = remote.prepare_model(addition(np.zeros(3)), NOW)
        first, second = prepared.create_burst(), prepared.create_burst()
        values, result = np.full(3, -1.2, np.float32), np.zeros(3, np.float32)
        wanted = request(values, result)
        # It takes its time and answers calls meanwhile, so it does not hang.
        first.execute(wanted, RUN)
        second.execute(wanted, RUN)
        freeze_process(process)
        try:
            with pytest.raises(MissedDeadlineTransient):
                first.execute(wanted, ExecuteOptions(deadline_s=time.monotonic() + 0.1))
            with pytest.raises(DeadObject, match="hangs"):
                second.execute(wanted, RUN)
        finally:
            process.send_signal(signal.SIGCONT)
        for burst in (first, second):
            burst.close()
        remote.close()


@pytest.mark.slow
def test_clients_that_are_killed_leave_nothing() -> None:
    program = (
        "import sys, numpy as np\n"
        "from neurald.hal.device import ExecuteOptions, PrepareOptions\n"
        "from neurald.hal.rpc.client.device import connect\n"
        "from support.models.addition import addition, request\n"
        "prepared = connect(sys.argv[1]).prepare_model(addition(np.zeros(3)), PrepareOptions())\n"
        "burst = prepared.create_burst()\n"
        "values = np.full(3, float(sys.argv[2]), np.float32)\n"
        "wanted = request(values, values.copy())\n"
        "print('ready', flush=True)\n"
        "while True: burst.execute(wanted, ExecuteOptions())\n"
    )
    folders = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    with daemon_process("support.models.addition:create_slow") as (process, address):
        remote = connect(address)
        prepared = remote.prepare_model(addition(np.zeros(3)), NOW)
        burst = prepared.create_burst()
        values, result = np.ones(3, np.float32), np.zeros(3, np.float32)
        wanted = request(values, result)
        burst.execute(wanted, RUN)
        descriptors = Path(f"/proc/{process.pid}/fd")
        tasks = Path(f"/proc/{process.pid}/task")
        memories = remote.status().memories
        before = len(list(descriptors.iterdir()))
        threads = len(list(tasks.iterdir()))
        clients = [
            subprocess.Popen(
                [sys.executable, "-c", program, address, seconds],
                stdout=subprocess.PIPE,
                env=environment,
                text=True,
            )
            for seconds in ("0", "-1", "0")
        ]
        for client in clients:
            assert client.stdout is not None
            assert client.stdout.readline() == "ready\n"
        assert remote.status().sessions == 4
        for client in clients:
            client.kill()
            client.communicate()
        burst.execute(wanted, RUN)
        assert result.tolist() == [1, 1, 1]
        wait_until(lambda: remote.status().sessions == 1)
        wait_until(lambda: (remote.status().calls, remote.status().memories) == (0, memories))
        wait_until(lambda: len(list(descriptors.iterdir())) <= before)
        # Those of gRPC's pool stay.
        wait_until(lambda: len(list(tasks.iterdir())) <= threads + 64)
        burst.close()
        remote.close()


@pytest.mark.slow
def test_nothing_is_burnt_while_nothing_is_to_do() -> None:
    with daemon_process("support.models.addition:create") as (process, address):
        remote = connect(address)
        burst = remote.prepare_model(addition(np.zeros(3)), NOW).create_burst()
        values = np.ones(3, np.float32)
        burst.execute(request(values, values.copy()), RUN)

        def ticks() -> int:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            return int(fields[11]) + int(fields[12])

        before = ticks()
        time.sleep(1)
        assert ticks() - before < 50  # of 100 in a second
        burst.close()
        remote.close()


@pytest.mark.slow
def test_two_processes_and_many_runs() -> None:
    with running_daemon("support.models.addition:create") as address:
        remote = connect(address)
        burst = remote.prepare_model(addition(np.ones(1000)), NOW).create_burst()
        values, result = np.zeros(1000, np.float32), np.zeros(1000, np.float32)
        wanted = request(values, result)
        for number in range(2000):
            values[:] = number
            burst.execute(wanted, RUN)
            assert result[0] == result[-1] == number + 1
        burst.close()
        remote.close()
