"""What happens when a device fails at run time: its steps run on the CPU meanwhile, and it gets another chance.

Android's first stage of fallback, with a memory. A step whose device failed stays prepared on the CPU, so that the next
failure costs no compiling. The device is tried again after a pause that doubles with every failure in a row. Where its
driver died the prepared model is gone with it; what is kept is the recipe (device, model, options), and it is prepared
again: in the background while the CPU can stand in, else by the execution that needs it.

An explicit list of devices forbids all that but preparing again: the device's error is then the caller's.
"""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from neurald.hal.buffers.host_copies import execute_on_host
from neurald.hal.device import ExecuteOptions, ExecutionResult, KernelTime, PreparedModel, Timing
from neurald.hal.errors import (
    Cancelled,
    DeadObject,
    Error,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    ResultCode,
    Unreachable,
)
from neurald.hal.execution.reusable import reusable_execution
from neurald.hal.extension_support import refused_operations
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.types import Model, Request
from neurald.hal.process.fork import forkable_lock
from neurald.hal.sync.cancellation import Cancellation
from neurald.runtime.devices.discovery import cpu_device
from neurald.runtime.devices.driver_faults import faults_of
from neurald.runtime.execution.step_runner import checked_step_result
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.preparer import Preparer
from neurald.runtime.plan.report import StepFailure

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long a device that failed is left alone: a pause that doubles with each failure in a row."""

    first_pause_s: float
    longest_pause_s: float

    def pause_s(self, failures: int) -> float:
        """The pause after that many failures in a row, of which there is at least one."""
        return float(min(self.longest_pause_s, self.first_pause_s * 2.0 ** min(failures - 1, 30)))


#: A restarted daemon is back within a second; asking whether it is costs a connection.
UNREACHABLE = RetryPolicy(first_pause_s=0.05, longest_pause_s=2.0)
#: A driver that dies again and again may do so of this very model, and takes the work of others with it each time.
DEAD = RetryPolicy(first_pause_s=0.05, longest_pause_s=30.0)
#: A device that fails in another way will most likely do so again.
FAILING = RetryPolicy(first_pause_s=1.0, longest_pause_s=60.0)

#: Requests whose last results are remembered as checked.
_BELIEVED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """A step that does not run on its device now.

    Attributes:
        step: its number in the plan.
        device: that it was planned for.
        failures: in a row.
        reason: of the last failure.
        retry_in_s: after which the device gets its next chance.
    """

    step: int
    device: str
    failures: int
    reason: str
    retry_in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitution:
    """Executions of a step that the CPU device ran although another device was chosen for it.

    Attributes:
        step: position of the step in the plan.
        device: name of the device that the step was planned for.
        executions: how many executions the CPU device has run since the compilation was made.
        reason: message of the device's last failure.
    """

    step: int
    device: str
    executions: int
    reason: str


class RecoveringStep:
    """A step with the state of its device. Thread-safe.

    Args:
        step: with a prepared model.
        preparer: prepares it again.
        may_fall_back: whether the CPU may stand in.
    """

    def __init__(self, step: ExecutionStep, preparer: Preparer, *, may_fall_back: bool) -> None:
        self._step = step
        self._preparer = preparer
        is_other = step.device is not cpu_device()
        # The CPU device does not know what operations of vendors' extensions mean.
        self._may_fall_back = may_fall_back and is_other and not refused_operations(step.model, cpu_device())
        self._lock = forkable_lock()
        self._prepared: PreparedModel | None = step.prepared_model
        self._on_cpu: PreparedModel | None = None
        self._is_preparing = False
        self._failures = 0
        self._retry_at = 0.0
        self._reason = ""
        self._code = ResultCode.NO_ERROR
        self._substituted = 0
        self._failed_in_all = 0
        self._believed: dict[int, tuple[weakref.ref[Request], ExecutionResult]] = {}

    def execute(
        self,
        request: Request,
        options: ExecuteOptions,
        call: Callable[[PreparedModel], ExecutionResult] | None = None,
    ) -> ExecutionResult:
        """Runs the step on its device, or else on the CPU where that may be.

        Args:
            request: of the step's model.
            options: for the execution.
            call: how to execute on the device's prepared model; `execute` unless given.

        Raises:
            OpFailed: the device's answer contradicts the model or the request.
            Error: the device failed, and the CPU may not stand in, or failed too.
        """
        prepared = self._usable()
        if prepared is not None:
            try:
                result = self._call(prepared, request, options, call)
                self._check(request, result)
            except Error as error:
                _abandon(request)
                self._failed(error, prepared)
                if not self._falls_back(error, has_limit=options.deadline_s is not None):
                    raise
                logger.warning(
                    "%s failed, the CPU runs its step: %s", self._step.device.name, error.with_traceback(None)
                )
            else:
                self._worked()
                return result
        try:
            result = execute_on_host(self._cpu_model(), self._step.model.main, request, options)
            checked_step_result(self._step, request, result)
        except Error as error:
            self._absolve(error)
            raise
        self.count_substitution()
        # Of which device it would be the time is not to be told apart any more.
        return replace(result, timing=Timing())

    def _call(
        self,
        prepared: PreparedModel,
        request: Request,
        options: ExecuteOptions,
        call: Callable[[PreparedModel], ExecutionResult] | None,
    ) -> ExecutionResult:
        """Executes on the device. Faults of a driver in this process are failures like any other."""
        with faults_of(self._step.device.name):
            return prepared.execute(request, options) if call is None else call(prepared)

    def _check(self, request: Request, result: ExecutionResult) -> None:
        """Raises OpFailed if the result contradicts the model or the request.

        A device gives the same result again while nothing about it is new; neither it nor a request ever changes.
        """
        believed = self._believed.get(id(request))
        if believed is not None and believed[1] is result and believed[0]() is request:
            return
        checked_step_result(self._step, request, result)
        if len(self._believed) >= _BELIEVED:
            self._believed.clear()
        self._believed[id(request)] = weakref.ref(request), result

    def profile(self) -> tuple[str, Sequence[KernelTime]]:
        """The name of the device that the next execution would use, and the times of its kernels.

        Raises:
            Error: it cannot be prepared again, or its run failed.
        """
        prepared = self._usable()
        if prepared is None:
            return cpu_device().name, self._cpu_model().profile()
        return self._step.device.name, prepared.profile()

    def usable(self) -> PreparedModel | None:
        """The device's prepared model, if the next execution would use it; never waits."""
        with self._lock:
            return self._prepared if not self._failures else None

    def create_reusable_execution(self, request: Request) -> Callable[[Cancellation], None] | None:
        """What runs a request again that was run with success, where its device can save time by that.

        An error that it raises was not noted: `execute` has to be called for that.
        """
        return reusable_execution(self.usable(), request)

    def failed(self, error: Error, prepared: PreparedModel, *, has_limit: bool) -> bool:
        """Notes that an execution on `prepared`, which `usable` gave, failed; whether the CPU stands in.

        Args:
            error: that it failed with.
            prepared: what failed.
            has_limit: whether the application has limited its time, so that being late is no failure.
        """
        self._failed(error, prepared)
        return self._falls_back(error, has_limit=has_limit)

    def _usable(self) -> PreparedModel | None:
        """What to execute on, None for the CPU."""
        working = self._prepared
        if working is not None and not self._failures:
            return working
        with self._lock:
            prepared = self._prepared
            is_due = time.monotonic() >= self._retry_at
            if prepared is not None and (is_due or not self._may_fall_back):
                return prepared
            in_background = self._may_fall_back and is_due and not self._is_preparing
            self._is_preparing |= in_background
        if in_background:
            self._prepare_in_background()
        return None if self._may_fall_back else self._prepare()

    def _prepare(self) -> PreparedModel:
        """Prepares it on its device once more."""
        prepared = self._preparer.prepare(self._step.device, self._step.model).prepared_model
        with self._lock:
            if self._prepared is None:
                self._prepared = prepared
                self._retry_at = 0.0
            return self._prepared

    def _prepare_in_background(self) -> None:
        try:
            threading.Thread(target=self._prepare_quietly, name="neurald recovery", daemon=True).start()
        except RuntimeError as error:
            logger.warning("%s is not prepared again yet: %s", self._step.device.name, error)
            with self._lock:
                self._is_preparing = False

    def _prepare_quietly(self) -> None:
        try:
            self._prepare()
        except Error as error:
            with self._lock:
                self._note(error)
        finally:
            with self._lock:
                self._is_preparing = False

    def _cpu_model(self) -> PreparedModel:
        with self._lock:
            if self._on_cpu is None:
                self._on_cpu = self._preparer.prepare(cpu_device(), self._step.model).prepared_model
            return self._on_cpu

    def _falls_back(self, error: Error, *, has_limit: bool) -> bool:
        if not self._may_fall_back or isinstance(error, Cancelled):
            return False
        is_late = isinstance(error, MissedDeadlineTransient | MissedDeadlinePersistent)
        return not (is_late and has_limit)

    def _failed(self, error: Error, prepared: PreparedModel) -> None:
        with self._lock:
            if isinstance(error, DeadObject) and self._prepared is prepared:
                self._prepared = None
            if not isinstance(error, Cancelled | MissedDeadlineTransient | MissedDeadlinePersistent):
                self._note(error)

    def _absolve(self, error: Error) -> None:
        """Forgets a failure that the CPU device confirms: it is not the device's but the request's."""
        with self._lock:
            if self._prepared is not None and self._code is error.code:
                self._failures = 0
                self._retry_at = 0.0

    def _note(self, error: Error) -> None:
        if self._failures and time.monotonic() < self._retry_at:
            return  # of an execution that ran beside the one that the pause is for: that is no failure in a row
        self._failures += 1
        self._failed_in_all += 1
        self._reason = str(error)
        self._code = error.code
        if isinstance(error, Unreachable):
            policy = UNREACHABLE
        else:
            policy = DEAD if isinstance(error, DeadObject) else FAILING
        self._retry_at = time.monotonic() + policy.pause_s(self._failures)

    def _worked(self) -> None:
        if self._failures:
            with self._lock:
                self._failures = 0
                self._retry_at = 0.0

    def failure(self, number: int) -> StepFailure | None:
        """The failures of the device so far, also where it works again; None where there was none.

        Args:
            number: of the step.
        """
        with self._lock:
            if not self._failed_in_all:
                return None
            return StepFailure(
                step=number,
                device=self._step.device.name,
                failures=self._failed_in_all,
                reason=self._reason,
            )

    def fallback(self, number: int) -> Fallback | None:
        """How it stands with the step, whose number is given; None where its device works or nothing stands in for it."""
        with self._lock:
            if not self._failures or not self._may_fall_back:
                return None
            return Fallback(
                step=number,
                device=self._step.device.name,
                failures=self._failures,
                reason=self._reason,
                retry_in_s=max(0.0, self._retry_at - time.monotonic()),
            )

    def count_substitution(self, reason: str = "") -> None:
        """Counts one execution that the CPU device ran in place of the step's own device.

        Args:
            reason: why, if no failure of the device itself was noted before.
        """
        if self._step.device is cpu_device():
            return
        with self._lock:
            self._substituted += 1
            self._reason = self._reason or reason

    def substitution(self, number: int) -> Substitution | None:
        """The executions that the CPU device ran in place of the step's device; None if there are none.

        Args:
            number: position of the step in the plan.
        """
        with self._lock:
            if not self._substituted:
                return None
            return Substitution(
                step=number,
                device=self._step.device.name,
                executions=self._substituted,
                reason=self._reason,
            )


