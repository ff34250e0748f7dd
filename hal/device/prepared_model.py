"""The Protocols of prepared models: executions, bursts, fences, artifacts and profiles."""

from collections.abc import Callable, Sequence
from typing import Protocol

from neurald.hal.device.execution import ExecuteOptions, ExecutionResult, KernelTime, Timing
from neurald.hal.device.preparation import Artifact
from neurald.hal.model.request import Request
from neurald.hal.sync.fence import Fence


class Burst(Protocol):
    """Runs one prepared model many times in quick succession, one execution at a time.

    It keeps the resources of executions between them.
    """

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs the model, see `PreparedModel.execute`; memories of earlier requests are kept."""
        ...

    def close(self) -> None:
        """Releases all memories; the burst cannot be used afterwards."""
        ...


class FencedExecution(Protocol):
    """An execution that was started and signals its end by a fence."""

    @property
    def fence(self) -> Fence:
        """Signals once the execution is over, also if it failed or its driver died."""
        ...

    def result(self) -> ExecutionResult:
        """Waits for the fence and returns the result. Its `timing` counts from the launch.

        Raises:
            Error: see `PreparedModel.execute`.
        """
        ...

    @property
    def timing_after_fences(self) -> Timing:
        """The timing from when the last fence that it waited for had signalled."""
        ...


class PreparedModel(Protocol):
    """A model that a device has compiled. Executions may run at the same time."""

    @property
    def tolerates_changing_inputs(self) -> bool:
        """True if an execution stays inside its memories even if a process changes its inputs.

        True only if no address is ever computed from the value of an input or of a view of one.
        Outputs are never read back.
        """
        ...

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs the model and returns when its outputs are written.

        Raises:
            MissedDeadlineTransient, MissedDeadlinePersistent: the deadline or the loop timeout
                passed; the outputs are undefined, and the driver stops as soon as it can.
            Cancelled: `options.cancellation` was cancelled in time; the outputs are undefined, and
                the driver stops as soon as it can.
            DeadObject: the driver is gone.
            Error: any other failure; the outputs are undefined.
        """
        ...

    def execute_fenced(
        self,
        request: Request,
        wait_for: Sequence[Fence],
        options: ExecuteOptions,
        after_fences_s: float | None = None,
    ) -> FencedExecution:
        """Starts an execution that runs once all of `wait_for` have signalled, and returns at once.

        Args:
            request: all its outputs are fully specified.
            wait_for: fences of this or of other devices.
            options: as for `execute`.
            after_fences_s: how long it may take once the fences have signalled; None for no limit.

        Raises:
            DeadObject: the driver is gone.
        """
        ...

    def create_burst(self) -> Burst:
        """Creates a burst for one caller.

        Raises:
            DeadObject: the driver is gone.
        """
        ...

    def artifact(self) -> Artifact | None:
        """Returns an artifact for `Device.prepare_model_from_cache`.

        Returns:
            None if the device caches nothing, or no cache key was given.

        Raises:
            DeadObject: the driver is gone.
        """
        ...

    def profile(self) -> Sequence[KernelTime]:
        """Returns the time of each kernel in execution order, if the device can measure it.

        A device with memory of its own also returns the times in which inputs and outputs are
        copied, with the labels `COPY_IN` and `COPY_OUT`.

        The times are those of a separate run on the current content of the buffers, or on zeros;
        open dimensions are those of the last execution. Concurrent executions are not affected
        except in their duration.

        Raises:
            DeadObject: the driver is gone.
            Error: the run failed.
        """
        ...


class ImprovesLater(Protocol):
    """An optional interface of prepared models that may run faster code while they are in use."""

    def call_when_improved(self, callback: "Callable[[PreparedModel], None]") -> bool:
        """Calls a function once the model runs faster code than at first, and has another artifact.

        Args:
            callback: gets the model. It is called at once if that has happened, and never if it
                does not happen.

        Returns:
            Whether it was called, or may be called later.
        """
        ...
