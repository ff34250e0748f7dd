"""Prepares a step again in a thread of its own, once for all executions that wait for it."""

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from neurald.hal.device import ExecuteOptions, PreparedModel
from neurald.hal.errors import MissedDeadlineTransient, ResourceExhaustedTransient, copied
from neurald.hal.process.fork import forkable_lock
from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.sync.cancellation import next_wait_s

if TYPE_CHECKING:
    # Most programs lose no step.
    from concurrent.futures import Future

logger = logging.getLogger(__name__)


class RepeatedPreparation:
    """The preparation of a step whose prepared model was lost. Thread-safe.

    It goes on when an execution that waits for it ends, so that one with a short time limit ends in
    time, and a later one finds the step prepared.

    Args:
        name: the name of the device.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = forkable_lock()
        self._under_way: Future[PreparedModel] | None = None
        self._process = 0

    def begin(self, prepare: Callable[[], PreparedModel]) -> "Future[PreparedModel]":
        """Begins to prepare the step, unless that is under way; returns what will be the result."""
        from concurrent.futures import Future

        with self._lock:
            known = self._under_way
            # The thread of a parent process does not exist in its child.
            if known is not None and not known.done() and self._process == os.getpid():
                return known
            begun = self._under_way = Future[PreparedModel]()
            self._process = os.getpid()
            run = CheckedThread(target=_prepare, args=(begun, prepare), name="neurald recovery", daemon=True)
            try:
                run.start()
            except RuntimeError as error:
                text = f"cannot start preparing a step of {self._name} again: {error}"
                logger.warning("%s", text)
                begun.set_exception(ResourceExhaustedTransient(text))
            return begun

    def wait(self, prepare: Callable[[], PreparedModel], options: ExecuteOptions | None) -> PreparedModel:
        """Returns the step, prepared by now.

        Args:
            prepare: prepares it.
            options: the options of the execution that needs it; None for no limits.

        Raises:
            MissedDeadlineTransient: the deadline of the execution passed.
            Cancelled: the execution was cancelled.
            Error: the step cannot be prepared.
        """
        from concurrent.futures import wait as wait_for

        begun = self.begin(prepare)
        deadline_s = None if options is None else options.deadline_s
        cancellation = None if options is None else options.cancellation
        while not begun.done():
            where = f"while {self._name} prepared the step again"
            left_s = next_wait_s(deadline_s, cancellation, where)
            if not left_s:
                raise MissedDeadlineTransient(f"the deadline passed {where}")
            wait_for([begun], left_s)
        error = begun.exception()
        if error is not None:
            # Several threads raise it.
            raise copied(error)
        return begun.result()


def _prepare(begun: "Future[PreparedModel]", prepare: Callable[[], PreparedModel]) -> None:
    try:
        begun.set_result(prepare())
    except BaseException as error:
        begun.set_exception(error)
        # The error refers to this frame, which must not refer to its future.
        del begun
