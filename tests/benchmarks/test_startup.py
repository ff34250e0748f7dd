"""The benchmark of starts measures new processes and makes tables of their figures."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.tflite.builder import TfliteModel


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, import_benchmark: Callable[..., Any]) -> Any:
    """Imports the benchmark."""
    monkeypatch.delitem(sys.modules, "run", raising=False)
    return import_benchmark("run", "startup")


def figures(ready_ms: float, peak_mib: float) -> dict[str, float]:
    return {
        "import_ms": 1.0,
        "import_cpu_ms": 1.0,
        "ready_ms": ready_ms,
        "ready_cpu_ms": ready_ms,
        "ready_peak_mib": peak_mib,
        "optimized_ms": 2 * ready_ms,
        "peak_mib": peak_mib,
    }


def test_tables_have_geometric_means_of_the_ratios(run: ModuleType) -> None:
    models = {
        "a": {"cold": figures(9, 60), "warm": figures(3, 40), "litert": figures(1, 30)},
        "b": {"cold": figures(9, 30), "warm": figures(12, 40), "litert": figures(1, 30)},
        "c": {"cold": figures(9, 30), "warm": figures(12, 40)},
    }
    warm, cold, second = run.tables_of(models, [["b after a", 10.0, 5.0, 0.5]])
    assert warm.value("a", "ratio_ready") == pytest.approx(3)
    assert warm.value("geometric mean", "ratio_ready") == pytest.approx(6)
    assert warm.value("c", "ratio_ready") is None
    assert warm.value("geometric mean", "ratio_openvino") is None
    assert cold.value("geometric mean", "ratio_peak") == pytest.approx(2**0.5)
    assert cold.value("a", "optimized") == 18
    assert second.value("b after a", "ratio") == 0.5


def test_second_models_alone(run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "second_of_family", lambda *_, rounds: ["b after a", 10.0, 5.0, rounds])
    monkeypatch.setattr(run, "_REST_S", 0.0)
    target = tmp_path / "result.json"
    for models in ([], ["--models", str(tmp_path)]):
        arguments = [*models, "--second", "a:b", "--rounds", "3", "--json", str(target)]
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
        run.main()
        assert [each["rows"] for each in json.loads(target.read_text())["tables"]] == [
            [["b after a", 10.0, 5.0, 3]]
        ]


def test_tables_of_processes_that_prepared_another_model(run: ModuleType) -> None:
    here = {**figures(4, 40), "operations": 20, "call_cpu_ms": 3.0}
    models = {
        "a": {
            "cold": figures(9, 60),
            "later": {**here, "load_cpu_ms": 0.2},
            "first_tier": {**here, "ready_cpu_ms": 8.0, "load_cpu_ms": 1.0},
            "litert_later": {**figures(2, 40), "call_cpu_ms": 1.5},
        }
    }
    _, _, later, loads = run.tables_of(models, [])
    ratios = [later.value("a", name) for name in ("ratio", "first_tier_ratio", "call_ratio")]
    assert ratios == [2, 4, 2]
    assert loads.value("a", "first_each") == pytest.approx(50)
    assert loads.value("a", "kept_each") == pytest.approx(10)


def test_figures_that_are_not_wanted(run: ModuleType, tmp_path: Path) -> None:
    class Machine:
        def __init__(self) -> None:
            self.started: list[tuple[str, bool]] = []

        def run(
            self, engine: str, path: Path, cache: str, *, waits: bool = False, **_: object
        ) -> dict[str, float]:
            self.started.append((engine, waits))
            return figures(1, 1)

    machine = Machine()
    found = run.measure(machine, tmp_path / "a.tflite", 2, None, ["cold", "openvino"])
    assert set(found) == {"warm", "litert"}
    # What fills the cache does not count.
    assert machine.started == [("neurald", True), *[("neurald", False), ("litert", False)] * 2]
    assert len(run.tables_of({"a": found}, [])) == 1


def test_medians(run: ModuleType) -> None:
    assert run.medians([{"a": 3.0}, {"a": 1.0}, {"a": 2.0}]) == {"a": 2.0}


def written_model(folder: Path) -> Path:
    """Writes a model of one operation, and returns its path."""
    model = TfliteModel()
    graph = model.subgraph()
    x, y = graph.tensor((2, 3), name="x"), graph.tensor((2, 3), name="y")
    graph.operator("TANH", (x,), (y,))
    graph.inputs, graph.outputs = (x,), (y,)
    return model.write(folder / "model.tflite")


def test_cold_and_warm_processes(run: ModuleType, tmp_path: Path) -> None:
    path = written_model(tmp_path)
    folder = tmp_path / "caches"
    folder.mkdir()
    machine = run.Machine(folder, tmp_path / "no_peers")
    cold = machine.run("neurald", path, "cache", optimizes=True)
    warm = machine.run("neurald", path, "cache", calls=True, before=path)
    assert cold["optimized_ms"] >= cold["ready_ms"] > 0
    assert "optimized_ms" not in warm
    assert warm["operations"] == 1
    assert min(warm["call_cpu_ms"], warm["load_cpu_ms"]) > 0
    assert min(warm["ready_cpu_ms"], warm["peak_mib"]) > 0
    with pytest.raises(RuntimeError, match="missing"):
        machine.run("neurald", tmp_path / "missing.tflite", "cache")


_LOADS = """
import sys
import neurald as nd

nd.load_tflite(sys.argv[1])
print("neurald.runtime.tflite.conversion.importer" in sys.modules)
"""


def test_what_fills_the_cache_keeps_the_converted_file(run: ModuleType, tmp_path: Path) -> None:
    """Warm starts without cold ones before them must not convert the file."""
    path = written_model(tmp_path)
    folder = tmp_path / "caches"
    folder.mkdir()
    machine = run.Machine(folder, tmp_path / "no_peers")
    time.sleep(3)  # Until the file is at rest.
    machine.run("neurald", path, "cache", waits=True)
    converts = [
        subprocess.run(
            [sys.executable, "-c", _LOADS, str(path)],
            env={**os.environ, "PYTHONPATH": ":".join(sys.path), "XDG_CACHE_HOME": str(folder / cache)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for cache in ("cache", "another")
    ]
    assert converts == ["False\n", "True\n"]
