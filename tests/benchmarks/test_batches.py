"""The OpenCL benchmark of batches continues a result file."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.opencl.sources import opencl_facts


@pytest.fixture
def batches(import_benchmark: Callable[..., Any]) -> Any:
    return import_benchmark("batches", "opencl")


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
    assert note.startswith("Measured by")
    assert note.endswith(": resnet_50, int8, batch 32.")
    run(3.0, networks=["resnet_50"], batches=[8], precisions=["relaxed"])
    (note,) = batches.read(file).notes
    assert note.endswith(": vit_base, relaxed, batch 8; resnet_50, int8, batch 8; resnet_50, int8, batch 32.")
    run(4.0, networks=["vit_base", "resnet_50"], batches=[8, 32], precisions=["relaxed", "int8"])
    assert not batches.read(file).notes
