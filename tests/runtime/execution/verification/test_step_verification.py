import asyncio
import contextlib
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import running_daemon
from support.devices.lying import LyingDevice, create_sometimes
from support.errors import error_code
from support.models.chains import chain, ramp
from support.waiting import wait_until

import neurald as nd
from neurald.hal.crashes.wrong_results import WrongResults
from neurald.hal.errors import ResultCode as Code
from neurald.hal.model.operation_type import OperationType
from neurald.runtime.execution.verification import captured_run

KINDS = ["ADD", "TANH", "ADD", "LOGISTIC", "SUB", "MUL", "ADD", "TANH", "SUB"]
MODEL = chain(KINDS)
X = ramp()


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def right() -> "np.ndarray":
    return nd.CompilationBuilder(MODEL, [nd.devices()[0]]).finish().run(X)[0]


def verified(device: nd.Device, share: float = 1.0, model: nd.Model = MODEL) -> nd.Compilation:
    builder = nd.CompilationBuilder(model, [device])
    builder.set_verification(share)
    builder.set_startup(nd.Startup.OPTIMIZED)
    return builder.finish()


def entries(device: str) -> int:
    """Returns how much is recorded of a device. Searches of other tests may still run."""
    records = WrongResults.of_user()
    assert records is not None
    return sum(each.device == device for each in records.entries())


def test_the_caller_gets_the_right_result_and_the_operation_is_found() -> None:
    device = LyingDevice("lying-1", bit=30)
    compilation = verified(device)
    np.testing.assert_allclose(compilation.run(X)[0], right(), rtol=1e-5)
    executions = device.executions
    np.testing.assert_allclose(compilation.run(X)[0], right(), rtol=1e-5)
    wait_until(lambda: entries(device.name) == 1)
    # The search has executed parts of it.
    assert device.executions > executions
    (found,) = compilation.verifications
    assert found.is_wrong
    assert (found.runs, found.verified) == (1, 1)
    assert "operation 5 MUL, found among 9 operations" in found.finding
    assert "the CPU device runs it from now on" in str(compilation.explain())
    assert compilation.recovery.fallbacks[0].reason == found.finding


def test_what_was_found_is_refused_to_later_compilations_until_it_is_forgiven() -> None:
    device = LyingDevice("refused", bit=30)
    verified(device).run(X)
    wait_until(lambda: entries(device.name) == 1)
    with pytest.raises(nd.Error, match=r"refused computed MUL .* wrong: .*`neurald forgive refused"):
        nd.CompilationBuilder(MODEL, [device]).finish()
    both = nd.CompilationBuilder(MODEL, [device, nd.devices()[0]]).finish()
    explained = both.explain().operations[5]
    assert explained.device == "cpu"
    assert "refused computed MUL" in explained.rejected[0].reason
    # Other operations and other shapes are not affected.
    assert nd.CompilationBuilder(chain(["ADD", "TANH"]), [device]).finish().plan.steps
    assert nd.CompilationBuilder(chain(["MUL"], size=8), [device]).finish().plan.steps
    records = WrongResults.of_user()
    assert records is not None
    assert len(records.forgive(["refused"])) == 1
    assert nd.CompilationBuilder(MODEL, [device]).finish().plan.steps


@pytest.mark.parametrize("every", [1, 2, 7, 10])
def test_one_percent_finds_a_flipped_bit_within_a_thousand_runs(every: int) -> None:
    device = LyingDevice(f"flips-{every}", bit=30)
    device.every, device.pause_s = every, 2e-3
    compilation = verified(device, 0.01)
    runs = 0
    while not compilation.verifications[0].is_wrong and runs < 1000:
        compilation.run(X)
        runs += 1
    assert compilation.wait_until_investigated(60)
    assert compilation.verifications[0].is_wrong
    np.testing.assert_allclose(compilation.run(X)[0], right(), rtol=1e-5)


@pytest.mark.timed
@pytest.mark.parametrize("place", ["in process", "daemon"])
def test_one_percent_finds_a_bit_that_flips_at_random(place: str) -> None:
    """Not in the first execution, which waits; how many are needed is in `test_sampling`."""
    with contextlib.ExitStack() as stack:
        if place == "daemon":
            address = stack.enter_context(running_daemon("support.devices.lying:create_sometimes"))
            device: nd.Device = nd.connect(address)
        else:
            device = create_sometimes()
        compilation = verified(device, 0.01)
        while not compilation.verifications[0].is_wrong:
            compilation.run(X)
            assert compilation.verifications[0].runs <= 1000
        assert compilation.wait_until_investigated(30)
        np.testing.assert_allclose(compilation.run(X)[0], right(), rtol=1e-5)
        assert compilation.recovery.fallbacks[0].reason == compilation.verifications[0].finding


