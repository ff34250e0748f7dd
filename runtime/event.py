"""Event: the end of an execution that runs meanwhile."""

import threading

from neurald.hal.errors import Error, ResultCode


class Event:
    """Given back by `Execution.start_compute`."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._error: Error | None = None

    def signal(self, error: Error | None) -> None:
        """Ends the wait; called once, by the execution."""
        self._error = error
        self._done.set()

    @property
    def is_done(self) -> bool:
        """Whether `wait` would return at once."""
        return self._done.is_set()

    @property
    def code(self) -> ResultCode:
        """How the execution ended; waits for that."""
        self._done.wait()
        return ResultCode.NO_ERROR if self._error is None else self._error.code

    def wait(self) -> None:
        """Returns when the execution has ended, each time that it is called.

        Raises:
            Error: the execution failed.
        """
        self._done.wait()
        if self._error is not None:
            raise self._error
