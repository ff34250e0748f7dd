"""Measures how speed grows with threads, and throughput with the clients of one daemon.

    benchmarks/cpu/peers.sh                      # once: installs the others separately
    python benchmarks/scaling [--threads 1,2,4] [--clients 1,4,16] [--json FILE --svg FILE]

Networks run with 1, 2, 4, … threads on the CPU device, LiteRT, OpenVINO and ONNX Runtime
(`benchmarks/cpu`), and 1, 2, 4, … clients execute a model through one daemon and in themselves
(`benchmarks/ipc/clients.py`). With 16 cores all of it takes less than ten minutes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scaling_plot import Line, Panel, svg_plot

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from result_file import Cell, Column, Result, Table, circumstances, read, write

_BENCHMARKS = Path(__file__).resolve().parents[1]
_SUBJECT = "neurald"
#: Engines in the order of columns and of the colours of a plot, with their names.
_ENGINES: Mapping[str, str] = {
    _SUBJECT: "neurald",
    "litert": "LiteRT",
    "openvino": "OpenVINO",
    "onnxruntime": "ONNX Runtime",
}
_MODELS = (
    "mobilenet_v1_fp32,mobilenet_v2_fp32,resnet_50_fp32,"
    "mobilenet_v1_int8,mobilenet_v2_int8,resnet_50_int8,vit_tiny,whisper_tiny_encoder"
)
_MAX_CLIENTS = 64


def powers_of_two(most: int) -> list[int]:
    """Returns 1, 2, 4, … below a number, and the number itself."""
    return [*(1 << exponent for exponent in range(most.bit_length()) if 1 << exponent < most), most]


def network_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Returns the table of networks by threads.

    Args:
        rows: those of `benchmarks/cpu`, in its result file's details.
    """
    first = {row["model"]: row["times"][_SUBJECT]["p50_ms"] for row in rows if row["threads"] == 1}
    peers = [name for name in _ENGINES if name != _SUBJECT and any(name in row["times"] for row in rows)]
    columns = [
        Column(name="network", title="network, threads"),
        Column(name="ms", title="neurald", unit="ms", format=".2f"),
        Column(name="speedup", title="one thread / neurald", format=".1f"),
        Column(name="peak_percent", title="of the peak rate", unit="%", format=".0f"),
        *(Column(name=name, title=f"neurald / {_ENGINES[name]}", format=".2f") for name in peers),
        Column(name="best", title="neurald / best of the others", format=".2f"),
    ]
    return Table(
        title="Networks by threads; below 1 neurald is faster than the other runtime",
        columns=columns,
        rows=[_network_row(row, first.get(row["model"]), peers) for row in rows],
    )


def _network_row(row: Mapping[str, Any], first_ms: float | None, peers: Sequence[str]) -> list[Cell]:
    times = row["times"]
    own_ms = times[_SUBJECT]["p50_ms"]
    ratios = [times[name]["ratio"] if name in times else None for name in peers]
    return [
        f"{row['model']}, {row['threads']}",
        own_ms,
        first_ms / own_ms if first_ms is not None else None,
        row["share_of_peak"] * 100 if row["precision"] == "fp32" and "share_of_peak" in row else None,
        *ratios,
        max((ratio for ratio in ratios if ratio is not None), default=None),
    ]


def peak_table(peaks: Sequence[Mapping[str, Any]]) -> Table:
    """Returns the table of multiply-adds in registers by threads, each on a core of its own.

    They need no memory and never wait for each other, so that nothing that multiplies can scale
    better on the machine.

    Args:
        peaks: those of `benchmarks/cpu`, in its result file's details.
    """
    rates = {peak["threads"]: peak["giga"] for peak in peaks if peak["kind"] == "float32"}
    return Table(
        title="Multiply-adds of float32 in registers by threads; each counts as two operations",
        columns=[
            Column(name="threads", title="threads"),
            Column(name="rate", title="rate", unit="10⁹/s", format=".0f"),
            Column(name="speedup", title="rate / that of one thread", format=".1f"),
        ],
        rows=[
            [f"{threads}", rate, rate / rates[1] if 1 in rates else None] for threads, rate in rates.items()
        ],
    )


