"""Waiting clients notice a silent daemon within two seconds, and wait for a busy one."""

import ctypes
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import daemon_process, freeze_process
from support.models.addition import AddingDevice, addition, request
from support.models.small import add_model
from support.waiting import wait_until

from neurald.hal.device import (
    BufferDescription,
    BufferRole,
    ExecuteOptions,
    PrepareOptions,
    Verdict,
)
from neurald.hal.errors import DeadObject, Error, UnavailableDevice
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model
from neurald.hal.rpc.client.device import RemoteDevice, connect

KEYED = PrepareOptions(cache_key=bytes(32))
NOW = PrepareOptions()
RUN = ExecuteOptions()
#: Two seconds is what is promised. The rest is for a machine that is busy with other tests.
NOTICED_S = 3.5
SHAPE = (2, 3)
LONG = np.full(3, -60, np.float32)
ZEROS = np.zeros(3, np.float32)
PLACES = [None, "127.0.0.1:0"]
#: Longer than silence takes to be noticed.
HELD_S = 4.0
#: The variable with the path of a file that exists when the interpreter's lock is kept.
_HOLDS = "NEURALD_TEST_HOLDS"


class HoldingDevice(AddingDevice):
    """A device that keeps the interpreter's lock while it looks at a model."""

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        # One call of C, which keeps the interpreter lock: the file is there when no thread runs.
        command = f"touch {shlex.quote(os.environ[_HOLDS])}; sleep {HELD_S}"
        ctypes.PyDLL(None).system(command.encode())
        return super().supported_operations(model)


def create_holding() -> AddingDevice:
    return HoldingDevice()


@contextmanager
def frozen(process: Any) -> Iterator[None]:
    freeze_process(process)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def waiting_calls(address: str) -> dict[str, Callable[[], Any]]:
    """Returns a call of each kind, through a connection of its own."""
    model, values = add_model(SHAPE), np.zeros(SHAPE, np.float32)

    def device() -> RemoteDevice:
        return connect(address)

    def role(prepared: Any) -> tuple[BufferRole, ...]:
        return (BufferRole(prepared_model=prepared, index=0, probability=1.0),)

    def bound() -> Any:
        memory = [HostMemory(values.copy()) for _ in range(3)]
        one = request(values, values)
        first = one.inputs[0]
        return type(one)(
            inputs=(first, type(first)(pool=2, length=values.nbytes, dimensions=SHAPE)),
            outputs=one.outputs,
            pools=tuple(memory),
        )

    calls: dict[str, Callable[[], Any]] = {
        "status": device().status,
        "supported": partial(device().supported_operations, model),
        "prepare": partial(device().prepare_model, model, NOW),
    }
    cached = device()
    artifact = cached.prepare_model(model, KEYED).artifact()
    assert artifact is not None
    calls["prepare from cache"] = lambda: cached.prepare_model_from_cache(artifact, KEYED)
    executing, profiling, bursting, fencing, keeping = (device() for _ in range(5))
    runs, profiles, bursts, fences, keeps = (
        each.prepare_model(model, NOW) for each in (executing, profiling, bursting, fencing, keeping)
    )
    calls["execute"] = lambda: runs.execute(bound(), RUN)
    calls["profile"] = profiles.profile
    burst, wanted = bursts.create_burst(), bound()
    burst.execute(wanted, RUN)
    calls["burst, a request it knows"] = lambda: burst.execute(wanted, RUN)
    other = bursts.create_burst()
    calls["burst, a request that is new"] = lambda: other.execute(bound(), RUN)
    if address.startswith("unix:"):  # elsewhere nothing is asked for that
        calls["create a burst"] = device().prepare_model(model, NOW).create_burst
    calls["fenced"] = lambda: fences.execute_fenced(bound(), (), RUN).result()
    buffers = [
        keeping.allocate(BufferDescription(input_roles=role(keeps), dimensions=SHAPE)) for _ in range(2)
    ]
    buffers[1].write(HostMemory(values))
    calls["write a buffer"] = lambda: buffers[0].write(HostMemory(values))
    calls["read a buffer"] = lambda: buffers[1].read(HostMemory(values.copy()))
    calls["allocate"] = lambda: keeping.allocate(BufferDescription(input_roles=role(keeps), dimensions=SHAPE))
    return calls


