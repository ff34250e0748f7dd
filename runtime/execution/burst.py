"""Burst: runs executions of one compilation in quick succession.

Devices keep resources ready for a burst, so that each execution costs less.
"""

import logging
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from neurald.hal import device
from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.errors import BadData, BadState, DeadObject, Error
from neurald.hal.execution.in_process import InProcessBurst
from neurald.hal.model.request import Request
from neurald.hal.process.threads.exclusive_use import ExclusiveUse
from neurald.hal.unpicklable import Unpicklable
from neurald.runtime.devices.driver_faults import checked_executable, convert_driver_faults
from neurald.runtime.execution.abandoned_memory import mark_abandoned
from neurald.runtime.execution.compiled_model import COMPILE_ELSEWHERE, CompiledModel, require_compiled
from neurald.runtime.plan.plan import ExecutionStep

logger = logging.getLogger(__name__)


class Burst(Unpicklable):
    """Runs executions of one compilation, one at a time: `execution.compute(burst=burst)`.

    Each step of the plan has its own device burst, unless its device is in this process or offers
    none. Memories may be freed before or after the burst is closed. Use the burst as a context
    manager, or close it.

    Args:
        compilation: a finished compilation.

    Attributes:
        uses_devices: False if every execution of every step is a plain call.

    Raises:
        UnexpectedNull: `compilation` is None.
        BadState: the compilation is not finished.
    """

    instead_of_pickling = COMPILE_ELSEWHERE

    def __init__(self, compilation: CompiledModel) -> None:
        require_compiled(compilation)
        self._compilation = compilation
        #: Its use by one execution at a time; see `begin_use`.
        self.use = ExclusiveUse()
        self._is_closed = False
        self.uses_devices = False
        self._bursts: dict[int, tuple[PreparedModel | None, device.Burst | None]] = {}
        self._names: dict[int, str] = {}
        for step in compilation.plan.steps:
            recovering = compilation.recovery.step(step)
            # A first tier needs no burst, and is freed when it is replaced. The step may have been
            # prepared again since it was planned.
            if not recovering.has_first_tier:
                self._create(step, recovering.usable() or step.prepared_model)

    def __repr__(self) -> str:
        return f"<Burst of {self._compilation!r}{', closed' if self._is_closed else ''}>"

    def begin_use(self, compilation: CompiledModel, user: object) -> None:
        """Gives one execution exclusive use of the burst until it ends that; see `ExclusiveUse`.

        Only neurald itself calls this.

        Args:
            compilation: compilation of the execution.
            user: see `ExclusiveUse`.

        Raises:
            BadData: the burst belongs to another compilation.
            BadState: the burst is closed, or it is in use.
        """
        if compilation is not self._compilation:
            raise BadData("the execution and the burst belong to different compilations")
        if self._is_closed:
            raise BadState("the burst is closed; create another one with Compilation.create_burst()")
        if not self.use.begin(user):
            raise BadState("another execution is using the burst; a burst runs one execution at a time")

    def execute(
        self, step: ExecutionStep, prepared_model: PreparedModel, request: Request, options: ExecuteOptions
    ) -> ExecutionResult:
        """Runs a step through its device's burst. The caller uses the burst, see `begin_use`.

        Only neurald itself calls this.

        Args:
            step: a step of the compilation's plan.
            prepared_model: the prepared model of the step; a new one if the step was prepared
                again.
            request: the request for the step.
            options: the options for the step.

        Raises:
            Error: see `PreparedModel.execute`.
        """
        known, burst = self._bursts.get(id(step), (None, None))
        if self._is_closed:  # another thread closed it during this execution
            return prepared_model.execute(request, options)
        if known is not prepared_model:
            burst = self._create(step, prepared_model)
        if burst is None:
            return prepared_model.execute(request, options)
        try:
            return burst.execute(request, options)
        except DeadObject:
            # Perhaps only the burst died. The next execution finds out whether the device did, too.
            self._bursts[id(step)] = (None, None)
            _close(burst, step.device.name)
            if self._is_closed:
                # The daemon may not have finished what it was asked to run.
                mark_abandoned(request)
                return prepared_model.execute(request, options)
            raise

    def create_reusable_execution(
        self, step: ExecutionStep, prepared_model: PreparedModel, request: Request
    ) -> Callable[[ExecuteOptions], ExecutionResult] | None:
        """Returns a function that repeats an `execute`; None if the step has no device burst.

        Only neurald itself calls this.

        Args:
            step, prepared_model: see `execute`.
            request: the request that was run; the caller keeps it alive.
        """
        known, burst = self._bursts.get(id(step), (None, None))
        if burst is None or known is not prepared_model:
            return None
        return partial(burst.execute, request)

    def _create(self, step: ExecutionStep, prepared_model: PreparedModel) -> device.Burst | None:
        """Creates and stores the device burst of a step.

        Returns:
            The burst, or None if executions of the step are plain calls.
        """
        _, old = self._bursts.get(id(step), (None, None))
        if old is not None:
            _close(old, step.device.name)
        burst: device.Burst | None = None
        try:
            with convert_driver_faults(step.device.name):
                burst = checked_executable(
                    prepared_model.create_burst(), "Burst", step.device.name, "create_burst()"
                )
        except Error as error:
            logger.warning(
                "%s cannot create a burst, so every execution is a separate call: %s", step.device.name, error
            )
        if isinstance(burst, InProcessBurst):
            burst = None
        self.uses_devices |= burst is not None
        self._bursts[id(step)] = (prepared_model, burst)
        self._names[id(step)] = step.device.name
        return burst

    def close(self) -> None:
        """Releases the resources that devices hold for the burst.

        An execution in progress continues without them.
        """
        self._is_closed = True
        # The plan may have been replaced since.
        for number, (_, burst) in tuple(self._bursts.items()):
            if burst is not None:
                _close(burst, self._names[number])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close(burst: device.Burst, name: str) -> None:
    """Closes a device's burst. A failure to close is logged, not raised."""
    try:
        with convert_driver_faults(name):
            burst.close()
    except Error as error:
        logger.warning("a burst of %s could not be closed: %s", name, error)