def network_panels(rows: Sequence[Mapping[str, Any]]) -> Iterator[Panel]:
    """Yields a panel for each network: speed, relative to neurald with one thread."""
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
        unit_ms = next((row["times"][_SUBJECT]["p50_ms"] for row in own if row["threads"] == 1), None)
        if unit_ms is None:
            continue
        yield Panel(
            title=model,
            axis="threads",
            lines=[
                Line(
                    name=title,
                    points=[
                        (row["threads"], unit_ms / row["times"][engine]["p50_ms"])
                        for row in own
                        if engine in row["times"]
                    ],
                )
                for engine, title in _ENGINES.items()
            ],
        )


def client_panel(table: Table, clients: Sequence[int]) -> Panel:
    """Returns the panel of executions a second, relative to one client that computes by itself.

    Args:
        table: that of `benchmarks/ipc/clients.py`.
        clients: numbers of clients that it has rows for.
    """

    def per_s(count: int, column: str) -> float:
        value = table.value(f"{count} client{'s' if count > 1 else ''}", column)
        assert isinstance(value, int | float)  # noqa: S101 - such columns have no other values
        return float(value)

    unit = per_s(clients[0], "in_process_per_s") / clients[0]
    return Panel(
        title="clients of one daemon",
        axis="clients",
        lines=[
            Line(name=name, points=[(count, per_s(count, column) / unit) for count in clients])
            for name, column in (
                ("neurald", "daemon_per_s"),
                ("in processes of their own", "in_process_per_s"),
            )
        ],
    )


def _run(program: Path, *arguments: object) -> Result:
    """Runs a benchmark, and returns what it wrote."""
    with tempfile.TemporaryDirectory(prefix="scaling") as folder:
        file = Path(folder) / "result.json"
        command = [sys.executable, str(program), *map(str, arguments), "--json", str(file)]
        subprocess.run(command, check=True)  # noqa: S603 - a program of this folder
        return read(file)


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


def _arguments() -> argparse.Namespace:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--models", default=_MODELS, metavar="NAMES", help="of benchmarks/cpu, with commas")
    parser.add_argument("--threads", default=",".join(map(str, powers_of_two(cores))), help="with commas")
    parser.add_argument(
        "--clients",
        default=",".join(map(str, powers_of_two(_MAX_CLIENTS))),
        help="with commas; empty for none",
    )
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--burst-ms", type=float, default=40.0)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement of clients (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also draw a plot")
    return parser.parse_args()


def main() -> None:
    """Runs the benchmark."""
    arguments = _arguments()
    clients = _numbers(arguments.clients)
    networks = _run(
        _BENCHMARKS / "cpu" / "run.py",
        "--no-preparations",
        *("--models", arguments.models),
        *("--threads", arguments.threads),
        *("--rounds", arguments.rounds),
        *("--burst-ms", arguments.burst_ms),
    )
    rows = networks.details["rows"]
    tables = [network_table(rows), peak_table(networks.details["peaks"])]
    panels = list(network_panels(rows))
    if clients:
        options = ("--clients", *clients, "--seconds", arguments.seconds, "--rounds", 3)
        (table,) = _run(_BENCHMARKS / "ipc" / "clients.py", *options).tables
        tables.append(table)
        panels.append(client_panel(table, clients))
    if arguments.svg:
        arguments.svg.write_text(svg_plot("Speed by threads and clients", panels), encoding="utf-8")
    if arguments.json:
        facts = {**circumstances(), "software": networks.software}
        result = Result(
            title="Scaling: threads and clients",
            description=(
                "Medians. A ratio is neurald's time divided by the other runtime's with as many threads, "
                "the median over rounds. The share of the peak rate counts the multiplications of the direct "
                "algorithm in the tenth percentile of the times. Clients execute a model of about a "
                "millisecond with one thread each."
            ),
            tables=tables,
            details={"rows": rows},
            **facts,
        )
        write(arguments.json, result)


if __name__ == "__main__":
    main()
