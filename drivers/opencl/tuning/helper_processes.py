"""The processes that help a preparation, some of which start before it is known what they build.

Starting a process, importing packages there, and opening the device takes as long as building many
programs. Large models are therefore lowered while their processes start.
"""

import logging
import os
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Final

import neurald
from neurald.drivers.compiler.support.worker_process import WorkerProcess
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.hal.process.threads.checked_thread import CheckedThread

_LOG = logging.getLogger(__name__)

_WORKER: Final = Path(__file__).with_name("program_worker.py")
#: Maximum number of processes that build.
_MAX_PROCESSES: Final = 16
#: Device memory reserved for the context of each process.
_CONTEXT_BYTES: Final = 1 << 30
#: Models with fewer operations have few programs to build.
_MIN_OPERATIONS: Final = 16


def process_count(facts: DeviceFacts) -> int:
    """Returns how many processes may build for a device at the same time, including this one.

    The kernels of a CPU device run on the cores that would compile, and compilers for CPUs may wait
    until a kernel is launched.
    """
    if facts.is_cpu:
        return 1
    cores = len(os.sched_getaffinity(0))
    return max(1, min(_MAX_PROCESSES, cores, facts.global_memory_bytes // _CONTEXT_BYTES))


class HelperProcesses:
    """Processes for one preparation. Thread-safe.

    Args:
        facts: the device that they open.
        operations: the number of operations of a model that is about to be lowered; if it is large,
            processes are started now.
    """

    def __init__(self, facts: DeviceFacts, operations: int = 0) -> None:
        self._facts = facts
        self._lock = threading.Lock()
        self._ready: deque[WorkerProcess] = deque()
        ahead = process_count(facts) - 1 if operations >= _MIN_OPERATIONS else 0
        while len(self._ready) < ahead and (process := self._started()) is not None:
            self._ready.append(process)

    def take(self) -> WorkerProcess | None:
        """Returns a process, which the caller ends; None if none can be started."""
        with self._lock:
            while self._ready:
                process = self._ready.popleft()
                if not process.has_ended:
                    return process
                process.close()
        return self._started()

    def close(self) -> None:
        """Ends those that were not taken."""
        with self._lock:
            unused = [*self._ready]
            self._ready.clear()
        end(unused)

    def _started(self) -> WorkerProcess | None:
        about = {
            "path": [*map(os.path.abspath, sys.path), str(Path(neurald.__file__).parent.parent)],
            "process": os.getpid(),
            "place": f"{self._facts.platform_index}:{self._facts.device_index}",
            "digest": self._facts.digest,
        }
        try:
            return WorkerProcess(_WORKER, about)
        except OSError as error:
            _LOG.warning("cannot start a build helper process: %s", error)
            return None


def end(processes: list[WorkerProcess]) -> None:
    """Kills processes, and waits for their ends in the background: closing a device takes long."""
    for process in processes:
        process.kill()
    if processes:
        CheckedThread(
            target=_close_all, args=(processes,), name="neurald opencl helpers", daemon=True
        ).start()


def _close_all(processes: list[WorkerProcess]) -> None:
    for process in processes:
        process.close()
