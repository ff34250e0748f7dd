"""The OpenCL benchmark of batches continues a result file."""

import importlib
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.opencl.sources import opencl_facts

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "opencl"))
    yield importlib.import_module("batches")
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def test_a_run_keeps_the_lines_of_other_cases(
    batches: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(batches, "model_of", lambda *case: case)
    file = tmp_path / "batches.json"

    def run(time_us: float, **cases: Any) -> None:
        monkeypatch.setattr(batches, "neurald_cells", lambda *_: (time_us, 2 * time_us, 1.0))
        given = Namespace(json=file, minutes=1, choices=None, no_peers=True, no_compile=True, runs=1, **cases)
        batches.Comparison(given, opencl_facts()).measure()

    run(1.0, networks=["resnet_50"], batches=[32, 8], precisions=["int8"])
    run(2.0, networks=["vit_base", "resnet_50"], batches=[8], precisions=["relaxed", "int8"])
    result = batches.read(file)
    assert [(row[0], row[1]) for row in result.tables[0].rows] == [
        ("vit_base, relaxed, batch 8", 2.0),
        ("resnet_50, relaxed, batch 8", 2.0),
        ("resnet_50, int8, batch 8", 2.0),
        ("resnet_50, int8, batch 32", 1.0),
    ]
    (note,) = result.notes
    assert "Other lines were measured by" in note
