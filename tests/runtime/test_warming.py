from pathlib import Path

import pytest
from support.caching import CachingDevice, model_adding

import neurald as nd
from neurald.hal.device import Artifact, PreparedModel, PrepareOptions
from neurald.runtime.preparation import CacheOutcome
from neurald.runtime.warming import warm


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
    assert [len(device.compiled), len(device.loaded)] == [1, 2]
    # What was warmed is what a compilation finds.
    compilation = nd.CompilationBuilder(model_adding(1), [device]).finish()
    assert compilation.report.steps[0].cache is CacheOutcome.HIT


def test_a_device_that_has_nothing_to_cache() -> None:
    (step,) = warm(model_adding(1), [nd.devices()[0]])
    assert step.cache is CacheOutcome.OFF
    assert step.reason == "the device has nothing to cache"
    assert step.cold_ms is not None
    assert step.warm_ms is None


def test_a_cache_without_benefit_is_told() -> None:
    class Forgetful(CachingDevice):
        def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:
            raise nd.Error("it has forgotten")

    (step,) = warm(model_adding(1), [Forgetful()])
    assert step.cache is CacheOutcome.MISS
    assert step.warm_ms is None
    assert "first use; stored, and yet not to be had again" in step.reason
    assert "it has forgotten" in step.reason
