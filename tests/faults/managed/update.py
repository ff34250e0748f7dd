"""Updates of a driver under load: its process is replaced again and again, and no call may fail.

The replacements are a new version of the driver (`neurald restart`), a changed configuration
(SIGHUP), and versions that cannot start or do not become ready, which must leave the old process in
place.
"""

import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faults.field import Child
from faults.managed.service import Service

#: Within this time a version that does not become ready must be given up.
ROLL_BACK_S = 10.0
#: The time within which a new process must be ready: the manager's default.
UPDATE_S = 9.0
_PROCESSES = 8
_REPORT_S = 600.0
_PAUSE_S = 0.2
#: Number of lines of both logs in the report of a run in which something was wrong.
_LOG_LINES = 300
KINDS = ("version", "configuration", "failing", "hanging")


class _Updates:
    """Replaces the process of a driver.

    Args:
        service: the service with the driver.
        slack: the factor by which limits of time are longer.
    """

    def __init__(self, service: Service, slack: float) -> None:
        self._service = service
        self._slack = slack
        self.done: Counter[str] = Counter()
        self.roll_back_s: list[float] = []
        self.wrong: list[str] = []

    def play(self, kind: str) -> None:
        """Replaces the process, or tries to."""
        number = sum(self.done.values())
        before = self._service.wait_for_process()
        if kind in ("version", "configuration"):
            self._service.write("version", str(number))
            if kind == "version":
                self._service.restart()
            else:
                self._service.configure(UPDATE_NUMBER=str(number))
                self._service.reload()
            self._service.wait_for_process(other_than=before)
        else:
            self._service.write("start", "fail" if kind == "failing" else "hang")
            started = self._service.status().starts
            self._service.restart()
            self._wait_for_roll_back(kind, started, before)
            self._service.remove("start")
        self.done[kind] += 1

    def _wait_for_roll_back(self, kind: str, started: int, before: int) -> None:
        began = time.monotonic()
        lines = self._service.log.count("the old one stays")
        while self._service.log.count("the old one stays") == lines:
            if time.monotonic() > began + ROLL_BACK_S * self._slack:
                self.wrong.append(f"a {kind} version was not given up within {ROLL_BACK_S * self._slack} s")
                return
            time.sleep(0.02)
        self.roll_back_s.append(time.monotonic() - began)
        status = self._service.status()
        if status.process != before or status.starts != started + 1:
            self.wrong.append(f"after a {kind} version the old process does not serve: {status}")


def update(
    calls: int, clients: int, *, pause_ms: int = 50, slack: float = 1.0, kinds: Sequence[str] = KINDS
) -> dict[str, Any]:
    """Replaces the process of a driver until all calls are made; returns the report.

    Args:
        calls: of all clients together.
        clients: their number.
        pause_ms: time between two calls of a client.
        slack: factor of the limit of time, for busy machines.
        kinds: of updates.
    """
    processes = min(_PROCESSES, max(1, clients // 8))
    with tempfile.TemporaryDirectory(prefix="nu") as folder:
        # On a busy machine new processes take longer, too.
        service = Service(Path(folder), f"update_s = {UPDATE_S * slack:g}")
        updates = _Updates(service, slack)
        try:
            children = [
                Child(
                    service.folder,
                    "managed.update_client",
                    service.address,
                    clients // processes,
                    calls // processes,
                    number * clients,
                    pause_ms,
                )
                for number in range(processes)
            ]
            for child in children:
                child.wait_ready()
            began = time.monotonic()
            for kind in itertools.cycle(kinds):
                if all(child.has_answer for child in children):
                    break
                updates.play(kind)
                time.sleep(_PAUSE_S)
            reports = [json.loads(child.report(_REPORT_S) or "null") for child in children]
            seconds = time.monotonic() - began
            deaths = service.status().deaths
            log = service.log.splitlines()[-_LOG_LINES:]
        finally:
            stopped = service.close()
        if deaths:
            updates.wrong.append(f"{deaths} processes of the driver died")
        wrong = list(updates.wrong) if stopped else [*updates.wrong, "the manager did not stop"]
    outcomes: Counter[str] = Counter()
    for report in reports:
        if report is None:
            wrong.append("a client hangs or died")
            continue
        outcomes.update(report["outcomes"])
        wrong += report["failures"]
    return {
        "calls": sum(outcomes.values()),
        "updates": dict(updates.done),
        "seconds": round(seconds, 1),
        "outcomes": dict(sorted(outcomes.items())),
        "on the CPU": sum(report["substituted"] for report in reports if report),
        "slowest_s": max((report["slowest_s"] for report in reports if report), default=0.0),
        "roll_back_s": [round(each, 2) for each in updates.roll_back_s],
        "failures": len(wrong),
        "wrong": wrong[:50],
        "log": log if wrong else [],
    }


def main(calls: int, clients: int, slack: float, path: Path | None) -> int:
    """Runs the update test; writes the report."""
    text = json.dumps(update(calls, clients, slack=slack), indent=2) + "\n"
    sys.stdout.write(text)
    if path is not None:
        path.write_text(text)
    return 1 if json.loads(text)["failures"] else 0
