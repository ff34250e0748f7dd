"""Checks the results of a step's device, each only once for a request."""

import weakref
from typing import Final

from neurald.hal.device import ExecutionResult
from neurald.hal.model.request import Request
from neurald.runtime.execution.program.step_runner import checked_step_result
from neurald.runtime.plan.plan import ExecutionStep

#: Number of requests whose results are remembered.
_MAX_RESULTS: Final = 8


class CheckedResults:
    """The results that were checked last. Thread-safe.

    Requests and results are immutable, and a device may return the same result object again.

    Args:
        step: the step whose device returns them.
    """

    def __init__(self, step: ExecutionStep) -> None:
        self._step = step
        self._found: dict[int, tuple[weakref.ref[Request], ExecutionResult]] = {}

    def check(self, request: Request, result: ExecutionResult) -> None:
        """Checks a result, unless it was checked for this request.

        Raises:
            OpFailed: it contradicts the model or the request.
        """
        found = self._found.get(id(request))
        if found is not None and found[1] is result and found[0]() is request:
            return
        checked_step_result(self._step, request, result)
        if len(self._found) >= _MAX_RESULTS:
            self._found.clear()
        self._found[id(request)] = weakref.ref(request), result
