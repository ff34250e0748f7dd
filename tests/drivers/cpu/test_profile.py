"""The times of kernels and of references on the CPU device."""

import time

import numpy as np
import pytest
from support.models.addition import addition, request
from support.models.control_flow import below, counting, loop
from support.models.graphs import chain
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.native.instances import instance
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.device import ExecuteOptions, PreparedModel, PrepareOptions
from neurald.hal.model.model import Model

T = nd.OperationType
RUN = ExecuteOptions()


def prepared(model: Model, *, compiles: bool) -> PreparedModel:
    return CpuDevice(compiles=compiles).prepare_model(model, PrepareOptions())


@sweep("compiles", [True, False], ids=["kernels", "references"])
def test_every_operation_is_reported(compiles: bool) -> None:
    times = prepared(chain(T.TANH, T.LOGISTIC, T.RELU), compiles=compiles).profile()
    assert {position for each in times for position in each.operations} == {0, 1, 2}
    assert all(each.duration_ns > 0 and each.name for each in times)
    assert {each.is_reference for each in times} == {not compiles}


@sweep("compiles", [True, False], ids=["kernels", "references"])
def test_with_unspecified_dimensions_after_the_first_execution(compiles: bool) -> None:
    model = prepared(addition(np.ones((1, 3)), dynamic=True), compiles=compiles)
    assert model.profile() == ()
    for rows in (4, 2):
        values = np.zeros((rows, 3), np.float32)
        model.execute(request(values, values.copy()), RUN)
        assert [each.operations for each in model.profile()] == [(0,)]


@sweep("compiles", [True, False], ids=["kernels", "references"])
def test_a_profile_changes_no_result(compiles: bool) -> None:
    constant, values = np.arange(6, dtype=np.float32), np.full(6, 2, np.float32)
    model = prepared(addition(constant), compiles=compiles)
    for _ in range(2):
        result = np.zeros_like(values)
        model.execute(request(values, result), RUN)
        np.testing.assert_array_equal(result, values + constant)
        model.profile()


@pytest.mark.parametrize("interrupted", range(1, 6))
def test_other_programs_do_not_count(interrupted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that was interrupted in one of its runs is not taken for a slow one."""
    model, readings = prepared(chain(T.TANH, T.LOGISTIC, T.RELU), compiles=True), 0

    def now_ns() -> int:
        nonlocal readings
        readings += 1
        # Each run of a kernel takes a microsecond, and one of them a millisecond more.
        return readings * 1000 + (1_000_000 if readings > interrupted else 0)

    monkeypatch.setattr(time, "perf_counter_ns", now_ns)
    assert [each.duration_ns for each in model.profile()] == [1000] * len(model.profile())


def test_kernels_are_timed_on_numbers_of_usual_sizes() -> None:
    """Integers that share memory with an input leave real numbers in it that take longer."""
    found = prepared(chain(T.TANH, T.LOGISTIC, T.RELU), compiles=True)
    assert isinstance(found, CpuPreparedModel)
    taken = found.native._instances.take()
    assert isinstance(taken, instance.Instance)
    try:
        size = taken.executable.arena_bytes
        content = np.frombuffer(taken._memory.words(0, size, "B"), np.float32)
        content.view(np.int32)[...] = 3  # as float32 less than the least normal number
        taken.profile()
        # The logistic function of the hyperbolic tangent of 0.5 to 1 is the result.
        at = (int(taken._ports.unbound()[-1, 0]) - taken._arena) // 4
        (port,) = taken.executable.outputs
        result = content[at : at + port.size_bytes // 4]
        assert 0.6 < result.min() < result.max() < 0.7
    finally:
        found.native._instances.give_back(taken)


def test_operations_inside_a_loop_count_as_the_loop() -> None:
    times = prepared(loop(below(5, extra=1), counting(1, 2)), compiles=False).profile()
    assert [(each.name, each.operations) for each in times] == [("WHILE", (0,))]
