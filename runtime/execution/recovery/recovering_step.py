"""Handles devices that fail at run time: their steps run on the CPU until the device is retried.

This extends Android's first stage of fallback, which has no memory of failures. A step whose device
failed stays prepared on the CPU, so that the next failure costs no compilation; the first one gets
code that is ready at once, until better code was compiled in the background. The device is retried
after a pause that doubles with every consecutive failure. If its driver died, the prepared model is
lost, and the step is prepared again (`device_model`): in the background if the CPU can take over,
otherwise by the execution that needs it.

With an explicit list of devices the CPU does not take over. The device's error is raised to the
caller, and a step whose driver died is prepared again.
"""

import logging
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import force_setattr

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.device import Device, ExecuteOptions, ExecutionResult, KernelTime, PreparedModel, Timing
from neurald.hal.errors import (
    Cancelled,
    DeadObject,
    Error,
    LostValue,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    OpFailed,
    Withdrawn,
)
from neurald.hal.execution.direct_calls import (
    ArrayFunction,
    ShortExecution,
    array_function,
    open_function,
    short_execution,
)
from neurald.hal.execution.native_serving import NativeCall, native_call
from neurald.hal.execution.reusable import ReusableExecution, reusable_execution
from neurald.hal.extension_support import refused_operations
from neurald.hal.memory.pool import Memory
from neurald.hal.model.request import Request
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.abandoned_memory import mark_abandoned
from neurald.runtime.execution.measurement.receipt import noted_call
from neurald.runtime.execution.program.step_runner import checked_step_result
from neurald.runtime.execution.recovery.checked_results import CheckedResults
from neurald.runtime.execution.recovery.cpu_runs import run_on_cpu
from neurald.runtime.execution.recovery.device_calls import DeviceCalls
from neurald.runtime.execution.recovery.device_model import DeviceModel
from neurald.runtime.execution.recovery.drift import DriftWatch, may_be_watched
from neurald.runtime.execution.recovery.fallback import Fallback, Substitution
from neurald.runtime.execution.recovery.fast_paths import FastPaths
from neurald.runtime.execution.recovery.first_tier_runs import FirstTierRuns
from neurald.runtime.execution.recovery.slow_device import SlowDevice
from neurald.runtime.execution.recovery.stand_in import StandIn
from neurald.runtime.execution.recovery.step_health import StepHealth
from neurald.runtime.execution.recovery.successor import Successor
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.prepared_step import PreparationReport, PreparedStep
from neurald.runtime.plan.preparer import Preparer
from neurald.runtime.plan.report import Move, StepFailure

if TYPE_CHECKING:
    from neurald.runtime.execution.recovery.device_turns import DeviceTurns
    from neurald.runtime.execution.verification.step_verification import StepVerification, VerificationStatus

logger = logging.getLogger(__name__)

_Options = TypeVar("_Options")
_Outcome = TypeVar("_Outcome")
_NOTHING: Final[AbstractContextManager[None]] = nullcontext()


