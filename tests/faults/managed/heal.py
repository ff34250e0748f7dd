"""Kills and stops the process of an installed driver during executions; measures how it heals.

The driver, that of a GPU for example, runs under the service manager with its default settings, and
its cache is warm. From each fault on count the time until neither the manager nor the list of
devices says any more that the process which was struck is ready, and the time until the device ran
a call again. A process that is stopped is noticed after two seconds of silence; the time to heal
counts from the moment when the manager has noticed.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.field import Child
from faults.managed.matrix_report import summary
from faults.managed.service import Service

from neurald.service.manager.state import DriverState

FAULTS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
#: Time until the watchdog ends a process that is stopped, by the kind of fault.
_NOTICED_S = {"kill": 0.0, "stop": 2.0}
#: Limits from then on: until the process is not said to be ready, until the device is used again,
#: and of a call.
NOT_READY_S = 0.25
HEALED_S = 2.5
CALL_S = 1.0
#: Deaths between which the manager is told to forget, so that there is no quarantine and pauses are
#: short.
_DEATHS = 2
_MAX_PAUSE_S = 0.1
_LIMIT_S = 60.0


@dataclass(slots=True)
class HealReport:
    """Counts faults and calls.

    Attributes:
        rounds: how many faults struck.
        not_ready_s, unlisted_s, used_s, healed_s, slowest_s: for each fault, seconds until the
            manager did not say any more that the process is ready, until the devices were listed
            without it (those times that anybody saw it), until the device was used again, the same
            since the first of them, and the longest call.
        wrong: what must not have happened.
    """

    rounds: int = 0
    not_ready_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    unlisted_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    used_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    healed_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    slowest_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Returns it for JSON."""
        figures = {
            name: {fault: summary(values) for fault, values in getattr(self, name).items()}
            for name in ("not_ready_s", "unlisted_s", "used_s", "healed_s", "slowest_s")
        }
        return {"rounds": self.rounds, **figures, "wrong": self.wrong}


class _Healing:
    """One manager, one application, and what strikes between them."""

    def __init__(self, service: Service, device: str, report: HealReport, slack: float) -> None:
        self._service = service
        self._report = report
        self._slack = slack
        self._deaths = 0
        self._random = random.Random(0)
        self._application = Child(service.folder, "managed.heal_application", device)
        self._application.wait_ready()

    def close(self) -> None:
        """Ends the application."""
        self._application.kill()

    def play(self, fault: str, *, counts: bool = True) -> None:
        """Lets a fault strike during an execution, and waits until the device is used again."""
        if self._deaths >= _DEATHS:
            before = self._service.wait_for_process()
            self._service.restart()
            self._service.wait_for_process(other_than=before)
            self._deaths = 0
            self._ask(time.monotonic())
        process = self._service.wait_for_process()
        time.sleep(self._random.uniform(0, _MAX_PAUSE_S))
        struck_s = time.monotonic()
        os.kill(process, FAULTS[fault])
        self._deaths += 1
        not_ready_s = self._until_not_ready(process) - struck_s
        answer = self._ask(struck_s)
        if counts:
            self._judge(fault, not_ready_s, answer)

    def _judge(self, fault: str, not_ready_s: float, answer: dict[str, Any]) -> None:
        report, noticed_s = self._report, _NOTICED_S[fault]
        report.rounds += 1
        report.wrong += [f"{fault}: {line}" for line in answer["wrong"]]
        report.not_ready_s[fault].append(not_ready_s)
        report.slowest_s[fault].append(answer["slowest_s"])
        checks = [
            ("not said to be unready before", not_ready_s, NOT_READY_S),
            ("", answer["slowest_s"], CALL_S),
        ]
        if answer["unlisted_s"] is not None:
            report.unlisted_s[fault].append(answer["unlisted_s"])
            checks.append(("listed for", answer["unlisted_s"], NOT_READY_S))
        if answer["used_s"] is None:
            report.wrong.append(f"{fault}: the device is not used again")
        else:
            report.used_s[fault].append(answer["used_s"])
            healed_s = answer["used_s"] - not_ready_s
            report.healed_s[fault].append(healed_s)
            checks.append(("healed after", healed_s, HEALED_S - noticed_s))
        report.wrong += [
            f"{fault}: {what} {seconds:.2f} s"
            for what, seconds, limit in checks
            if seconds > (limit + noticed_s) * self._slack
        ]

    def _until_not_ready(self, process: int) -> float:
        end = time.monotonic() + _LIMIT_S
        while time.monotonic() < end:
            found = self._service.status()
            if found.process != process or found.state is not DriverState.READY:
                return time.monotonic()
            time.sleep(0.005)
        raise RuntimeError(f"the manager does not notice that the driver is gone: {found}")

    def _ask(self, struck_s: float) -> dict[str, Any]:
        assert self._application.process.stdin is not None
        assert self._application.process.stdout is not None
        self._application.process.stdin.write(f"struck {struck_s}\n".encode())
        line = self._application.process.stdout.readline()
        if not line:
            raise RuntimeError("the application died")
        answer: dict[str, Any] = json.loads(line)
        return answer


def heal(device: str, count: int, *, slack: float = 1.0, driver: str = "") -> HealReport:
    """Kills and stops a driver this many times each; returns what happened.

    Args:
        device: the name of the driver's device.
        count: of each fault.
        slack: factor of all limits of time, for busy machines.
        driver: an installed driver or a factory; by default the one named like the device.
    """
    report = HealReport()
    with tempfile.TemporaryDirectory(prefix="nh") as folder:
        service = Service(Path(folder), name=device, driver=driver or device)
        try:
            healing = _Healing(service, f"{device}@{device}", report, slack)
            try:
                healing.play("kill", counts=False)  # after which the cache is warm
                for fault in [*FAULTS] * count:
                    healing.play(fault)
            finally:
                healing.close()
        except RuntimeError as error:
            report.wrong.append(str(error))
        finally:
            if not service.close():
                report.wrong.append("the manager did not stop")
    return report


def main(device: str, count: int, slack: float, path: Path | None) -> int:
    """Kills and stops a driver; writes the report."""
    report = heal(device, count, slack=slack)
    text = json.dumps({"device": device, **report.document()}, indent=2) + "\n"
    sys.stdout.write(text)
    if path is not None:
        path.write_text(text)
    return 1 if report.wrong or not report.rounds else 0
