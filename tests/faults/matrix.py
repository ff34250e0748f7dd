"""The kill matrix: faults of a driver in each phase of a call, under the service manager.

The application chooses devices automatically, so each of its calls must give the right result, in
time: the CPU stands in, and the driver must soon be used again. In each cell the driver stops in the
phase, and the fault strikes there: from outside (kill -9, SIGSTOP), from the execution of another
client in the same process (an abort, no memory, an endless kernel), or as a wrong answer of the
phase itself.
"""

import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from faults.field import Child
from faults.service import Service
from support.models.small import FLOAT

import neurald as nd
from neurald.hal.errors import Error
from neurald.hal.rpc.client.device import connect

FAULTS = ("kill", "stop", "abort", "memory", "endless", "lie")
PHASES = ("connect", "query", "prepare", "load", "first run", "burst", "fenced", "drain")
#: Faults that another client's execution causes.
_POISONS = ("abort", "memory", "endless")
#: After which time a fault is noticed, which the limits allow for: the watchdog's silence, and the
#: limit of an execution.
_EXECUTION_S = 1
_NOTICED_S = {"stop": 2.0, "endless": 1.0}
#: Limits from then on: of a call, and of the time until the device is used again.
CALL_S = 1.0
RECOVERY_S = 1.0
#: Deaths between which the manager is told to forget, so that there is no quarantine and pauses are
#: short.
_DEATHS = 2
_ENTER_S = 10.0
#: Time for a process to begin to drain.
_DRAINING_S = 0.05
#: How long calls wait in a process that survives a fault.
_SURVIVES_S = 0.05
_USED_S = 60.0


