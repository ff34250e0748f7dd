"""Shows the results of a benchmark as tables of at most 80 columns."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from neurald.service.benchmark.accuracy import accuracy_rows
from neurald.service.benchmark.clients import client_rows
from neurald.service.benchmark.comparison import comparison_rows, disturbance
from neurald.service.benchmark.durations import milliseconds
from neurald.service.benchmark.histogram import MAX_WIDTH, text_histogram
from neurald.service.benchmark.peers import peer_rows
from neurald.service.console.delegation import delegation_sentence
from neurald.service.console.device_choice import fallback_messages
from neurald.service.console.measurement import percentile_name
from neurald.service.console.output import note, printable, terminal_width, write_line, write_table
from neurald.service.console.profile import show_profile
from neurald.service.console.verification import verification_sentence

#: Parts of a run, and what the table calls them.
_PARTS = {
    "compute_ms": "computing on devices",
    "driver_ms": "other time in drivers",
    "queue_ms": "waiting for other executions",
    "transfer_in_ms": "transfers in",
    "transfer_out_ms": "transfers out",
    "runtime_ms": "this library",
}


def show(document: Mapping[str, Any], *, histogram: bool, slowest_first: bool) -> None:
    """Writes the tables of a benchmark to stdout.

    Args:
        document: the result of `measure`.
        histogram: shows the distribution of latencies.
        slowest_first: sorts kernels by their times.
    """
    warmup, steady = document["warmup"], document["steady"]
    steps = ", then ".join(
        f"{step['operations']} operation{'s' if step['operations'] != 1 else ''} on "
        f"{step['device']}{_cached(step)}"
        for step in document["steps"]
    )
    write_line(
        printable(
            f"{document['model']}: {steps}{', in a burst' if document['burst'] else ''}; inputs: "
            f"{document['inputs']}"
        )
    )
    write_line(printable(delegation_sentence(document["delegation"])))
    for sentence in fallback_messages(document["steps"], document["fallback"]):
        write_line(printable(f"warning: {sentence}"))
    for each in document["verification"]:
        write_line(printable(verification_sentence(each)))
    rows = [
        ("load", "1", milliseconds(document["load_ms"])),
        ("prepare", "1", milliseconds(document["prepare_ms"])),
        *(
            (f"  {name}", "1", milliseconds(document[key]))
            for name, key in (("compile", "compile_ms"), ("load from the cache", "cache_load_ms"))
            if document[key]
        ),
        ("first run", "1", milliseconds(document["first_ms"])),
    ]
    if document["optimized_ms"] is not None:
        rows.append(("until optimized", "1", milliseconds(document["optimized_ms"])))
    if warmup["runs"]:
        rows.append(("warm-up, mean", str(warmup["runs"]), milliseconds(warmup["mean_ms"])))
    chosen = [percentile_name(each) for each in document["percentiles"]]
    names = ("min", "median", "mean", *chosen, "max", "std")
    rows += [(f"steady, {name}", str(steady["runs"]), milliseconds(steady[f"{name}_ms"])) for name in names]
    write_table(("phase", "runs", "ms"), rows, right=("runs", "ms"))
    pauses = ", with the pauses" if document["delay_s"] or document["frequency_hz"] else ""
    write_line(f"{steady['inferences_per_s']:.1f} inferences/s{pauses}")
    write_line(f"the file has {document['model_bytes']:,} bytes")
    write_line(_memory(document["memory"]))
    write_line()
    _show_parts(document["parts"], steady["median_ms"])
    if histogram:
        write_line()
        plain = (sys.stdout.encoding or "ascii").lower().replace("-", "") not in ("utf8", "utf16")
        width = terminal_width(sys.stdout) or MAX_WIDTH
        for line in text_histogram(document["latencies_ms"], width=width, plain=plain):
            write_line(line)
    if "profile" in document:
        show_profile(document["profile"], steady["median_ms"], slowest_first=slowest_first)
    _show_more(document)


def _show_more(document: Mapping[str, Any]) -> None:
    titles: tuple[str, ...]
    if "clients" in document:
        titles = ("clients", "inferences/s", "median ms", "p90 ms", "p99 ms")
        write_line()
        write_table(titles, client_rows(document["clients"]), right=titles)
        if left_out := [
            words
            for words, is_given in (
                ("pauses", document["delay_s"] or document["frequency_hz"]),
                ("a burst", document["burst"]),
            )
            if is_given
        ]:
            write_line(f"clients run without {' or '.join(left_out)}")
    if "accuracy" in document:
        write_line(printable(f"\ndifferences from {document['accuracy']['reference']}:"[1:]))
        titles = ("output", "largest", "RMS", "SNR", "differing")
        rows = accuracy_rows(document["accuracy"]["outputs"])
        write_table(titles, rows, right=titles[1:], shorten=("output",))
    if "peers" in document:
        write_line()
        titles = ("runtime", "start ms", "median ms", "p90 ms", "ours/its", "memory")
        rows = peer_rows(document["peers"], document["steady"])
        write_table(titles, rows, right=titles[1:5], shorten=("memory",))
    if "comparison" in document:
        show_comparison(document["comparison"])
    elif found := disturbance(document, "this run"):
        note(found)


def show_comparison(comparison: Mapping[str, Any]) -> None:
    """Writes the comparison of two runs to stdout."""
    write_line(printable(f"{comparison['before']} and {comparison['after']}:"))
    titles = ("statistic", "before ms", "after ms", "ratio", "95 % interval", "")
    write_table(titles, comparison_rows(comparison["statistics"]), right=titles[1:4])
    for each in comparison["notes"]:
        note(each)


def _cached(step: Mapping[str, Any]) -> str:
    """Describes the role of the cache in preparing a step; empty if it was not used."""
    if step["cache"] == "off":
        return ""
    return f" (cache {step['cache']}{': ' if step['reason'] else ''}{step['reason']})"


def _memory(memory: Mapping[str, Mapping[str, int | None]]) -> str:
    before, after = memory["before_load"], memory["after_runs"]
    return (
        f"memory {_mebibytes(after['resident_bytes'])}, {_mebibytes(before['resident_bytes'])} before the "
        f"model was loaded, {_mebibytes(after['peak_bytes'])} at most"
    )


def _mebibytes(count: int | None) -> str:
    return "unknown" if count is None else f"{count / 2**20:.1f} MiB"


def _show_parts(parts: Mapping[str, float | None], median_ms: float) -> None:
    total = parts["total_ms"] or 0.0
    rows: list[Sequence[str]] = []
    for key, name in _PARTS.items():
        value = parts[key]
        share = "" if value is None or not total else f"{100 * value / total:.1f} %"
        rows.append((name, "not measured" if value is None else f"{value:.4f}", share))
    write_table(("part of a run", "ms", "share"), rows, right=("ms", "share"))
    if total:
        write_line(f"timed in parts, a run takes {total:.4f} ms; the median run takes {median_ms:.4f} ms")
