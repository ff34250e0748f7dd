"""Makes the tables of the benchmark of starts."""

import math
import statistics
from collections.abc import Mapping, Sequence

from result_file import Cell, Column, Table


def _mean(values: Sequence[float]) -> float | None:
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def _value(found: Mapping[str, Mapping[str, float]], name: str, figure: str) -> float | None:
    return found[name].get(figure) if name in found else None


def _sum(found: Mapping[str, Mapping[str, float]], name: str) -> float | None:
    if name not in found:
        return None
    return found[name]["import_cpu_ms"] + found[name]["ready_cpu_ms"]


def _ratio(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first / second


def _load_figures(found: Mapping[str, Mapping[str, float]]) -> list[Cell]:
    """Returns the number of operations, and times of first and later loads, also per operation."""
    operations = _value(found, "later", "operations")
    first_ms, kept_ms = (_value(found, name, "load_cpu_ms") for name in ("first_tier", "later"))
    each_us = [
        None if loaded_ms is None or not operations else loaded_ms * 1e3 / operations
        for loaded_ms in (first_ms, kept_ms)
    ]
    return [operations, first_ms, kept_ms, *each_us]


def _model_tables(models: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[Table]:
    """Returns the tables of all models, each with the geometric means at its end."""
    warm: list[list[Cell]] = []
    later: list[list[Cell]] = []
    loads: list[list[Cell]] = []
    cold: list[list[Cell]] = []
    for name, found in models.items():
        ready, lite = _value(found, "warm", "ready_cpu_ms"), _value(found, "litert", "ready_cpu_ms")
        warm.append(
            [
                name,
                _value(found, "warm", "import_cpu_ms"),
                ready,
                _value(found, "litert", "import_cpu_ms"),
                lite,
                _ratio(ready, lite),
                _ratio(_sum(found, "warm"), _sum(found, "litert")),
                _ratio(_sum(found, "warm"), _sum(found, "openvino")),
                _ratio(_sum(found, "warm"), _sum(found, "onnxruntime")),
            ]
        )
        cached, first_tier = (_value(found, each, "ready_cpu_ms") for each in ("later", "first_tier"))
        lite = _value(found, "litert_later", "ready_cpu_ms")
        call, lite_call = (_value(found, each, "call_cpu_ms") for each in ("first_tier", "litert_later"))
        ratios = _ratio(cached, lite), _ratio(first_tier, lite)
        calls = call, lite_call, _ratio(call, lite_call)
        later.append([name, cached, first_tier, lite, *ratios, *calls])
        loads.append([name, *_load_figures(found)])
        peak, lite_peak = _value(found, "cold", "ready_peak_mib"), _value(found, "litert", "peak_mib")
        cold.append(
            [
                name,
                _value(found, "cold", "ready_ms"),
                _value(found, "cold", "optimized_ms"),
                _value(found, "openvino", "ready_ms"),
                peak,
                _value(found, "cold", "peak_mib"),
                _value(found, "warm", "peak_mib"),
                lite_peak,
                _value(found, "openvino", "peak_mib"),
                _ratio(_value(found, "cold", "peak_mib"), lite_peak),
            ]
        )
    for rows in (warm, later, loads, cold):
        columns = list(zip(*rows, strict=True))[1:]
        means = [_mean([value for value in column if isinstance(value, float)]) for column in columns]
        rows.append(["geometric mean", *means])
    ms, mib = {"unit": "ms", "format": ".1f"}, {"unit": "MiB", "format": ".0f"}
    fine_ms = {"unit": "ms", "format": ".2f"}
    tables = [
        Table(
            title="Warm start, processor time",
            columns=[
                Column(name="model", title="model"),
                Column(name="import", title="import", **ms),
                Column(name="ready", title="load and prepare, modules that they import included", **ms),
                Column(name="litert_import", title="LiteRT: import", **ms),
                Column(name="litert_ready", title="LiteRT: load and prepare", **ms),
                Column(name="ratio_ready", title="load and prepare / LiteRT", format=".1f"),
                Column(name="ratio_all", title="all / LiteRT", format=".2f"),
                Column(name="ratio_openvino", title="all / OpenVINO", format=".2f"),
                Column(name="ratio_onnxruntime", title="all / ONNX Runtime", format=".2f"),
            ],
            rows=warm,
        ),
    ]
    if any("cold" in found for found in models.values()):
        tables.append(
            Table(
                title="Cold start, elapsed time, and memory",
                columns=[
                    Column(name="model", title="model"),
                    Column(name="ready", title="ready", **ms),
                    Column(name="optimized", title="optimized", **ms),
                    Column(name="openvino_ready", title="OpenVINO: ready", **ms),
                    Column(name="ready_peak", title="peak when ready", **mib),
                    Column(name="peak", title="peak when optimized", **mib),
                    Column(name="warm_peak", title="peak of a warm start", **mib),
                    Column(name="litert_peak", title="LiteRT: peak", **mib),
                    Column(name="openvino_peak", title="OpenVINO: peak", **mib),
                    Column(name="ratio_peak", title="peak when optimized / LiteRT", format=".2f"),
                ],
                rows=cold,
            )
        )
    if any("later" in found for found in models.values()):
        tables.append(
            Table(
                title="Load and prepare in a process that has prepared another model, processor time",
                columns=[
                    Column(name="model", title="model"),
                    Column(name="ready", title="from the cache", **fine_ms),
                    Column(name="first_tier", title="first tier", **fine_ms),
                    Column(name="litert_ready", title="LiteRT", **fine_ms),
                    Column(name="ratio", title="from the cache / LiteRT", format=".2f"),
                    Column(name="first_tier_ratio", title="first tier / LiteRT", format=".2f"),
                    Column(name="call", title="call on the first tier", unit="ms", format=".3f"),
                    Column(name="litert_call", title="LiteRT: call", unit="ms", format=".3f"),
                    Column(name="call_ratio", title="call on the first tier / LiteRT", format=".2f"),
                ],
                rows=later,
            )
        )
        tables.append(
            Table(
                title="`load_tflite` in such a process, processor time",
                columns=[
                    Column(name="model", title="model"),
                    Column(name="operations", title="operations", format=".0f"),
                    Column(name="first", title="first load", **fine_ms),
                    Column(name="kept", title="converted earlier", **fine_ms),
                    Column(name="first_each", title="first load, an operation", unit="µs", format=".1f"),
                    Column(
                        name="kept_each", title="converted earlier, an operation", unit="µs", format=".1f"
                    ),
                ],
                rows=loads,
            )
        )
    return tables


def tables_of(
    models: Mapping[str, Mapping[str, Mapping[str, float]]], second: list[list[Cell]]
) -> list[Table]:
    """Returns the tables of what was measured: of models, and of second models of a family."""
    tables = _model_tables(models) if models else []
    if second:
        ms = {"unit": "ms", "format": ".1f"}
        columns = [
            Column(name="models", title="models"),
            Column(name="alone", title="alone", **ms),
            Column(name="after", title="after the other", **ms),
            Column(name="ratio", title="after / alone", format=".2f"),
        ]
        tables.append(
            Table(
                title="Second model of a family, elapsed time until optimized", columns=columns, rows=second
            )
        )
    return tables
