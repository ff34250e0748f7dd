"""CompilationBuilder: states, settings, devices, and the resulting plan."""

import gc
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.devices.misbehaving import SampleDevice
from support.errors import error_code
from support.models.small import add_model, bound_execution
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PreparedModel, PrepareOptions, Verdict
from neurald.hal.errors import OpFailed
from neurald.service.demo.digits import MODEL

pytestmark = pytest.mark.quick

BAD_DATA, BAD_STATE = nd.ResultCode.BAD_DATA, nd.ResultCode.BAD_STATE


def cpu() -> nd.Device:
    return nd.devices()[0]


def test_everything_after_finish_is_bad_state(tmp_path: Path) -> None:
    builder = nd.CompilationBuilder(add_model())
    builder.finish()
    for call in (
        builder.finish,
        lambda: builder.set_preference(nd.Preference.LOW_POWER),
        lambda: builder.set_priority(nd.Priority.HIGH),
        lambda: builder.set_timeout(1),
        lambda: builder.set_caching(tmp_path, bytes(32)),
    ):
        assert error_code(call) is BAD_STATE


def test_settings_are_checked(tmp_path: Path) -> None:
    builder = nd.CompilationBuilder(add_model())
    for call in (
        lambda: builder.set_preference(3),  # type: ignore[arg-type]
        lambda: builder.set_preference(-1),  # type: ignore[arg-type]
        lambda: builder.set_priority(91),  # type: ignore[arg-type]
        lambda: builder.set_timeout(-1),
        lambda: builder.set_timeout(float("nan")),
        lambda: builder.set_caching(tmp_path, bytes(31)),
    ):
        assert error_code(call) is BAD_DATA
    for preference in nd.Preference:
        builder.set_preference(preference)
    for priority in nd.Priority:
        builder.set_priority(priority)
    builder.set_timeout(0)
    builder.finish()


def entries(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if len(path.name) == 64]


def test_a_device_that_needs_no_cache_files_writes_none(tmp_path: Path) -> None:
    builder = nd.CompilationBuilder(add_model(), [ReferenceDevice()])
    builder.set_caching(tmp_path, os.urandom(32))
    builder.finish()
    assert not list(tmp_path.iterdir())


def test_the_cpu_device_caches_unless_caching_is_disabled(tmp_path: Path) -> None:
    for directory in (tmp_path / "own", None):
        builder = nd.CompilationBuilder(add_model(), [CpuDevice()])
        builder.set_caching(directory, os.urandom(32))
        (report,) = builder.finish().report.steps
        assert report.is_stored == (directory is not None)
        if directory is not None:
            assert report.key in entries(directory)


def test_a_directory_that_no_system_has(tmp_path: Path) -> None:
    builder = nd.CompilationBuilder(add_model(), [CpuDevice()])
    for path in ("with\0nul", b"with\0nul"):
        directory: Any = path
        assert error_code(builder.set_caching, directory, bytes(32)) is BAD_DATA
    number: Any = 7
    assert error_code(builder.set_caching, number, bytes(32)) is BAD_DATA
    builder.set_caching(tmp_path / ("n" * 300), bytes(32))
    (report,) = builder.finish().report.steps
    assert not report.is_stored


@sweep("threads", [0, -1, 1025, 2**70])
def test_threads(threads: int) -> None:
    assert error_code(lambda: nd.CompilationBuilder(add_model(), threads=threads)) is BAD_DATA


def test_the_model_must_be_finished() -> None:
    unfinished: Any = nd.ModelBuilder()
    assert error_code(lambda: nd.CompilationBuilder(unfinished)) is BAD_STATE
    nothing: Any = None
    assert error_code(lambda: nd.CompilationBuilder(nothing)) is nd.ResultCode.UNEXPECTED_NULL


def test_device_lists() -> None:
    model = add_model()
    device: Any = cpu()
    for devices in ([], [device, device], [device, SampleDevice("cpu")], [7]):
        assert error_code(nd.CompilationBuilder, model, devices) is BAD_DATA
        assert error_code(nd.supported_operations, model, devices) is BAD_DATA
    for call in (nd.CompilationBuilder, nd.supported_operations):
        assert error_code(call, model, ["nothing"]) is nd.ResultCode.UNAVAILABLE_DEVICE
        call(model, ["cpu"])


def test_plan_of_one_device() -> None:
    model = add_model(operations=3)
    compilation = nd.CompilationBuilder(model, [cpu()]).finish()
    (step,) = compilation.plan.steps
    assert step.device is cpu()
    assert step.operations == (0, 1, 2)
    assert step.model is model
    assert str(compilation.explain()).splitlines()[1].startswith("operation 1 ADD -> cpu: the only device")


def test_the_faster_device_gets_the_model() -> None:
    fast, slow = SampleDevice("fast", performance=0.5), SampleDevice("slow", performance=2.0)
    compilation = nd.CompilationBuilder(add_model(), [slow, cpu(), fast]).finish()
    assert compilation.plan.steps[0].device is fast
    assert compilation.explain().operations[0].device == "fast"


