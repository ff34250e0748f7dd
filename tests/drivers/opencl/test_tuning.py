"""Choices among sources: how many are measured, and that what does not build or run is never chosen."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from support.opencl_kernels import GRAPHS, kernels

from neurald.drivers.opencl import tuning
from neurald.drivers.opencl.kernels.pairs import Pair
from neurald.drivers.opencl.platform import DeviceContext
from neurald.drivers.opencl.render import render
from neurald.drivers.opencl.source import NAME, Source
from neurald.drivers.opencl.tuning import TUNING_VARIABLE, Tuner, Tuning
from neurald.hal.errors import BadData
from neurald.hal.types import Preference


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TUNING_VARIABLE, raising=False)


def good() -> Source:
    (kernel,) = kernels(GRAPHS["elementwise"]())
    return render(kernel)


def slow() -> Source:
    """The same, many times over."""
    text = good().text.replace(
        "  if (at >=",
        "  for (int i = 0; i < 20000; ++i) ((__local volatile uchar *)scratch)[0] = i;\n  if (at >=",
    )
    assert text != good().text
    return replace(good(), text=text, groups=4)


def broken() -> Source:
    return replace(good(), text=f"static void {NAME}(;\n")


def texts(sources: Sequence[Source | None]) -> list[str | None]:
    return [None if source is None else source.text for source in sources]


def text_of(tuner: Tuner, *sources: Source) -> str:
    """The text of what is chosen."""
    (found,) = tuner.choose([sources])
    assert found is not None
    return found.text


def test_preferences_say_how_much_is_measured(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gpu:
        is_cpu = False

    found = [Tuning.of(each, Gpu()) for each in Preference]  # type: ignore[arg-type]
    assert set(found) == set(Tuning)
    if opencl.facts.is_cpu:
        assert {Tuning.of(each, opencl.facts) for each in Preference} == {Tuning.NONE}
    monkeypatch.setenv(TUNING_VARIABLE, "exhaustive")
    assert Tuning.of(Preference.LOW_POWER, opencl.facts) is Tuning.EXHAUSTIVE
    monkeypatch.setenv(TUNING_VARIABLE, "lots")
    with pytest.raises(BadData, match="none, fast, exhaustive"):
        Tuning.of(Preference.LOW_POWER, opencl.facts)


def test_without_measuring_the_first_is_taken(opencl: DeviceContext) -> None:
    first, second = slow(), good()
    tuner = Tuner(opencl, Tuning.NONE)
    assert tuner.choose([[first, second], [second]]) == [first, second]


def test_the_fastest_is_taken(opencl: DeviceContext) -> None:
    tuner = Tuner(opencl, Tuning.EXHAUSTIVE)
    assert texts(tuner.choose([[slow(), good()]])) == [good().text]


def test_what_does_not_build_is_not_taken(opencl: DeviceContext) -> None:
    tuner = Tuner(opencl, Tuning.FAST)
    assert texts(tuner.choose([[broken(), good()]])) == [good().text]
    # Where nothing builds the first is taken, and whoever builds it is told why.
    neither = [broken(), replace(broken(), text="also broken")]
    assert texts(tuner.choose([neither])) == [broken().text]


@pytest.mark.parametrize("how", Tuning)
def test_a_pair_is_taken_where_it_is_faster(opencl: DeviceContext, how: Tuning) -> None:
    """Or, if nothing is measured, where that is likely."""
    single, double = replace(good(), label="single"), slow()
    is_measured = how is not Tuning.NONE
    for first, pair, is_likely in ((double, single, not is_measured), (single, double, is_measured)):
        offered = Pair(first=0, second=2, sources=(pair,), is_likely=is_likely)
        found = Tuner(opencl, how).choose([[first], [single], [first]], [offered])
        is_taken = pair is single
        assert found == ([None, single, pair] if is_taken else [first, single, first])


def test_phases_of_a_kernel_for_the_whole_step_are_measured_as_such(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a single work-group, which every device keeps."""
    monkeypatch.setattr(tuning, "is_offered", lambda facts: True)
    alone = DeviceContext(replace(opencl.facts, compute_units=1))
    tuner = Tuner(alone, Tuning.EXHAUSTIVE)
    assert texts(tuner.choose([[slow(), broken(), good()]])) == [good().text]
