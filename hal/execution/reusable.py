"""Executions that a device runs again with the request bound once."""

from collections.abc import Callable
from typing import Protocol

from neurald.hal.device import PreparedModel
from neurald.hal.model.types import Request
from neurald.hal.sync.cancellation import Cancellation


class ReusesExecutions(Protocol):
    """What a prepared model can do beside, if binding a request once saves time in each execution. Android: IExecution."""

    def create_reusable_execution(self, request: Request) -> Callable[[Cancellation], None] | None:
        """Binds a request that `execute` ran with success, and that the caller keeps.

        Returns:
            What runs it again as `execute` does without measuring, time limit and attributes, and with the same result. It is given
            what may cancel it. It may be called in several threads at the same time. It raises an Error if something
            went wrong; outputs are then undefined. None: nothing would be saved.
        """
        ...


def reusable_execution(
    prepared_model: PreparedModel | None, request: Request
) -> Callable[[Cancellation], None] | None:
    """What `ReusesExecutions.create_reusable_execution` gives; None also for a prepared model without it."""
    # Far cheaper than to ask whether it is an instance of the Protocol.
    create: Callable[[Request], Callable[[Cancellation], None] | None] | None
    create = getattr(prepared_model, "create_reusable_execution", None)
    return None if create is None else create(request)
