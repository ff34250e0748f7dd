"""Summarises measurements of one model, and prints tables of all."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

#: For each engine, the duration and the processor time of its runs in a round, in milliseconds.
Round = Mapping[str, Sequence[tuple[float, float]]]

#: The measured engine, and the one whose results are the reference.
SUBJECT, TRUTH = "neurald", "litert"
#: Share of the rounds that counts.
KEPT = 0.5


def say(text: str = "") -> None:
    """Prints a line."""
    print(text, flush=True)  # noqa: T201


def summarise(rounds: Sequence[Round]) -> dict[str, Any]:
    """Computes the figures of each engine from the runs of each round.

    Only those rounds count in which all engines together took the least time, that is, with the
    least interference.

    Returns:
        By engine: `p50_ms` and `p10_ms` of all runs; `cpu_ms`, the median processor time; and for
        engines other than the subject `ratio`, the median over rounds of the subject's median
        divided by its own, and `ratio_p10` and `ratio_cpu`, the same for the other two figures.
    """
    medians = [{name: _medians(runs) for name, runs in each.items()} for each in rounds]
    names = list(rounds[0])
    usual = {name: float(np.median([each[name][0] for each in medians])) for name in names}
    order = sorted(range(len(rounds)), key=lambda n: sum(medians[n][name][0] / usual[name] for name in names))
    kept = order[: math.ceil(len(rounds) * KEPT)]
    table: dict[str, dict[str, float]] = {}
    for name in names:
        runs = np.array([run for number in kept for run in rounds[number][name]])
        p10, p50 = np.percentile(runs[:, 0], (10, 50))
        table[name] = {"p50_ms": float(p50), "p10_ms": float(p10), "cpu_ms": float(np.median(runs[:, 1]))}
    for name in names if SUBJECT in names else ():
        if name != SUBJECT:
            wall, cpu = (
                float(np.median([medians[n][SUBJECT][column] / medians[n][name][column] for n in kept]))
                for column in (0, 1)
            )
            p10 = table[SUBJECT]["p10_ms"] / table[name]["p10_ms"]
            table[name] |= {"ratio": wall, "ratio_p10": p10, "ratio_cpu": cpu}
    return table


def _medians(runs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Returns the medians of duration and processor time."""
    wall, cpu = np.median(np.array(runs), axis=0)
    return float(wall), max(float(cpu), 1e-6)


def difference(path: Path, truth: Path) -> dict[str, float] | str:
    """Returns the largest difference from other results, and the share of results that differ.

    Differences of real numbers are relative to the largest value of the output, those of integers
    are absolute.
    """
    with np.load(path) as mine, np.load(truth) as theirs:
        results, wanted = ([archive[name] for name in archive.files] for archive in (mine, theirs))
    if [each.shape for each in results] != [each.shape for each in wanted]:
        return "other shapes"
    largest, unequal, count = 0.0, 0, 0
    for result, want in zip(results, wanted, strict=True):
        gap = np.abs(np.nan_to_num(result.astype(np.float64)) - np.nan_to_num(want.astype(np.float64)))
        scale = float(np.abs(np.nan_to_num(want)).max(initial=0)) if want.dtype.kind == "f" else 1.0
        largest = max(largest, float(gap.max(initial=0)) / (scale or 1.0))
        unequal, count = unequal + int((gap > 0).sum()), count + gap.size
    return {"largest": largest, "unequal": unequal / max(1, count)}


def geometric_means(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Averages the ratios to each peer by precision and number of threads, and finds the worst."""
    groups: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        for engine, figures in row["times"].items():
            if "ratio" in figures:
                key = row["precision"], row["threads"], engine
                groups.setdefault(key, []).append({"model": row["model"], **figures})
    means = []
    for (precision, threads, engine), found in groups.items():
        worst = max(found, key=lambda figures: figures["ratio"])
        mean: dict[str, Any] = {
            "precision": precision,
            "threads": threads,
            "peer": engine,
            "models": len(found),
        }
        for kind in ("ratio", "ratio_p10", "ratio_cpu"):
            mean[kind] = math.exp(sum(math.log(figures[kind]) for figures in found) / len(found))
        means.append({**mean, "worst": worst["ratio"], "worst_model": worst["model"]})
    return means


def show_row(row: Mapping[str, Any]) -> None:
    """Prints the result of one model and number of threads."""
    cells = []
    for engine, figures in row["times"].items():
        text = f"{engine} {milliseconds(figures['p50_ms'])} ({milliseconds(figures['p10_ms'])})"
        if "ratio" in figures:
            text += f" {figures['ratio']:.2f}×"
            # Waiting threads may use processor time; a single thread does not.
            text += f" (processor's time {figures['ratio_cpu']:.2f}×)" if row["threads"] == 1 else ""
        cells.append(text)
    share = row.get("share_of_peak")
    if share is not None:
        cells.append(f"{share:.0%} of the peak")
    gap = row.get("difference")
    if isinstance(gap, dict):
        cells.append(f"largest difference {gap['largest']:.2g}, {gap['unequal']:.1%} differ")
    elif gap:
        cells.append(gap)
    say(f"{row['model']}, {row['threads']} threads: " + "; ".join(cells))


def milliseconds(value: float) -> str:
    """Formats a number with three significant digits."""
    return f"{value:.{max(0, 2 - math.floor(math.log10(max(value, 1e-6))))}f}"


def show_means(means: Iterable[Mapping[str, Any]]) -> None:
    """Prints the geometric means."""
    figures = f"{'models':>7}{'ratio':>8}{'of p10':>8}{'of CPU':>8}{'worst':>8}"
    say(f"\n{'precision':10}{'threads':>8}  {'peer':12}{figures}  model")
    for mean in means:
        say(
            f"{mean['precision']:10}{mean['threads']:8}  {mean['peer']:12}{mean['models']:7}{mean['ratio']:8.2f}"
            f"{mean['ratio_p10']:8.2f}{mean['ratio_cpu']:8.2f}{mean['worst']:8.2f}  {mean['worst_model']}"
        )


def show_preparations(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Prints the costs up to the first result, by model and engine."""
    say("\nMilliseconds: load and prepare without a cache, first run; prepare again in the same process;")
    say("load and prepare in a new process, first run. MiB: peak memory with a cache, and without.")
    header = ("load", "prepare", "first", "again", "new", "first", "MiB", "cold")
    say(f"{'model':38}{'engine':12}" + "".join(f"{title:>10}" for title in header))
    for model, engines in found.items():
        for engine, figures in engines.items():
            cold, warm = figures["cold"], figures["warm"]
            numbers = (
                *(cold["load_ms"], cold["prepare_ms"], cold["first_ms"], cold["again"]["prepare_ms"]),
                *(warm["load_ms"] + warm["prepare_ms"], warm["first_ms"]),
                *(warm["peak_kib"] / 1024, cold["peak_kib"] / 1024),
            )
            say(f"{model:38}{engine:12}" + "".join(f"{number:10.1f}" for number in numbers))
