"""Costs of tests are kept in a folder of their own, and not in memory beyond a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from neurald.runtime.costs import store


@pytest.fixture(autouse=True)
def _own_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store.forget()
    yield
    store.forget()
