"""The pages of benchmark results are generated from result files, which the benchmarks write."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
RESULTS = BENCHMARKS / "results"


@pytest.fixture
def modules(import_benchmark: Callable[..., Any]) -> Callable[[str], Any]:
    """Imports a module of `benchmarks` or `benchmarks/cpu` by name."""
    return partial(import_benchmark, folder="cpu")


def test_generated_pages_are_current(modules: Any) -> None:
    for path, text in modules("tables").pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run benchmarks/tables.py"


def test_a_stale_page_fails_the_check(
    modules: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = modules("tables")
    page = tmp_path / "page.md"
    page.write_text("old")
    monkeypatch.setattr(tables, "pages", lambda: {page: "new"})
    monkeypatch.setattr(sys, "argv", ["tables.py", "--check"])
    assert tables.main() == 1
    assert "not current" in capsys.readouterr().err
    assert page.read_text() == "old"
    monkeypatch.setattr(sys, "argv", ["tables.py"])
    assert tables.main() == 0
    assert page.read_text() == "new"


def test_a_program_writes_what_it_has_measured(modules: Any, tmp_path: Path) -> None:
    result_file = modules("result_file")
    columns = [result_file.Column(name="way", title="way")]
    table = result_file.Table(title="Ways", columns=columns, rows=[["here"]])
    path = tmp_path / "result.json"
    documentation = "Measures.\n\n    python measures.py\n\nOne way\nis measured.\n\nIt is short.\n"
    result_file.write_run(path, "Title", documentation, [table])
    result = result_file.read(path)
    assert (result.title, result.description) == ("Title", "One way is measured. It is short.")
    assert [list(row) for table in result.tables for row in table.rows] == [["here"]]
    assert result.machine


def test_every_result_file_says_where_its_figures_come_from(modules: Any) -> None:
    result_file = modules("result_file")
    paths = [path for path in RESULTS.glob("*.json") if path.name != "goals.json"]
    assert paths
    for path in paths:
        result = result_file.read(path)
        assert result.provenance in (result_file.MEASURED, result_file.TRANSCRIBED), path
        assert result.machine, path
        assert result.tables, path


def test_a_result_file_is_read_as_it_was_written(modules: Any, tmp_path: Path) -> None:
    result_file = modules("result_file")
    table = result_file.Table(
        title="Times",
        columns=[
            result_file.Column(name="model", title="model"),
            result_file.Column(name="ms", title="time", unit="ms", format=".1f"),
        ],
        rows=[["a", 1.25], ["b", None]],
    )
    result = result_file.Result(
        title="A run", tables=[table], details={"raw": [1, 2]}, **result_file.circumstances()
    )
    result_file.write(tmp_path / "run.json", result)
    assert result_file.read(tmp_path / "run.json") == result
    assert "\n".join(modules("tables").table_lines(table)) == (
        "| model | time, ms |\n|---|---:|\n| a | 1.2 |\n| b | |"
    )


def test_a_transposed_table_has_a_line_for_each_column(modules: Any) -> None:
    result_file = modules("result_file")
    table = result_file.Table(
        title="Times",
        columns=[
            result_file.Column(name="model", title=""),
            result_file.Column(name="us", title="time", unit="µs", format=",.0f"),
        ],
        rows=[["a", 1234], ["b", 5]],
        transpose=True,
    )
    lines = list(modules("tables").table_lines(table))
    assert lines == ["| | a | b |", "|---|---:|---:|", "| time, µs | 1,234 | 5 |"]


def test_other_files_are_refused(modules: Any, tmp_path: Path) -> None:
    result_file = modules("result_file")
    for content in ("", "[]", '{"title": "x"}', '{"title": "x", "tables": [], "surprise": 1}'):
        path = tmp_path / "wrong.json"
        path.write_text(content)
        with pytest.raises(ValueError, match=r"wrong\.json is not a result file"):
            result_file.read(path)
    column = result_file.Column(name="a", title="a")
    with pytest.raises(ValueError, match="2 values for 1 columns"):
        result_file.Table(title="t", columns=[column], rows=[["x", 1]])


def test_a_goal_needs_a_figure(modules: Any) -> None:
    tables = modules("tables")
    results = {"opencl_litert": modules("result_file").read(RESULTS / "opencl_litert.json")}
    reference = {"file": "opencl_litert", "row": "ResNet-50 fp32", "column": "compute_us"}
    assert tables.measured(results, reference) == 552
    assert tables.measured(results, {**reference, "column": "whole_us", "minus": "compute_us"}) == 98
    for wrong in ({"file": "none"}, {"row": "none"}, {"column": "none"}, {"column": "network"}):
        with pytest.raises(ValueError, match="no result file has a number"):
            tables.measured(results, {**reference, **wrong})


def test_a_goal_that_is_not_met_says_so(modules: Any) -> None:
    tables = modules("tables")
    results = {"opencl_litert": modules("result_file").read(RESULTS / "opencl_litert.json")}
    reference = {"file": "opencl_litert", "row": "ResNet-50 fp32", "column": "compute_us"}
    goals = [
        {"goal": "slow", "at_most": 500, "format": ".0f", "unit": "µs", "results": [reference]},
        {"goal": "fast", "at_least": 500, "format": ".0f", "unit": "µs", "results": [reference]},
    ]
    page = tables.goals_page([{"title": "Group", "goals": goals}], results)
    assert "| slow | ≤ 500 µs | 552 µs | **no** |\n| fast | ≥ 500 µs | 552 µs | yes |" in page


def test_the_cpu_benchmark_makes_tables(modules: Any) -> None:
    times = {
        "neurald": {"p50_ms": 1.0, "p10_ms": 0.9},
        "litert": {"p50_ms": 2.0, "p10_ms": 1.8, "ratio": 0.5},
    }
    preparation = {
        "load_ms": 1.0,
        "prepare_ms": 2.0,
        "first_ms": 3.0,
        "peak_kib": 2048,
        "again": {"prepare_ms": 4.0},
    }
    mean = {
        "precision": "fp32",
        "threads": 1,
        "peer": "litert",
        "models": 1,
        "ratio": 0.5,
        "ratio_p10": 0.5,
        "ratio_cpu": 0.5,
        "worst": 0.5,
        "worst_model": "m",
    }
    document = {
        "rows": [
            {
                "model": "m",
                "threads": 1,
                "times": times,
                "share_of_peak": 0.5,
                "difference": {"largest": 1e-6},
            },
            {"model": "m", "times": {}, "two_to_one": {"neurald": 1.1}},
            {"model": "m", "cached": True, "cycles": 10, "resident_kib": [1, 2, 3, 4]},
        ],
        "means": [mean],
        "preparations": {"m": {"neurald": {"cold": preparation, "warm": preparation}}},
    }
    rows = [table.rows for table in modules("result_tables").result_tables(document)]
    assert rows == [
        [["m", 1.0, 2.0, 0.5, 50.0, 1e-6]],
        [["fp32, LiteRT, threads: 1", 1, 0.5, 0.5, 0.5, 0.5, "m"]],
        [["m", "neurald", 2.0, 4.0, 3.0, 3.0, 2.0, 2.0]],
        [["m", 1.1]],
        [["m, from the cache", 10, 3, 4]],
    ]


@pytest.mark.parametrize("program", ["cpu", "opencl", "ipc"])
def test_every_benchmark_writes_a_result_file(program: str) -> None:
    source = (BENCHMARKS / program / "run.py").read_text(encoding="utf-8")
    assert '"--json", type=Path, metavar="FILE"' in source
    assert "circumstances()" in source


def test_goals_are_valid_json() -> None:
    groups = json.loads((RESULTS / "goals.json").read_text(encoding="utf-8"))
    for goal in (goal for group in groups for goal in group["goals"]):
        assert ("at_most" in goal) != ("at_least" in goal), goal
        assert goal["results"], goal


def test_the_readme_has_the_means_of_the_results(modules: Any) -> None:
    (table,) = modules("result_file").read(RESULTS / "cpu_means.json").tables
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for title, row in {"float32": "fp32", "int8": "int8", "uint8": "uint8"}.items():
        means = [table.value(row, f"{name}_one_thread") for name in ("litert", "openvino", "onnxruntime")]
        assert f"| {title} | {' | '.join(f'{mean:.2f}' for mean in means)} |" in readme
