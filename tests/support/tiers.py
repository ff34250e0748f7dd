"""Tiers of tests: a few for a first answer, those of every change, or all.

A test is marked `@pytest.mark.quick` (runs in every tier), not at all (runs in `default` and
`full`), or `@pytest.mark.full` (runs in `full` only). `sweep(..., full=...)` and `one_in` do the
same for the cases of a test, and `spread` for what a case consists of. Of a test that is marked
`@pytest.mark.sampled(every)`, the lower tiers run a part of its cases.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

_Value = TypeVar("_Value")


class Tier(enum.Enum):
    """Each tier includes the previous one."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


_tier = Tier.DEFAULT


def current_tier() -> Tier:
    """Returns the tier of this run."""
    return _tier


def set_tier(tier: Tier) -> None:
    """Sets the tier of this run, before tests are collected."""
    global _tier
    _tier = tier


def is_taken(item: pytest.Item, tier: Tier) -> bool:
    """Returns True if a tier includes a test."""
    if tier is Tier.FULL:
        return True
    if item.get_closest_marker("full") is not None:
        return False
    return tier is Tier.DEFAULT or item.get_closest_marker("quick") is not None


def sampled(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Returns the tests without the cases that only the tier `full` runs of tests marked `sampled`.

    Of several parameters, each value stays in some case.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left = {id(item) for all_ in cases.values() for item in all_} - {
        id(item) for all_ in cases.values() for item in _sample(all_)
    }
    return [item for item in items if id(item) not in left]


def _sample(cases: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Returns one in this many of a test's cases, first those with values that no other one has."""
    marker = cases[0].get_closest_marker("sampled")
    assert marker is not None
    (every,) = marker.args
    values = [{(name, id(value)) for name, value in _parameters(case).items()} for case in cases]
    lengths = sorted(Counter(name for name, _ in set().union(*values)).values())
    count = max(-(-len(cases) // every), lengths[-1] if len(lengths) > 1 and lengths[-2] > 1 else 0)
    # Evenly spread ones first.
    waiting = [*range(0, len(cases), every), *(n for n in range(len(cases)) if n % every)]
    seen: set[object] = set()
    kept: list[pytest.Item] = []
    while len(kept) < min(count, len(cases)):
        best = max(waiting, key=lambda n: len(values[n] - seen))
        waiting.remove(best)
        seen |= values[best]
        kept.append(cases[best])
    return kept


def _parameters(case: pytest.Item) -> dict[str, object]:
    found: dict[str, object] = case.callspec.params  # type: ignore[attr-defined]
    return found


def spread(most: int, values: Sequence[_Value]) -> Sequence[_Value]:
    """Returns at most this many of the values, evenly spread; in the tier `full`, all of them."""
    if _tier is Tier.FULL:
        return values
    return values[:: max(1, -(-len(values) // most))]


def one_in(every: int, values: Iterable[Any], ids: Sequence[str] | None = None) -> list[Any]:
    """Returns cases for `pytest.mark.parametrize`, of which the tier `default` runs a fraction.

    Args:
        every: the tier `default` runs the first of every so many cases, `full` the others as well.
        values: one value per case, or a tuple if there are several parameters.
        ids: names of the cases; None for pytest's own.
    """
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            id=None if ids is None else ids[position],
            marks=[pytest.mark.full] if position % every else [],
        )
        for position, value in enumerate(values)
    ]
