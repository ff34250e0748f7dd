"""Another process that compiles: a Python that imports nothing but llvmlite."""

import logging
import os
import struct
import threading
from pathlib import Path

from neurald.drivers.compiler.support.worker_process import WorkerProcess
from neurald.drivers.cpu.native.work import Work
from neurald.drivers.cpu.target.target import Target

_LOG = logging.getLogger(__name__)

_WORKER = Path(__file__).with_name("object_worker.py")


#: So many processes compile at most, this one among them.
_PROCESSES = 8
#: So many units are likely to be worth another process, before there is any of them.
_MANY_UNITS = 16


def process_count() -> int:
    """How many processes may compile at the same time."""
    return min(_PROCESSES, len(os.sched_getaffinity(0)))


def started_ahead(target: Target, expected: int) -> "Helper | None":
    """A process for what is going to be compiled, while nothing of that is known but about how many units there will be."""
    return Helper(target) if expected >= _MANY_UNITS and process_count() > 1 else None


class Helper:
    """A process that takes units, one after another, until there are none left. It starts at once.

    Args:
        target: what code is generated for.
    """

    def __init__(self, target: Target) -> None:
        self._thread: threading.Thread | None = None
        self._process: WorkerProcess | None = None
        import llvmlite

        about = {
            "path": str(Path(llvmlite.__file__).parent.parent),
            "cpu": target.cpu,
            "features": target.features,
        }
        try:
            self._process = WorkerProcess(_WORKER, about, flags=("-S",))
        except OSError as error:
            _LOG.warning("no process helps to compile: %s", error)

    def serve(self, work: Work) -> None:
        """Takes units from `work`, and gives object code to it. To be called once."""
        if self._process is not None:
            self._thread = threading.Thread(target=self._run, args=(self._process, work), daemon=True)
            self._thread.start()

    def _run(self, process: WorkerProcess, work: Work) -> None:
        while (unit := work.next()) is not None:
            try:
                code = process.answer(unit.text.encode())
            except (OSError, ValueError, struct.error) as error:
                # Whatever the reason, it is found out where the unit is compiled next.
                if not process.is_closed:
                    _LOG.warning("a process that helps to compile ended: %s", error)
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