def _abandon(request: Request) -> None:
    """Marks memory that a device which failed may still write to, so that nobody uses it for anything else."""
    for pool in request.pools:
        if isinstance(pool, SharedMemory):
            pool.is_abandoned = True


class WholeModelFallback:
    """Android's second stage: the whole model on the CPU, prepared when it is first needed and then kept.

    Args:
        model: of the compilation.
        preparer: prepares it.
    """

    def __init__(self, model: Model, preparer: Preparer) -> None:
        self._model = model
        self._preparer = preparer
        self._lock = forkable_lock()
        self._prepared: PreparedModel | None = None

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs the whole model on the CPU.

        Raises:
            Error: that failed too.
        """
        with self._lock:
            if self._prepared is None:
                self._prepared = self._preparer.prepare(cpu_device(), self._model).prepared_model
        result = execute_on_host(self._prepared, self._model.main, request, options)
        return replace(result, timing=Timing())


class Recovery:
    """The recovering steps of one compilation.

    Args:
        model: of the compilation.
        steps: of its plan.
        preparer: prepares steps again.
        may_fall_back: whether the CPU may stand in for devices.
    """

    def __init__(
        self, model: Model, steps: Sequence[ExecutionStep], preparer: Preparer, *, may_fall_back: bool
    ) -> None:
        self._steps = {
            id(step): RecoveringStep(step, preparer, may_fall_back=may_fall_back) for step in steps
        }
        has_other_device = any(step.device is not cpu_device() for step in steps)
        #: For executions that fail although their steps could fall back; None where that may not be, or is no help.
        self._whole_model = (
            WholeModelFallback(model, preparer)
            if may_fall_back
            and has_other_device
            and len(steps) > 1
            and not refused_operations(model, cpu_device())
            else None
        )

    def step(self, step: ExecutionStep) -> RecoveringStep:
        """The state of one of the plan's steps."""
        return self._steps[id(step)]

    def run(self, step: ExecutionStep, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Runs a step; see `RecoveringStep.execute`."""
        return self._steps[id(step)].execute(request, options)

    def run_whole_model(self, request: Request, options: ExecuteOptions, cause: Error) -> ExecutionResult:
        """Runs the whole model on the CPU after a step failed everywhere it may run.

        Args:
            request: of the whole model.
            options: for the execution.
            cause: the error of the step.

        Raises:
            Error: the CPU failed too, or may not stand in; then it is `cause`.
        """
        if self._whole_model is None:
            raise cause
        result = self._whole_model.execute(request, options)
        for state in self._steps.values():
            state.count_substitution(str(cause))
        return result

    @property
    def substitutions(self) -> tuple[Substitution, ...]:
        """The executions so far that did not run on the devices that the plan names, step by step."""
        states = (state.substitution(number) for number, state in enumerate(self._steps.values()))
        return tuple(state for state in states if state is not None)

    @property
    def failures(self) -> tuple[StepFailure, ...]:
        """The steps whose devices have failed since they were prepared."""
        states = (state.failure(number) for number, state in enumerate(self._steps.values()))
        return tuple(state for state in states if state is not None)

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The steps that do not run on their devices now."""
        states = (state.fallback(number) for number, state in enumerate(self._steps.values()))
        return tuple(state for state in states if state is not None)
