"""Steps whose persistent kernel is built while their separate kernels run."""

import os
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from support.opencl.models import Models, random_inputs, run
from support.opencl.trials import as_gpu
from support.waiting import wait_until

import neurald as nd
from neurald.drivers.opencl import assembly, compiler
from neurald.drivers.opencl.artifact import read_artifact
from neurald.drivers.opencl.compiler import compile_model
from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.precision import Precision
from neurald.drivers.opencl.prepared_model import OpenClPreparedModel
from neurald.drivers.opencl.runtime.instance import Instance
from neurald.drivers.opencl.runtime.instance_pool import InstancePool
from neurald.drivers.opencl.runtime.portions import Portions
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.tuning.build_helper import HelperBuild
from neurald.drivers.opencl.tuning.choices import Choices, class_of_step
from neurald.hal.device import PrepareOptions
from neurald.hal.errors import Cancelled, OpFailed
from neurald.hal.model.model import Model

OPTIONS = PrepareOptions(cache_key=b"k" * 32)


def chain() -> Model:
    models = Models()
    value = models.input()
    for operation in (nd.OperationType.ABS, nd.OperationType.RELU, nd.OperationType.NEG):
        value = models.add(operation, [value])
    return models.finish(value)


@pytest.fixture
def device(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> OpenClDevice:
    """A device of one compute unit, for which a persistent kernel is known to be fastest."""
    for module in (assembly, compiler):
        monkeypatch.setattr(module, "is_supported", lambda facts: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    facts = as_gpu(opencl).facts
    step = compile_model(
        chain(),
        {},
        facts,
        precision=Precision.F32,
        choose=lambda kernels, chains: [sources[0] for sources in kernels],
        is_fused=False,
    )
    device = OpenClDevice(facts, is_fused=False)
    device.choices = Choices({class_of_step(step.executable.calls): "1"})
    return device


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Lets helpers return their programs once it is set."""
    event = threading.Event()
    program = HelperBuild.program

    def wait(self: HelperBuild) -> BuiltProgram:
        event.wait(60)
        return program(self)

    monkeypatch.setattr(HelperBuild, "program", wait)
    return event


def groups(prepared: OpenClPreparedModel) -> int | None:
    call = prepared.executable.persistent
    return None if call is None else call.groups


def test_a_persistent_kernel_replaces_separate_ones(device: OpenClDevice, go: threading.Event) -> None:
    prepared = device.prepare_model(chain(), OPTIONS)
    assert isinstance(prepared, OpenClPreparedModel)
    inputs = random_inputs(chain())
    expected = -np.abs(inputs[0])
    assert groups(prepared) is None
    np.testing.assert_array_equal(run(prepared, chain(), inputs)[0], expected)
    assert not prepared.wait_until_improved(0)
    pending, more = prepared.artifact(), prepared.profile()
    go.set()
    assert prepared.wait_until_improved(60)
    assert groups(prepared) == 1
    np.testing.assert_array_equal(run(prepared, chain(), inputs)[0], expected)
    assert len(prepared.profile()) == len(more)
    assert pending is not None
    restored = device.prepare_model_from_cache(pending, OPTIONS)
    assert restored.wait_until_improved(60)
    assert groups(restored) == 1
    np.testing.assert_array_equal(run(restored, chain(), inputs)[0], expected)
    final = restored.artifact()
    assert final is not None
    assert [read_artifact(each)[3] is None for each in (pending, final)] == [False, True]
    assert groups(device.prepare_model_from_cache(final, OPTIONS)) == 1


def test_executions_that_began_before_the_replacement_are_stopped(
    device: OpenClDevice, go: threading.Event
) -> None:
    prepared = device.prepare_model(chain(), OPTIONS)
    assert isinstance(prepared, OpenClPreparedModel)
    began, errors = threading.Event(), []

    def use(instance: Instance, portions: Portions | None, stops: Callable[[], bool]) -> None:
        began.set()
        wait_until(stops)

    def execute(pool: InstancePool[Instance]) -> None:
        try:
            pool.run(use)
        except Cancelled as error:
            errors.append(error)

    thread = threading.Thread(target=execute, args=(prepared._running.pool,))
    thread.start()
    assert began.wait(60)
    go.set()
    assert prepared.wait_until_improved(60)
    prepared.stop(time.monotonic() + 30)
    thread.join(60)
    assert len(errors) == 1


def test_the_process_lives_longer_than_the_thread_that_prepares(
    device: OpenClDevice, go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(device.prepare_model(chain(), OPTIONS)))
    thread.start()
    thread.join()
    monkeypatch.setattr(BuiltProgram, "from_source", None)
    go.set()
    (prepared,) = found
    assert isinstance(prepared, OpenClPreparedModel)
    assert prepared.wait_until_improved(60)
    assert groups(prepared) == 1


def test_work_groups_that_are_not_resident(
    device: OpenClDevice, go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = device.prepare_model(chain(), OPTIONS)
    assert isinstance(prepared, OpenClPreparedModel)
    monkeypatch.setattr("neurald.drivers.opencl.runtime.instance.Instance.are_resident", lambda *_: False)
    go.set()
    assert prepared.wait_until_improved(60)
    assert groups(prepared) is None
    assert run(prepared, chain(), random_inputs(chain()))


def test_a_model_that_is_freed_ends_its_build(device: OpenClDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = threading.Event()
    monkeypatch.setattr(HelperBuild, "close", lambda self: closed.set())
    monkeypatch.setattr(BuiltProgram, "from_binary", None)
    prepared = device.prepare_model(chain(), OPTIONS)
    assert not closed.is_set()
    del prepared
    assert closed.wait(60)


def test_a_failed_preparation_ends_the_build(
    device: OpenClDevice, go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = device.prepare_model(chain(), OPTIONS).artifact()
    assert artifact is not None
    go.set()

    def fail(*_: object, **__: object) -> None:
        raise OpFailed("as the test wants it")

    closed: list[HelperBuild] = []
    close = HelperBuild.close

    def recorded(self: HelperBuild) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr("neurald.drivers.opencl.device.DeviceConstants", fail)
    ways: tuple[Callable[[], object], ...] = (
        lambda: device.prepare_model(chain(), OPTIONS),
        lambda: device.prepare_model_from_cache(artifact, OPTIONS),
    )
    for prepare in ways:
        closed.clear()
        with monkeypatch.context() as patch:
            patch.setattr(HelperBuild, "close", recorded)
            with pytest.raises(OpFailed, match="as the test"):
                prepare()
            wait_until(lambda: bool(closed))
