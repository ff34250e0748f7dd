"""Streams: order, back-pressure, and devices that work at the same time."""

import time
from collections.abc import Iterator

import numpy as np
import pytest
from support.devices.simulated import SimulatedDevice
from support.models.small import accumulator, compiled_add

import neurald as nd
from neurald.hal.errors import BadData
from neurald.runtime.execution.background.stream import usual_depth

ONES = np.ones((2, 3), np.float32)


def test_results_are_in_order_and_inputs_are_read_ahead_no_further() -> None:
    compilation = compiled_add()
    taken = 0

    def inputs() -> Iterator[tuple[np.ndarray, ...]]:
        nonlocal taken
        for number in range(20):
            taken += 1
            yield np.full((2, 3), number, np.float32), ONES

    for number, (result,) in enumerate(compilation.stream(inputs(), depth=3)):
        assert np.all(result == number + 1)
        assert taken <= min(20, number + 3)
    assert taken == 20


@pytest.mark.parametrize("depth", [0, -1, 1025])
def test_impossible_depths(depth: int) -> None:
    with pytest.raises(BadData, match="the depth is"):
        compiled_add().stream([], depth)


def test_an_error_is_raised_in_its_place() -> None:
    stream = compiled_add().stream([(ONES, ONES), (ONES,), (ONES, ONES)], depth=2)
    assert np.all(next(stream)[0] == 2)
    with pytest.raises(BadData, match="1 input given"):
        next(stream)


def test_an_abandoned_stream_leaves_nothing_behind() -> None:
    compilation = compiled_add()
    stream = compilation.stream([(ONES, ONES)] * 100, depth=8)
    next(stream)
    stream.close()
    assert np.all(compilation.run(ONES, ONES)[0] == 2)


def test_runs_with_variables_depend_on_each_other() -> None:
    compilation = nd.CompilationBuilder(accumulator(), [nd.devices()[0]]).finish()
    results = [float(result[0, 0]) for (result,) in compilation.stream([(ONES,)] * 20, depth=8)]
    assert results == [11.0 + n for n in range(20)]


KINDS = (nd.OperationType.TANH, nd.OperationType.LOGISTIC, nd.OperationType.RELU, nd.OperationType.FLOOR)


def pipeline(*seconds: float, jitter: float = 0.0) -> tuple[nd.Compilation, list[SimulatedDevice]]:
    """Returns a chain of operations, each on a device of its own that takes this long."""
    builder = nd.ModelBuilder()
    values = [builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (2, 3)) for _ in range(len(seconds) + 1)]
    devices = []
    for kind, own_s, before, after in zip(KINDS, seconds, values, values[1:], strict=False):
        builder.add_operation(kind, [before], [after])
        devices.append(
            SimulatedDevice(
                kind.name.lower(),
                default_s=own_s,
                jitter=jitter,
                performance=0.01,
                supports=(kind,).__contains__,
            )
        )
    builder.identify_inputs_and_outputs(values[:1], values[-1:])
    compiling = nd.CompilationBuilder(builder.finish(), [nd.devices()[0], *devices])
    compiling.set_partitioning("android")
    compilation = compiling.finish()
    assert len(compilation.plan.steps) == len(seconds)
    return compilation, devices


@pytest.mark.timed
def test_two_balanced_steps_have_almost_twice_the_throughput() -> None:
    taken_s = 0.05
    compilation, devices = pipeline(taken_s, taken_s)
    xs = [(np.full((2, 3), n / 40, np.float32),) for n in range(40)]
    compilation.run(*xs[0])
    started = time.perf_counter()
    serial = [compilation.run(*x)[0] for x in xs]
    serial_s = time.perf_counter() - started
    started = time.perf_counter()
    streamed = [result for (result,) in compilation.stream(xs, depth=4)]
    streamed_s = time.perf_counter() - started
    np.testing.assert_array_equal(serial, streamed)
    is_busy = serial_s > 1.05 * 2 * taken_s * len(xs)
    assert serial_s / streamed_s >= (1.2 if is_busy else 1.9)
    assert all(device.executions == 81 for device in devices)


def test_results_are_in_order_where_times_vary() -> None:
    compilation, _ = pipeline(2e-3, 6e-3, 1e-3, 2e-3, jitter=0.9)
    xs = [(np.full((2, 3), n, np.float32),) for n in range(40)]
    expected = [compilation.run(*x)[0] for x in xs[:2]]
    found = [result for (result,) in compilation.stream(xs)]
    np.testing.assert_array_equal(found[:2], expected)
    assert len(found) == 40


@pytest.mark.parametrize(("devices", "depth"), [(1, 4), (2, 4), (4, 8)])
def test_the_usual_depth_is_two_runs_for_each_device(devices: int, depth: int) -> None:
    compilation, _ = pipeline(*[0.0] * devices)
    assert usual_depth(compilation.plan) == depth
    taken = 0

    def inputs() -> Iterator[tuple[np.ndarray]]:
        nonlocal taken
        for _ in range(20):
            taken += 1
            yield (ONES,)

    stream = compilation.stream(inputs())
    next(stream)
    assert taken == depth
    stream.close()


def test_a_stream_on_a_slow_device_leaves_other_streams_alone() -> None:
    slow, (device,) = pipeline(0.2)
    fast = compiled_add()
    kept = slow.stream([(ONES,)] * 64, depth=64)
    next(kept)
    begun = time.perf_counter()
    assert sum(1 for _ in fast.stream([(ONES, ONES)] * 200, depth=8)) == 200
    assert device.executions < 60, time.perf_counter() - begun
    kept.close()
