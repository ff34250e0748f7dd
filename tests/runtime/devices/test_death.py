"""Kills, stops and restarts driver daemons while an application uses them: no call is lost or
wrong.
"""

import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from support.daemon.processes import daemon_process, freeze_process
from support.models.small import add_model

import neurald as nd

SHAPE = (64, 64)
DRIVER = "sample-float-fast"


class Daemon:
    """A daemon that can be killed and started again at the same address."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.address = f"unix://{stack.enter_context(tempfile.TemporaryDirectory(prefix='nd'))}/d.sock"
        self.start()

    def start(self) -> None:
        for left in Path(self.address.removeprefix("unix://")).parent.iterdir():
            if left.suffix != ".lock":
                left.unlink()
        self.process, _ = self._stack.enter_context(daemon_process(DRIVER, self.address))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with ExitStack() as stack:
        yield Daemon(stack)


@pytest.fixture
def compilation(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> nd.Compilation:
    """An addition on the daemon's device; the CPU may take over."""
    device = nd.connect(daemon.address)
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (nd.devices()[0], device))
    compilation = nd.CompilationBuilder(add_model(SHAPE)).finish()
    assert compilation.plan.steps[0].device is device
    return compilation


class Caller:
    """A reusable execution whose results are checked."""

    def __init__(self, compilation: nd.Compilation) -> None:
        self._compilation = compilation
        memory = nd.Memory.allocate(3 * 16384)
        self._first, self._second, self._output = (
            np.frombuffer(memory.view(n * 16384, 16384), np.float32).reshape(SHAPE) for n in range(3)
        )
        self.execution = nd.Execution(compilation, reusable=True)
        for n in range(2):
            self.execution.set_input_from_memory(n, memory, n * 16384, 16384)
        self.execution.set_output_from_memory(0, memory, 2 * 16384, 16384)

    def call(self, value: int, burst: nd.Burst | None, mode: str = "calls") -> float:
        """Computes, checks the result, and returns the duration in seconds."""
        self._first[:], self._second[:], self._output[:] = value, 1, -1
        start = time.monotonic()
        output = self._output
        if mode == "run":
            (output,) = self._compilation.run(self._first, self._second)
        elif mode == "start":
            self.execution.start_compute().wait()
        elif mode == "fenced":
            self.execution.start_compute_with_dependencies().wait()
        else:
            self.execution.compute(burst=burst)
        elapsed = time.monotonic() - start
        assert np.all(output == value + 1), value
        return elapsed


@pytest.mark.parametrize("mode", ["burst", "calls", "run", "start", "fenced"])
@pytest.mark.sampled(4)
def test_killed_in_any_phase_of_many_runs(mode: str, daemon: Daemon, compilation: nd.Compilation) -> None:
    rng = random.Random(mode)
    caller = Caller(compilation)
    slowest = 0.0
    with compilation.create_burst() as burst:
        used = burst if mode == "burst" else None
        for round_number in range(3):
            killer = threading.Timer(rng.random() * 0.1, daemon.kill)
            killer.start()
            for n in range(333):
                slowest = max(slowest, caller.call(1000 * round_number + n, used, mode))
            killer.join()
            slowest = max(slowest, caller.call(-2, used, mode))
            assert compilation.recovery.fallbacks
            daemon.start()
            end = time.monotonic() + 30
            while compilation.recovery.fallbacks and time.monotonic() < end:
                slowest = max(slowest, caller.call(7, used, mode))
            assert not compilation.recovery.fallbacks, "the restarted daemon is used again"
    assert slowest < 20, "well below a second on a quiet machine"


def test_many_clients_survive_together(daemon: Daemon, compilation: nd.Compilation) -> None:
    failures: list[BaseException] = []
    stop = threading.Event()

    def work(seed: int) -> None:
        try:
            caller = Caller(compilation)
            with compilation.create_burst() as burst:
                n = 0
                while not stop.is_set():
                    n += 1
                    caller.call(1000 * seed + n % 1000, burst if n % 3 else None)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        time.sleep(0.3)
        daemon.kill()
        time.sleep(0.3)
        daemon.start()
    time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures


@pytest.mark.timed
def test_a_stopped_daemon_meets_the_deadline(daemon: Daemon) -> None:
    compilation = nd.CompilationBuilder(add_model(SHAPE), [nd.connect(daemon.address)]).finish()
    caller = Caller(compilation)
    caller.call(1, None)
    freeze_process(daemon.process)
    try:
        late = Caller(compilation)
        late.execution.set_timeout(0.2)
        start = time.monotonic()
        with pytest.raises(nd.Error) as caught:
            late.call(1, None)
        assert caught.value.code in (
            nd.ResultCode.MISSED_DEADLINE_TRANSIENT,
            nd.ResultCode.MISSED_DEADLINE_PERSISTENT,
        )
        assert time.monotonic() - start < 30
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    caller.call(2, None)


def test_an_explicit_device_is_used_again_after_its_restart(daemon: Daemon) -> None:
    compilation = nd.CompilationBuilder(add_model(SHAPE), [nd.connect(daemon.address)]).finish()
    caller = Caller(compilation)
    with compilation.create_burst() as burst:
        caller.call(1, burst)
        daemon.kill()
        for _ in range(2):
            with pytest.raises(nd.Error) as caught:
                caller.call(2, burst)
            assert caught.value.code is nd.ResultCode.DEAD_OBJECT
        daemon.start()
        caller.call(3, burst)
        caller.call(4, None)
