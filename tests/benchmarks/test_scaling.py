"""The benchmark of scaling makes a table and a plot of what other benchmarks measured."""

import importlib
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "scaling"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def subject(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's module; several benchmarks have one of this name."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(str(FOLDER))
    sys.modules.pop("run", None)
    yield importlib.import_module("run")
    for name in {"run", "scaling_plot"} & (set(sys.modules) - known | {"run"}):
        sys.modules.pop(name, None)


def measured(model: str, threads: int, own_ms: float, **others_ms: float) -> dict[str, Any]:
    times = {name: {"p50_ms": ms, "ratio": own_ms / ms} for name, ms in others_ms.items()}
    return {
        "model": model,
        "precision": "fp32",
        "threads": threads,
        "times": {"neurald": {"p50_ms": own_ms}, **times},
        **({"share_of_peak": 0.5} if threads == 1 else {}),
    }


ROWS = [
    measured("first & only", 1, 8.0, litert=10.0, openvino=16.0),
    measured("first & only", 4, 2.0, litert=4.0),
    measured("without one thread", 2, 3.0, litert=2.0),
]


def test_numbers_of_threads(subject: Any) -> None:
    assert subject.powers_of_two(1) == [1]
    assert subject.powers_of_two(2) == [1, 2]
    assert subject.powers_of_two(12) == [1, 2, 4, 8, 12]
    assert subject.powers_of_two(16) == [1, 2, 4, 8, 16]


def test_table(subject: Any) -> None:
    table = subject.network_table(ROWS)
    assert [column.name for column in table.columns] == [
        "network",
        "ms",
        "speedup",
        "peak_percent",
        "litert",
        "openvino",
        "best",
    ]
    assert table.rows == [
        ["first & only, 1", 8.0, 1.0, 50.0, 0.8, 0.5, 0.8],
        ["first & only, 4", 2.0, 4.0, None, 0.5, None, 0.5],
        ["without one thread, 2", 3.0, None, None, 1.5, None, 1.5],
    ]


def test_int8_has_no_share_of_the_peak_of_float32(subject: Any) -> None:
    (row,) = subject.network_table([{**ROWS[0], "precision": "int8"}]).rows
    assert row[3] is None


def test_table_of_peaks(subject: Any) -> None:
    rates = [("float32", 1, 80.0), ("int8", 1, 300.0), ("float32", 4, 240.0)]
    table = subject.peak_table([dict(zip(("kind", "threads", "giga"), each, strict=True)) for each in rates])
    assert table.rows == [["1", 80.0, 1.0], ["4", 240.0, 3.0]]


def test_plot(subject: Any) -> None:
    panels = list(subject.network_panels(ROWS))
    assert [panel.title for panel in panels] == ["first & only"]
    assert {line.name: line.points for line in panels[0].lines} == {
        "neurald": [(1, 1.0), (4, 4.0)],
        "LiteRT": [(1, 0.8), (4, 2.0)],
        "OpenVINO": [(1, 0.5)],
        "ONNX Runtime": [],
    }
    root = ElementTree.fromstring(subject.svg_plot("Speed < all", panels))
    texts = {each.text for each in root.iter(f"{SVG}text")}
    assert {"Speed < all", "first & only", "neurald", "ONNX Runtime", "threads", "1", "4"} <= texts
    lines = [each.attrib["points"].split() for each in root.iter(f"{SVG}polyline")]
    assert [len(points) for points in lines] == [2, 2, 2, 1, 0]
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    for x, y in (map(float, point.split(",")) for points in lines for point in points):
        assert 0 <= x <= width
        assert 0 <= y <= height


def test_plot_of_clients(subject: Any) -> None:
    file = importlib.import_module("result_file")
    columns = [file.Column(name=name, title=name) for name in ("case", "in_process_per_s", "daemon_per_s")]
    table = file.Table(title="", columns=columns, rows=[["1 client", 100, 90], ["2 clients", 200.0, 150]])
    panel = subject.client_panel(table, [1, 2])
    assert [list(line.points) for line in panel.lines] == [[(1, 0.9), (2, 1.5)], [(1, 1.0), (2, 2.0)]]
    # The legend names engines; other lines are labelled in their panel.
    plot = subject.svg_plot("", [*subject.network_panels(ROWS), panel])
    assert plot.count(">neurald</text>") == 1
    assert plot.count(">in processes of their own</text>") == 1
