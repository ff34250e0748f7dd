"""Prepared models that sessions of one user share: who shares what, and for how long."""

import contextlib
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.devices.caching import CachingDevice
from support.models.addition import AddingDevice, addition, request
from support.waiting import wait_until

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import Cancelled, MissedDeadlineTransient, OpFailed
from neurald.hal.model.types import Preference, Priority
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.sync.cancellation import Cancellation

NOW = PrepareOptions()
CLIENTS = 16


@pytest.fixture
def device() -> AddingDevice:
    return AddingDevice()


@pytest.fixture
def prepared(device: AddingDevice) -> list[Any]:
    """The models that the device was given, in order."""
    given: list[Any] = []
    device.on_prepare = lambda model, options: given.append(options)
    return given


@pytest.fixture(params=["unix", "tcp"])
def server(request: pytest.FixtureRequest, tmp_path: Path, device: AddingDevice) -> Iterator[DeviceServer]:
    place = f"unix://{tmp_path}/d.sock" if request.param == "unix" else "127.0.0.1:0"
    server = DeviceServer(device, Address.parse(place))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def clients(server: DeviceServer) -> Iterator[list[RemoteDevice]]:
    with contextlib.ExitStack() as stack:
        found = [connect(str(server.address)) for _ in range(CLIENTS)]
        for each in found:
            stack.callback(each.close)
        yield found


def runs(model: Any, constant: float) -> bool:
    values, result = np.arange(6, dtype=np.float32), np.empty(6, np.float32)
    model.execute(request(values, result), ExecuteOptions())
    return bool(np.array_equal(result, values + constant))


@pytest.mark.quick
def test_the_same_model_is_prepared_once(clients: list[RemoteDevice], prepared: list[Any]) -> None:
    models = [each.prepare_model(addition(np.full(6, 3.0)), NOW) for each in clients]
    assert len(prepared) == 1
    assert all(runs(model, 3) for model in models)


def test_at_the_same_time(clients: list[RemoteDevice], device: AddingDevice) -> None:
    count = 0
    end = threading.Event()

    def wait(*_: Any) -> None:
        nonlocal count
        count += 1
        end.wait(0.3)

    device.on_prepare = wait
    with ThreadPoolExecutor(CLIENTS) as pool:
        models = list(pool.map(lambda each: each.prepare_model(addition(np.full(6, 3.0)), NOW), clients))
    assert count == 1
    assert all(runs(model, 3) for model in models)


def test_what_differs_is_not_shared(clients: list[RemoteDevice], prepared: list[Any]) -> None:
    models = [each.prepare_model(addition(np.full(6, float(n))), NOW) for n, each in enumerate(clients)]
    assert len(prepared) == CLIENTS
    assert all(runs(model, n) for n, model in enumerate(models))
    same = addition(np.full(6, 0.0))
    for options in (
        PrepareOptions(preference=Preference.LOW_POWER),
        PrepareOptions(threads=2),
        PrepareOptions(cache_key=bytes(32)),
    ):
        models.append(clients[-1].prepare_model(same, options))
    assert len(prepared) == CLIENTS + 3
    # The priority is that of each session.
    models.append(clients[-1].prepare_model(same, PrepareOptions(priority=Priority.HIGH)))
    assert len(prepared) == CLIENTS + 3
    # A session does not share with itself.
    models.append(clients[0].prepare_model(same, NOW))
    assert len(prepared) == CLIENTS + 4


def test_users_do_not_share(
    server: DeviceServer, prepared: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = connect(str(server.address))
    second = connect(str(server.address))
    sessions = server.handler.sessions.all()
    for number, session in enumerate(sessions):
        session.user = number
    models = [each.prepare_model(addition(np.full(6, 3.0)), NOW) for each in (first, second)]
    assert len(prepared) == 2
    assert all(runs(model, 3) for model in models)
    for each in (first, second):
        each.close()


def test_a_model_lives_as_long_as_its_last_user(
    clients: list[RemoteDevice], device: AddingDevice, prepared: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Any]] = []
    prepare = device.prepare_model

    def noted(*arguments: Any) -> Any:
        model = prepare(*arguments)
        made.append(weakref.ref(model))
        return model

    monkeypatch.setattr(device, "prepare_model", noted)
    models = [each.prepare_model(addition(np.full(6, 3.0)), NOW) for each in clients[:3]]
    clients[0].close()
    del models[0]
    assert runs(models[0], 3)
    models.append(clients[4].prepare_model(addition(np.full(6, 3.0)), NOW))
    assert len(made) == 1
    for each in clients:
        each.close()
    models.clear()

    def is_gone() -> bool:
        gc.collect()
        return made[0]() is None

    wait_until(is_gone)


def test_a_failure_is_that_of_one(clients: list[RemoteDevice], device: AddingDevice) -> None:
    failures = [OpFailed("no")]

    def fail_once(*_: Any) -> None:
        if failures:
            threading.Event().wait(0.1)
            raise failures.pop()

    device.on_prepare = fail_once
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(each.prepare_model, addition(np.full(6, 3.0)), NOW) for each in clients[:4]]
    errors = [future.exception() for future in futures]
    assert sum(error is not None for error in errors) == 1
    assert all(runs(future.result(), 3) for future in futures if future.exception() is None)


def test_who_waits_can_give_up(server: DeviceServer, device: AddingDevice) -> None:
    first, second = connect(str(server.address)), connect(str(server.address))
    started, end = threading.Event(), threading.Event()

    def wait(*_: Any) -> None:
        started.set()
        end.wait(60)

    device.on_prepare = wait
    model = addition(np.full(6, 3.0))
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(first.prepare_model, model, NOW)
        assert started.wait(60)
        # Long enough to begin before it has passed, also on a busy machine.
        with pytest.raises(MissedDeadlineTransient):
            second.prepare_model(model, PrepareOptions(deadline_s=time.monotonic() + 1.0))
        shared = server.handler.models._shared
        session = next(s for s in server.handler.sessions.all() if not len(s.models))
        cancellation = Cancellation()
        cancellation.cancel()
        key = next(iter(shared._being_prepared))
        with pytest.raises(Cancelled):
            shared._begin(key, session, (), None, cancellation)
        end.set()
        assert runs(future.result(), 3)
    for each in (first, second):
        each.close()


def test_artifacts(tmp_path: Path) -> None:
    device = CachingDevice()
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    clients = [connect(str(server.address)) for _ in range(4)]
    options = PrepareOptions(cache_key=bytes(range(32)))
    model = addition(np.full(6, 3.0))
    first = clients[0].prepare_model(model, options)
    artifact = first.artifact()
    assert artifact is not None
    restored = [each.prepare_model_from_cache(artifact, options) for each in clients[1:]]
    handler = server.handler
    held = {
        id(session.models.find(handle).prepared_model)
        for session in handler.sessions.all()
        for handle in (1,)
    }
    assert len(held) == 1
    assert len(restored) == 3
    for each in clients:
        each.close()
    server.stop()
