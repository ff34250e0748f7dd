"""Time limits and cancellations inside of one long step.

All ways to compute end soon, in this process and in a daemon.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.daemon.processes import daemon_process, python_path
from support.models.small import accumulator, ones
from support.sweeps import sweep
from support.waiting import wait_until

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.process.address import Address
from neurald.hal.rpc.server.server import DeviceServer

#: Side of the matrices. Thirty products take seconds on one core.
SIZE = 1200
LIMIT_S = 0.05
#: The limit for a busy machine. The whole computation takes several times as long.
LATE_S = 0.4

LATE = (nd.ResultCode.MISSED_DEADLINE_TRANSIENT, nd.ResultCode.MISSED_DEADLINE_PERSISTENT)

Compute = Callable[[nd.Execution], None]


def chain(products: int) -> nd.Model:
    """Builds a chain of that many matrix products."""
    builder = nd.ModelBuilder()
    kind = nd.OperandType.TENSOR_FLOAT32
    value = builder.add_operand(kind, (SIZE, SIZE))
    weights = builder.add_operand(kind, (SIZE, SIZE))
    bias = builder.add_operand(kind, (SIZE,))
    none = builder.add_operand(nd.OperandType.INT32, ())
    builder.set_operand_value(none, 0)
    builder.set_operand_value(bias, np.zeros(SIZE, np.float32))
    inputs = [value, weights]
    for _ in range(products):
        result = builder.add_operand(kind, (SIZE, SIZE))
        builder.add_operation(
            nd.OperationType.FULLY_CONNECTED, inputs=[value, weights, bias, none], outputs=[result]
        )
        value = result
    builder.identify_inputs_and_outputs(inputs, [value])
    return builder.finish()


@pytest.fixture(scope="module")
def compilations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, nd.Compilation]]:
    folder: Path = tmp_path_factory.mktemp("stopping")
    server = DeviceServer(CpuDevice(), Address.parse(f"unix://{folder}/d.sock"))
    server.start()
    remote = nd.connect(str(server.address))
    found = {}
    for name, device in (("here", CpuDevice()), ("daemon", remote)):
        builder = nd.CompilationBuilder(chain(30), [device])
        builder.set_caching(None)
        found[name] = builder.finish()
        # Memory takes longer when it is used for the first time.
        first = bound(found[name])
        first.set_timeout(0.3)
        with contextlib.suppress(nd.Error):
            first.compute()
    yield found
    remote.close()
    server.stop()


def bound(compilation: nd.Compilation) -> nd.Execution:
    execution = nd.Execution(compilation, reusable=True)
    for index in range(2):
        execution.set_input(index, np.full((SIZE, SIZE), 1e-3, np.float32))
    execution.set_output(0, np.zeros((SIZE, SIZE), np.float32))
    return execution


def in_burst(execution: nd.Execution) -> None:
    with nd.Burst(execution.compilation) as burst:
        execution.compute(burst=burst)


MODES: dict[str, Compute] = {
    "compute": lambda execution: execution.compute(),
    "start_compute": lambda execution: execution.start_compute().wait(),
    "fenced": lambda execution: execution.start_compute_with_dependencies().wait(),
    "burst": in_burst,
}


@contextlib.contextmanager
def cancelled_after(seconds: float, execution: nd.Execution) -> Iterator[None]:
    """Cancels an execution repeatedly from another thread, since this has no effect too early."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(seconds):
            execution.cancel()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def ended(compute: Callable[[], None]) -> tuple[nd.Error, float]:
    """Returns the error that the call must raise, and how long it took."""
    started = time.monotonic()
    with pytest.raises(nd.Error) as caught:
        compute()
    return caught.value, time.monotonic() - started


@pytest.mark.timed
@pytest.mark.slow
@sweep("mode", MODES)
@sweep("where", ["here", "daemon"])
def test_a_time_limit(compilations: dict[str, nd.Compilation], where: str, mode: str) -> None:
    execution = bound(compilations[where])
    execution.set_timeout(LIMIT_S)
    error, taken_s = ended(lambda: MODES[mode](execution))
    assert error.code in LATE
    assert taken_s < LIMIT_S + LATE_S


@pytest.mark.timed
@pytest.mark.slow
@sweep("mode", MODES)
@sweep("where", ["here", "daemon"])
def test_a_cancellation(compilations: dict[str, nd.Compilation], where: str, mode: str) -> None:
    execution = bound(compilations[where])
    with cancelled_after(LIMIT_S, execution):
        error, taken_s = ended(lambda: MODES[mode](execution))
    assert error.code is nd.ResultCode.OP_FAILED
    assert "cancelled" in str(error)
    assert taken_s < LIMIT_S + LATE_S


