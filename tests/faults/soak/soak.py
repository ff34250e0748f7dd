"""Long-running load on a daemon, whose resources must not grow.

Resources fluctuate with the clients' activity, so windows of time are compared: the minimum of
memory in each, and the median of descriptors and threads, which are rarely all free at once. The
Theil-Sen slope, the median slope over all pairs of windows, is insensitive to outliers. A process
also takes more memory once when it is busier than ever before. A leak shows in both halves of the
run and in the whole, so the smallest of their three slopes counts. The interval of the whole's
slope shows how much of it may be chance.

A process that reports how much of its memory is in use is judged by that: what is freed and not
returned to the system yet varies by many times as much as the growth that must not be.
"""

import json
import math
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

from faults.attacks.attack import MIB
from faults.daemon_process import DaemonProcess
from faults.field import Child
from faults.proc import Held, own_bytes, shared_memory_entries

CLIENTS = 4
#: Share of time in which each client keeps the daemon busy.
LOAD = 0.7
#: Permitted growth of memory per hour, in bytes.
MOST_PER_HOUR = 1 * MIB
#: The first third is warm-up: thread pools, allocators and caches grow to their final size.
_WARM_SHARE = 1 / 3
_WINDOWS = 20
#: Permitted growth of the median number of descriptors and threads over the run, whose medians vary
#: by about half as much, and permitted excess in a daemon after all clients have left. A leak in
#: one of ten thousand operations would be 20.
FLAT = 8
#: Standard deviations of a normal distribution that hold 95 of 100 values.
_NORMAL_95 = 1.96
#: Makes glibc know exactly how much memory of a program in Python is in use. Its threads keep no
#: freed memory for themselves, of which each collects more of every size for a long time, and
#: objects are in its heap instead of pools, whose free places a leak fills at first.
EXACT_MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "PYTHONMALLOC": "malloc"}
_LEFT = 4
_LEFT_S = 5.0
_REPORT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Resources of a process at a moment.

    Attributes:
        seconds: since the beginning.
        resident_bytes: without its children, which compile and end.
        live_bytes: what of it is in use, as the process itself reports; None if it does not.
    """

    seconds: float
    resident_bytes: int
    descriptors: int
    threads: int
    live_bytes: int | None = None

    @classmethod
    def of(cls, pid: int, seconds: float, live: Callable[[], int] | None = None) -> "Sample":
        """Reads the current resources of a process.

        Args:
            pid, seconds: the process and the time.
            live: asks the process for its `live_bytes`.
        """
        held = Held.by(pid)
        return cls(
            seconds=seconds,
            resident_bytes=own_bytes(pid),
            descriptors=held.descriptors,
            threads=held.threads,
            live_bytes=None if live is None else live(),
        )

    @property
    def judged_bytes(self) -> int:
        """The memory that must not grow."""
        return self.resident_bytes if self.live_bytes is None else self.live_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Change of a process's resources after its warm-up.

    Attributes:
        memory_per_hour: the smallest slope of the minimum of its memory in either half and in the
            whole, in bytes.
        memory_interval: the interval that holds the slope of the whole in 95 of 100 runs.
        descriptors, threads: by how many their median has grown over the run.
    """

    memory_per_hour: float
    memory_interval: tuple[float, float]
    descriptors: float
    threads: float

    @classmethod
    def in_samples(cls, samples: Sequence[Sample]) -> "Growth":
        """Computes the growth from samples of a whole run, including warm-up."""
        end_s = samples[-1].seconds
        warm = [sample for sample in samples if sample.seconds >= end_s * _WARM_SHARE]
        windows = _windows(warm)
        length_s = end_s - warm[0].seconds
        lowest = [min(window, key=lambda sample: sample.judged_bytes) for window in windows]
        points = [(each.seconds, each.judged_bytes) for each in lowest]
        middle = len(points) // 2
        least, most = slope_interval(points)
        return cls(
            memory_per_hour=3600 * min(slope(points[:middle]), slope(points[middle:]), slope(points)),
            memory_interval=(3600 * least, 3600 * most),
            descriptors=length_s * slope([_median(window, "descriptors") for window in windows]),
            threads=length_s * slope([_median(window, "threads") for window in windows]),
        )

    def faults(self, who: str, most_per_hour: float = MOST_PER_HOUR, flat: int = FLAT) -> list[str]:
        """Describes growth beyond the limits."""
        faults = []
        if self.memory_per_hour > most_per_hour:
            least, most = (each / MIB for each in self.memory_interval)
            faults.append(
                f"{who}: memory grows by {self.memory_per_hour / MIB:.2f} MiB an hour, or more, in either half and "
                f"in the whole (the whole, 95 %: {least:.2f} to {most:.2f})"
            )
        for name, grown in (("descriptors", self.descriptors), ("threads", self.threads)):
            if grown > flat:
                faults.append(f"{who}: the median number of {name} grew by {grown:.1f}")
        return faults


def _median(window: Sequence[Sample], name: str) -> tuple[float, float]:
    """Returns the middle of a window and the median of a resource in it."""
    middle_s = statistics.fmean(sample.seconds for sample in window)
    return middle_s, statistics.median(getattr(sample, name) for sample in window)