class RecoveringStep:
    """A step and the health of its device. Thread-safe.

    Args:
        step: the step with a prepared model.
        preparer: prepares it again.
        may_fall_back: whether the CPU may take over from the device.
        watches_drift: whether the CPU takes over from a device that has become slow.
        verified_share: share of the time for verification by the CPU; 0 for none. If it finds the
            device wrong it takes over, whether or not it may after a failure.

    Attributes:
        stand_in: what the CPU runs in place of the device.
    """

    def __init__(
        self,
        step: ExecutionStep,
        preparer: Preparer,
        *,
        may_fall_back: bool,
        watches_drift: bool = False,
        verified_share: float = 0.0,
    ) -> None:
        self._step = step
        self._preparer = preparer
        # The CPU device does not implement operations of vendor extensions.
        is_on_both = step.device is not cpu_device() and not refused_operations(step.model, cpu_device())
        self._may_fall_back = may_fall_back and is_on_both
        self._lock = forkable_lock()
        self._results = CheckedResults(step)
        self._first: FirstTierRuns | None = None
        if step.is_first_tier:
            self._first = FirstTierRuns(step, step.prepared_model, self._results)
        self._report: PreparationReport | None = None
        self.stand_in = StandIn(step, preparer)
        self._successor = Successor()
        self._health = StepHealth(step.device.name)
        self._on_device = DeviceModel(step, preparer, self._health)
        #: The turns of executions with a time limit, by name of a device in this process.
        self._turns: dict[str, DeviceTurns] = {}
        is_watched = watches_drift and self._may_fall_back and may_be_watched(step.model)
        drift = DriftWatch(step.device.name) if is_watched else None
        self._slow_device = None if drift is None else SlowDevice(drift, self._health, self.stand_in)
        self._verification = self._create_verification(verified_share) if is_on_both else None
        watching = self._health, self._slow_device, self._verification
        self._calls = DeviceCalls(step, self._results, *watching)
        self._fast_paths = FastPaths(step.device.name, *watching)

    def _create_verification(self, share: float) -> "StepVerification | None":
        """Creates the verification of the step, unless nothing is to be or can be verified."""
        if not share:
            return None
        from neurald.runtime.execution.verification.step_verification import verification_of  # slow to import

        stand_in = weakref.ref(self.stand_in)

        def cpu_model() -> PreparedModel:
            found = stand_in()
            if found is None:
                raise OpFailed("the compilation is gone")
            return found.optimized()

        health = self._health
        return verification_of(self._step, share, cpu_model, self._preparer, health.record_wrong)

    def execute(
        self,
        request: Request,
        options: ExecuteOptions,
        call: Callable[[PreparedModel, Request], ExecutionResult] | None = None,
    ) -> ExecutionResult:
        """Runs the step on its device, or on the CPU if the device fails and that is allowed.

        Args:
            request: the request for the step's model.
            options: the options for the execution.
            call: the function that executes the device's prepared model, given that and the
                request; None for `PreparedModel.execute`.

        Raises:
            OpFailed: the device's result contradicts the model or the request.
            Error: the device failed, and the CPU may not take over or failed too.
        """
        first = self._first
        if first is not None:
            return self._execute_first(first, request, options)
        if self._is_refuted:
            return self._execute_on_cpu(request, options)
        if not self._may_fall_back:
            with self._turn(self._step.device, options):
                return self._execute_without_fallback(request, options, call)
        prepared = self._on_device.usable_or_begin()
        if prepared is not None:
            with self._turn(self._step.device, options):
                result = self._execute_or_fall_back(prepared, request, options, call)
            if result is not None:
                return result
        return self._execute_on_cpu(request, options)

    def _execute_first(
        self, first: FirstTierRuns, request: Request, options: ExecuteOptions
    ) -> ExecutionResult:
        """Executes the step on its first tier."""
        with self._turn(cpu_device(), options):
            result = first.execute(request, options)
        if not first.reason:
            return result
        self.count_substitution(first.reason)
        # The timing is dropped, since it belongs to another device than the planned one.
        return replace(result, timing=Timing())

    def _turn(self, device: Device, options: ExecuteOptions) -> AbstractContextManager[None]:
        """Returns a context manager that waits for the turn of an execution that has a time limit.

        Entering it raises the errors of `AdmissionQueue.acquire`.
        """
        if options.deadline_s is None or device.is_remote:
            return _NOTHING
        turns = self._turns.get(device.name)
        if turns is None:
            from neurald.runtime.execution.recovery.device_turns import DeviceTurns  # rarely needed

            turns = self._turns.setdefault(device.name, DeviceTurns(device, self._preparer.priority))
        return turns.turn(options) if turns.is_needed(options.deadline_s) else _NOTHING

    def _execute_or_fall_back(
        self,
        prepared: PreparedModel,
        request: Request,
        options: ExecuteOptions,
        call: Callable[[PreparedModel, Request], ExecutionResult] | None,
    ) -> ExecutionResult | None:
        """Runs the step on its device; returns None if that failed and the CPU takes over.

        Args:
            prepared: the prepared model of the device.
            request, options, call: see `execute`.

        Raises:
            Error: the device failed, and the CPU may not take over from this error.
        """
        try:
            result = self._calls.execute(prepared, request, options, call)
        except LostValue:
            raise
        except Error as error:
            mark_abandoned(request)
            self._failed(error, prepared)
            if not self._falls_back(error, has_limit=options.deadline_s is not None):
                raise
            device = self._step.device.name
            text, cause = "%s failed; the CPU runs its step: %s", error.with_traceback(None)
            note_event(CountedEvent.FALLBACK, device, logger.warning, text, device, cause)
            return None
        self._record_success()
        return result

    def _execute_on_cpu(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Executes the step on the CPU in place of its device."""
        try:
            cpu = self.stand_in.at_once(options.deadline_s)
            with (
                self._turn(cpu_device(), options),
                noted_call(self._step, cpu_device(), reason=self._health.reason),
            ):
                started = time.perf_counter()
                result = run_on_cpu(cpu, self._step.model.main, request, options)
            checked_step_result(self._step, request, result)
        except LostValue:
            raise
        except Error as error:
            if self._on_device.prepared is not None:
                self._health.clear(error)
            raise
        if self._slow_device is not None:
            self._slow_device.stood_in(time.perf_counter() - started)
        self.count_substitution()
        # See `_execute_first`.
        return replace(result, timing=Timing())

    def call_on_first_tier(self, callback: Callable[[float | None], None]) -> None:
        """Sets what is called whenever the first tier is used; see `FirstTierRuns.call_on_run`."""
        first = self._first
        if first is not None:
            first.call_on_run(callback)

    def replace_first_tier(self, prepared: PreparedStep) -> None:
        """Replaces the first tier by what the device has compiled.

        Executions that run are not affected.
        """
        with self._lock:
            first = self._first
            if first is not None:
                self._on_device.set(prepared.prepared_model)
                self._report = prepared.report
                self._health.forget()
                self._first = None
                self._forget_first_tier(prepared)
                first.close()

    def improve_first_tier(self, prepared: PreparedStep) -> None:
        """Replaces the first tier by what the CPU device has compiled, until its own device has."""
        with self._lock:
            if self._first is not None:
                self._first.prepared = prepared.prepared_model
                self._forget_first_tier(prepared)

    def _forget_first_tier(self, prepared: PreparedStep) -> None:
        """Releases the first tier, whose constants take as much memory as its successor's."""
        force_setattr(self._step, "prepared_model", prepared.prepared_model)

    @property
    def has_first_tier(self) -> bool:
        """True if the first tier runs."""
        return self._first is not None

    @property
    def is_disturbed(self) -> bool:
        """True if its device does not run it now, so that times say nothing about the device."""
        return self._first is not None or self._health.failures > 0

    @property
    def report(self) -> PreparationReport | None:
        """Tells how the device obtained what replaced the first tier; None if nothing did."""
        return self._report

    def _execute_without_fallback(
        self,
        request: Request,
        options: ExecuteOptions,
        call: Callable[[PreparedModel, Request], ExecutionResult] | None,
    ) -> ExecutionResult:
        """Runs the step on its device, or if that is stopped before it begins, on its successor.

        Args:
            request, options, call: see `execute`.

        Raises:
            Withdrawn: the driver was stopped, and has no successor.
            Error: the device failed.
        """
        withdrawals = 0
        while True:
            prepared = None
            try:
                prepared = self._on_device.wait(options)
                result = self._calls.execute(prepared, request, options, call)
            except LostValue:
                raise
            except Error as error:
                if prepared is not None:
                    mark_abandoned(request)
                    self._failed(error, prepared)
                withdrawals = self._successor.wait_after(error, withdrawals)
            else:
                self._record_success()
                return result

    def note_time(self, seconds: float) -> None:
        """Notes the time of a run by a function on arrays, which refines costs.

        Times of the first tier say nothing about the device.
        """
        if self._first is None:
            self._calls.times.add(seconds)

    @property
    def _is_refuted(self) -> bool:
        """True if the device was found to compute wrong values."""
        return self._verification is not None and self._verification.is_refuted

    def ran(self) -> None:
        """Notes an execution that the device began by itself, and whose time is not known."""
        if self._verification is not None:
            self._verification.ran(None)

    def watched(self, run: Callable[[_Options], _Outcome] | None) -> Callable[[_Options], _Outcome] | None:
        """Returns a fast path that notes its times, and fails while it must not be used."""
        return self._fast_paths.repeating(run)

    def profile(self) -> tuple[str, Sequence[KernelTime]]:
        """Returns the name of the device that runs the step now, and its kernel times.

        Raises:
            Error: the step cannot be prepared again, or the profiling run failed.
        """
        first = self._first
        if first is not None:
            return cpu_device().name, first.prepared.profile()
        on_device, prepared = self._on_device, None
        if not self._is_refuted:
            prepared = on_device.usable_or_begin() if self._may_fall_back else on_device.wait(None)
        if prepared is None:
            return cpu_device().name, self.stand_in.optimized().profile()
        return self._step.device.name, prepared.profile()

    def usable(self) -> PreparedModel | None:
        """Returns the device's prepared model if the next execution would use it, otherwise None.

        Does not prepare anything.
        """
        verification = self._verification
        if verification is not None and verification.closes_fast_paths():
            return None
        return self._on_device.usable()

    def create_reusable_execution(self, request: Request) -> ReusableExecution | None:
        """Returns a function that repeats a successful request on the device's fast path.

        Returns:
            The function, or None if the device has no fast path. Its errors are not recorded; the
                caller calls `execute` after one.
        """
        first = self._first
        if first is not None:
            return None if first.paths is None else first.paths.repeating(request)
        return self._fast_paths.repeating(reusable_execution(self.usable(), request))

    def create_short_execution(self, request: Request) -> ShortExecution | None:
        """Returns a function that repeats a successful request as a short one.

        See `CallsDirectly.create_short_execution`.
        """
        first = self._first
        if first is not None:
            return None if first.paths is None else first.paths.short(request)
        return self._fast_paths.short(short_execution(self.usable(), request))

    def create_native_call(self, request: Request) -> NativeCall | None:
        """Returns what native code runs to repeat a successful request without noting times."""
        return None if self._fast_paths.are_watched else native_call(self.usable(), request)

    def create_array_function(
        self, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """Returns a function of the device that runs the step on arrays.

        See `CallsDirectly.create_array_function`.
        """
        first = self._first
        if first is not None:
            return None if first.paths is None else first.paths.on_arrays(shapes, variables)
        return self._fast_paths.on_arrays(array_function(self.usable(), shapes, variables))

    def create_open_function(self) -> ArrayFunction | None:
        """Returns a function of the device that runs the step on arrays of any shapes.

        See `RunsAnyShapes.create_open_function`.
        """
        if self._first is not None:
            return None
        return self._fast_paths.on_arrays(open_function(self.usable()))

    def failed(self, error: Error, prepared: PreparedModel, *, has_limit: bool) -> bool:
        """Records that an execution on a prepared model returned by `usable` failed.

        Args:
            error: the error that it raised.
            prepared: the prepared model.
            has_limit: True if the application set a time limit, so that a missed deadline is not a
                failure of the device.

        Returns:
            True if `execute` can run it: on the CPU, or on the successor of a driver that was
                stopped.
        """
        self._failed(error, prepared)
        if isinstance(error, Withdrawn):
            self._successor.expect(error)
        return isinstance(error, Withdrawn) or self._falls_back(error, has_limit=has_limit)

    def _falls_back(self, error: Error, *, has_limit: bool) -> bool:
        if not self._may_fall_back or isinstance(error, Cancelled):
            return False
        is_late = isinstance(error, MissedDeadlineTransient | MissedDeadlinePersistent)
        return not (is_late and has_limit)

    def _failed(self, error: Error, prepared: PreparedModel) -> None:
        if isinstance(error, DeadObject):
            self._on_device.lose(prepared)
        if not isinstance(error, Cancelled | MissedDeadlineTransient | MissedDeadlinePersistent):
            self._health.record(error)

    def _record_success(self) -> None:
        if self._health.failures and not (self._slow_device is not None and self._slow_device.is_slow):
            self._health.forget()

    def failure(self, number: int) -> StepFailure | None:
        """Returns the failures of the step's device so far; see `StepHealth.failure`."""
        return self._health.failure(number)

    def fallback(self, number: int) -> Fallback | None:
        """Returns the current fallback; None if the device works or the CPU may not take over."""
        return self._health.fallback(number) if self._may_fall_back or self._is_refuted else None

    def moves(self, number: int) -> tuple[Move, ...]:
        """Returns when the step moved to the CPU device and back; nothing without a fallback."""
        return self._health.moves(number) if self._may_fall_back or self._is_refuted else ()

    def get_ready_to_verify(self) -> None:
        """Waits until the CPU has prepared the step, if it verifies it."""
        if self._verification is not None:
            self._verification.get_ready()

    def wait_until_investigated(self, timeout_s: float | None) -> bool:
        """Waits until nothing is verified or investigated; returns False if that takes longer."""
        return self._verification is None or self._verification.wait(timeout_s)

    def verification(self, number: int) -> "VerificationStatus | None":
        """Returns what is verified of the step; None if nothing is.

        Args:
            number: position of the step in the plan.
        """
        return None if self._verification is None else self._verification.status(number)

    def count_substitution(self, reason: str = "") -> None:
        """Counts one execution that ran on the CPU device instead of the step's device.

        Args:
            reason: why, if no failure of the device itself was recorded.
        """
        if self._step.device is not cpu_device():
            self._health.count_substitution(reason)

    def substitution(self, number: int) -> Substitution | None:
        """Returns the executions that the CPU ran; see `StepHealth.substitution`."""
        return self._health.substitution(number)
