"""Functions are called for modules when these are imported, only while they are watched."""

import importlib
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from neurald.runtime.tracing.imported import when_imported

_numbers = itertools.count()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a module with a source; returns its name."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def written(source: str) -> str:
        names.append(name := f"late_module_{next(_numbers)}")
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        return name

    yield written
    for name in names:
        sys.modules.pop(name, None)


def test_modules_that_are_imported_before_and_after(write: Callable[[str], str]) -> None:
    called: list[tuple[str, int]] = []
    early, late, never = (write("value = 7\n") for _ in range(3))
    importlib.import_module(early)

    def noting(name: str) -> Callable[[], None]:
        return lambda: called.append((name, sys.modules[name].value))

    stop = when_imported({name: noting(name) for name in (early, late, never)})
    try:
        assert called == [(early, 7)]
        module = importlib.import_module(late)
        assert called == [(early, 7), (late, 7)]
        # The module is as if nobody had watched it.
        assert module.__spec__ is not None
        assert module.__loader__ is module.__spec__.loader
        assert inspect.getsource(module) == "value = 7\n"
        importlib.reload(module)
        assert len(called) == 2
    finally:
        stop()
    importlib.import_module(never)
    assert len(called) == 2


def test_a_module_that_cannot_be_imported_at_first(write: Callable[[str], str]) -> None:
    called: list[str] = []
    name = write("import sys\nif not hasattr(sys, 'is_here'): raise ImportError('not yet')\n")
    stop = when_imported({name: lambda: called.append(name), "no_such_module": lambda: called.append("")})
    try:
        for missing in (name, "no_such_module"):
            with pytest.raises(ImportError):
                importlib.import_module(missing)
        assert not called
        sys.is_here = True  # type: ignore[attr-defined]
        importlib.import_module(name)
        assert called == [name]
    finally:
        del sys.is_here  # type: ignore[attr-defined]
        stop()


def test_two_who_wait_for_the_same_module(write: Callable[[str], str]) -> None:
    called: list[int] = []
    name = write("value = 7\n")
    stops = [when_imported({name: partial(called.append, number)}) for number in range(2)]
    importlib.import_module(name)
    for stop in stops:
        stop()
    assert sorted(called) == [0, 1]
