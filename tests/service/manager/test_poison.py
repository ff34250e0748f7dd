"""Models that kill their driver, under the service manager, seen from applications."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from support.daemon.managed import Managed
from support.daemon.processes import daemon_process
from support.devices.poisonous import chain
from support.waiting import wait_until

import neurald as nd
from neurald.hal.device import PrepareOptions
from neurald.hal.errors import DeadObject, Error, UnavailableDevice
from neurald.hal.model.operation_type import OperationType
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.service.manager.state import DriverState, PatternStatus

ADD, MUL, SUB, DIV = OperationType.ADD, OperationType.MUL, OperationType.SUB, OperationType.DIV
MAXIMUM, MINIMUM, POW = OperationType.MAXIMUM, OperationType.MINIMUM, OperationType.POW
SHAPE = (2, 3, 4)


@pytest.fixture
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with Managed(tmp_path_factory.mktemp("m"), driver="support.devices.poisonous:create") as manager:
        yield manager


def refused(managed: Managed) -> list[PatternStatus]:
    return [each for each in managed.status().patterns if each.is_refused]


def run(compilation: nd.Compilation, value: float = 2.0) -> bool:
    """Runs a `chain` of ADD and MUL; returns whether the result is right."""
    first, second = np.full(SHAPE, value, np.float32), np.full(SHAPE, 3, np.float32)
    expected = first
    for operation in compilation.model.main.operations:
        expected = expected + second if operation.type is ADD else expected * second
    (result,) = compilation.run(first, second)
    return bool(np.array_equal(result, expected))


def automatic(managed: Managed, model: nd.Model) -> nd.Compilation:
    """Compiles as with automatic devices: the driver's and the CPU, with fallback."""
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(managed.directory.parent))
        return nd.CompilationBuilder(model).finish()


def device_of(compilation: nd.Compilation) -> list[str]:
    return [step.device.name.split("@")[0] for step in compilation.plan.steps]


def test_a_poison_model_kills_twice_at_most_and_innocent_models_lose_no_call(managed: Managed) -> None:
    innocent = automatic(managed, chain(ADD))
    assert device_of(innocent) == ["poisonous"]
    wrong: list[str] = []
    calls = 0
    done = threading.Event()

    def use() -> None:
        nonlocal calls
        while not done.is_set():
            try:
                if not run(innocent, float(calls % 7)):
                    wrong.append("a wrong result")
            except Exception as error:
                wrong.append(repr(error))
            calls += 1

    user = threading.Thread(target=use)
    user.start()
    try:
        poison = automatic(managed, chain(ADD, MUL))
        assert device_of(poison) == ["poisonous"]
        # The CPU takes over each time, while the poison is prepared and tried again.
        wait_until(lambda: run(poison) and refused(managed))
        wait_until(lambda: any(each.narrowing for each in refused(managed)))
        for _ in range(20):
            assert run(poison)
            time.sleep(0.02)
        before = calls
        wait_until(lambda: calls > before + 10)
        wait_until(lambda: not innocent.recovery.fallbacks and run(innocent))
    finally:
        done.set()
        user.join()
    assert not wrong
    (pattern,) = refused(managed)
    assert pattern.operations == "MUL FLOAT32[2,3,4] FLOAT32[2,3,4]"
    assert pattern.cause == "signal SIGABRT"
    assert managed.status().deaths == 2
    # A new compilation is told why.
    again = automatic(managed, chain(ADD, MUL))
    assert device_of(again) == ["poisonous", "cpu"]
    (refusal,) = (each for each in again.explain().refusals() if each.type == "MUL")
    assert "killed driver support.devices.poisonous:create 2 times" in refusal.reason
    assert run(again)
    assert managed.status().deaths == 2


def kill_twice(managed: Managed, *operations: OperationType) -> None:
    """Kills the driver with a model of these operations until it is refused."""
    model = chain(*operations)

    def tried() -> bool:
        with contextlib.suppress(Error):
            device = connect(str(managed.address))
            device.supported_operations(model)
            prepared = device.prepare_model(model, PrepareOptions())
            compilation = nd.CompilationBuilder(model, [device]).finish()
            del prepared
            compilation.run(np.ones(SHAPE, np.float32), np.ones(SHAPE, np.float32))
        return bool(refused(managed))

    wait_until(tried)


