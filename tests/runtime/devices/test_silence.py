"""Daemons that do not answer: compilations and calls soon continue without them."""

import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import daemon_process, freeze_process
from support.models.small import add_model

import neurald as nd

SHAPE = (4, 4)
ONES = np.ones(SHAPE, np.float32)
DRIVER = "sample-float-fast"
#: Two seconds are promised. The rest is for a machine that is busy with other tests.
NOTICED_S = 3.5
#: A device's answer takes this long, and its daemon ends only after that.
THINKS_S = 5


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Returns a runtime directory with a short name."""
    # Compilations in the background may still write to the cache in it.
    with tempfile.TemporaryDirectory(prefix="nd", ignore_cleanup_errors=True) as base:
        monkeypatch.setenv("XDG_RUNTIME_DIR", base)
        folder = Path(base) / "neurald"
        folder.mkdir(mode=0o700)
        yield folder


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def started(stack: ExitStack, address: str, driver: str = DRIVER) -> Any:
    process, _ = stack.enter_context(daemon_process(driver, address))
    stack.callback(process.send_signal, signal.SIGCONT)  # so that it can be stopped with a signal
    return process


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.monotonic()
    result = call()
    return result, time.monotonic() - start


def names(devices: tuple[nd.Device, ...]) -> list[str]:
    return [device.name for device in devices]


def is_right(compilation: nd.Compilation) -> bool:
    (result,) = compilation.run(ONES, ONES)
    return bool((result == 2).all())


@pytest.mark.timed
@pytest.mark.slow
def test_a_stopped_daemon_costs_a_default_compilation_one_wait(directory: Path, stack: ExitStack) -> None:
    process = started(stack, f"unix://{directory}/d.sock")
    assert names(nd.devices()) == ["cpu", f"{DRIVER}@d"]
    compilation = nd.CompilationBuilder(add_model(SHAPE)).finish()
    assert compilation.plan.steps[0].device.name == f"{DRIVER}@d"
    freeze_process(process)
    # The silence is noticed once, whether the daemon was known or not; later calls do not wait.
    found, elapsed = timed(lambda: nd.CompilationBuilder(add_model(SHAPE)).finish())
    assert elapsed < NOTICED_S
    assert found.plan.steps[0].device.name == "cpu"
    assert is_right(found)
    right, elapsed = timed(lambda: is_right(compilation))
    assert right
    assert elapsed < NOTICED_S
    for _ in range(3):
        listed, elapsed = timed(nd.devices)
        assert names(listed) == ["cpu"]
        assert elapsed < 0.5
    (failure,) = compilation.report.failures
    assert failure.device == f"{DRIVER}@d"
    assert "stopped" in failure.reason
    process.send_signal(signal.SIGCONT)
    end = time.monotonic() + 30
    while compilation.recovery.fallbacks or len(nd.devices()) < 2:
        assert is_right(compilation)
        assert time.monotonic() < end
        time.sleep(0.05)
    assert compilation.report.failures, "the cause stays"


@pytest.mark.timed
@pytest.mark.slow
def test_mute_sockets_are_waited_for_at_once_and_once(directory: Path) -> None:
    with ExitStack() as stack:
        for number in range(4):
            for kind, suffix in ((socket.SOCK_STREAM, ""), (socket.SOCK_SEQPACKET, ".memory")):
                mute = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
                mute.bind(f"{directory}/mute{number}.sock{suffix}")
                mute.listen(64)
        listed, elapsed = timed(nd.devices)
        assert names(listed) == ["cpu"]
        assert elapsed < NOTICED_S
        compilation, elapsed = timed(lambda: nd.CompilationBuilder(add_model(SHAPE)).finish())
        assert elapsed < NOTICED_S / 2
        assert is_right(compilation)


@pytest.mark.timed
@pytest.mark.slow
def test_the_time_limit_covers_asking_devices(directory: Path) -> None:
    with ExitStack() as stack:
        for kind, suffix in ((socket.SOCK_STREAM, ""), (socket.SOCK_SEQPACKET, ".memory")):
            mute = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            mute.bind(f"{directory}/mute.sock{suffix}")
            mute.listen(64)
        builder = nd.CompilationBuilder(add_model(SHAPE))
        builder.set_timeout(0.8)
        compilation, elapsed = timed(builder.finish)
        assert elapsed < 1.0
        assert is_right(compilation)


@pytest.mark.full
@pytest.mark.timed
@pytest.mark.slow
def test_a_device_that_thinks_for_long_is_left_out(directory: Path, stack: ExitStack) -> None:
    started(stack, f"unix://{directory}/d.sock", f"{__name__}:create_thinking")
    builder = nd.CompilationBuilder(add_model(SHAPE))
    builder.set_timeout(2.0)
    compilation, elapsed = timed(builder.finish)
    assert elapsed < THINKS_S - 0.5
    assert compilation.plan.steps[0].device.name == "cpu"
    assert "not answered before the compilation's deadline" in str(compilation.explain().to_json())


def create_thinking() -> Any:
    from support.devices.misbehaving import SampleDevice

    class Thinking(SampleDevice):
        def supported_operations(self, model: nd.Model) -> Any:
            time.sleep(THINKS_S)
            return super().supported_operations(model)

    return Thinking("thinking", performance=0.1)


@pytest.mark.slow
def test_connected_devices_are_devices(directory: Path, stack: ExitStack) -> None:
    """They take part in compilations wherever their sockets are, and the CPU takes over if they are
    lost.
    """
    process, address = stack.enter_context(daemon_process(DRIVER, "127.0.0.1:0"))
    assert names(nd.devices()) == ["cpu"]
    device = nd.connect(address)
    assert nd.devices()[1:] == (device,)
    assert nd.connect(address) is device, "asking for devices drops no connection"
    builder = nd.CompilationBuilder(add_model(SHAPE))
    # By itself, the device would lose against the time that transfers take.
    builder.set_partitioning(nd.Partitioning(overrides=(nd.prefer(device.name, [0]),)))
    compilation = builder.finish()
    explicit = nd.CompilationBuilder(add_model(SHAPE), [*nd.devices()]).finish()
    for each in (compilation, explicit):
        assert each.plan.steps[0].device is device
    process.kill()
    process.wait()
    assert is_right(compilation)
    assert compilation.recovery.fallbacks[0].device == device.name
    # A list of devices is exact, even if it contains the CPU device.
    with pytest.raises(nd.Error) as caught:
        explicit.run(ONES, ONES)
    assert caught.value.code is nd.ResultCode.DEAD_OBJECT
    assert names(nd.devices()) == ["cpu"]
    stack.enter_context(daemon_process(DRIVER, address))
    assert nd.devices()[1:] == (device,), "it is the same one again"
    assert is_right(explicit)
    device.close()
    assert names(nd.devices()) == ["cpu"]


@pytest.mark.slow
def test_a_new_version_is_prepared_for_anew(directory: Path, stack: ExitStack) -> None:
    address = f"unix://{directory}/d.sock"
    process = started(stack, address, f"{__name__}:create_version_1")
    builder = nd.CompilationBuilder(add_model(SHAPE))
    builder.set_caching(directory.parent / "cache", bytes(32))
    compilation = builder.finish()
    (device,) = nd.devices()[1:]
    assert (device.version, compilation.plan.steps[0].device) == ("1", device)
    old = compilation.report.steps[0]
    process.terminate()
    process.wait()
    started(stack, address, f"{__name__}:create_version_2")
    end = time.monotonic() + 30
    assert is_right(compilation)
    while compilation.recovery.fallbacks:
        assert is_right(compilation)
        assert time.monotonic() < end
        time.sleep(0.02)
    assert device.version == "2"
    assert nd.devices()[1:] == (device,)
    builder = nd.CompilationBuilder(add_model(SHAPE))
    builder.set_caching(directory.parent / "cache", bytes(32))
    new = builder.finish().report.steps[0]
    assert new.device == old.device
    assert new.key != old.key
    assert new.cache.value == "hit", "what was prepared again was kept under the new version"


def create_version_1() -> Any:
    return _versioned("1")


def create_version_2() -> Any:
    return _versioned("2")


def _versioned(version: str) -> Any:
    from support.devices.misbehaving import SampleDevice

    device = SampleDevice("updated", performance=0.1)
    device.version = version
    return device


@pytest.mark.timed
@pytest.mark.slow
def test_a_death_while_preparing_is_in_the_report(directory: Path, stack: ExitStack) -> None:
    started(stack, f"unix://{directory}/d.sock", f"{__name__}:create_dying")
    compilation, elapsed = timed(lambda: nd.CompilationBuilder(add_model(SHAPE)).finish())
    assert elapsed < NOTICED_S
    assert is_right(compilation)
    assert "died" in compilation.report.fallback
    assert "while it prepared a model" in compilation.report.fallback


def create_dying() -> Any:
    import os

    from support.devices.misbehaving import SampleDevice

    class Dying(SampleDevice):
        def prepare_model(self, model: nd.Model, options: Any) -> Any:
            os.kill(os.getpid(), signal.SIGKILL)

    return Dying("dying", performance=0.1)
