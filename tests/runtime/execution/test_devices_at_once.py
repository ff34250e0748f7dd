"""Devices in daemons that work at the same time: branches, streams, and receipts of both."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import daemon_process
from support.devices.simulated import SECONDS_VARIABLE

import neurald as nd

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
SECONDS = 0.2


@pytest.fixture(scope="module")
def devices() -> Iterator[list[nd.Device]]:
    """The CPU device of this process, and two daemons whose device needs 0.2 s an operation."""
    environment = {SECONDS_VARIABLE: str(SECONDS)}
    with (
        daemon_process("support.devices.simulated:create_tanh", environment=environment) as (_, first),
        daemon_process("support.devices.simulated:create_logistic", environment=environment) as (_, second),
    ):
        opened = [nd.connect(first), nd.connect(second)]
        yield [nd.devices()[0], *opened]
        for device in opened:
            device.close()


def compiled(devices: list[nd.Device], *, is_chain: bool) -> nd.Compilation:
    """Compiles logistic(tanh(x)), or tanh(x) + logistic(x)."""
    builder = nd.ModelBuilder()
    x, a, b, y = (builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (2, 3)) for _ in range(4))
    builder.add_operation(nd.OperationType.TANH, [x], [a])
    builder.add_operation(nd.OperationType.LOGISTIC, [a if is_chain else x], [b])
    if not is_chain:
        activation = builder.add_operand(nd.OperandType.INT32)
        builder.set_operand_value(activation, 0)
        builder.add_operation(nd.OperationType.ADD, [a, b, activation], [y])
    builder.identify_inputs_and_outputs([x], [b if is_chain else y])
    return nd.CompilationBuilder(builder.finish(), devices).finish()


def logistic(values: Any) -> Any:
    return 1 / (1 + np.exp(-values))


@pytest.mark.timed
def test_branches_run_at_the_same_time(devices: list[nd.Device]) -> None:
    compilation = compiled(devices, is_chain=False)
    compilation.run(X)
    execution = nd.Execution(compilation)
    execution.set_input(0, X)
    y = np.zeros_like(X)
    execution.set_output(0, y)
    execution.enable_receipt()
    started = time.perf_counter()
    execution.compute()
    duration_s = time.perf_counter() - started
    np.testing.assert_allclose(y, np.tanh(X) + logistic(X), rtol=1e-5)
    assert duration_s <= SECONDS + 0.05
    calls = execution.receipt.calls_of_devices
    assert sorted(name.partition("@")[0] for name in calls) == ["cpu", "logistic", "tanh"]
    assert set(calls.values()) == {1}


@pytest.mark.timed
def test_a_stream_pipelines_two_daemons(devices: list[nd.Device]) -> None:
    compilation = compiled(devices, is_chain=True)
    inputs = [(X * n,) for n in range(12)]
    compilation.run(X)
    started = time.perf_counter()
    results = [result for (result,) in compilation.stream(inputs, depth=3)]
    duration_s = time.perf_counter() - started
    for (given,), result in zip(inputs, results, strict=True):
        np.testing.assert_allclose(result, logistic(np.tanh(given)), rtol=1e-5)
    # One after another they would take 24 times as long as one step.
    assert duration_s <= 24 * SECONDS / 1.75
