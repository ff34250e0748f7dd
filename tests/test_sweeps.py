"""`sweep` runs and reports all cases; tiers select tests."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import sweeps, tiers
from support.sweeps import sweep
from support.tiers import Tier, is_taken, one_in, sampled

pytestmark = pytest.mark.quick


def test_every_case_runs_and_every_failure_is_named() -> None:
    ran = []

    @sweep("first", [1, 2])
    @sweep(("second", "third"), [(3, 4), (5, 6)], ids=["low", "high"])
    def test(first: int, second: int, third: int) -> None:
        ran.append((first, second, third))
        assert first == 1, "first is another"

    with pytest.raises(AssertionError) as caught:
        test()
    assert ran == [(1, 3, 4), (1, 5, 6), (2, 3, 4), (2, 5, 6)]
    lines = str(caught.value).splitlines()
    assert lines[0] == "2 of 4 cases failed:"
    assert lines[1].startswith("  #3 first=2, low: AssertionError: first is another")
    assert lines[2].startswith("  #4 first=2, high: AssertionError: first is another")


def test_a_missing_error_and_an_unknown_one_fail() -> None:
    raising: dict[str, Callable[[], object]] = {
        "no error": dict,
        "another": lambda: dict[str, int]()["another"],
    }

    @sweep("kind", raising)
    def test(kind: str) -> None:
        with pytest.raises(ValueError, match="expected"):
            raising[kind]()

    with pytest.raises(
        AssertionError, match=r"2 of 2 cases failed:\n.*DID NOT RAISE.*\n.*KeyError: 'another'"
    ):
        test()


def test_a_test_is_skipped_if_all_its_cases_are() -> None:
    @sweep("count", [0, 1])
    def test(count: int, least: int) -> None:
        if count < least:
            pytest.skip("too few")

    test(least=1)
    with pytest.raises(pytest.skip.Exception, match="too few"):
        test(least=2)


def test_a_timeout_ends_the_test() -> None:
    ran = []

    @sweep("number", range(3))
    def test(number: int) -> None:
        ran.append(number)
        pytest.fail("Timeout (>300.0s) from pytest-timeout.")

    with pytest.raises(AssertionError, match="time was over in case number=0"):
        test()
    assert ran == [0]


@sweep("number", range(2))
def test_directories_and_patches_are_new_for_every_case(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(tmp_path.iterdir()) == []
    (tmp_path / str(number)).touch()
    assert not hasattr(sweeps, "patched")
    monkeypatch.setattr(sweeps, "patched", True, raising=False)


def test_tiers_and_names_choose_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    @sweep("number", [1, 2], full=[3])
    def test(number: int) -> None:
        ran.append(number)

    for tier, expected in ((Tier.QUICK, [1, 2]), (Tier.DEFAULT, [1, 2]), (Tier.FULL, [1, 2, 3])):
        monkeypatch.setattr(tiers, "_tier", tier)
        ran.clear()
        test()
        assert ran == expected
    monkeypatch.setattr(sweeps, "_only_cases", "number=2")
    ran.clear()
    test()
    assert ran == [2]
    monkeypatch.setattr(sweeps, "_only_cases", "number=7")
    with pytest.raises(pytest.skip.Exception, match="no case's name contains 'number=7'"):
        test()


def test_a_case_has_a_value_for_every_name() -> None:
    with pytest.raises(ValueError, match="a case of a, b has 1 values"):
        sweep("a, b", [(1,)])


@pytest.mark.parametrize("number", one_in(2, range(4)))
def test_one_in_two_is_of_the_default_tier(number: int, request: pytest.FixtureRequest) -> None:
    item = request.node
    assert is_taken(item, Tier.FULL)
    assert is_taken(item, Tier.DEFAULT) == (number % 2 == 0)
    assert is_taken(item, Tier.QUICK) == (number % 2 == 0)


class _Case:
    """A case of a test as pytest collects it."""

    def __init__(self, every: int, **parameters: object) -> None:
        self.nodeid = f"test.py::test_{len(parameters)}_{every}[{parameters}]"
        self.callspec = SimpleNamespace(params=parameters)
        self.marker = SimpleNamespace(args=(every,)) if every else None

    def get_closest_marker(self, name: str) -> object:
        assert name == "sampled"
        return self.marker


def test_samples_have_every_value_and_are_spread() -> None:
    modes, places = ("a", "b", "c", "d"), ("here", "there")
    grid = [_Case(4, mode=mode, place=place) for mode in modes for place in places]
    line = [_Case(3, number=number) for number in range(8)]
    others = [_Case(0, number=1), _Case(0, number=2)]
    found = sampled([*grid, *others, *line])  # type: ignore[list-item]
    left = [item.callspec.params for item in found]  # type: ignore[attr-defined]
    assert {each.get("mode") for each in left[:4]} == set(modes)
    assert {each.get("place") for each in left[:4]} == set(places)
    assert left[4:] == [{"number": number} for number in (1, 2, 0, 3, 6)]
