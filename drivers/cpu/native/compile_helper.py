"""Helper processes that compile LLVM IR in a Python interpreter that imports only llvmlite."""

import logging
import os
import struct
import threading
from pathlib import Path

from neurald.drivers.compiler.support.worker_process import WorkerProcess
from neurald.drivers.cpu.native.llvm import MAX_REDUCED_BYTES
from neurald.drivers.cpu.native.unit_queue import UnitQueue
from neurald.drivers.cpu.target.target import Target

_LOG = logging.getLogger(__name__)

_WORKER = Path(__file__).with_name("object_worker.py")


#: Maximum number of compiling processes, including this one.
_MAX_PROCESSES = 8
#: Expected number of units that justifies starting a helper before any unit exists.
_MIN_EXPECTED_UNITS = 16


def process_count() -> int:
    """Returns the maximum number of compiling processes."""
    return min(_MAX_PROCESSES, len(os.sched_getaffinity(0)))


def start_ahead(target: Target, expected: int) -> "CompileHelper | None":
    """Starts a helper in advance if many units are expected, else returns None."""
    return CompileHelper(target) if expected >= _MIN_EXPECTED_UNITS and process_count() > 1 else None


class CompileHelper:
    """A process that compiles units until there are none left. It starts immediately.

    Args:
        target: the target of the code.
    """

    def __init__(self, target: Target) -> None:
        self._thread: threading.Thread | None = None
        self._process: WorkerProcess | None = None
        import llvmlite

        about = {
            "path": str(Path(llvmlite.__file__).parent.parent),
            "cpu": target.cpu,
            "features": target.features,
            "max_reduced_bytes": MAX_REDUCED_BYTES,
        }
        try:
            self._process = WorkerProcess(_WORKER, about, flags=("-S",))
        except OSError as error:
            _LOG.warning("cannot start a compile helper: %s", error)

    def serve(self, work: UnitQueue) -> None:
        """Compiles units of `work` in a background thread. May only be called once."""
        if self._process is not None:
            self._thread = threading.Thread(target=self._run, args=(self._process, work), daemon=True)
            self._thread.start()

    def _run(self, process: WorkerProcess, work: UnitQueue) -> None:
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
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            if self._thread is not None:
                self._thread.join()
            self._process.close()
