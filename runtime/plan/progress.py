"""Shows the progress of preparations that take long to a callback of the application."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from msgspec import Struct

from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.sync.progress import ProgressListener

_LOG = logging.getLogger(__name__)

#: Preparations that take less are not shown.
_LONG_S: Final = 1.0
#: Interval of the calls.
_INTERVAL_S: Final = 0.2


class StepProgress(Struct, frozen=True, kw_only=True):
    """The progress of a preparation that takes longer than a second.

    Attributes:
        step: position of the step in the plan.
        steps: number of steps of the plan.
        device: name of the device that prepares it.
        share: the share of the work that is done, from 0 to 1; 0 as long as the device reports
            nothing.
        elapsed_s: time since it began.
    """

    step: int
    steps: int
    device: str
    share: float
    elapsed_s: float


#: Is called from other threads, one call at a time, every 0.2 s and at the end of a preparation.
ProgressCallback: TypeAlias = Callable[[StepProgress], None]


class _Running:
    """A preparation that runs."""

    def __init__(self, step: int, steps: int, device: str) -> None:
        self._step, self._steps, self._device = step, steps, device
        self._started = time.monotonic()
        self._share = 0.0
        self.was_shown = False

    def reached(self, share: float) -> None:
        """Records the progress, which never decreases."""
        self._share = max(self._share, share)

    @property
    def is_long(self) -> bool:
        """True if it is to be shown."""
        return time.monotonic() - self._started >= _LONG_S

    def progress(self) -> StepProgress:
        """Returns the progress so far."""
        return StepProgress(
            step=self._step,
            steps=self._steps,
            device=self._device,
            share=self._share,
            elapsed_s=time.monotonic() - self._started,
        )


class ProgressMonitor:
    """Calls back for the preparations that run, from a thread of its own. Thread-safe.

    Args:
        callback: errors that it raises are logged.
    """

    def __init__(self, callback: ProgressCallback) -> None:
        self._callback = callback
        self._calling = threading.Lock()
        self._changed = threading.Condition()
        self._running: list[_Running] = []
        self._has_thread = False

    @contextlib.contextmanager
    def of_step(self, step: int, steps: int, device: str) -> Iterator[ProgressListener]:
        """Watches the preparation of a step during the block.

        Yields:
            What records its progress.
        """
        running = _Running(step, steps, device)
        with self._changed:
            self._running.append(running)
            if not self._has_thread:
                # Without a thread the preparation is not shown.
                with contextlib.suppress(RuntimeError):
                    CheckedThread(target=self._watch, name="neurald progress", daemon=True).start()
                    self._has_thread = True
        try:
            yield running.reached
        finally:
            with self._changed:
                self._running.remove(running)
                self._changed.notify_all()
            if running.was_shown:
                running.reached(1.0)
                self._call(running)

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._running, _INTERVAL_S)
                if not self._running:
                    self._has_thread = False
                    return
                running = [each for each in self._running if each.is_long]
            for each in running:
                each.was_shown = True
                self._call(each)

    def _call(self, running: _Running) -> None:
        with self._calling:
            try:
                self._callback(running.progress())
            except Exception as error:
                _LOG.warning("the callback for progress raised %s: %s", type(error).__name__, error)