@pytest.mark.timed
@pytest.mark.slow
def test_a_duration_after_fences(compilations: dict[str, nd.Compilation]) -> None:
    for compilation in compilations.values():
        execution = bound(compilation)

        def compute(execution: nd.Execution = execution) -> None:
            execution.start_compute_with_dependencies(duration_s=LIMIT_S).wait()

        error, taken_s = ended(compute)
        assert error.code in LATE
        assert taken_s < LIMIT_S + LATE_S


@pytest.mark.slow
@sweep("mode", MODES)
def test_the_message_names_the_step_and_the_operation(
    compilations: dict[str, nd.Compilation], mode: str
) -> None:
    execution = bound(compilations["here"])
    # On a busy machine, a shorter time might pass before the first operation.
    execution.set_timeout(LATE_S)
    error, _ = ended(lambda: MODES[mode](execution))
    assert "step 0 on cpu" in str(error)
    assert "the deadline passed in operation" in str(error)


@pytest.mark.timed
@pytest.mark.slow
def test_an_execution_that_computes_again_is_cancelled() -> None:
    """The fast path, which has no limits of its own, stops as well; the next computation is
    complete.
    """
    builder = nd.CompilationBuilder(chain(3), [CpuDevice()])
    builder.set_caching(None)
    execution = bound(builder.finish())
    execution.compute()
    started = time.monotonic()
    execution.compute()
    whole_s = time.monotonic() - started
    with cancelled_after(whole_s / 20, execution):
        error, taken_s = ended(execution.compute)
    assert error.code is nd.ResultCode.OP_FAILED
    assert "cancelled" in str(error)
    assert taken_s < 0.7 * whole_s + 0.05
    execution.compute()
    execution.compute()


def test_variables_are_as_before() -> None:
    """A stateful execution that is cancelled or late leaves the variables unchanged."""
    compilation = nd.CompilationBuilder(accumulator(), [CpuDevice()]).finish()
    execution, output = nd.Execution(compilation, reusable=True), np.empty((2, 3), np.float32)
    execution.set_input(0, ones())
    execution.set_output(0, output)
    for _ in range(4):
        execution.compute()
    before = compilation.state.value("total")
    compilation.state.lock.take()
    try:
        with cancelled_after(0.03, execution):
            error, _ = ended(execution.compute)
    finally:
        compilation.state.lock.give_back(None)
    assert "cancelled" in str(error)
    assert (compilation.state.value("total") == before).all()
    late, other = nd.Execution(compilation), np.empty((2, 3), np.float32)
    late.set_input(0, ones())
    late.set_output(0, other)
    late.set_timeout(1e-9)
    error, _ = ended(late.compute)
    assert error.code in LATE
    assert (compilation.state.value("total") == before).all()
    execution.compute()
    assert (output == before + 1).all()


@sweep("seconds", [1e300, float("inf")])
@sweep("mode", MODES)
def test_limits_without_an_end(mode: str, seconds: float) -> None:
    compilation = nd.CompilationBuilder(accumulator(), [CpuDevice()]).finish()
    execution = nd.Execution(compilation)
    execution.set_input(0, ones())
    execution.set_output(0, np.empty((2, 3), np.float32))
    execution.set_timeout(seconds)
    MODES[mode](execution)
    with pytest.raises(nd.Error):
        nd.Execution(compilation).set_timeout(float("nan"))


@pytest.mark.timed
@pytest.mark.slow
def test_the_death_of_a_client_frees_the_device() -> None:
    with daemon_process("cpu") as (_, address):
        device = nd.connect(address)
        client = subprocess.Popen(
            [sys.executable, "-m", "support.daemon.computing_client", address],
            env={**os.environ, "PYTHONPATH": python_path()},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert client.stdout is not None
            assert client.stdout.readline() == "computing\n"
            wait_until(lambda: device.status().calls > 0)
            time.sleep(0.2)
            client.kill()
            begun = time.monotonic()
            # It would compute for much longer.
            wait_until(lambda: device.status().calls == 0, 20.0)
            assert time.monotonic() - begun < LATE_S
        finally:
            client.kill()
            client.wait()
            assert client.stdout is not None
            client.stdout.close()
            device.close()