def test_preference_decides_between_time_and_power() -> None:
    fast = SampleDevice("fast", performance=0.5, power=3.0)
    frugal = SampleDevice("frugal", performance=3.0, power=0.5)
    for preference, expected in (
        (nd.Preference.FAST_SINGLE_ANSWER, fast),
        (nd.Preference.SUSTAINED_SPEED, fast),
        (nd.Preference.LOW_POWER, frugal),
    ):
        builder = nd.CompilationBuilder(add_model(), [fast, frugal])
        builder.set_preference(preference)
        assert builder.finish().plan.steps[0].device is expected


def test_no_device_can_run_an_operation() -> None:
    device = SampleDevice("picky", supports=lambda _: False)
    with pytest.raises(nd.Error, match=r"operation 0 ADD.*picky: not on this device") as caught:
        nd.CompilationBuilder(add_model(), [device]).finish()
    assert caught.value.code is BAD_DATA


class Refusing(SampleDevice):
    def prepare_model(self, model: nd.Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        raise OpFailed("out of order")


def test_a_device_that_cannot_prepare(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Refusing("broken", performance=0.1)
    builder = nd.CompilationBuilder(add_model(), [device])
    for _ in range(2):
        assert error_code(builder.finish) is nd.ResultCode.OP_FAILED
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu(), device))
    compilation = nd.CompilationBuilder(add_model()).finish()
    assert compilation.plan.steps[0].device is cpu()
    assert "broken could not prepare the model: out of order" in str(compilation.explain())
    assert compilation.report.fallback == "broken could not prepare the model: out of order"
    ones = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(compilation.run(ones, ones)[0], ones + 1)


class Confused(SampleDevice):
    def supported_operations(self, model: nd.Model) -> tuple[Verdict, ...]:
        return (Verdict(ok=True),) * 7


class Failing(SampleDevice):
    def supported_operations(self, model: nd.Model) -> tuple[Verdict, ...]:
        raise OpFailed("no answer today")


def test_what_devices_support() -> None:
    model = add_model(operations=2)
    devices = [cpu(), Confused("confused"), Failing("failing"), SampleDevice("able")]
    verdicts = nd.supported_operations(model, devices)
    assert {name: [v.ok for v in vs] for name, vs in verdicts.items()} == {
        "cpu": [True, True],
        "confused": [False, False],
        "failing": [False, False],
        "able": [True, True],
    }
    assert verdicts["failing"][0].reason == "no answer today"
    assert "more than 2 verdicts for 2" in verdicts["confused"][0].reason


def test_the_error_for_a_name_shows_the_enumeration_member() -> None:
    builder = nd.CompilationBuilder(add_model())
    with pytest.raises(nd.Error, match=r"'LOW_POWER'; Preference\.LOW_POWER, .* is expected"):
        builder.set_preference("LOW_POWER")  # type: ignore[arg-type]
    with pytest.raises(
        nd.Error, match=r"'HIGH'; Priority\.LOW, Priority\.MEDIUM or Priority\.HIGH is expected"
    ):
        builder.set_priority("HIGH")  # type: ignore[arg-type]


def test_errors_of_arguments_name_the_input() -> None:
    compilation = nd.CompilationBuilder(nd.load_tflite(MODEL), [CpuDevice(compiles=False)]).finish()
    with pytest.raises(
        nd.Error, match=r"^input 0 \('image'\) has shape \[8, 8\]; \[1, 8, 8, 1\] is declared$"
    ):
        compilation.run(np.zeros((8, 8), np.uint8))
    with pytest.raises(nd.Error, match=r"^input 0 \('image'\) is None; an array is expected$"):
        compilation.run(None)


def test_representations_are_short() -> None:
    model = nd.load_tflite(MODEL)
    compilation = nd.CompilationBuilder(model).finish()
    assert repr(model) == "<Model of 9 operations, 1 input, 1 output>"
    assert repr(model.main).startswith("<Subgraph of 9 operations, ")
    assert repr(compilation) == "<Compilation of 9 operations in 1 step on cpu>"
    shown = (compilation.plan.steps[0], compilation.report, compilation.recovery, nd.Execution(compilation))
    assert all(len(repr(each)) < 1000 for each in shown)


@sweep("is_executed", [False, True])
def test_a_compilation_is_released_with_its_last_reference(*, is_executed: bool) -> None:
    """A daemon's resources for a prepared model must not wait for a garbage collection."""
    gc.collect()
    gc.disable()
    try:
        compilation = nd.CompilationBuilder(add_model(), [SampleDevice()]).finish()
        if is_executed:
            ones = np.ones((2, 3), np.float32)
            compilation.run(ones, ones)
            execution, _ = bound_execution(compilation, reusable=True)
            for _ in range(3):
                execution.compute()
            del execution
        prepared = weakref.ref(compilation.plan.steps[0].prepared_model)
        del compilation
        assert prepared() is None
    finally:
        gc.enable()