def test_only_the_first_verified_execution_waits_for_the_cpu_device() -> None:
    device = LyingDevice("not-waiting", kind=None, bit=30)
    compilation = verified(device, 0.5)
    compilation.run(X)
    device.kind = OperationType.MUL
    wrong = compilation.run(X)[0]
    assert not np.allclose(wrong, right(), rtol=1e-5)
    assert compilation.wait_until_investigated(30)
    (found,) = compilation.verifications
    assert found.is_wrong
    assert (found.runs, found.verified) == (2, 2)
    np.testing.assert_allclose(compilation.run(X)[0], right(), rtol=1e-5)


def test_the_caller_only_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests, arrays, the CPU device and comparisons take longer than a short execution."""
    threads: Counter[bool] = Counter()
    caller, real, make = threading.get_ident(), captured_run.array_of, captured_run.CapturedRun.of

    def array_of(*arguments: Any) -> "np.ndarray":
        threads[threading.get_ident() == caller] += 1
        return real(*arguments)

    def run_of(*arguments: Any) -> captured_run.CapturedRun:
        threads[threading.get_ident() == caller] += 1
        return make(*arguments)

    compilation = verified(LyingDevice("only copied", kind=None), 0.5)
    compilation.run(X)
    monkeypatch.setattr(captured_run, "array_of", array_of)
    monkeypatch.setattr(captured_run.CapturedRun, "of", run_of)
    for _ in range(100):
        compilation.run(X)
    assert compilation.wait_until_investigated(60)
    assert compilation.verifications[0].verified > 1
    assert threads[False]
    assert not threads[True]


def test_a_right_device_stays() -> None:
    device = LyingDevice("right", kind=None)
    compilation = verified(device)
    for _ in range(20):
        compilation.run(X)
    (found,) = compilation.verifications
    assert (found.runs, found.verified, found.is_wrong, found.finding) == (20, 20, False, "")
    assert "20 of 20 runs were verified; all were right" in str(compilation.explain())
    assert device.executions == 20
    assert not entries(device.name)


def test_each_way_of_executing_is_verified() -> None:
    reference = right()

    def execution(compilation: nd.Compilation, output: "np.ndarray") -> nd.Execution:
        found = nd.Execution(compilation, reusable=True)
        found.set_input(0, X)
        found.set_output(0, output)
        return found

    for way in ("compute", "start", "fenced", "burst"):
        device = LyingDevice(f"lying-{way}", kind=None, bit=30)
        compilation = verified(device)
        output = np.empty_like(X)
        running = execution(compilation, output)
        with compilation.create_burst() as burst:
            for wrong in (None, None, OperationType.MUL):
                device.kind = wrong
                output.fill(0)
                if way == "compute":
                    running.compute()
                elif way == "burst":
                    running.compute(burst=burst)
                elif way == "start":
                    running.start_compute().wait()
                else:
                    running.start_compute_with_dependencies().wait()
                np.testing.assert_allclose(output, reference, rtol=1e-5)
        (found,) = compilation.verifications
        assert found.is_wrong, way
        assert found.verified == 3, way


def test_functions_are_verified() -> None:
    device = LyingDevice("lying-2", bit=30)
    compilation = verified(device, 0.5)
    outputs = [compilation.run(X)[0] for _ in range(3)]
    stream = [found[0] for found in compilation.stream([(X,)] * 5)]
    for output in (*outputs, *stream):
        np.testing.assert_allclose(output, right(), rtol=1e-5)


def test_a_share_of_zero_verifies_nothing() -> None:
    for share in (0, None):
        builder = nd.CompilationBuilder(MODEL, [LyingDevice("lying-3", bit=30)])
        builder.set_verification(share)
        compilation = builder.finish()
        compilation.run(X)
        assert compilation.verifications == ()
    assert verified(nd.devices()[0]).verifications == ()


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "1"])
def test_shares_out_of_range_are_refused(share: float) -> None:
    builder = nd.CompilationBuilder(MODEL)
    assert error_code(builder.set_verification, share) is Code.BAD_DATA
    builder.finish()
    assert error_code(builder.set_verification, 0.5) is Code.BAD_STATE


def test_several_threads_get_right_results() -> None:
    device = LyingDevice("lying-4", bit=30)
    compilation = verified(device, 0.2)

    async def together() -> None:
        await asyncio.gather(*(asyncio.to_thread(compilation.run, X) for _ in range(32)))

    asyncio.run(together())
    assert compilation.verifications[0].is_wrong
    np.testing.assert_allclose(compilation.run(X)[0], right(), rtol=1e-5)
