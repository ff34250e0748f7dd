"""Daemons and clients that die, and what remains of them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import daemon_process, running_daemon, stop_process
from support.models.addition import AddingDevice, addition, run_addition
from support.waiting import wait_until

from neurald.hal.device import Capabilities, ExecuteOptions, Performance, PrepareOptions
from neurald.hal.errors import DeadObject, Unreachable
from neurald.hal.model.types import OperandType
from neurald.hal.records import replace
from neurald.hal.rpc.client.device import _RecentSilence, connect

NOW = PrepareOptions()
RUN = ExecuteOptions()


class MeasuredAgain(AddingDevice):
    """The same device as `AddingDevice`, with other performance figures."""

    def capabilities(self) -> Capabilities:
        figure = Performance(exec_time=0.123, power_usage=0.25)
        return replace(super().capabilities(), operand_performance={OperandType.TENSOR_FLOAT32: figure})


def create_measured_again() -> AddingDevice:
    return MeasuredAgain()


def create_dying() -> AddingDevice:
    device = AddingDevice()
    device.on_prepare = lambda model, options: os.kill(os.getpid(), signal.SIGKILL)
    return device


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize("listen", [None, "127.0.0.1:0"])
@pytest.mark.parametrize("phase", ["idle", "prepare", "execute"])
@pytest.mark.sampled(2)
def test_a_daemon_that_is_killed(listen: str | None, phase: str) -> None:
    with daemon_process("support.models.addition:create_slow", listen) as (process, address):
        remote = connect(address)
        prepared = remote.prepare_model(addition(np.zeros(3)), NOW)
        assert run_addition(prepared, np.ones(3, np.float32)).tolist() == [1, 1, 1]
        calls: dict[str, Callable[[], Any]] = {
            "idle": lambda: time.sleep(0.3),
            "prepare": lambda: remote.prepare_model(addition(np.full(3, -30)), NOW),
            "execute": lambda: run_addition(prepared, np.full(3, -30, np.float32)),
        }
        killed: list[float] = []

        def kill() -> None:
            killed.append(time.monotonic())
            process.kill()

        killer = threading.Timer(0.3, kill)
        killer.start()
        if phase == "idle":
            calls[phase]()
        else:
            with pytest.raises(DeadObject, match="gone: it died"):
                calls[phase]()
            assert time.monotonic() < killed[0] + 2
        process.wait()
        wait_until(lambda: not remote.is_alive)
        for call in (
            lambda: run_addition(prepared, np.ones(3, np.float32)),
            lambda: remote.prepare_model(addition(np.zeros(3)), NOW),
            lambda: remote.supported_operations(addition(np.zeros(3))),
            remote.status,
        ):
            started = time.monotonic()
            with pytest.raises(DeadObject):
                call()
            assert time.monotonic() < started + 2
        assert remote.capabilities() == AddingDevice().capabilities()
        remote.close()


@pytest.mark.slow
def test_a_device_comes_back_but_not_its_models(tmp_path: Path) -> None:
    place = f"unix://{tmp_path}/d.sock"
    with daemon_process("support.models.addition:create", place) as (process, address):
        remote = connect(address)
        old = remote.prepare_model(addition(np.ones(3)), NOW)
        process.kill()
        process.wait()
    values = np.ones(3, np.float32)
    with running_daemon("support.models.addition:create", place):
        with pytest.raises(DeadObject):
            run_addition(old, values)
        new = remote.prepare_model(addition(np.ones(3)), NOW)
        assert remote.is_alive
        assert run_addition(new, values).tolist() == [2, 2, 2]
        with pytest.raises(DeadObject):
            run_addition(old, values)
    with running_daemon("sample-all", place):
        for _ in range(2):
            with pytest.raises(
                DeadObject, match=r"another device is served .*sample-all instead of OTHER adder"
            ):
                remote.supported_operations(addition(np.ones(3)))
        assert connect(place).name == "sample-all@d"
    with running_daemon("support.models.addition:create", place):
        remote.prepare_model(addition(np.ones(3)), NOW)
    remote.close()


@pytest.mark.slow
def test_a_device_is_the_same_whatever_its_version_and_its_measurements(tmp_path: Path) -> None:
    place = f"unix://{tmp_path}/d.sock"
    with running_daemon("support.models.addition:create", place):
        remote = connect(place)
        before = remote.capabilities()
        remote.prepare_model(addition(np.ones(3)), NOW)
    with running_daemon(f"{__name__}:create_measured_again", place):
        new = remote.prepare_model(addition(np.ones(3)), NOW)
        assert run_addition(new, np.ones(3, np.float32)).tolist() == [2, 2, 2]
        assert remote.version == "1"
        assert remote.capabilities() == create_measured_again().capabilities() != before
    with running_daemon("support.models.addition:create_other", place):
        remote.reconnect()
        assert remote.version == "2"
        assert remote.capabilities() == before
        new = remote.prepare_model(addition(np.ones(3)), NOW)
        assert run_addition(new, np.ones(3, np.float32)).tolist() == [2, 2, 2]
    remote.close()


@pytest.mark.slow
@pytest.mark.parametrize("listen", [None, "127.0.0.1:0"])
def test_a_model_that_kills_its_driver_is_prepared_once(listen: str | None, tmp_path: Path) -> None:
    """It is not prepared again by a daemon that was started after the first one died."""
    place = listen or f"unix://{tmp_path}/d.sock"
    with daemon_process(f"{__name__}:create_dying", place) as (process, address):
        remote = connect(address)
        with pytest.raises(DeadObject, match=r"died.*while it prepared a model"):
            remote.prepare_model(addition(np.zeros(3)), NOW)
        process.wait()
        with running_daemon("support.models.addition:create", address):
            assert remote.status().prepared_models == 0
            prepared = remote.prepare_model(addition(np.zeros(3)), NOW)
            assert run_addition(prepared, np.ones(3, np.float32)).tolist() == [1, 1, 1]
    remote.close()


@pytest.mark.slow
@pytest.mark.parametrize("listen", [None, "127.0.0.1:0"])
def test_clients_that_are_killed_disturb_nobody(listen: str | None) -> None:
    program = (
        "import sys, numpy as np\n"
        "from neurald.hal.device import ExecuteOptions, PrepareOptions\n"
        "from neurald.hal.rpc.client.device import connect\n"
        "from support.models.addition import addition, request\n"
        "prepared = connect(sys.argv[1]).prepare_model(addition(np.zeros(3)), PrepareOptions())\n"
        "print('ready', flush=True)\n"
        "values = np.full(3, float(sys.argv[2]), np.float32)\n"
        "while True: prepared.execute(request(values, values.copy()), ExecuteOptions())\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[2]), *filter(None, sys.path))),
    }
    with running_daemon("support.models.addition:create_slow", listen) as address:
        remote = connect(address)
        prepared = remote.prepare_model(addition(np.zeros(3)), NOW)
        clients = [
            subprocess.Popen(
                [sys.executable, "-c", program, address, seconds],
                stdout=subprocess.PIPE,
                env=environment,
                text=True,
            )
            for seconds in ("0", "-1")
        ]
        for client in clients:
            assert client.stdout is not None
            assert client.stdout.readline() == "ready\n"
        assert remote.status().sessions == 3
        time.sleep(0.1)
        for client in clients:
            client.kill()
            client.communicate()
        assert run_addition(prepared, np.ones(3, np.float32)).tolist() == [1, 1, 1]
        wait_until(lambda: remote.status().sessions == 1)
        wait_until(lambda: (remote.status().calls, remote.status().prepared_models) == (0, 1))
        remote.close()


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("listen", [None, "127.0.0.1:0"])
def test_a_daemon_that_stops_lets_calls_finish(listen: str | None) -> None:
    with daemon_process("support.models.addition:create_slow", listen) as (process, address):
        remote = connect(address)
        prepared = remote.prepare_model(addition(np.zeros(3)), NOW)
        with ThreadPoolExecutor(1) as pool:
            # Long enough for a machine under load to see the call under way.
            slow = pool.submit(run_addition, prepared, np.full(3, -4, np.float32))
            wait_until(lambda: remote.status().calls == 1)
            assert stop_process(process) == 0
            assert slow.result().tolist() == [-4, -4, -4]
        with pytest.raises(DeadObject):
            run_addition(prepared, np.ones(3, np.float32))
        remote.close()


def test_the_successor_of_a_silent_daemon_is_used_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    address = f"unix://{tmp_path_factory.mktemp('d')}/d.sock"
    with daemon_process("sample-float-fast", address) as (process, _):
        device = connect(address)
        process.kill()
        process.wait()
    wait_until(lambda: not device.is_alive)
    # As after a call that has waited for it in vain.
    device._silence = _RecentSilence(until=time.monotonic() + 3600, reason="it was silent a moment ago")
    with pytest.raises(Unreachable, match="a moment ago"):
        device.reconnect()
    with daemon_process("sample-float-fast", address):
        device.reconnect()
        assert device.is_alive
        device.close()
