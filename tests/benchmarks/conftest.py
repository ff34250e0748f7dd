"""Imports benchmarks, which are programs in folders of their own."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def import_benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Imports a module of `benchmarks`, or of the folder in it that is given, by name.

    The modules are forgotten afterwards, since those of several folders have the same name.
    """
    before = set(sys.modules)

    def imported(name: str, folder: str = "") -> Any:
        for path in (BENCHMARKS, BENCHMARKS / folder):
            monkeypatch.syspath_prepend(str(path))
        return importlib.import_module(name)

    yield imported
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]
