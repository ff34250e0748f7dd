"""Makes sure that a plan is not slower than one device alone, by runs of both.

While the plan runs, its rivals prepare the whole model in the background: the CPU device, and the
other device that is predicted to be the best one alone, unless that is much worse. Then the runs of
all take turns, as `neurald.runtime.execution.trials.comparison` decides, on the inputs of the
application. The results of all runs are right, so the application only notices the time. If a rival
wins, the compilation changes over between two calls; the decision is kept for other processes.

A rival must never harm: one that fails is left out, and the plan runs in its place. The first runs
of devices other than the CPU device may take very long, so that they are made in the background, on
copies of the inputs of the first run: drivers may not be ready for arbitrary ones.
"""

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import Error
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.process.fork import forkable_lock
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.wording import three_digits
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.lanes import lane
from neurald.runtime.execution.program.executor import PlanExecutor, SimpleExecutor
from neurald.runtime.execution.program.step_runner import STOPPED, Runner, run_step
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.execution.trials.comparison import PLAN, Comparison, Expectation
from neurald.runtime.execution.trials.plan_guard import Rival
from neurald.runtime.execution.verification.captured_run import CapturedRun, copied_inputs
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.groups import StepGroup
from neurald.runtime.plan.kept_decisions import Decision, keep_decision
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.planner import make_plan
from neurald.runtime.plan.planning_result import PlanningResult
from neurald.runtime.plan.preparer import Preparer

if TYPE_CHECKING:
    from neurald.hal.execution.background_worker import SubmittedWork

#: After so many runs that cannot be compared the plan stays: a trial keeps the fastest ways of
#: calling from being used.
_MAX_UNFAIR_RUNS: Final = 1000
#: A rival must be likely to end an execution with a time limit in this part of the time that is
#: left.
_MARGIN: Final = 2.0
#: How long to wait for rivals after the first run. Those that are late are left out.
_MAX_PREPARE_S: Final = 20.0
#: How often a device runs the model in the background before its runs count.
_WARM_UPS: Final = 2


class TrialOutcome(Struct, frozen=True, kw_only=True, eq=False):
    """The decision of a trial.

    Attributes:
        reason: the reason with the times.
        winner: runs the whole model from now on; None if the plan stays.
        planned: the plan of the winner.
    """

    reason: str
    winner: Rival | None = None
    planned: PlanningResult | None = None


class _Call(threading.local):
    """The call of the application that a thread is in.

    Attributes:
        is_on: whether there is one.
        run: what has run in it, and how long it took.
    """

    is_on = False
    run: tuple[int, float] | None = None


class _Ready(Struct, frozen=True, kw_only=True, eq=False):
    """A rival that has prepared the whole model."""

    planned: PlanningResult
    step: ExecutionStep
    executor: PlanExecutor


