"""Describes and shows the costs of devices: `neurald calibrate` and `neurald devices --costs`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import neurald as nd
from neurald.hal.wording import three_digits
from neurald.runtime.costs.store import costs_of
from neurald.runtime.costs.table import DeviceLink, pair_link


def describe_costs(devices: Sequence[nd.Device]) -> dict[str, Any]:
    """Describes the costs of devices, and the links between each two of them, for JSON."""
    tables = {device.name: costs_of(device).table for device in devices}
    return {
        "devices": [
            {
                "name": name,
                "launch_s": None if table.launch is None else table.launch.seconds,
                "step_s": None if table.step is None else table.step.seconds,
                "operations": [
                    {
                        "operation": kind.operation,
                        "operand": kind.operand,
                        "work": 2 ** (band / 2),
                        "seconds": rate.seconds * 2 ** (band / 2),
                        "measurements": rate.measurements,
                    }
                    for kind, bands in sorted(table.rates.items(), key=lambda item: str(item[0]))
                    for band, rate in sorted(bands.items())
                ],
            }
            for name, table in tables.items()
        ],
        "links": [
            _described_link(source, target, tables[source].link, tables[target].link)
            for source in tables
            for target in tables
            if source != target
        ],
    }


def _described_link(
    source: str, target: str, out: DeviceLink | None, into: DeviceLink | None
) -> dict[str, Any]:
    if out is None or into is None:
        return {"source": source, "target": target, "is_measured": False}
    link = pair_link(source, target, out, into)
    return {
        "source": source,
        "target": target,
        "is_measured": True,
        "latency_s": link.latency_s,
        "bytes_per_s": link.bytes_per_s if math.isfinite(link.bytes_per_s) else None,
        "shares_memory": link.shares_memory,
    }


def show_costs(described: Mapping[str, Any]) -> None:
    """Prints what `describe_costs` returned as tables."""
    from neurald.service.console.output import note, write_line, write_table

    for device in described["devices"]:
        if not device["operations"]:
            note(
                f"{device['name']} has not been measured; `neurald calibrate --device {device['name']}` does"
            )
            continue
        launch, step = (
            "not measured" if device[key] is None else _time(device[key]) for key in ("launch_s", "step_s")
        )
        write_line(f"{device['name']}: launch {launch}; around each step of a plan of several {step}")
        by_kind: dict[tuple[str, str], list[str]] = {}
        for each in device["operations"]:
            text = f"{_time(each['seconds'])} for {_work(each['work'])}"
            by_kind.setdefault((each["operation"], each["operand"].removeprefix("TENSOR_")), []).append(text)
        rows = [(operation, operand, ", ".join(texts)) for (operation, operand), texts in by_kind.items()]
        write_table(("operation", "of", "time for multiplications, or what takes as long"), rows)
        write_line()
    measured = [each for each in described["links"] if each["is_measured"]]
    links = [(str(each["source"]), str(each["target"]), *_link_texts(each)) for each in measured]
    if links:
        columns = ("from", "to", "latency", "speed", "memory")
        write_table(columns, links, right=("latency", "speed"))


def _link_texts(link: Mapping[str, Any]) -> tuple[str, str, str]:
    speed = link["bytes_per_s"]
    return (
        _time(link["latency_s"]),
        "nothing is copied" if speed is None else f"{three_digits(speed / 1e9)} GB/s",
        "shared" if link["shares_memory"] else "copied",
    )


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{three_digits(seconds * factor)} {unit}"
    return f"{three_digits(seconds * 1e9)} ns"


def _work(work: float) -> str:
    return f"{three_digits(work / 1e6)} M" if work >= 1e6 else f"{three_digits(work / 1e3)} k"
