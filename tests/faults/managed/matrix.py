"""The kill matrix: faults of a driver in each phase of a call, under the service manager.

The application chooses devices automatically, so each of its calls must give the right result, in
time: the CPU stands in, and the driver must soon be used again. In each cell the driver stops in
the phase, and the fault strikes there: from outside (kill -9, SIGSTOP), from the execution of
another client in the same process (an abort, no memory, an endless kernel), or as a wrong answer of
the phase itself.
"""

import contextlib
import json
import math
import os
import signal
import tempfile
import threading
import time
from collections.abc import Generator, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from faults.field import Child
from faults.managed.matrix_report import MatrixReport, PlayedCell
from faults.managed.service import Service
from faults.proc import core_waits_s
from support.models.addition import addition, request

import neurald as nd
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import Error
from neurald.hal.records import replace
from neurald.hal.rpc.client.device import connect

FAULTS = ("kill", "stop", "abort", "memory", "endless", "lie")
PHASES = ("connect", "query", "prepare", "load", "first run", "burst", "fenced", "drain")
#: Faults that another client's execution causes.
_POISONS = ("abort", "memory", "endless")
#: The time after which a fault is noticed, which the limits allow for: the watchdog's silence, and
#: the limit of an execution.
_EXECUTION_S = 1
_NOTICED_S = {"stop": 2.0, "endless": 1.0}
#: Limits from then on: of a call, and of the time until the device is used again.
CALL_S = 1.0
RECOVERY_S = 1.0
_ENTER_S = 10.0
#: Time for a process to begin to drain.
_DRAINING_S = 0.05
#: How long calls wait in a process that survives a fault.
_SURVIVES_S = 0.05
_USED_S = 60.0
#: An application that takes longer hangs.
_ANSWER_S = 60.0
#: Number of lines that are kept of the log of a cell in which anything is wrong.
_LOG_LINES = 60
#: Lines of stacks, which are left out.
_STACK = ('  File "', "hread 0x")


