"""Gives out workers, of which one has always been started in advance.

One that was started before files changed that workers read is not given out.
"""

import asyncio
import contextlib

from neurald.service.inference.models.workers.model_worker import ModelWorker
from neurald.service.inference.models.workers.worker_options import WorkerOptions
from neurald.service.inference.worker.read_files import read_state


class WorkerPool:
    """Starts workers. Belongs to one event loop.

    Args:
        options: how to start them.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._spare: ModelWorker | None = None
        self._starting: asyncio.TimerHandle | None = None
        self._is_closed = False

    def take(self) -> ModelWorker:
        """Returns a worker that has no model yet.

        Raises:
            OSError: none can be started.
        """
        worker, self._spare = self._spare, None
        if worker is not None and worker.read_state != read_state():
            worker.kill()
            worker = None
        if worker is None or worker.has_ended:
            worker = ModelWorker(self._options)
        self.prepare()
        return worker

    def prepare(self) -> None:
        """Starts a worker in advance, a little later: those that are needed now come first."""
        if self._starting is None and not self._is_closed:
            self._starting = asyncio.get_running_loop().call_later(0.2, self._start_spare)

    def _start_spare(self) -> None:
        self._starting = None
        if self._is_closed or (self._spare is not None and not self._spare.has_ended):
            return
        with contextlib.suppress(OSError):
            self._spare = ModelWorker(self._options)

    def close(self) -> None:
        """Ends the worker that has no model."""
        self._is_closed = True
        if self._starting is not None:
            self._starting.cancel()
        if self._spare is not None:
            self._spare.end()
