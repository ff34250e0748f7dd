"""The optional interface of prepared models that start an execution and return at once.

A thread that starts an execution and later waits for it needs no other thread, and no descriptor to
wait for: both cost more than a small model computes.
"""

from typing import Protocol

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.model.request import Request


class PendingExecution(Protocol):
    """An execution under way. Thread-safe.

    Outputs outside of shared memory are written by the thread that waits for its end.
    """

    def wait(self, timeout_s: float | None) -> bool:
        """Waits until the execution is over, at most `timeout_s` seconds; None: without a limit.

        Returns:
            Whether it is over.
        """
        ...

    def result(self) -> ExecutionResult:
        """Waits without a limit, and returns the result.

        Raises:
            Error: see `PreparedModel.execute`.
        """
        ...


class SubmitsExecutions(Protocol):
    """An optional interface of a prepared model that runs executions without the caller."""

    def submit(self, request: Request, options: ExecuteOptions) -> PendingExecution | None:
        """Starts an execution like `execute`, and returns at once.

        Returns:
            The execution, which keeps the request alive; None if it cannot run in this way.

        Raises:
            Error: the execution cannot start; see `PreparedModel.execute`.
        """
        ...


def may_submit(prepared_model: PreparedModel) -> bool:
    """Returns whether a prepared model has `SubmitsExecutions.submit`."""
    return hasattr(prepared_model, "submit")


def submitted(
    prepared_model: PreparedModel, request: Request, options: ExecuteOptions
) -> PendingExecution | None:
    """Calls `SubmitsExecutions.submit`; returns None also for a prepared model without it."""
    submit = getattr(prepared_model, "submit", None)
    execution: PendingExecution | None = None if submit is None else submit(request, options)
    return execution
