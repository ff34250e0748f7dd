from pathlib import Path

import numpy as np
import pytest
from support.devices.caching import CachingDevice, model_adding
from support.inference import zoo
from support.models.cached import MODELS

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.accounting.events import CountedEvent, event_counts
from neurald.hal.device import Artifact, PreparedModel, PrepareOptions
from neurald.runtime.cache_warming import warm
from neurald.runtime.plan.prepared_step import CacheOutcome


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_cold_and_then_warm() -> None:
    device = CachingDevice()
    device.compile_s = 0.1
    (cold,) = warm(model_adding(1), [device])
    assert cold.cache is CacheOutcome.MISS
    assert cold.reason == "first use"
    assert cold.device == "caching"
    assert cold.operations == 1
    assert cold.cold_ms is not None
    assert cold.cold_ms > 99
    assert cold.warm_ms is not None
    assert [len(device.compiled), len(device.loaded)] == [1, 1]
    (hit,) = warm(model_adding(1), [device])
    assert hit.cache is CacheOutcome.HIT
    assert hit.key == cold.key
    assert hit.cold_ms == cold.cold_ms
    assert hit.warm_ms is not None
    assert not cold.is_uncached
    assert not hit.is_uncached
    assert [len(device.compiled), len(device.loaded)] == [1, 2]
    # A compilation finds what was warmed.
    compilation = nd.CompilationBuilder(model_adding(1), [device]).finish()
    assert compilation.report.steps[0].cache is CacheOutcome.HIT


def test_a_device_that_has_nothing_to_cache() -> None:
    (step,) = warm(model_adding(1), [ReferenceDevice()])
    assert step.cache is CacheOutcome.OFF
    assert step.reason == "the device needs no cache files"
    assert step.cold_ms is not None
    assert step.warm_ms is None
    assert not step.is_uncached


def test_a_cache_without_benefit_is_reported() -> None:
    class Forgetful(CachingDevice):
        def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:
            raise nd.Error("it has forgotten")

    (step,) = warm(model_adding(1), [Forgetful()])
    assert step.cache is CacheOutcome.MISS
    assert step.warm_ms is None
    assert "first use; it was stored, but could not be loaded again" in step.reason
    assert "it has forgotten" in step.reason
    assert step.is_uncached


TOKEN = bytes(range(32))


@pytest.mark.parametrize(
    ("preference", "priority", "threads", "token"),
    [
        (nd.Preference.LOW_POWER, nd.Priority.MEDIUM, None, b""),
        (nd.Preference.FAST_SINGLE_ANSWER, nd.Priority.HIGH, None, b""),
        (nd.Preference.SUSTAINED_SPEED, nd.Priority.LOW, 2, TOKEN),
    ],
)
@pytest.mark.parametrize("has_directory", [False, True])
def test_what_an_application_will_ask_for(
    preference: nd.Preference,
    priority: nd.Priority,
    threads: int | None,
    token: bytes,
    has_directory: bool,
    tmp_path: Path,
) -> None:
    directory = tmp_path / "of the application" if has_directory else None
    token = token or (TOKEN if has_directory else b"")
    device = CachingDevice()
    warm(
        model_adding(1),
        [device],
        threads,
        preference=preference,
        priority=priority,
        directory=directory,
        token=token,
    )

    def outcome(*, is_asked: bool) -> CacheOutcome:
        builder = nd.CompilationBuilder(model_adding(1), [device], threads)
        if is_asked:
            builder.set_preference(preference)
            builder.set_priority(priority)
            if token:
                builder.set_caching(directory or tmp_path / "neurald", token)
        return builder.finish().report.steps[0].cache

    assert outcome(is_asked=True) is CacheOutcome.HIT
    assert outcome(is_asked=False) is CacheOutcome.MISS


def test_the_metric_has_the_reason_of_a_miss_without_its_consequences() -> None:
    function = nd.compile(zoo.open_addition(), startup=nd.Startup.INSTANT)
    assert function.wait_until_optimized(60)
    reasons = {reason for event, reason in event_counts() if event is CountedEvent.CACHE_MISS}
    assert "the shapes of its inputs are only known to executions" in reasons
    assert not any(", so " in reason for reason in reasons)


def test_shapes_that_executions_tell() -> None:
    model, expected = MODELS["unspecified"]
    rows = np.ones((5, 3), np.float32)
    (step,) = warm(model(), [CpuDevice()])
    assert step.cache is CacheOutcome.MISS
    assert "only known to executions" in step.reason
    assert (step.cold_ms, step.warm_ms) == (None, None)
    (cold,) = warm(model(), [CpuDevice()], inputs=[rows])
    assert cold.cache is CacheOutcome.MISS
    assert cold.reason == "first use of these shapes"
    assert cold.cold_ms is not None
    assert cold.warm_ms is not None
    (hit,) = warm(model(), [CpuDevice()], inputs=[rows])
    assert (hit.cache, hit.reason, hit.key) == (CacheOutcome.HIT, "", cold.key)
    # The code is for any number of rows from 2.
    (other,) = warm(model(), [CpuDevice()], inputs=[rows[:2]])
    assert (other.cache, other.key) == (CacheOutcome.HIT, cold.key)
    (single,) = warm(model(), [CpuDevice()], inputs=[rows[:1]])
    assert (single.cache, single.reason) == (CacheOutcome.MISS, "first use of these shapes")
    assert single.key != cold.key
    compilation = nd.CompilationBuilder(model(), [CpuDevice()]).finish()
    np.testing.assert_array_equal(compilation.run(rows)[0], expected(rows))
    (report,) = compilation.report.steps
    assert report.variants is not None
    assert report.variants.record is not None
    assert (report.variants.record.was_there, report.variants.record.key) == (True, cold.key)
