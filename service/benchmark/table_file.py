"""Writes the results of a benchmark as CSV files."""

import csv
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from neurald.hal.process.files.output_file import open_output


def write_csv(path: Path, document: Mapping[str, Any]) -> None:
    """Writes a document's numbers, except single latencies and kernels, as `name,value` rows."""
    with open_output(path) as binary, TextIOWrapper(binary, encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("name", "value"))
        writer.writerows(_flat("", {key: each for key, each in document.items() if key not in _LARGE}))


#: Parts of the document that have files of their own.
_LARGE = ("latencies_ms", "profile")


def _flat(name: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [row for key, each in value.items() for row in _flat(f"{name}.{key}" if name else key, each)]
    if isinstance(value, list | tuple):
        return [row for number, each in enumerate(value) for row in _flat(f"{name}.{number}", each)]
    return [(name, "" if value is None else value)]


def write_profile_csv(path: Path, profile: Mapping[str, Any]) -> None:
    """Writes the kernels of a profile in their order, and then the totals by operation type."""
    with open_output(path) as binary, TextIOWrapper(binary, encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("table", "step", "device", "kernel", "label", "operations", "us", "share"))
        for step in profile["steps"]:
            for kernel in step["kernels"]:
                operations = " ".join(f"{each['operation']}:{each['type']}" for each in kernel["operations"])
                writer.writerow(
                    (
                        "kernel",
                        step["step"],
                        step["device"],
                        kernel["kernel"],
                        kernel["label"],
                        operations,
                        kernel["us"],
                        kernel["share"],
                    )
                )
        for entry in profile["types"]:
            types = " + ".join(entry["types"])
            writer.writerow(("type", "", "", "", "", types, entry["us"], entry["share"]))