def noticed(call: Callable[[], Any]) -> tuple[Error | None, float]:
    """Returns the error of a call, and how long the call took."""
    started = time.monotonic()
    try:
        call()
    except Error as error:
        return error, time.monotonic() - started
    return None, time.monotonic() - started


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize("listen", PLACES)
@pytest.mark.sampled(2)
def test_every_call_notices_silence(listen: str | None) -> None:
    with daemon_process("sample-all", listen) as (process, address), ThreadPoolExecutor(32) as pool:
        calls = waiting_calls(address)
        with frozen(process):
            calls["connect"] = lambda: connect(address)
            outcomes = dict(zip(calls, pool.map(noticed, calls.values()), strict=True))
        for name, (error, elapsed) in outcomes.items():
            expected = UnavailableDevice if name == "connect" else DeadObject
            assert isinstance(error, expected), (name, error)
            assert "its process is stopped" in str(error), name
            assert elapsed < NOTICED_S, name
        # It continues, and clients can connect again.
        assert len(connect(address).supported_operations(add_model(SHAPE))) == 1


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize("listen", PLACES)
@pytest.mark.sampled(2)
def test_silence_in_the_middle_of_work(listen: str | None) -> None:
    with (
        daemon_process("support.models.addition:create_slow", listen) as (process, address),
        ThreadPoolExecutor(8) as pool,
    ):
        prepared = [connect(address).prepare_model(addition(ZEROS), NOW) for _ in range(3)]
        preparing = connect(address)
        burst = prepared[0].create_burst()
        futures = {
            "burst": pool.submit(noticed, lambda: burst.execute(request(LONG, ZEROS.copy()), RUN)),
            "execute": pool.submit(noticed, lambda: prepared[1].execute(request(LONG, ZEROS.copy()), RUN)),
            "fenced": pool.submit(
                noticed, lambda: prepared[2].execute_fenced(request(LONG, ZEROS.copy()), (), RUN).result()
            ),
            "prepare": pool.submit(noticed, lambda: preparing.prepare_model(addition(LONG), NOW)),
        }
        watching = connect(address)
        while watching.status().calls < len(futures):
            time.sleep(0.01)
        started = time.monotonic()
        with frozen(process):
            for name, future in futures.items():
                error, _ = future.result()
                assert isinstance(error, DeadObject), name
                assert "stopped answering" in str(error), name
                assert time.monotonic() < started + NOTICED_S, name
        process.kill()  # it sleeps for long


@pytest.mark.slow
@pytest.mark.parametrize("listen", PLACES)
@pytest.mark.sampled(2)
def test_a_busy_daemon_is_not_silent(listen: str | None, tmp_path: Path) -> None:
    """No Python thread runs in the daemon meanwhile: calls wait, and so do new clients."""
    driver = f"{create_holding.__module__}:create_holding"
    holds = tmp_path / "holds"
    with (
        daemon_process(driver, listen, environment={_HOLDS: str(holds)}) as (_, address),
        ThreadPoolExecutor(8) as pool,
    ):
        asking, waiting = connect(address), connect(address)
        prepared = waiting.prepare_model(addition(ZEROS), NOW)
        burst = prepared.create_burst()
        wanted = request(ZEROS, ZEROS.copy())
        burst.execute(wanted, RUN)
        begun_s = time.monotonic()
        asked = pool.submit(asking.supported_operations, addition(ZEROS))
        wait_until(holds.exists)
        others: list[Callable[[], Any]] = [
            lambda: connect(address),
            waiting.status,
            lambda: prepared.execute(request(ZEROS, ZEROS.copy()), RUN),
            lambda: waiting.prepare_model(addition(ZEROS), NOW),
            lambda: burst.execute(wanted, RUN),
        ]
        outcomes = list(pool.map(noticed, others))
        assert [error for error, _ in outcomes] == [None] * len(others)
        assert time.monotonic() >= begun_s + HELD_S, "the lock was held"
        assert asked.result()[0].ok