class _Matrix:
    """Plays cells with one manager and one application.

    Args:
        folder: with a short path.
        report: of what happens outside of cells.
        slack: factor of all limits, for busy machines.
    """

    def __init__(self, folder: Path, report: MatrixReport, slack: float) -> None:
        self._slack = slack
        self._report = report
        self._number = 0
        self._struck_at = ""
        self._service = Service(
            folder,
            "drain_s = 3.0",
            f'limits = {{execution_s = {_EXECUTION_S}, total_memory_bytes = "512MiB"}}',
            program="faults.managed.forgiving_manager",
        )
        (folder / "cache").mkdir(mode=0o700)
        self._application = Child(
            folder, "managed.matrix_application", self._service.address, str(folder / "cache")
        )
        self._application.wait_ready()

    def rehearse(self) -> None:
        """Plays a cell whose times do not count: no spare process has loaded the driver yet."""
        slack, self._slack = self._slack, math.inf
        cell = PlayedCell("kill", "burst")
        self.play(cell)
        self._slack = slack
        self._report.wrong += cell.wrong

    def close(self) -> None:
        """Stops all processes."""
        self._application.kill()
        if not self._service.close():
            self._report.wrong.append("the manager did not stop")

    def play(self, cell: PlayedCell) -> None:
        """Plays one cell.

        Raises:
            RuntimeError: the application died, so that no further cell can be played.
        """
        written = self._service.log_bytes
        waited_s = self._waited_s()
        try:
            self._play(cell)
        finally:
            if cell.wrong:
                lines = self._service.log_since(written).splitlines()
                told = [line for line in lines if not any(mark in line for mark in _STACK)]
                waits = [f"{each} {s - waited_s[each]:.2f} s" for each, s in self._waited_s().items()]
                cell.log = [
                    f"waited for processor cores: {', '.join(waits)}",
                    f"{self._struck_at} the fault strikes",
                    *told[-_LOG_LINES:],
                ]

    def _waited_s(self) -> dict[str, float]:
        """Returns how long processes have waited for a processor core so far."""
        return {
            "this one": core_waits_s(os.getpid()),
            "application": core_waits_s(self._application.process.pid),
            "manager": core_waits_s(self._service.process.pid),
        }

    def _play(self, cell: PlayedCell) -> None:
        fault, phase = cell.fault, cell.phase
        self._number += 1
        self._service.remove("armed", "entered", "strike", "swallowed")
        if not self._until_used(cell, "the device was not in use before"):
            return
        process = self._service.wait_for_process()
        arranged = self._ask("arrange", phase)
        if not arranged["result"]:
            self.note(cell, f"could not be arranged: {arranged['problem']}")
            return
        poison = self._poisoned() if fault in _POISONS else None
        point = phase if phase in ("connect", "query", "prepare", "load") else "execute"
        self._service.write("armed", f"{point} lie" if fault == "lie" else point)
        self._tell("act", phase)
        if not self._entered():
            self.note(cell, f"the driver was not called: {self._reply()}")
            return
        if poison is not None:
            # Just now, so that it does not exceed its limit of time before.
            poison.start()
            if not self._entered("swallowed"):
                self.note(cell, "the poison was not executed")
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
        self._judge(cell, struck_s, reply)
        self._recovers(cell, struck_s)

    @staticmethod
    def note(cell: PlayedCell, what: str) -> None:
        """Records what must not have happened."""
        cell.wrong.append(f"{cell.fault}, {cell.phase}: {what}")

    def _strike(self, fault: str, process: int) -> float:
        """Lets a fault happen; returns when, on the clock of `time.monotonic()`."""
        struck_s = time.monotonic()
        self._struck_at = datetime.now().isoformat(" ", "milliseconds")
        if fault in ("kill", "stop"):
            # It is gone if the machine is so busy that the execution has exceeded its limit.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
        elif fault in _POISONS:
            self._service.write("strike", fault)
        return struck_s

    def _release(self, fault: str, process: int) -> None:
        """Lets calls go on once the process or the application's call has ended, or soon after.

        A process that drains may stay for a while, when its successor serves and would be held up,
        too.
        """
        survives = fault in ("lie", "memory")
        end = time.monotonic() + (_SURVIVES_S if survives else _ENTER_S)
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < end and (survives or not self._application.has_answer):
                os.kill(process, 0)
                time.sleep(0.001)
        self._service.remove("armed")

    def _judge(self, cell: PlayedCell, struck_s: float, reply: dict[str, Any]) -> None:
        if self._application.process.poll() is not None:
            raise RuntimeError("the application died")
        cell.call_s = reply["end_s"] - struck_s
        if not reply["result"]:
            self.note(cell, f"not right: {reply['problem']}")
        if cell.call_s > (CALL_S + _NOTICED_S.get(cell.fault, 0.0)) * self._slack:
            self.note(cell, f"the call ended after {cell.call_s:.2f} s")

    def _recovers(self, cell: PlayedCell, struck_s: float) -> None:
        if not self._until_used(cell, "the device is not used again"):
            return
        cell.recovery_s = time.monotonic() - struck_s
        if cell.recovery_s > (RECOVERY_S + _NOTICED_S.get(cell.fault, 0.0)) * self._slack:
            self.note(cell, f"the device was used again after {cell.recovery_s:.2f} s")

    def _until_used(self, cell: PlayedCell, otherwise: str) -> bool:
        """Makes calls until the device runs one; notes what it must not do otherwise."""
        end = time.monotonic() + _USED_S
        while True:
            reply = self._ask("use")
            if reply["problem"]:
                self.note(cell, f"a call between faults: {reply['problem']}")
            if reply["result"]:
                return True
            if time.monotonic() > end:
                self.note(cell, f"{otherwise}: {reply['failures']}")
                return False
            time.sleep(0.01)

    def _poisoned(self) -> threading.Thread:
        """Prepares the execution of another client, which waits to cause a fault.

        Nothing stands in for it.
        """
        # Another pattern each time, so that it is not refused.
        values = np.ones((self._number, 3), np.float32)
        model = addition(values)
        (operation,) = model.main.operations
        product = replace(operation, type=nd.OperationType.MUL)
        device = connect(self._service.address)
        prepared = device.prepare_model(
            replace(model, main=replace(model.main, operations=(product,))), PrepareOptions()
        )

        def run() -> None:
            with contextlib.suppress(Error):
                prepared.execute(request(values, np.zeros_like(values)), ExecuteOptions())
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
        reply: dict[str, Any] = json.loads(self._application.answer(_ANSWER_S))
        return reply


def cells_of(count: int) -> Iterable[tuple[str, str]]:
    """Yields all cells this many times."""
    for _ in range(count):
        for phase in PHASES:
            for fault in FAULTS:
                yield fault, phase


def playing(
    cells: Iterable[tuple[str, str]], report: MatrixReport, *, slack: float = 1.0
) -> Generator[PlayedCell, None, None]:
    """Plays cells one after another, and yields each.

    Args:
        cells: faults and phases.
        report: gets what happens outside of cells, and not the cells.
        slack: factor of all limits of time, for busy machines.
    """
    with tempfile.TemporaryDirectory(prefix="nm") as folder:
        matrix = _Matrix(Path(folder), report, slack)
        try:
            try:
                matrix.rehearse()
            except (RuntimeError, Error) as error:
                report.wrong.append(str(error))
                return
            for fault, phase in cells:
                cell = PlayedCell(fault, phase)
                try:
                    matrix.play(cell)
                except (RuntimeError, Error) as error:
                    matrix.note(cell, str(error))
                    yield cell
                    return
                yield cell
        finally:
            matrix.close()


def play(cells: Iterable[tuple[str, str]], *, slack: float = 1.0) -> MatrixReport:
    """Plays cells one after another; returns what happened."""
    report = MatrixReport()
    report.cells += playing(cells, report, slack=slack)
    return report
