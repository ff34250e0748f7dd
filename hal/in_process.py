"""Bursts and fenced executions of prepared models in this process: what a driver needs no code of its own for."""

from collections.abc import Sequence

from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.fence import Fence
from neurald.hal.fenced import FencedRun
from neurald.hal.types import Request


class InProcessBurst:
    """Implements `neurald.hal.device.Burst`: in one process there is nothing to keep at hand."""

    def __init__(self, prepared_model: PreparedModel) -> None:
        self._prepared_model = prepared_model

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `Burst.execute`."""
        return self._prepared_model.execute(request, options)

    def close(self) -> None:
        """See `Burst.close`."""


def start_fenced(
    prepared_model: PreparedModel,
    request: Request,
    wait_for: Sequence[Fence],
    options: ExecuteOptions,
    after_fences_s: float | None = None,
) -> FencedRun:
    """A fenced execution in a thread of this process; see `PreparedModel.execute_fenced`."""
    run = FencedRun(
        lambda later: prepared_model.execute(request, later), wait_for, Fence(), options, after_fences_s
    )
    run.start()
    return run