def test_a_driver_in_its_sandbox_knows_what_killed_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    driver, settings = "support.devices.poisonous:create", {"sandbox": "auto"}
    with Managed(tmp_path_factory.mktemp("m"), driver=driver, settings=settings) as managed:
        # No other test's model: of one in this process's cache the driver never sees an outline.
        kill_twice(managed, ADD, ADD, SUB)
        device = connect(str(managed.address))
        *added, subtracted = device.supported_operations(chain(ADD, ADD, SUB))
        assert all(each.ok for each in added)
        assert "killed driver support.devices.poisonous:create 2 times" in subtracted.reason
        assert managed.status().deaths == 2
        assert "what killed drivers before is not known" not in managed.log


@pytest.mark.parametrize("culprit", [SUB, DIV, MAXIMUM, POW])
@pytest.mark.sampled(4)
def test_each_way_to_die_is_recognised(managed: Managed, culprit: OperationType) -> None:
    kill_twice(managed, ADD, culprit)
    wait_until(lambda: any(each.narrowing for each in refused(managed)))
    (pattern,) = refused(managed)
    assert pattern.operations.startswith(culprit.name)
    assert managed.status().deaths == 2
    device = reconnected(managed)
    verdicts = device.supported_operations(chain(ADD, culprit))
    assert not verdicts[1].ok
    with pytest.raises(Error, match="neurald forgive"):
        device.prepare_model(chain(culprit, ADD), PrepareOptions())
    assert all(each.ok for each in device.supported_operations(chain(ADD, ADD)))


def reconnected(managed: Managed) -> RemoteDevice:
    found: list[RemoteDevice] = []

    def connects() -> bool:
        with contextlib.suppress(UnavailableDevice, DeadObject):
            found.append(connect(str(managed.address)))
        return bool(found)

    wait_until(connects)
    return found[0]


def test_an_endless_kernel_is_recognised(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("m")
    settings = {"limits": {"execution_s": 1}}
    with Managed(folder, driver="support.devices.poisonous:create", settings=settings) as managed:
        kill_twice(managed, MINIMUM)
        (pattern,) = refused(managed)
        assert (pattern.cause, pattern.phase) == ("a hang", "executing it")


def _has_died(managed: Managed, deaths: int) -> bool:
    return managed.status().deaths > deaths


def test_who_is_killed_or_stopped_by_others_refuses_nothing(managed: Managed) -> None:
    compilation = automatic(managed, chain(ADD))
    done = threading.Event()

    def use() -> None:
        while not done.is_set():
            run(compilation)

    users = [threading.Thread(target=use) for _ in range(2)]
    for user in users:
        user.start()
    try:
        for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL):
            process = managed.wait_for(DriverState.READY).process
            assert process is not None
            deaths = managed.status().deaths
            os.kill(process, number)
            wait_until(partial(_has_died, managed, deaths))
            managed.wait_for(DriverState.READY)
    finally:
        done.set()
        for user in users:
            user.join()
    assert managed.status().patterns == ()


@pytest.mark.full
def test_what_killed_survives_the_manager_until_it_is_forgiven(managed: Managed) -> None:
    kill_twice(managed, SUB)
    assert managed.stop() == 0
    managed.process = managed.start()
    wait_until(lambda: managed.log.count("supervising") == 2)
    (pattern,) = refused(managed)
    shown = managed.command("status")
    assert f"adder: {pattern.id} refused: SUB" in shown.stdout
    document = json.loads(managed.command("status", "--json").stdout)
    assert document["drivers"][0]["patterns"][0]["id"] == pattern.id
    unknown = managed.command("forgive", "adder", "ffff")
    assert unknown.returncode == 1
    assert pattern.id in unknown.stderr
    forgiven = managed.command("forgive", "support.devices.poisonous:create", pattern.id[:8])
    assert forgiven.returncode == 0
    assert pattern.id in forgiven.stdout
    assert managed.status().patterns == ()
    assert all(each.ok for each in reconnected(managed).supported_operations(chain(SUB)))


def test_a_daemon_without_a_manager_refuses_what_is_known(managed: Managed) -> None:
    kill_twice(managed, SUB)
    environment = {"XDG_STATE_HOME": managed.environment["XDG_STATE_HOME"]}
    with daemon_process("support.devices.poisonous:create", environment=environment) as (_, address):
        (verdict,) = connect(address).supported_operations(chain(SUB))
        assert not verdict.ok