@dataclass(slots=True)
class MatrixReport:
    """The outcome of a cell.

    Attributes:
        cells: how many were played.
        call_s: for each fault, how long after it each call ended.
        recovery_s: for each fault, how long after it the device was used again.
        wrong: what must not have happened.
    """

    cells: int = 0
    call_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    recovery_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Returns it for JSON."""
        return {
            "cells": self.cells,
            "call_s": {fault: _summary(values) for fault, values in self.call_s.items()},
            "recovery_s": {fault: _summary(values) for fault, values in self.recovery_s.items()},
            "wrong": self.wrong,
        }


def _summary(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median": round(statistics.median(ordered), 3),
        "p95": round(ordered[int(0.95 * (len(ordered) - 1))], 3),
        "max": round(ordered[-1], 3),
    }


class _Matrix:
    """Plays cells with one manager and one application.

    Args:
        folder: with a short path.
        slack: factor of all limits, for busy machines.
    """

    def __init__(self, folder: Path, slack: float) -> None:
        self._slack = slack
        self.report = MatrixReport()
        self._deaths = 0
        self._number = 0
        self._service = Service(
            folder,
            "drain_s = 3.0",
            f'limits = {{execution_s = {_EXECUTION_S}, total_memory_bytes = "512MiB"}}',
        )
        (folder / "cache").mkdir(mode=0o700)
        self._application = Child(folder, "matrix_application", self._service.address, str(folder / "cache"))
        self._application.wait_ready()

    def close(self) -> None:
        """Stops all processes."""
        self._application.kill()
        if not self._service.close():
            self.report.wrong.append("the manager did not stop")

    def play(self, fault: str, phase: str) -> None:
        """Plays one cell."""
        what = f"{fault}, {phase}"
        self._number += 1
        self._service.remove("armed", "entered", "strike", "swallowed")
        if not self._until_used():
            self.report.wrong.append(f"{what}: the device was not in use before")
            return
        if self._deaths >= _DEATHS:
            self._forget_deaths()
        process = self._service.wait_for_process()
        arranged = self._ask("arrange", phase)
        if not arranged["result"]:
            self.report.wrong.append(f"{what}: could not be arranged: {arranged['problem']}")
            return
        poison = self._poisoned() if fault in _POISONS else None
        point = phase if phase in ("connect", "query", "prepare", "load") else "execute"
        self._service.write("armed", f"{point} lie" if fault == "lie" else point)
        self._tell("act", phase)
        if not self._entered():
            self.report.wrong.append(f"{what}: the driver was not called: {self._reply()}")
            return
        if poison is not None:
            # Just now, so that it does not exceed its limit of time before.
            poison.start()
            if not self._entered("swallowed"):
                self.report.wrong.append(f"{what}: the poison was not executed")
                return
        if phase == "drain":
            os.kill(process, signal.SIGTERM)
            time.sleep(_DRAINING_S)
        struck_s = self._strike(fault, process)
        self._release(fault, process)
        reply = self._reply()
        if poison is not None:
            poison.join(_USED_S)
        self._service.remove("strike")
        self._judge(what, fault, struck_s, reply)
        self._recovers(what, fault, struck_s)
        self.report.cells += 1
        if fault not in ("lie", "memory") or phase == "drain":
            self._deaths += 1

    def _strike(self, fault: str, process: int) -> float:
        """Lets a fault happen; returns when, on the clock of `time.monotonic()`."""
        struck_s = time.monotonic()
        if fault in ("kill", "stop"):
            # It is gone if the machine is so busy that the execution has exceeded its limit.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
        elif fault in _POISONS:
            self._service.write("strike", fault)
        return struck_s

    def _release(self, fault: str, process: int) -> None:
        """Lets calls go on once the process has ended, or soon if it survives."""
        end = time.monotonic() + (_SURVIVES_S if fault in ("lie", "memory") else _ENTER_S)
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < end:
                os.kill(process, 0)
                time.sleep(0.001)
        self._service.remove("armed")

    def _judge(self, what: str, fault: str, struck_s: float, reply: dict[str, Any]) -> None:
        if self._application.process.poll() is not None:
            raise RuntimeError(f"{what}: the application died")
        taken_s = reply["end_s"] - struck_s
        self.report.call_s[fault].append(taken_s)
        if not reply["result"]:
            self.report.wrong.append(f"{what}: not right: {reply['problem']}")
        if taken_s > (CALL_S + _NOTICED_S.get(fault, 0.0)) * self._slack:
            self.report.wrong.append(f"{what}: the call ended after {taken_s:.2f} s")

    def _recovers(self, what: str, fault: str, struck_s: float) -> None:
        if not self._until_used():
            self.report.wrong.append(f"{what}: the device is not used again")
            return
        taken_s = time.monotonic() - struck_s
        self.report.recovery_s[fault].append(taken_s)
        if taken_s > (RECOVERY_S + _NOTICED_S.get(fault, 0.0)) * self._slack:
            self.report.wrong.append(f"{what}: the device was used again after {taken_s:.2f} s")

    def _until_used(self) -> bool:
        end = time.monotonic() + _USED_S
        while time.monotonic() < end:
            reply = self._ask("use")
            if reply["problem"]:
                self.report.wrong.append(f"a call between faults: {reply['problem']}")
            if reply["result"]:
                return True
            time.sleep(0.01)
        return False

    def _forget_deaths(self) -> None:
        before = self._service.wait_for_process()
        self._service.restart()
        self._service.wait_for_process(other_than=before)
        self._deaths = 0
        self._until_used()

    def _poisoned(self) -> threading.Thread:
        """Prepares the execution of another client, which waits to cause a fault."""
        builder = nd.ModelBuilder()
        # Another pattern each time, so that it is not refused.
        first, second, output = (builder.add_operand(FLOAT, (self._number, 3)) for _ in range(3))
        activation = builder.add_operand(nd.OperandType.INT32)
        builder.set_operand_value(activation, 0)
        builder.add_operation(nd.OperationType.MUL, [first, second, activation], [output])
        builder.identify_inputs_and_outputs([first, second], [output])
        device = connect(self._service.address)
        compilation = nd.CompilationBuilder(builder.finish(), [device]).finish()
        values = np.ones((self._number, 3), np.float32)

        def run() -> None:
            with contextlib.suppress(Error):
                compilation.run(values, values)
            device.close()

        return threading.Thread(target=run, daemon=True)

    def _entered(self, name: str = "entered") -> bool:
        end = time.monotonic() + _ENTER_S
        while not (self._service.files / name).exists():
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        return True

    def _ask(self, verb: str, phase: str = "") -> dict[str, Any]:
        self._tell(verb, phase)
        return self._reply()

    def _tell(self, verb: str, phase: str = "") -> None:
        line = f"{verb} {phase} {self._number}" if phase else verb
        assert self._application.process.stdin is not None
        self._application.process.stdin.write(line.encode() + b"\n")

    def _reply(self) -> dict[str, Any]:
        assert self._application.process.stdout is not None
        line = self._application.process.stdout.readline()
        if not line:
            raise RuntimeError("the application died")
        reply: dict[str, Any] = json.loads(line)
        return reply


def cells_of(count: int) -> Iterable[tuple[str, str]]:
    """Yields all cells so many times."""
    for _ in range(count):
        for phase in PHASES:
            for fault in FAULTS:
                yield fault, phase


def play(cells: Iterable[tuple[str, str]], *, slack: float = 1.0) -> MatrixReport:
    """Plays cells; returns what happened.

    Args:
        cells: faults and phases.
        slack: factor of all limits of time, for busy machines.
    """
    with tempfile.TemporaryDirectory(prefix="nm") as folder:
        matrix = _Matrix(Path(folder), slack)
        try:
            for fault, phase in cells:
                matrix.play(fault, phase)
        except (RuntimeError, Error) as error:
            matrix.report.wrong.append(str(error))
        finally:
            matrix.close()
    return matrix.report


def main(count: int, slack: float, path: Path | None) -> int:
    """Plays the whole matrix; writes the report."""
    text = json.dumps(play(cells_of(count), slack=slack).document(), indent=2) + "\n"
    sys.stdout.write(text)
    if path is not None:
        path.write_text(text)
    return 1 if json.loads(text)["wrong"] else 0