def _windows(samples: Sequence[Sample]) -> list[list[Sample]]:
    begin_s, end_s = samples[0].seconds, samples[-1].seconds
    length_s = (end_s - begin_s) / _WINDOWS
    windows: list[list[Sample]] = [[] for _ in range(_WINDOWS)]
    for sample in samples:
        place = int((sample.seconds - begin_s) / length_s) if length_s else 0
        windows[min(_WINDOWS - 1, place)].append(sample)
    return [window for window in windows if window]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Returns the median slope between all pairs of points; 0 for fewer than two."""
    slopes = _slopes(points)
    return statistics.median(slopes) if slopes else 0.0


def slope_interval(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Returns the interval that holds `slope` in 95 of 100 runs; without limits for few points.

    The number of pairs that rise has a known distribution if nothing grows (Kendall's), which says
    how many slopes may be chance at either end.
    """
    slopes, count = _slopes(points), len(points)
    chance = _NORMAL_95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    left_out = math.floor((len(slopes) - chance) / 2)
    if left_out < 0 or not slopes:
        return -math.inf, math.inf
    return slopes[left_out], slopes[-1 - left_out]


def _slopes(points: Sequence[tuple[float, float]]) -> list[float]:
    return sorted((b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if b[0] != a[0])


def soak(
    seconds: float, *, clients: int = CLIENTS, most_per_hour: float = MOST_PER_HOUR, flat: int = FLAT
) -> dict[str, Any]:
    """Runs a daemon under load; returns a report with samples, growth and failures.

    Args:
        seconds: the duration.
        clients: the number of processes that use it.
        most_per_hour: see `MOST_PER_HOUR`; short runs cannot measure it.
        flat: see `FLAT`; in a short run windows are too short for a median.
    """
    entries = shared_memory_entries()
    wrong: list[str] = []
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="nk") as folder, DaemonProcess(Path(folder) / "d") as daemon:
        before = Held.by(daemon.process.pid)
        children = [
            Child(Path(folder), "soak.soak_client", daemon.address, number, LOAD) for number in range(clients)
        ]
        try:
            for child in children:
                child.wait_ready()
            watched = {"daemon": daemon.process.pid}
            watched |= {f"client {number}": child.process.pid for number, child in enumerate(children)}
            samples = sampled(watched, seconds)
            most_entries = shared_memory_entries()
            for number, child in enumerate(children):
                report = json.loads(child.report(_REPORT_S) or "null")
                if report is None:
                    log = (Path(folder) / "soak.soak_client.log").read_text(errors="replace")
                    wrong.append(f"client {number} hangs or died: {log[-2000:]}")
                else:
                    outcomes.update(report["outcomes"])
                    wrong += report["wrong"]
        finally:
            for child in children:
                child.kill()
        if daemon.process.poll() is not None:
            wrong.append(f"the daemon has ended: {daemon.log[-2000:]}")
        else:
            wrong += left(daemon.process.pid, before)
    growth = {who: Growth.in_samples(each) for who, each in samples.items()}
    for who, each in growth.items():
        wrong += each.faults(who, most_per_hour, flat)
    if max(most_entries, shared_memory_entries()) > entries:
        wrong.append(
            f"{max(most_entries, shared_memory_entries())} entries of /dev/shm; there were {entries}"
        )
    return {
        "seconds": seconds,
        "outcomes": dict(sorted(outcomes.items())),
        "growth": {who: asdict(each) for who, each in growth.items()},
        "wrong": wrong,
        "samples": {who: [asdict(sample) for sample in each] for who, each in samples.items()},
    }


def left(pid: int, before: Held) -> list[str]:
    """Describes what a daemon still holds after all clients left.

    Memory is judged by its growth.
    """
    end = time.monotonic() + _LEFT_S
    while True:
        more = Held.by(pid).more_than(before, descriptors=_LEFT, threads=_LEFT, rss_bytes=1 << 40)
        if not more or time.monotonic() > end:
            return [f"after the last client the daemon holds {line}" for line in more]
        time.sleep(0.05)


def sampled(
    watched: dict[str, int],
    seconds: float,
    at_rest: Callable[[], AbstractContextManager[object]] = nullcontext,
    live: Mapping[str, Callable[[], int]] = MappingProxyType({}),
) -> dict[str, list[Sample]]:
    """Samples processes for this many seconds; stops early if one of them ends.

    Args:
        watched: their process IDs.
        seconds: the duration.
        at_rest: makes clients rest for a block in which samples are taken.
        live: asks processes for their `Sample.live_bytes`.
    """
    samples: dict[str, list[Sample]] = {who: [] for who in watched}
    period_s = min(5.0, max(0.05, seconds / 200))
    began = time.monotonic()
    while (now := time.monotonic() - began) < seconds:
        try:
            with at_rest():
                for who, pid in watched.items():
                    samples[who].append(Sample.of(pid, now, live.get(who)))
        except (OSError, KeyError):
            break
        time.sleep(period_s)
    return samples


def main(minutes: float, report: Path | None) -> int:
    """Runs the soak test and prints the results; returns 1 on failure or growth."""
    result = soak(minutes * 60)
    if report is not None:
        report.write_text(json.dumps(result, indent=1) + "\n")
    return show(result)


def show(result: dict[str, Any]) -> int:
    """Prints a report; returns 1 if anything is wrong, else 0."""
    sys.stdout.write(f"{result['outcomes']}\n")
    for who, each in result["growth"].items():
        least, most = (end / MIB for end in each["memory_interval"])
        sys.stdout.write(
            f"{who:10} {each['memory_per_hour'] / MIB:8.2f} MiB/h (the whole, 95 %: {least:.2f} to {most:.2f})  "
            f"descriptors {each['descriptors']:+.1f}  threads {each['threads']:+.1f}\n"
        )
    sys.stdout.writelines(f"{line}\n" for line in result["wrong"])
    return int(bool(result["wrong"]))
