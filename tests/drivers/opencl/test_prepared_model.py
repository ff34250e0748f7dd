"""Prepared models: instances for concurrent executions, deadlines, and lost devices."""

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.opencl.models import Models, random_inputs, request_of, run

import neurald as nd
from neurald.drivers.opencl import prepared_model
from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.errors import INVALID_CONTEXT
from neurald.drivers.opencl.platform.pinned_memory import PinnedAddress
from neurald.drivers.opencl.prepared_model import OpenClPreparedModel
from neurald.drivers.opencl.runtime import instance_pool
from neurald.drivers.opencl.runtime.instance import Instance
from neurald.drivers.opencl.runtime.portions import Portions
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, Cancelled, DeadObject, Error, MissedDeadlineTransient
from neurald.hal.memory.pool import Memory
from neurald.hal.model.model import Model
from neurald.hal.sync.cancellation import Cancellation


def model() -> Model:
    models = Models()
    return models.finish(models.add(nd.OperationType.ABS, [models.input()]))


def prepared_by(device: OpenClDevice) -> OpenClPreparedModel:
    found = device.prepare_model(model(), PrepareOptions())
    assert isinstance(found, OpenClPreparedModel)
    return found


@pytest.fixture
def prepared(opencl: DeviceContext) -> OpenClPreparedModel:
    return prepared_by(OpenClDevice(opencl.facts))


def test_operands(prepared: OpenClPreparedModel) -> None:
    assert prepared.operand(0, is_output=False).dimensions == (5, 6)
    for index, is_output in ((1, False), (-1, True)):
        with pytest.raises(BadData):
            prepared.operand(index, is_output=is_output)


