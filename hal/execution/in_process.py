"""Bursts and fenced executions of prepared models in this process."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from neurald.hal.device import Burst, ExecuteOptions, ExecutionResult, FencedExecution
from neurald.hal.model.request import Request
from neurald.hal.sync.fence import Fence

if TYPE_CHECKING:
    from neurald.hal.execution.fenced_execution import FencedRun


class _Executable(Protocol):
    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult: ...


class InProcessBurst:
    """Implements `neurald.hal.device.Burst`, which needs no preparation within a process."""

    def __init__(self, prepared_model: _Executable) -> None:
        self._prepared_model = prepared_model

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `Burst.execute`."""
        return self._prepared_model.execute(request, options)

    def close(self) -> None:
        """See `Burst.close`."""


def start_fenced(
    prepared_model: _Executable,
    request: Request,
    wait_for: Sequence[Fence],
    options: ExecuteOptions,
    after_fences_s: float | None = None,
) -> "FencedRun":
    """Starts a fenced execution in a thread of this process; see `PreparedModel.execute_fenced`."""
    from neurald.hal.execution.fenced_execution import FencedRun  # rarely needed

    run = FencedRun(
        lambda later: prepared_model.execute(request, later), wait_for, Fence(), options, after_fences_s
    )
    run.start()
    return run


class InProcessModel(ABC):
    """Implements the fenced executions and bursts of a prepared model with its `execute`.

    A driver whose hardware waits for fences, or that keeps memory mapped for a burst, overrides
    them.
    """

    @abstractmethod
    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`."""

    def execute_fenced(
        self,
        request: Request,
        wait_for: Sequence[Fence],
        options: ExecuteOptions,
        after_fences_s: float | None = None,
    ) -> FencedExecution:
        """See `PreparedModel.execute_fenced`."""
        return start_fenced(self, request, wait_for, options, after_fences_s)

    def create_burst(self) -> Burst:
        """See `PreparedModel.create_burst`."""
        return InProcessBurst(self)
