"""Runs attacks in full, each on its own daemon, and prints what an honest client observed."""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from faults.attacks.attacked import Played, daemon_for, play
from faults.attacks.catalogue import ATTACKS
from faults.attacks.cores import cores_of_attackers

_HEAD = (
    f"{'attack':24}{'p50/p99 alone, ms':>20}{'under attack':>20}{'ratio':>7}"
    f"{'memory, MiB':>15}{'threads':>9}{'descr.':>8}  verdict\n"
)


def main(names: Sequence[str], seconds: float, report: Path | None) -> int:
    """Runs attacks, on separate cores if possible; returns 1 if a criterion fails, else 0.

    Args:
        names: the names of the attacks.
        seconds: the duration of each, and of the honest client's measurement before it.
        report: the file for a JSON document.
    """
    sys.stdout.write(_HEAD)
    cores = os.sched_getaffinity(0)
    apart = cores_of_attackers(cores)
    os.sched_setaffinity(0, cores - apart)
    played = []
    for name in names:
        attack = ATTACKS[name]
        with tempfile.TemporaryDirectory(prefix="nd") as folder, daemon_for(attack, Path(folder)) as daemon:
            played.append(play(attack, daemon, seconds, intensity=1.0, cores=apart))
        sys.stdout.write(_rows(played[-1]))
        sys.stdout.flush()
    if report is not None:
        document = [each.as_json() for each in played]
        report.write_text(json.dumps(document, indent=2) + "\n")
    return int(any(each.wrong or each.slow for each in played))


def _rows(played: Played) -> str:
    """Formats an attack: calls in the first row, other ways and failures in the next ones."""
    verdict = "wrong" if played.wrong else "slow" if played.slow else "good"
    before, after = played.before, played.after
    held = (
        f"{before.rss_bytes >> 20:>5}→{after.rss_bytes >> 20:>3}^{played.peak_bytes >> 20:<5}"
        f"{before.threads:>5}→{after.threads:<3}{before.descriptors:>4}→{after.descriptors:<3}"
    )
    lines: list[str] = []
    for way, (p50, p99) in played.alone.items():
        under50, under99 = played.attacked[way]
        label = f"{played.name:24}" if not lines else f"  {way:22}"
        ratio = under99 / p99 if p99 else 0.0
        figures = f"{p50:>10.2f}/{p99:<9.2f}{under50:>10.2f}/{under99:<9.2f}{ratio:>7.2f}"
        lines.append(f"{label}{figures}" + (f" {held}  {verdict}" if not lines else ""))
    lines += [f"    {line}" for line in (*played.wrong, *played.slow)]
    return "\n".join(lines) + "\n"