def test_a_deadline_passes_while_all_instances_are_busy(
    prepared: OpenClPreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds, go = threading.Semaphore(0), threading.Event()

    def wait(*_: object, **__: object) -> int:
        holds.release()
        go.wait(60)
        return 0

    monkeypatch.setattr("neurald.drivers.opencl.runtime.instance.Instance.run", wait)
    request, _ = request_of(model(), random_inputs(model()))
    threads = [threading.Thread(target=prepared.execute, args=(request, ExecuteOptions())) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            assert holds.acquire(timeout=60)
        with pytest.raises(MissedDeadlineTransient, match="other executions"):
            prepared.execute(request, ExecuteOptions(deadline_s=time.monotonic() + 0.05))
    finally:
        go.set()
        for thread in threads:
            thread.join()
    monkeypatch.undo()
    assert run(prepared, model(), random_inputs(model()))


def test_a_lost_device_fails_everything_at_once(opencl: DeviceContext) -> None:
    device = OpenClDevice(opencl.facts)
    prepared = prepared_by(device)
    inputs = random_inputs(model())
    assert run(prepared, model(), inputs)
    error = device.context.state.error(INVALID_CONTEXT, "testing")
    assert isinstance(error, DeadObject)
    for _ in range(2):
        with pytest.raises(DeadObject, match="lost earlier"):
            run(prepared, model(), inputs)
    with pytest.raises(DeadObject):
        device.prepare_model(model(), PrepareOptions())
    # Another one that is opened anew is not affected.
    assert run(prepared_by(OpenClDevice(opencl.facts)), model(), inputs)


def test_a_failed_execution_returns_its_instance(
    prepared: OpenClPreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise Error("as the test wants it")

    request, _ = request_of(model(), random_inputs(model()))
    with monkeypatch.context() as patch:
        patch.setattr("neurald.drivers.opencl.runtime.instance.Instance.run", fail)
        for _ in range(6):
            with pytest.raises(Error, match="as the test"):
                prepared.execute(request, ExecuteOptions())
    inputs = random_inputs(model())
    (result,) = run(prepared, model(), inputs)
    np.testing.assert_array_equal(result, np.abs(inputs[0]))


def test_reusable_executions(prepared: OpenClPreparedModel) -> None:
    (values,) = inputs = random_inputs(model())
    request, (result,) = request_of(model(), inputs)
    assert prepared.create_reusable_execution(request) is None
    prepared.execute(request, ExecuteOptions())
    again = prepared.create_reusable_execution(request)
    assert again is not None
    for number in range(3):
        values[0] = -number
        again(Cancellation())
        np.testing.assert_array_equal(result, np.abs(values))
    prepared.device.state.error(INVALID_CONTEXT, "testing")
    with pytest.raises(DeadObject, match="lost earlier"):
        again(Cancellation())


def test_memory_of_many_executions_is_pinned(
    prepared: OpenClPreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    (values,) = inputs = random_inputs(model())
    request, (result,) = request_of(model(), inputs)
    asked: list[tuple[int, int]] = []

    def pin(memory: Memory, offset: int, size_bytes: int) -> bool:
        asked.append((offset, size_bytes))
        return memory is request.pools[0]

    monkeypatch.setattr(prepared.device.pinned, "pin", pin)
    for number in range(prepared_model._RUNS_BEFORE_PINNING + 2):
        assert bool(asked) is (number >= prepared_model._RUNS_BEFORE_PINNING)
        values[0] = -number
        prepared.execute(request, ExecuteOptions())
        np.testing.assert_array_equal(result, np.abs(values))
    arguments = (*request.inputs, *request.outputs)
    assert asked == [(each.offset, each.length) for each in arguments]
    binding = prepared._bindings[id(request)]
    places = (*binding.inputs, *binding.outputs)
    assert [isinstance(each, PinnedAddress) for each in places] == [each.pool == 0 for each in arguments]


class Separate(Portions):
    """Makes each command a portion, whatever is learned."""

    def bounds(self, count: int) -> tuple[int, ...]:
        return tuple(range(count + 1))

    def learn(self, bounds: Sequence[int], taken_s: Sequence[float]) -> None:
        pass


class Fleeting(Cancellation):
    """Is cancelled after a given number of checks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._looks = looks

    @property
    def is_cancelled(self) -> bool:
        self._looks -= 1
        return self._looks < 0


def test_an_execution_is_cancelled_between_its_commands(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each transfer and kernel is a portion. After any of them is skipped, the next execution is
    complete.
    """
    monkeypatch.setattr(instance_pool, "Portions", Separate)
    prepared = prepared_by(OpenClDevice(opencl.facts))
    (values,) = inputs = random_inputs(model())
    request, (result,) = request_of(model(), inputs)
    for looks in (0, 1, 2):
        with pytest.raises(Cancelled):
            prepared.execute(request, ExecuteOptions(cancellation=Fleeting(looks)))
        result[...] = 0
        prepared.execute(request, ExecuteOptions(cancellation=Cancellation()))
        np.testing.assert_array_equal(result, np.abs(values))


def test_a_deadline_passes_while_kernels_run(
    prepared: OpenClPreparedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, _ = request_of(model(), random_inputs(model()))
    original = Instance.run

    def slow(instance: Instance, *arguments: Any, **named: Any) -> int | None:
        time.sleep(0.2)
        return original(instance, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Instance, "run", slow)
        with pytest.raises(MissedDeadlineTransient, match="while kernels were running"):
            prepared.execute(request, ExecuteOptions(deadline_s=time.monotonic() + 0.1))
    prepared.execute(request, ExecuteOptions(deadline_s=time.monotonic() + 60))


_EXITING = """
import atexit, os, threading, time

runs = [0]

def check():
    # Threads whose execution has ended may still have to return from it.
    end = time.monotonic() + 10
    while time.monotonic() < end:
        before = runs[0]
        time.sleep(0.3)
        if runs[0] == before:
            return
    os._exit(3)

# Registered first, so it runs last.
atexit.register(check)

import numpy as np
import neurald as nd
from neurald.hal.registry import create_device

builder = nd.ModelBuilder()
x, y = (builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (1 << 16,)) for _ in range(2))
builder.add_operation(nd.OperationType.ABS, [x], [y])
builder.identify_inputs_and_outputs([x], [y])
builder = nd.CompilationBuilder(builder.finish(), [create_device("opencl")])
builder.set_caching(None)
compilation, ones = builder.finish(), np.ones(1 << 16, np.float32)

def execute():
    try:
        while True:
            compilation.run(ones)
            runs[0] += 1
    except nd.Error:
        pass

for _ in range(3):
    threading.Thread(target=execute, daemon=True).start()
while not runs[0]:
    time.sleep(0.01)
"""


def test_executions_of_daemon_threads_end_before_the_interpreter_does(opencl: DeviceContext) -> None:
    """A thread that returns from OpenCL into the finished interpreter would abort the process."""
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _EXITING],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
