"""A short run of `tests/faults/run.py --swaps`."""

from pathlib import Path

import pytest
from faults import swap
from faults.swap import FAULTS, play
from support.files.data import NO_VECTORS, VECTORS

if VECTORS is None:
    pytest.skip(NO_VECTORS, allow_module_level=True)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keeps the kernels of the first tier to the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.full
@pytest.mark.slow
def test_every_fault_during_replacement() -> None:
    for seed, fault in enumerate(FAULTS):
        report = play(1, seed, faults=(fault,))
        assert not report["wrong"], report
        assert sum(report["outcomes"].values()) == 1
    assert report["outcomes"] == {"nothing: optimised": 1}, "without a fault, all code is replaced"


def test_wrong_results_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swap, "mismatches", lambda *_: ["another value"])
    report = play(1, 0, faults=("nothing",))
    assert len(report["wrong"]) > swap.THREADS
