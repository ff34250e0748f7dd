"""Helper processes that compile LLVM IR.

A process that compiles for others forks them, which takes a few milliseconds. An application starts
a Python interpreter that imports only llvmlite.
"""

import logging
import os
import struct
import threading
from pathlib import Path

from neurald.drivers.compiler.support.forked_worker import ForkedWorker
from neurald.drivers.compiler.support.worker_process import WorkerProcess
from neurald.drivers.cpu.native.objects.llvm import (
    MAX_REDUCED_BYTES,
    SUBROUTINE_DECLARATION,
    TargetMachine,
)
from neurald.drivers.cpu.native.objects.unit_queue import UnitQueue
from neurald.drivers.cpu.target.target import Target
from neurald.hal.process.fork import may_fork
from neurald.hal.process.interpreter import interpreter
from neurald.hal.process.threads.checked_thread import CheckedThread

_LOG = logging.getLogger(__name__)

_WORKER = Path(__file__).with_name("object_worker.py")


#: Maximum number of compiling processes, including this one.
_MAX_PROCESSES = 8
#: Expected number of units that justifies starting a helper before any unit exists.
_MIN_EXPECTED_UNITS = 16


def process_count() -> int:
    """Returns the maximum number of compiling processes.

    It is 1, this process, if no other one can start, as in an application that embeds Python.
    """
    if not may_fork() and not interpreter():
        return 1
    return min(_MAX_PROCESSES, len(os.sched_getaffinity(0)))


def start_ahead(target: Target, expected: int) -> "CompileHelper | None":
    """Starts helpers in advance if many units are expected, else returns None."""
    wanted = min(expected // _MIN_EXPECTED_UNITS, process_count() - 1)
    return CompileHelper(target, wanted if may_fork() else 1) if wanted > 0 else None


class CompileHelper:
    """Processes that compile units until there are none left. They start immediately.

    Args:
        target: the target of the code.
        count: how many processes; fewer if some cannot be started.

    Attributes:
        processes: the processes.
    """

    def __init__(self, target: Target, count: int = 1) -> None:
        self._threads: list[threading.Thread] = []
        self.processes: list[WorkerProcess | ForkedWorker] = []
        try:
            for _ in range(count):
                self.processes.append(_forked(target) if may_fork() else _started(target))
        except OSError as error:
            _LOG.warning("cannot start a compile helper: %s", error)

    def serve(self, work: UnitQueue) -> None:
        """Compiles units of `work` in background threads. May only be called once."""
        for process in self.processes:
            thread = CheckedThread(target=self._run, args=(process, work), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, process: WorkerProcess | ForkedWorker, work: UnitQueue) -> None:
        while (unit := work.next()) is not None:
            try:
                code = process.answer(unit.text.encode())
            except (OSError, ValueError, struct.error) as error:
                # If the unit is at fault, compiling it in this process reports the error.
                if not process.is_closed:
                    _LOG.warning("a compile helper failed: %s", error)
                work.give_back(unit)
                return
            work.finished(unit, code)

    def close(self) -> None:
        """Ends the processes."""
        for process in self.processes:
            process.kill()
        for thread in self._threads:
            thread.join()
        for process in self.processes:
            process.close()


def _forked(target: Target) -> ForkedWorker:
    machine = TargetMachine.of(target)
    return ForkedWorker(lambda text: machine.object_code(text.decode()))


def _started(target: Target) -> WorkerProcess:
    import llvmlite

    about = {
        "path": str(Path(llvmlite.__file__).parent.parent),
        "cpu": target.cpu,
        "features": target.features,
        "max_reduced_bytes": MAX_REDUCED_BYTES,
        "subroutine_declaration": SUBROUTINE_DECLARATION,
    }
    return WorkerProcess(_WORKER, about, flags=("-S",))
