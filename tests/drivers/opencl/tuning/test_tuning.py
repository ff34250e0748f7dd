"""Selection of sources: how many are measured, and that those that do not build or run are never
selected.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from support.opencl.trials import broken, good, slowed
from support.sweeps import sweep

from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.lazy_sources import LazySources
from neurald.drivers.opencl.kernels.fused.chains import KernelChain
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.executable import Executable, KernelCall
from neurald.drivers.opencl.tuning import trials, tuning
from neurald.drivers.opencl.tuning.measuring import times_ns
from neurald.drivers.opencl.tuning.tuning import TUNING_VARIABLE, Tuner, Tuning, persistent_ways
from neurald.drivers.settings import Settings
from neurald.hal.errors import BadData
from neurald.hal.model.types import Preference
from neurald.hal.records import replace


def settings(text: str = "") -> Settings:
    return Settings(TUNING_VARIABLE, environment={TUNING_VARIABLE: text})


def texts(sources: Sequence[Source | None]) -> list[str | None]:
    return [None if source is None else source.text for source in sources]


class Times:
    """Known times of sources, which stand for those that were measured on a busy machine.

    Attributes:
        resident: whether sources were measured as phases, for each time that sources were measured.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resident: list[bool] = []
        self._known: dict[str, float] = {}
        monkeypatch.setattr(tuning, "times_ns", self._times_ns)

    def set(self, source: Source, time_ns: float) -> None:
        self._known[source.name] = time_ns

    def _times_ns(
        self,
        device: DeviceContext,
        sources: Sequence[Source],
        *,
        is_resident: bool,
        require_wanted: Callable[[str], None],
        **_: object,
    ) -> dict[str, float]:
        self.resident.append(is_resident)
        found = times_ns(device, sources, is_resident=is_resident, require_wanted=require_wanted)
        assert all(0 <= each < math.inf for each in found.values())
        return {name: self._known[name] for name in found}


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    """Measures sources, but replaces the times that were measured."""
    return Times(monkeypatch)


def test_extent_of_measurements(opencl: DeviceContext) -> None:
    class Gpu:
        is_cpu = False

    found = [Tuning.of(each, Gpu(), settings()) for each in Preference]  # type: ignore[arg-type]
    assert set(found) == set(Tuning)
    if opencl.facts.is_cpu:
        assert {Tuning.of(each, opencl.facts, settings()) for each in Preference} == {Tuning.FAST}
    assert Tuning.of(Preference.LOW_POWER, opencl.facts, settings("exhaustive")) is Tuning.EXHAUSTIVE
    with pytest.raises(BadData, match="fast, brief, exhaustive"):
        Tuning.of(Preference.LOW_POWER, opencl.facts, settings("lots"))


def test_without_measurements_the_first_is_selected(opencl: DeviceContext) -> None:
    first, second = slowed(20000), good()
    tuner = Tuner(opencl, Tuning.FAST)
    assert tuner.choose([[first, second], [second]]) == [first, second]


def test_the_fastest_is_selected(opencl: DeviceContext, times: Times) -> None:
    sources = [slowed(1), good(), slowed(2)]
    for source, time_ns in zip(sources, (3, 1, 2), strict=True):
        times.set(source, time_ns)
    tuner = Tuner(opencl, Tuning.EXHAUSTIVE)
    assert texts(tuner.choose([sources])) == [good().text]


@sweep("how", [Tuning.FAST, Tuning.BRIEF])
def test_unneeded_sources_are_not_generated(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch, how: Tuning
) -> None:
    made = []

    def offered() -> Iterator[Source]:
        for number in range(100):
            made.append(number)
            yield slowed(number)

    monkeypatch.setattr(tuning, "times_ns", lambda device, sources, **_: {slowed(5).name: 1.0})
    (chosen,) = Tuner(opencl, how).choose([LazySources(offered())])
    assert len(made) == (1 if how is Tuning.FAST else 8)
    assert texts([chosen]) == [slowed(0 if how is Tuning.FAST else 5).text]


def test_the_same_work_is_measured_once(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Source] = []

    def times_ns(device: DeviceContext, sources: Sequence[Source], **_: object) -> dict[str, float]:
        measured.extend(sources)
        return {source.name: float(source.groups) for source in sources}

    def source(number: int, groups: int, *, name: str = "neurald_f") -> Source:
        shared = f"#ifndef {name}_is_there\n#define {name}_is_there\nvoid {name}(int z) {{}}\n#endif\n"
        return replace(
            good(),
            code=LazyCode.of(f"{shared}static void KERNEL_NAME() {{ {name}({number}{groups}); }}\n"),
            groups=groups,
        )

    monkeypatch.setattr(tuning, "times_ns", times_ns)
    layers = [[source(number, 2), source(number, 1)] for number in range(3)]
    others = [source(0, 5, name="neurald_g"), source(0, 3, name="neurald_g")]
    chosen = Tuner(opencl, Tuning.EXHAUSTIVE).choose([*layers, others])
    assert texts(chosen) == texts([*(each[1] for each in layers), others[1]])
    assert sorted(each.groups for each in measured) == [1, 2, 3, 5]


