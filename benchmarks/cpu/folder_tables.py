"""Turns the rows of a folder's models into tables: by family, by model, and what was not timed."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from report import SUBJECT
from result_tables import TITLES

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from result_file import Cell, Column, Table

Row = Mapping[str, Any]

#: The name of the line for all families.
_ALL = "all"


def folder_tables(rows: Sequence[Row]) -> list[Table]:
    """Returns the tables of each number of threads."""
    tables = []
    for threads in sorted({row["threads"] for row in rows}):
        found = sorted(
            (row for row in rows if row["threads"] == threads), key=lambda row: (row["family"], row["model"])
        )
        tables += [_families(found, threads), _models(found, threads)]
        if failures := list(_failures(found)):
            tables.append(_not_timed(failures, threads))
    return tables


def ratio(row: Row, engine: str) -> float | None:
    """Returns the ratio that counts: of processor time with one thread, of durations with more."""
    figures = row["times"].get(engine, {})
    value = figures.get("ratio_cpu" if row["threads"] == 1 else "ratio")
    return None if value is None else float(value)


def _peers(rows: Sequence[Row]) -> list[str]:
    return [name for name in TITLES if name != SUBJECT and any(ratio(row, name) is not None for row in rows)]


def _families(rows: Sequence[Row], threads: int) -> Table:
    peers = _peers(rows)
    columns = [Column(name="family", title="family"), Column(name="models", title="models", format=".0f")]
    for peer in peers:
        title = f"{TITLES[SUBJECT]} / {TITLES[peer]}"
        columns += [
            Column(name=f"{peer}_ratio", title=title, format=".2f"),
            Column(name=f"{peer}_worst", title="largest", format=".2f"),
            Column(name=f"{peer}_worst_model", title="of model"),
        ]
    columns.append(Column(name="failed", title="neurald failed", format=".0f"))
    families = dict.fromkeys(row["family"] for row in rows)
    lines = [_family(family, [row for row in rows if row["family"] == family], peers) for family in families]
    lines.append(_family(_ALL, rows, peers))
    return Table(title=f"Geometric means by family, {_threads(threads)}", columns=columns, rows=lines)


def _family(name: str, rows: Sequence[Row], peers: Sequence[str]) -> list[Cell]:
    cells: list[Cell] = [name, len(rows)]
    for peer in peers:
        found = [(value, row["model"]) for row in rows if (value := ratio(row, peer)) is not None]
        if found:
            mean = math.exp(sum(math.log(value) for value, _ in found) / len(found))
            cells += [mean, *max(found)]
        else:
            cells += [None, None, None]
    failed = sum(any(engine in row["failures"] for engine in (SUBJECT, "all")) for row in rows)
    return [*cells, failed or None]


def _models(rows: Sequence[Row], threads: int) -> Table:
    engines = [name for name in TITLES if any(name in row["times"] for row in rows)]
    kind = "cpu_ms" if threads == 1 else "p50_ms"
    columns = [Column(name="model", title="model"), Column(name="family", title="family")]
    for engine in engines:
        columns.append(Column(name=f"{engine}_ms", title=TITLES[engine], unit="ms", format=".3g"))
        if engine != SUBJECT:
            title = f"{TITLES[SUBJECT]} / {TITLES[engine]}"
            columns.append(Column(name=f"{engine}_ratio", title=title, format=".2f"))
    colds = [name for name in TITLES if any(name in row["cold"] for row in rows)]
    for engine in colds:
        title = f"{TITLES[engine]}, preparation"
        columns.append(Column(name=f"{engine}_cold_ms", title=title, unit="ms", format=",.0f"))
    lines = []
    for row in rows:
        cells: list[Cell] = [row["model"], row["family"]]
        for engine in engines:
            cells.append(row["times"].get(engine, {}).get(kind))
            if engine != SUBJECT:
                cells.append(ratio(row, engine))
        cells += [row["cold"].get(engine, {}).get("cpu_ms") for engine in colds]
        lines.append(cells)
    return Table(title=f"Models, {_threads(threads)}", columns=columns, rows=lines)


def _failures(rows: Sequence[Row]) -> Iterator[list[Cell]]:
    for row in rows:
        for engine, reason in row["failures"].items():
            yield [row["model"], TITLES.get(engine, engine), _shortened(reason)]


def _not_timed(rows: Sequence[Sequence[Cell]], threads: int) -> Table:
    columns = [
        Column(name="model", title="model"),
        Column(name="runtime", title="runtime"),
        Column(name="reason", title="reason"),
    ]
    return Table(title=f"Not timed, {_threads(threads)}", columns=columns, rows=rows)


def _shortened(reason: str) -> str:
    """Returns a reason that fits into a cell."""
    text = " ".join(reason.replace("|", "/").split())
    return text if len(text) <= 200 else text[:197] + "..."


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}"
