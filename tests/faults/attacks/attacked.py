"""Runs one attack on one daemon, and measures an honest client and the daemon's resources."""

import contextlib
import json
import math
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faults.attacks.attack import MIB, Attack
from faults.attacks.cores import busy_cores, end_idle_priority
from faults.attacks.honest import Honest, Latencies
from faults.daemon_process import DaemonProcess
from faults.field import Child
from faults.proc import Held, resident_bytes

from neurald.hal.errors import Error
from neurald.hal.rpc.wire.device import DaemonStatus

#: Time limit for a daemon to release its resources after an attack.
BACK_S = 2.0
#: Permitted growth: allocators keep some memory, and gRPC a descriptor or a thread now and then.
_SLACK_BYTES = 24 * MIB
_SLACK_DESCRIPTORS = 4
_SLACK_THREADS = 4
_LOOK_S = 0.02
#: Time limit for an attack to end.
_END_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Results of an attack.

    Attributes:
        name: its name.
        alone, attacked: p50 and p99 in milliseconds by way, without and under attack.
        ratio: the largest ratio of p99 under attack to p99 alone.
        before, after: the daemon's resources.
        peak_bytes: the largest growth of its memory meanwhile.
        outcomes: the counted outcomes of the attack.
        wrong: failures, whatever the latencies.
        slow: by how much the honest client was too slow, if it was.
    """

    name: str
    alone: dict[str, tuple[float, float]]
    attacked: dict[str, tuple[float, float]]
    ratio: float
    before: Held
    after: Held
    peak_bytes: int
    outcomes: dict[str, int]
    wrong: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Returns the results as a JSON document."""
        return asdict(self)


@contextlib.contextmanager
def daemon_for(attack: type[Attack], folder: Path) -> Iterator[DaemonProcess]:
    """Starts a daemon with the options of an attack."""
    with DaemonProcess(
        folder, attack.options, listen=attack.listen, descriptors=attack.descriptors
    ) as daemon:
        yield daemon


def play(
    attack: type[Attack],
    daemon: DaemonProcess,
    seconds: float,
    intensity: float,
    cores: Collection[int] = (),
    *,
    compares: bool = True,
) -> Played:
    """Measures an honest client for this many seconds before the attack, under it, and after it.

    What other programs of the machine do meanwhile changes, so that one time without the attack
    would tell little.

    Args:
        attack: the attack.
        daemon: its target.
        seconds: the duration of each measurement.
        intensity: the intensity of the attack.
        cores: of the attacker, see `faults.attacks.cores`; by default those of this process.
        compares: whether the latencies are compared, so that cores that are shared must be equally
            busy in all measurements.
    """
    is_beside_others = compares and not cores
    said = len(daemon.log)
    honest = Honest(daemon.address, daemon.token_file)
    try:
        alone = _measure_alone(honest, seconds, is_beside_others=is_beside_others)
        status, before = honest.device.status(), Held.by(daemon.process.pid)
        with _Watch(daemon.process.pid) as watch, tempfile.TemporaryDirectory(prefix="na") as folder:
            child = Child(
                Path(folder),
                "attacks.attacker",
                attack.name,
                intensity,
                daemon.address,
                daemon.process.pid,
                folder,
                *sorted(cores),
            )
            try:
                child.wait_ready()
                attacked = honest.measure(seconds)
                end_idle_priority(child.process.pid)
                report = json.loads(child.report(_END_S) or "null")
            finally:
                child.kill()
            report = report or _no_report(child, Path(folder))
        wrong = list(report["wrong"])
        wrong += _left(honest, status, before, daemon)
        again = _measure_alone(honest, seconds, is_beside_others=is_beside_others)
        alone = {way: each.with_those_of(again[way]) for way, each in alone.items()}
        wrong += honest.failures
    finally:
        honest.close()
    if daemon.process.poll() is not None:
        wrong.append(f"the daemon has ended with status {daemon.process.poll()}: {daemon.log[-2000:]}")
    if "Traceback" in (log := daemon.log[said:]):
        wrong.append(f"the daemon's log has a traceback: {log[-2000:]}")
    if watch.peak_bytes > attack.most_bytes:
        wrong.append(
            f"the daemon's memory grew by {watch.peak_bytes >> 20} MiB; {attack.most_bytes >> 20} may be"
        )
    ratios = {way: _ratio(attacked[way], alone[way]) for way in alone}
    return Played(
        name=attack.name,
        alone=_figures(alone),
        attacked=_figures(attacked),
        ratio=max(ratios.values()),
        before=before,
        after=Held.by(daemon.process.pid) if daemon.process.poll() is None else before,
        peak_bytes=watch.peak_bytes,
        outcomes=report["outcomes"],
        wrong=wrong,
        slow=[
            f"p99 of {way} is {ratio:.1f} times as long; {attack.most_ratio} may be"
            for way, ratio in ratios.items()
            if not ratio <= attack.most_ratio
        ],
    )


def _measure_alone(honest: Honest, seconds: float, *, is_beside_others: bool) -> dict[str, Latencies]:
    """Measures an honest client without an attack, if wanted beside programs that load cores."""
    with busy_cores() if is_beside_others else contextlib.nullcontext():
        return honest.measure(seconds)


def _no_report(child: Child, folder: Path) -> dict[str, Any]:
    log = (folder / "attacks.attacker.log").read_text(errors="replace")[-2000:]
    status = child.process.returncode
    return {"outcomes": {}, "wrong": [f"the attacker hangs or died, exit status {status}: {log}"]}


def _left(honest: Honest, status: DaemonStatus, before: Held, daemon: DaemonProcess) -> list[str]:
    """Describes what the daemon still holds in excess after a settling time."""
    end = time.monotonic() + BACK_S
    while True:
        if daemon.process.poll() is not None:
            return []
        more = Held.by(daemon.process.pid).more_than(
            before, descriptors=_SLACK_DESCRIPTORS, threads=_SLACK_THREADS, rss_bytes=_SLACK_BYTES
        )
        try:
            now = honest.device.status()
        except Error as error:
            more.append(f"its status cannot be asked for: {error}")
        else:
            if (now.sessions, now.prepared_models, now.calls) != (
                status.sessions,
                status.prepared_models,
                status.calls,
            ):
                more.append(f"{now}; it was {status}")
        if not more or time.monotonic() > end:
            return [f"{BACK_S:g} s later the daemon holds {line}" for line in more]
        time.sleep(_LOOK_S)


def _figures(latencies: dict[str, Latencies]) -> dict[str, tuple[float, float]]:
    return {
        way: (round(each.percentile(50), 3), round(each.percentile(99), 3)) for way, each in latencies.items()
    }


def _ratio(attacked: Latencies, alone: Latencies) -> float:
    ratio = attacked.percentile(99) / alone.percentile(99)
    return math.inf if math.isnan(ratio) else ratio


class _Watch:
    """Records the largest growth of a process's memory during the block."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._before = resident_bytes(process)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.peak_bytes = 0

    def _look(self) -> None:
        with contextlib.suppress(OSError, KeyError):  # the process has ended
            while not self._is_over.wait(_LOOK_S):
                self.peak_bytes = max(self.peak_bytes, resident_bytes(self._process) - self._before)

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