def test_sources_that_cannot_be_phases_are_the_last_choice(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "is_supported", lambda facts: True)
    monkeypatch.setattr(tuning, "times_ns", lambda device, sources, **_: {})
    other = replace(slowed(1), has_barriers=True, local_size=32)
    tuner = Tuner(opencl, Tuning.BRIEF)
    assert texts(tuner.choose([[other, good()], [other, slowed(2)]])) == [good().text, slowed(2).text]
    assert texts(tuner.choose([[other, replace(other, code=LazyCode.of("another"))]])) == [other.text]


def test_sources_that_do_not_build_are_not_selected(opencl: DeviceContext) -> None:
    tuner = Tuner(opencl, Tuning.BRIEF)
    assert texts(tuner.choose([[broken(), good()]])) == [good().text]
    # Where nothing builds the first is taken, and whoever builds it is told why.
    neither = [broken(), replace(broken(), code=LazyCode.of("also broken"))]
    assert texts(tuner.choose([neither])) == [broken().text]


@sweep("how", Tuning)
def test_pairs_are_selected_if_faster(opencl: DeviceContext, times: Times, how: Tuning) -> None:
    """Without measurements, they are selected if that is likely."""
    single, double = replace(good(), label="single"), slowed(1)
    times.set(single, 1)
    times.set(double, 3)
    is_measured = how is not Tuning.FAST
    for first, pair, is_likely in ((double, single, not is_measured), (single, double, is_measured)):
        offered = KernelChain(members=(0, 2), sources=(pair,), is_likely=is_likely)
        found = Tuner(opencl, how).choose([[first], [single], [first]], [offered])
        is_taken = pair is single
        assert found == ([None, single, pair] if is_taken else [first, single, first])


def test_phases_are_measured_as_phases(
    opencl: DeviceContext, times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a single work-group, which is resident on every device."""
    times.set(slowed(1), 2)
    times.set(good(), 1)
    monkeypatch.setattr(tuning, "is_supported", lambda facts: True)
    # Runtimes on CPUs take long to compile more phases.
    monkeypatch.setattr(trials, "_PHASES", 2)
    alone = DeviceContext(replace(opencl.facts, compute_units=1))
    tuner = Tuner(alone, Tuning.EXHAUSTIVE)
    assert texts(tuner.choose([[slowed(1), broken(), good()]])) == [good().text]
    assert times.resident == [True]


@pytest.mark.parametrize(("large", "launched"), [(0, 0), (1, 0), (2, 2), (8, 8)])
def test_large_kernels_are_measured_as_launches_if_there_are_several(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch, large: int, launched: int
) -> None:
    """A step with a single large kernel becomes a persistent kernel, with all kernels as phases."""
    measured: dict[bool, set[str]] = {True: set(), False: set()}

    def times_ns(device: DeviceContext, sources: Sequence[Source], *, is_resident: bool, **_: object) -> Any:
        measured[is_resident] |= {source.name for source in sources}
        return dict.fromkeys(measured[is_resident], 1.0)

    monkeypatch.setattr(tuning, "is_supported", lambda facts: True)
    monkeypatch.setattr(tuning, "times_ns", times_ns)
    kernels = [
        [replace(slowed(100 * number + each), groups=1000 if number < large else 1) for each in range(2)]
        for number in range(8)
    ]
    alone = DeviceContext(replace(opencl.facts, compute_units=1))
    Tuner(alone, Tuning.EXHAUSTIVE).choose(kernels)
    assert [len(measured[False]), len(measured[True])] == [2 * launched, 2 * (8 - launched)]


@pytest.mark.parametrize(
    ("constants_bytes", "is_known", "fetching"),
    [
        (1 << 20, False, []),
        (1 << 30, False, ["4, fetching ahead", "8, fetching ahead"]),
        # The choice is that of a step with the same kernels and larger constants.
        (1 << 20, True, ["4, fetching ahead", "8, fetching ahead"]),
    ],
)
def test_ways_to_run_a_persistent_kernel(constants_bytes: int, is_known: bool, fetching: list[str]) -> None:
    step = Executable(
        calls=(),
        inputs=(),
        outputs=(),
        arena_bytes=0,
        constants_bytes=constants_bytes,
        unshared_bytes=0,
        zeros=0,
        zeros_bytes=0,
    )
    call = KernelCall(kernel="step", locations=(), groups=1, local_size=64)
    found = persistent_ways(step, call, 4, 11, is_known=is_known)
    assert set(found) == {"4", "8", *fetching}
    for label, each in found.items():
        assert each.persistent == replace(call, groups=int(label[0]))
        assert each.fetches == (label in fetching)
    assert not persistent_ways(step, call, 4, 3, is_known=is_known)
