"""The optional interface of prepared models that bind a request once and run it many times."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from neurald.hal.device import ExecutionResult, PreparedModel
from neurald.hal.model.request import Request
from neurald.hal.sync.cancellation import Cancellation

#: Runs a request; see `ReusesExecutions.create_reusable_execution`.
ReusableExecution: TypeAlias = Callable[[Cancellation], ExecutionResult | None]


class ReusesExecutions(Protocol):
    """An optional interface of a prepared model for which binding a request once saves time.

    Android calls this IExecution.
    """

    def create_reusable_execution(self, request: Request) -> ReusableExecution | None:
        """Binds a request that `execute` ran with success and that the caller keeps.

        Returns:
            A function that runs the request again as `execute` does without measuring, time limit
                and attributes, and with the default loop timeout. Its argument may cancel it. It
                returns None if the result is that of the last execution of the request, or else the
                result; all outputs fit. Strings are stored in the array of their `StringMemory`.
                Several threads may call it at the same time. It raises an Error if the execution
                fails; outputs are then undefined. None if nothing would be saved.
        """
        ...


def reusable_execution(prepared_model: PreparedModel | None, request: Request) -> ReusableExecution | None:
    """Calls `create_reusable_execution`; returns None also for a prepared model without it."""
    # Far cheaper than testing whether it is an instance of the Protocol.
    create: Callable[[Request], ReusableExecution | None] | None
    create = getattr(prepared_model, "create_reusable_execution", None)
    return None if create is None else create(request)
