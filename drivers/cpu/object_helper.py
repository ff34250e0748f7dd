"""Another process that compiles: a Python that imports nothing but llvmlite."""

import logging
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from neurald.drivers.compiler.worker_process import WorkerProcess
from neurald.drivers.cpu.target import Target

if TYPE_CHECKING:
    from neurald.drivers.cpu.object_code import Work

_LOG = logging.getLogger(__name__)

_WORKER = Path(__file__).with_name("object_worker.py")


class Helper:
    """A process that takes units, one after another, until there are none left.

    Args:
        work: what it takes units from and gives object code to.
        target: what code is generated for.
    """

    def __init__(self, work: "Work", target: Target) -> None:
        self._work = work
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
            return
        self._thread = threading.Thread(target=self._run, args=(self._process,), daemon=True)
        self._thread.start()

    def _run(self, process: WorkerProcess) -> None:
        while (unit := self._work.next()) is not None:
            try:
                code = process.answer(unit.text.encode())
            except (OSError, ValueError, struct.error) as error:
                # Whatever the reason, it is found out where the unit is compiled next.
                if not process.is_closed:
                    _LOG.warning("a process that helps to compile ended: %s", error)
                self._work.give_back(unit)
                return
            self._work.finished(unit, code)

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._thread.join()
            self._process.close()
