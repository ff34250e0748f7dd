"""The file format of benchmark results: tables as JSON, with the information to repeat a run.

A file has these fields:

- `title`, `description`: what was measured, and how to read the tables.
- `provenance`: `measured` for a file that a benchmark wrote, or `transcribed` for figures copied
  from the hand-kept page of earlier versions, whose raw measurements were not kept.
- `date`, `commit`, `machine`, `software`, `command`: the circumstances; empty where unknown.
- `tables`: each with a `title`, its `columns` and its `rows`. A column has a unique `name`, a
  `title` for people, a `unit` and a Python format specification for its numbers. A row is a list
  with one value for each column; null means not measured. `transpose` displays a column as a line.
- `notes`: remarks that belong below the tables.
- `details`: whatever else a benchmark recorded, such as percentiles of each engine.

Figures of transcribed files have the precision of the page that they come from.
"""

import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: A value of a table: a figure, a name, or None if it was not measured.
Cell = float | int | str | None

MEASURED, TRANSCRIBED = "measured", "transcribed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        name: its name in the file, unique in its table.
        title: its title for people.
        unit: such as ms, µs, MiB or %; empty for names and ratios.
        format: a Python format specification for numbers.
    """

    name: str
    title: str
    unit: str = ""
    format: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table of results.

    Raises:
        ValueError: a row has a different number of values than there are columns, or two columns
            have the same name.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    transpose: bool = False

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError(f"table {self.title!r}: column names are not unique: {names}")
        for row in self.rows:
            if len(row) != len(names):
                raise ValueError(
                    f"table {self.title!r}: a row has {len(row)} values for {len(names)} columns: {row}"
                )

    def value(self, row: str, column: str) -> Cell:
        """Returns one value. Rows are selected by their first value.

        Raises:
            KeyError: there is no such row or column.
        """
        for position, each in enumerate(self.columns):
            if each.name == column:
                for values in self.rows:
                    if values[0] == row:
                        return values[position]
                raise KeyError(f"table {self.title!r} has no row {row!r}")
        raise KeyError(f"table {self.title!r} has no column {column!r}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """The content of a result file; the module's docstring describes its fields."""

    title: str
    description: str = ""
    provenance: str = MEASURED
    date: str = ""
    commit: str = ""
    machine: str = ""
    software: str = ""
    command: str = ""
    tables: Sequence[Table]
    notes: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


def read(path: Path) -> Result:
    """Reads a result file.

    Raises:
        ValueError: the file does not have the format; the message names the file.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        tables = [
            Table(**{**table, "columns": [Column(**column) for column in table["columns"]]})
            for table in content.pop("tables")
        ]
        return Result(tables=tables, **{**content, "notes": tuple(content.get("notes", ()))})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a result file: {error}") from error


def write(path: Path, result: Result) -> None:
    """Writes a result file, with one line for each column and row."""
    content = asdict(result)
    text = json.dumps({**content, "tables": None, "details": None}, indent=1, ensure_ascii=False)
    tables = ",\n".join(_table_text(table) for table in content["tables"])
    text = text.replace('"tables": null', f'"tables": [\n{tables}\n ]')
    details = json.dumps(content["details"], indent=1, ensure_ascii=False)
    path.write_text(text.replace('"details": null', f'"details": {details}') + "\n", encoding="utf-8")


def write_run(path: Path, title: str, documentation: str, tables: Sequence[Table]) -> None:
    """Writes the result file of a program that has just measured.

    Args:
        path: of the file.
        title: of the result.
        documentation: the program's docstring, of which the first two paragraphs are left out: the
            title, and how to start it.
        tables: what was measured.
    """
    description = " ".join(documentation.split("\n\n", 2)[2].split())
    write(path, Result(title=title, description=description, tables=tables, **circumstances()))


def _table_text(table: Mapping[str, Any]) -> str:
    def lines(values: Sequence[Any]) -> str:
        return ",\n".join(f"    {json.dumps(value, ensure_ascii=False)}" for value in values)

    title, transpose = (json.dumps(table[name], ensure_ascii=False) for name in ("title", "transpose"))
    return (
        f'  {{\n   "title": {title},\n   "transpose": {transpose},\n'
        f'   "columns": [\n{lines(table["columns"])}\n   ],\n   "rows": [\n{lines(table["rows"])}\n   ]\n  }}'
    )


def circumstances() -> dict[str, Any]:
    """Returns the fields of a result that describe this run, such as date and machine."""
    processor = platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            processor = line.partition(": ")[2]
            break
    root = Path(__file__).resolve().parents[1]
    commit = subprocess.run(  # noqa: S603 - constant arguments
        ["git", "-C", str(root), "describe", "--always", "--dirty"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    program = Path(sys.argv[0]).resolve()
    name = str(program.relative_to(root)) if program.is_relative_to(root) else program.name
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "commit": commit,
        "machine": f"{os.cpu_count()} × {processor}, {platform.platform()}",
        "software": f"Python {platform.python_version()}",
        "command": shlex.join(["python", name, *map(_without_folder, sys.argv[1:])]),
    }


def _without_folder(argument: str) -> str:
    """Returns an argument, or the name of an absolute path, since folders differ by machine."""
    return Path(argument).name if argument.startswith("/") else argument