class PlanTrial:
    """The trial of one compilation; an executor while it lasts. Thread-safe.

    Args:
        model: the whole model.
        plan: runs the plan.
        recovery: the recovery of the compilation.
        preparer: prepares the model for the rivals.
        key: the key to keep the decision under; empty if it is not kept.
        rivals: the rivals of the plan, one at least.
        when_decided: returns what is called once, by the run after which it is decided; None if
            no caller waits for it any more.

    Attributes:
        contestants: names the plan and its rivals.
    """

    def __init__(
        self,
        model: Model,
        plan: PlanExecutor,
        recovery: Recovery,
        preparer: Preparer,
        key: str,
        rivals: Sequence[Rival],
        when_decided: Callable[[], Callable[[TrialOutcome], None] | None],
    ) -> None:
        self.contestants = ("the plan", *[rival.name for rival in rivals])
        self._model = model
        self._plan = plan
        self._recovery = recovery
        self._preparer = preparer
        self._key = key
        self._rivals = dict(enumerate(rivals, start=PLAN + 1))
        self._when_decided = when_decided
        self._comparison = Comparison(
            [Expectation(name=rival.name, seconds=rival.predicted_s) for rival in rivals]
        )
        self._lock = forkable_lock()
        self._running = 0
        self._unfair = 0
        #: The end of the wait for rivals; None before they begin to prepare.
        self._end_s: float | None = None
        #: What the rivals prepare.
        self._works: list[SubmittedWork] = []
        self._ready: dict[int, _Ready] = {}
        self._inputs: CapturedRun | None = None
        #: How many rivals run in the background.
        self._warming = 0
        self._is_told = False
        self._call = _Call()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Surrounds a call whose whole time counts if the plan runs in it.

        A plan of several steps needs Python around each of its runs. A model that one device runs
        as a whole is then called in a shorter way, so that only its execution counts.
        """
        call = self._call
        call.is_on, call.run = True, None
        self._give_way(None)
        started = time.perf_counter()
        try:
            yield
        finally:
            call.is_on = False
        if call.run is not None:
            number, seconds = call.run
            self._add(number, time.perf_counter() - started if number == PLAN else seconds)

    def execute(
        self, request: Request, options: ExecuteOptions, *, runner: Runner = run_step
    ) -> ExecutionResult:
        """See `PlanExecutor.execute`. Runs the plan, or the whole model on a rival."""
        if not self._call.is_on:
            self._give_way(options.deadline_s)
        if any(isinstance(pool, DeviceBuffer) for pool in request.pools):
            return self._plan.execute(request, options, runner=runner)
        with self._lock:
            is_fair = not self._running and not self._is_warming and not self._recovery.is_disturbed
            number = self._comparison.next_one if is_fair and self._has_begun() else PLAN
            if number != PLAN and not self._fits(number, options):
                number, is_fair = PLAN, False
            ready = self._ready.get(number)
            self._running += 1
            captures = self._end_s is None and self._inputs is None
        if captures:
            self._capture(request)
        try:
            started = time.perf_counter()
            if ready is None:
                result = self._plan.execute(request, options, runner=runner)
            else:
                try:
                    result = ready.executor.execute(request, options, runner=runner)
                except STOPPED:
                    raise
                except Error as error:
                    self._leave_out(number, f"it failed: {error}")
                    return self._plan.execute(request, options, runner=runner)
            seconds = time.perf_counter() - started
        finally:
            with self._lock:
                self._running -= 1
        if ready is not None and self._recovery.step(ready.step).is_disturbed:
            self._leave_out(number, "it failed, or has become slow")
            return result
        # A run beside others, or one in which a device failed or ran a first tier, tells nothing.
        is_disturbed = self._recovery.is_disturbed
        if is_fair and not is_disturbed and result.is_sufficient:
            if self._call.is_on:
                self._call.run = number, seconds
            else:
                self._add(number, seconds)
        elif not is_disturbed and not self._is_warming:
            self._unfair += 1
            if self._unfair >= _MAX_UNFAIR_RUNS:
                reason = "were beside others or had no time for another device"
                self.stop(f"{self._unfair} runs {reason}, so that nothing can be compared")
        return result

    def _give_way(self, deadline_s: float | None) -> None:
        """Lets rivals that prepare the model use the interpreter, before a time is measured."""
        for work in self._works:
            if work.give_way(deadline_s):
                return

    def stop(self, reason: str) -> None:
        """Ends the trial, so that the plan stays."""
        with self._lock:
            if self._comparison.winner is not None:
                return
            self._comparison.winner, self._comparison.reason = PLAN, reason
            self._key = ""
        self._tell()

    def _fits(self, number: int, options: ExecuteOptions) -> bool:
        """Returns whether a rival makes no execution late that the plan would end in time."""
        if options.deadline_s is None:
            return True
        left_s = options.deadline_s - time.monotonic()
        plan_s, rival_s = self._comparison.likely_s(PLAN), self._comparison.likely_s(number)
        return (rival_s is not None and _MARGIN * rival_s < left_s) or (
            plan_s is not None and plan_s > left_s
        )

    @property
    def _is_warming(self) -> bool:
        """True while a rival runs in the background; one that hangs is not waited for."""
        return bool(self._warming) and self._end_s is not None and time.monotonic() < self._end_s

    def _capture(self, request: Request) -> None:
        """Keeps copies of the inputs, if a device is to run them in the background."""
        if all(rival.is_cpu for rival in self._rivals.values()):
            return
        try:
            copies = copied_inputs(self._model, request)
        except Error:
            return  # the plan will tell
        if copies is not None:
            self._inputs = CapturedRun.of(self._model, request.inputs, copies)

    def _has_begun(self) -> bool:
        """Returns whether all rivals that are left are prepared, or not waited for any longer."""
        if self._end_s is None:
            return False
        waiting = [n for n in self._rivals if n not in self._ready and self._comparison.is_left(n)]
        if waiting and time.monotonic() < self._end_s:
            return False
        for number in waiting:
            self._key = ""
            reason = f"{self._rivals[number].name} was not ready after {three_digits(_MAX_PREPARE_S)} s"
            self._comparison.drop(number, reason)
        return True

    def _leave_out(self, number: int, reason: str) -> None:
        """Leaves out a rival that does not work, so that later processes try it again."""
        with self._lock:
            self._key = ""
            self._comparison.drop(number, f"{self._rivals[number].name}: {reason}")
        self._tell()

    def _tell(self) -> None:
        """Keeps the decision and tells it, once there is one."""
        with self._lock:
            winner, reason = self._comparison.winner, self._comparison.reason
            if winner is None or self._is_told:
                return
            self._is_told = True
        rival, ready = self._rivals.get(winner), self._ready.get(winner)
        if self._key:
            keep_decision(
                self._key, Decision(winner="" if rival is None else rival.device.name, reason=reason)
            )
        callback = self._when_decided()
        if callback is not None:
            planned = None if ready is None else ready.planned
            callback(TrialOutcome(reason=reason, winner=rival, planned=planned))

    def _add(self, number: int, seconds: float) -> None:
        with self._lock:
            self._comparison.add(number, seconds)
            begins = self._comparison.winner is None and self._end_s is None
            if begins:
                self._end_s = time.monotonic() + _MAX_PREPARE_S
        if begins:
            for each, rival in self._rivals.items():
                if not self._comparison.is_left(each):
                    continue
                name, work = f"trials on {rival.device.name}", partial(_prepare, weakref.ref(self), each)
                submitted = lane(name).submit(work)
                if submitted is None:
                    self.stop("the process is about to exit")
                    return
                self._works.append(submitted)
        self._tell()

    def prepare(self, number: int, cancellation: Cancellation) -> None:
        """Makes a rival prepare the whole model."""
        device = self._rivals[number].device
        everything = StepGroup(
            graph=MAIN, device=0, operations=tuple(range(len(self._model.main.operations)))
        )
        preparer = self._preparer.in_background(cancellation)
        expected_s = None
        try:
            with convert_driver_faults(device.name):
                planned = make_plan(self._model, (everything,), (device,), preparer, may_fall_back=False)
                (step,) = planned.plan.steps
                if device is not cpu_device() and self._comparison.is_left(number):
                    expected_s = self._warm_up(step, cancellation)
        except Error as error:
            self._leave_out(number, f"it cannot run the whole model: {error}")
            return
        self._recovery.add(step)
        with self._lock:
            self._ready[number] = _Ready(planned=planned, step=step, executor=SimpleExecutor(step))
            if expected_s is not None:
                self._comparison.expect(number, expected_s)
        self._tell()

    def _warm_up(self, step: ExecutionStep, cancellation: Cancellation) -> float | None:
        """Runs a step several times; returns the last run's time, or None for unknown inputs."""
        inputs = self._inputs
        if inputs is None:
            return None
        options = ExecuteOptions(cancellation=cancellation, deadline_s=self._end_s)
        with self._lock:
            self._warming += 1
        try:
            for _ in range(_WARM_UPS):
                started_s = time.perf_counter()
                inputs.execute(step.prepared_model, options)
                seconds = time.perf_counter() - started_s
        finally:
            with self._lock:
                self._warming -= 1
        return seconds


def _prepare(reference: "weakref.ref[PlanTrial]", number: int, cancellation: Cancellation) -> None:
    trial = reference()
    if trial is not None:
        trial.prepare(number, cancellation)
