"""Burst.

Executions of one compilation in quick succession, for which devices keep resources ready.
"""

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self

from neurald.hal import device
from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.errors import BadData, BadState, DeadObject, Error, OpFailed
from neurald.hal.execution.in_process import InProcessBurst
from neurald.hal.model.types import Request
from neurald.hal.process.fork import forkable_lock
from neurald.runtime.devices.driver_faults import checked_executable, faults_of
from neurald.runtime.execution.compiled_model import CompiledModel, require_compiled
from neurald.runtime.plan.plan import ExecutionStep

logger = logging.getLogger(__name__)


class Burst:
    """Runs executions of one compilation, one at a time: `execution.compute(burst=burst)`.

    Each step of the plan has its own device burst, unless the device is in this process or offers
    none. Memories may be freed before or after the burst. Use it as a context manager, or close it.

    Args:
        compilation: a finished compilation.

    Raises:
        UnexpectedNull: `compilation` is None.
        BadState: the compilation is not finished.
    """

    def __init__(self, compilation: CompiledModel) -> None:
        require_compiled(compilation)
        self._compilation = compilation
        self._use = _Use()
        self._is_closed = False
        self._bursts: dict[int, tuple[PreparedModel | None, device.Burst | None]] = {}
        for step in compilation.plan.steps:
            self._create(step, step.prepared_model)

    def in_use(self, compilation: CompiledModel) -> "_Use":
        """Returns a context manager that gives one execution exclusive use of the burst.

        Args:
            compilation: compilation of the execution.

        Raises:
            BadData: the burst belongs to another compilation.
            BadState: the burst is closed, or it is in use, which is detected on entering.
        """
        if compilation is not self._compilation:
            raise BadData("the execution is of another compilation than the burst")
        if self._is_closed:
            raise BadState("the burst is closed")
        return self._use

    def execute(
        self, step: ExecutionStep, prepared_model: PreparedModel, request: Request, options: ExecuteOptions
    ) -> ExecutionResult:
        """Runs a step. Called while the burst is in use.

        Args:
            step: of the compilation's plan.
            prepared_model: of the step; it may be a new one if its device had died.
            request: for it.
            options: for it.

        Raises:
            Error: see `PreparedModel.execute`.
        """
        known, burst = self._bursts[id(step)]
        if self._is_closed:  # while the execution was under way
            return prepared_model.execute(request, options)
        if known is not prepared_model:
            burst = self._create(step, prepared_model)
        if burst is None:
            return prepared_model.execute(request, options)
        try:
            return burst.execute(request, options)
        except DeadObject:
            # Possibly only the burst died. The next execution finds out whether the device did.
            self._bursts[id(step)] = (None, None)
            _close(burst, step.device.name)
            if self._is_closed:
                return prepared_model.execute(request, options)
            raise

    def create_reusable_execution(
        self, step: ExecutionStep, prepared_model: PreparedModel, request: Request, result: ExecutionResult
    ) -> Callable[[ExecuteOptions], None] | None:
        """Returns a function that runs a step again as `execute` did.

        None if the step has no burst.

        Args:
            step, prepared_model: see `execute`.
            request: the request that was run; the caller keeps it alive.
            result: its result. The function raises OpFailed if a later run has another one.
        """
        known, burst = self._bursts[id(step)]
        if burst is None or known is not prepared_model:
            return None
        execute = burst.execute

        def run(options: ExecuteOptions) -> None:
            if execute(request, options) is not result:
                raise OpFailed("it has another result than the last time")

        return run

    def _create(self, step: ExecutionStep, prepared_model: PreparedModel) -> device.Burst | None:
        """Creates the burst of a step and keeps it.

        None if the step's executions are plain calls.
        """
        _, old = self._bursts.get(id(step), (None, None))
        if old is not None:
            _close(old, step.device.name)
        burst: device.Burst | None = None
        try:
            with faults_of(step.device.name):
                burst = checked_executable(
                    prepared_model.create_burst(), "Burst", step.device.name, "create_burst()"
                )
        except Error as error:
            logger.warning("%s offers no burst, every execution is a call: %s", step.device.name, error)
        if isinstance(burst, InProcessBurst):
            burst = None
        self._bursts[id(step)] = (prepared_model, burst)
        return burst

    def close(self) -> None:
        """Releases the resources that devices hold for it.

        An execution in progress continues without them.
        """
        self._is_closed = True
        for step in self._compilation.plan.steps:
            _, burst = self._bursts[id(step)]
            if burst is not None:
                _close(burst, step.device.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close(burst: device.Burst, name: str) -> None:
    """Closes a device's burst. A failure to close is logged, not raised."""
    try:
        with faults_of(name):
            burst.close()
    except Error as error:
        logger.warning("a burst of %s was not closed: %s", name, error)


class _Use:
    """Gives one execution at a time exclusive use of a burst."""

    def __init__(self) -> None:
        self._lock = forkable_lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise BadState("another execution uses the burst; it takes one at a time")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
