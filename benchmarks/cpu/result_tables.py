"""Turns measurements of the CPU benchmark into the tables of a result file."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from report import SUBJECT

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from result_file import Column, Table

#: The names of engines for people.
TITLES = {"neurald": "neurald", "litert": "LiteRT", "openvino": "OpenVINO", "onnxruntime": "ONNX Runtime"}


def result_tables(document: Mapping[str, Any]) -> list[Table]:
    """Returns the tables of all measurements of `Session.document`."""
    rows = document["rows"]
    tables = [
        _latencies([row for row in rows if row.get("threads") == threads], threads)
        for threads in sorted({row["threads"] for row in rows if "threads" in row})
    ]
    tables += [_means(document["means"])] if document["means"] else []
    tables += [_preparations(document["preparations"])] if document["preparations"] else []
    busy = [row for row in rows if "two_to_one" in row]
    cycles = [row for row in rows if "resident_kib" in row]
    tables += [_busy(busy)] if busy else []
    tables += [_cycles(cycles)] if cycles else []
    return tables


def _engines(names: Sequence[str]) -> list[str]:
    return [name for name in TITLES if name in names]


def _latencies(rows: Sequence[Mapping[str, Any]], threads: int) -> Table:
    engines = _engines([name for row in rows for name in row["times"]])
    columns = [Column(name="model", title="model")]
    for name in engines:
        columns.append(Column(name=f"{name}_ms", title=TITLES[name], unit="ms", format=".3g"))
        if name != SUBJECT:
            title = f"{TITLES[SUBJECT]} / {TITLES[name]}"
            columns.append(Column(name=f"{name}_ratio", title=title, format=".2f"))
    columns.append(Column(name="peak_percent", title="of the peak rate", unit="%", format=".0f"))
    columns.append(Column(name="difference", title="difference", format=".2g"))
    table = []
    for row in rows:
        cells: list[float | str | None] = [row["model"]]
        for name in engines:
            figures = row["times"].get(name, {})
            cells.append(figures.get("p50_ms"))
            if name != SUBJECT:
                cells.append(figures.get("ratio"))
        share, difference = row.get("share_of_peak"), row.get("difference")
        cells.append(None if share is None else 100 * share)
        cells.append(difference["largest"] if isinstance(difference, Mapping) else difference)
        table.append(cells)
    return Table(title=f"Medians with {threads} thread{'s' * (threads > 1)}", columns=columns, rows=table)


def _means(means: Sequence[Mapping[str, Any]]) -> Table:
    columns = [
        Column(name="case", title="case"),
        Column(name="models", title="models", format=".0f"),
        Column(name="ratio", title="ratio of medians", format=".2f"),
        Column(name="ratio_p10", title="of 10th percentiles", format=".2f"),
        Column(name="ratio_cpu", title="of processor times", format=".2f"),
        Column(name="worst", title="largest ratio", format=".2f"),
        Column(name="worst_model", title="of model"),
    ]
    rows = [
        [
            f"{mean['precision']}, {TITLES[mean['peer']]}, threads: {mean['threads']}",
            *(mean[column.name] for column in columns[1:]),
        ]
        for mean in means
    ]
    return Table(title="Geometric means of the ratios to each runtime", columns=columns, rows=rows)


def _preparations(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Table:
    columns = [
        Column(name="model", title="model"),
        Column(name="runtime", title="runtime"),
        Column(name="cold_ms", title="prepare without a cache", unit="ms", format=",.0f"),
        Column(name="again_ms", title="prepare again, from the cache", unit="ms", format=".1f"),
        Column(
            name="new_process_ms",
            title="load and prepare in a new process, from the cache",
            unit="ms",
            format=".1f",
        ),
        Column(name="first_run_ms", title="first run", unit="ms", format=".1f"),
        Column(name="peak_cached_mib", title="peak memory, from the cache", unit="MiB", format=".1f"),
        Column(name="peak_cold_mib", title="peak memory, without a cache", unit="MiB", format=".1f"),
    ]
    rows = []
    for model, engines in found.items():
        for engine in _engines(list(engines)):
            cold, warm = engines[engine]["cold"], engines[engine]["warm"]
            rows.append(
                [
                    model,
                    TITLES[engine],
                    cold["prepare_ms"],
                    cold["again"]["prepare_ms"],
                    warm["load_ms"] + warm["prepare_ms"],
                    warm["first_ms"],
                    warm["peak_kib"] / 1024,
                    cold["peak_kib"] / 1024,
                ]
            )
    return Table(title="Preparation, first run and peak memory", columns=columns, rows=rows)


def _busy(rows: Sequence[Mapping[str, Any]]) -> Table:
    engines = _engines([name for row in rows for name in row["two_to_one"]])
    columns = [
        Column(name="model", title="model"),
        *(Column(name=f"{name}_ratio", title=TITLES[name], format=".2f") for name in engines),
    ]
    cells = [[row["model"], *(row["two_to_one"].get(name) for name in engines)] for row in rows]
    title = "One core busy: time with two threads / with one thread on the free core"
    return Table(title=title, columns=columns, rows=cells)


def _cycles(rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = [
        Column(name="case", title="case"),
        Column(name="cycles", title="cycles", format=",.0f"),
        Column(name="early_kib", title="resident after a fifth", unit="KiB", format=",.0f"),
        Column(name="late_kib", title="resident at the end", unit="KiB", format=",.0f"),
    ]
    cells = [
        [
            f"{row['model']}, {'from the cache' if row['cached'] else 'compiled each time'}",
            row["cycles"],
            row["resident_kib"][2],
            row["resident_kib"][-1],
        ]
        for row in rows
    ]
    return Table(title="Resident memory over many preparations", columns=columns, rows=cells)
