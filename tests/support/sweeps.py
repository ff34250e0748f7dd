"""Runs many small cases in one test, and reports every case that fails, not only the first.

`sweep` replaces `pytest.mark.parametrize` for cases of milliseconds. pytest's overhead per item is
larger than that, and collecting thousands of items takes minutes.
"""

import enum
import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.tiers import Tier, current_tier

#: Maximum number of failed cases in a message; the others are only counted.
_MAX_LISTED = 50
_MAX_ERROR_LENGTH = 300

_only_cases = ""


def run_only(text: str) -> None:
    """Restricts sweeps to the cases whose names contain a text; the empty text allows all."""
    global _only_cases
    _only_cases = text


class _Axis:
    """One `sweep`: the names of its parameters, and the name and values of each case."""

    def __init__(
        self,
        names: str | Sequence[str],
        values: Iterable[Any],
        ids: Sequence[object] | Callable[[Any], object] | None,
    ) -> None:
        listed = names.split(",") if isinstance(names, str) else names
        self.names = tuple(name.strip() for name in listed)
        is_single = len(self.names) == 1 and isinstance(names, str)
        self.cases: list[tuple[str, tuple[Any, ...]]] = []
        for position, value in enumerate(values):
            case = (value,) if is_single else tuple(value)
            if len(case) != len(self.names):
                raise ValueError(f"a case of {', '.join(self.names)} has {len(case)} values: {value!r}")
            if ids is None:
                parts = [f"{name}={_name_of(each)}" for name, each in zip(self.names, case, strict=True)]
            elif callable(ids):
                parts = [str(ids(each) or _name_of(each)) for each in case]
            else:
                parts = [str(ids[position])]
            self.cases.append((", ".join(parts), case))


def sweep(
    names: str | Sequence[str],
    values: Iterable[Any],
    *,
    full: Iterable[Any] = (),
    ids: Sequence[object] | Callable[[Any], object] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a test run every case, and fail with the name and the error of each case that fails.

    Several sweeps of one test run every combination, as with `pytest.mark.parametrize`. A case may
    skip itself; the test is skipped if all do. `monkeypatch` and `tmp_path` are new for every case;
    any other fixture is shared by all cases, which must not change it.

    Args:
        names: of the parameters, as one string with commas or as a sequence.
        values: one value per case, or a tuple of values if there are several names.
        full: further cases, which only the tier `full` runs.
        ids: names of the cases, or a function from a value to a name; by default the values' own
            names.

    Raises:
        ValueError: the number of values of a case differs from the number of names.
    """
    of_every_tier = list(values)
    axis, full_axis = _Axis(names, of_every_tier, ids), _Axis(names, [*of_every_tier, *full], ids)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        made: _Sweep | None = getattr(function, "sweep", None)
        if made is None:
            return _Sweep(function, [(axis, full_axis)]).as_test()
        return _Sweep(made.function, [(axis, full_axis), *made.axes]).as_test()

    return decorate


class _Sweep:
    """A test and the axes of its cases, the outermost first."""

    def __init__(self, function: Callable[..., None], axes: list[tuple[_Axis, _Axis]]) -> None:
        self.function = function
        self.axes = axes

    def as_test(self) -> Callable[..., None]:
        """Returns the test for pytest: its parameters are the fixtures only."""
        signature = inspect.signature(self.function)
        given = {name for axis, _ in self.axes for name in axis.names}
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in given]

        @functools.wraps(self.function)
        def test(*args: Any, **fixtures: Any) -> None:
            __tracebackhide__ = True
            _run(self.function, self.cases(), args, fixtures)

        test.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        test.sweep = self  # type: ignore[attr-defined]
        return test

    def cases(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields the names and arguments of the cases of the current tier."""
        is_full = current_tier() is Tier.FULL
        axes = [full_axis if is_full else axis for axis, full_axis in self.axes]
        for combination in itertools.product(*(axis.cases for axis in axes)):
            arguments: dict[str, Any] = {}
            for axis, (_, case) in zip(axes, combination, strict=True):
                arguments.update(zip(axis.names, case, strict=True))
            yield ", ".join(name for name, _ in combination), arguments


def _run(
    function: Callable[..., None],
    cases: Iterable[tuple[str, dict[str, Any]]],
    args: Sequence[Any],
    fixtures: dict[str, Any],
) -> None:
    __tracebackhide__ = True
    failed: list[tuple[str, BaseException]] = []
    skipped: list[BaseException] = []
    count = 0
    for name, arguments in cases:
        if _only_cases not in name:
            continue
        count += 1
        try:
            with pytest.MonkeyPatch.context() as patch:
                function(*args, **_own_fixtures(fixtures, count, patch), **arguments)
        except pytest.skip.Exception as error:
            skipped.append(error)
        except (Exception, pytest.fail.Exception) as error:
            if isinstance(error, pytest.fail.Exception) and str(error).startswith("Timeout"):
                raise AssertionError(f"the test's time was over in case {name}") from error
            failed.append((f"#{count} {name}", error))
    if failed:
        listed = [f"  {name}: {_first_line(error)}" for name, error in failed[:_MAX_LISTED]]
        if len(failed) > _MAX_LISTED:
            listed.append(f"  and {len(failed) - _MAX_LISTED} more")
        raise AssertionError("\n".join([f"{len(failed)} of {count} cases failed:", *listed])) from failed[0][
            1
        ]
    if count == 0:
        pytest.skip(f"no case's name contains {_only_cases!r}" if _only_cases else "there are no cases")
    if len(skipped) == count:
        raise skipped[0]


def _own_fixtures(fixtures: dict[str, Any], number: int, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    own = dict(fixtures)
    if "monkeypatch" in fixtures:
        own["monkeypatch"] = patch
    if "tmp_path" in fixtures:
        directory: Path = fixtures["tmp_path"] / str(number)
        directory.mkdir()
        own["tmp_path"] = directory
    return own


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    line = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: {line}"[:_MAX_ERROR_LENGTH]


def _name_of(value: object) -> str:
    """Returns a name for a value: short, and the same in every run."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return value.__name__
    name = getattr(value, "__name__", None) or getattr(value, "name", None)
    text = name if isinstance(name, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 80 else text[:77] + "..."
