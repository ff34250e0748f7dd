"""Makes sure that a plan is not slower than the CPU device alone, by runs of both.

While the plan runs, the CPU device prepares the whole model in the background. Then runs of both
take turns, as `neurald.runtime.execution.trials.comparison` decides, on the inputs of the
application. The results of all runs are right, so the application only notices the time. If the CPU
device wins, the compilation changes over between two calls; the decision is kept for other
processes.
"""

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from msgspec import Struct

from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import Error
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.process.fork import forkable_lock
from neurald.hal.sync.cancellation import Cancellation
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.background.lanes import lane
from neurald.runtime.execution.program.executor import PlanExecutor, SimpleExecutor
from neurald.runtime.execution.program.step_runner import Runner, run_step
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.execution.trials.comparison import Comparison, Side
from neurald.runtime.plan.kept_decisions import Decision, keep_decision
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.prepared_step import PreparationReport
from neurald.runtime.plan.preparer import Preparer

#: After so many runs beside others the plan stays: a trial keeps the fastest ways of calling from
#: being used.
_MAX_UNFAIR_RUNS: Final = 1000


class TrialOutcome(Struct, frozen=True, kw_only=True, eq=False):
    """The decision of a trial.

    Attributes:
        reason: with the times.
        step: runs the whole model on the CPU device; None if the plan stays.
        report: how the step was prepared.
    """

    reason: str
    step: ExecutionStep | None = None
    report: PreparationReport | None = None


class _Call(threading.local):
    """The call of the application that a thread is in.

    Attributes:
        is_on: whether there is one.
        run: the side that has run in it, and how long it took.
    """

    is_on = False
    run: tuple[Side, float] | None = None


class CpuTrial:
    """The trial of one compilation; an executor while it lasts. Thread-safe.

    Args:
        model: the whole model.
        plan: runs the plan.
        recovery: of the compilation.
        preparer: prepares the model for the CPU device.
        key: to keep the decision under; empty if it is not kept.
        predicted_cpu_s: what the CPU device is predicted to take, if that is known.
        when_decided: returns what is called once, by the run after which it is decided; None if
            nobody waits for it any more.
    """

    def __init__(
        self,
        model: Model,
        plan: PlanExecutor,
        recovery: Recovery,
        preparer: Preparer,
        key: str,
        predicted_cpu_s: float | None,
        when_decided: Callable[[], Callable[[TrialOutcome], None] | None],
    ) -> None:
        self._model = model
        self._plan = plan
        self._recovery = recovery
        self._preparer = preparer
        self._key = key
        self._when_decided = when_decided
        self._comparison = Comparison(predicted_cpu_s)
        self._lock = forkable_lock()
        self._running = 0
        self._unfair = 0
        self._is_preparing = False
        self._step: ExecutionStep | None = None
        self._report: PreparationReport | None = None
        self._cpu: SimpleExecutor | None = None
        self._call = _Call()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Surrounds a call whose whole time counts if the plan runs in it.

        A plan of several steps needs Python around each of its runs. A model that the CPU device
        runs as a whole is then called in a shorter way, so that only its execution counts.
        """
        call = self._call
        call.is_on, call.run = True, None
        started = time.perf_counter()
        try:
            yield
        finally:
            call.is_on = False
        if call.run is not None:
            side, seconds = call.run
            self._add(side, time.perf_counter() - started if side is Side.PLAN else seconds)

    def execute(
        self, request: Request, options: ExecuteOptions, *, runner: Runner = run_step
    ) -> ExecutionResult:
        """See `PlanExecutor.execute`. Runs the plan, or the whole model on the CPU device."""
        if any(isinstance(pool, DeviceBuffer) for pool in request.pools):
            return self._plan.execute(request, options, runner=runner)
        with self._lock:
            cpu = self._cpu
            is_fair = not self._running and not self._recovery.is_disturbed
            side = self._comparison.next_side if cpu is not None and is_fair else Side.PLAN
            self._running += 1
        executor = cpu if side is Side.CPU and cpu is not None else self._plan
        started = time.perf_counter()
        try:
            result = executor.execute(request, options, runner=runner)
        finally:
            seconds = time.perf_counter() - started
            with self._lock:
                self._running -= 1
        # A run beside others, or one in which a device failed or ran a first tier, tells nothing.
        if is_fair and not self._recovery.is_disturbed and result.is_sufficient:
            if self._call.is_on:
                self._call.run = side, seconds
            else:
                self._add(side, seconds)
        elif not self._recovery.is_disturbed:
            self._unfair += 1
            if self._unfair >= _MAX_UNFAIR_RUNS:
                self.stop(f"{self._unfair} runs were beside others, so that their times tell nothing")
        return result

    def stop(self, reason: str) -> None:
        """Ends the trial, so that the plan stays."""
        with self._lock:
            if self._comparison.winner is not None:
                return
            self._comparison.winner, self._comparison.reason = Side.PLAN, reason
        self._tell(TrialOutcome(reason=reason))

    def _tell(self, outcome: TrialOutcome) -> None:
        callback = self._when_decided()
        if callback is not None:
            callback(outcome)

    def _add(self, side: Side, seconds: float) -> None:
        with self._lock:
            if self._comparison.winner is not None:
                return
            self._comparison.add(side, seconds)
            winner, reason = self._comparison.winner, self._comparison.reason
            begins = winner is None and self._cpu is None and not self._is_preparing
            self._is_preparing |= begins
        if begins and lane("CPU trials").submit(partial(_prepare, weakref.ref(self))) is None:
            self.stop("the process is about to exit")
        if winner is None:
            return
        if self._key:
            keep_decision(self._key, Decision(is_cpu=winner is Side.CPU, reason=reason))
        if winner is Side.CPU:
            self._tell(TrialOutcome(reason=reason, step=self._step, report=self._report))
        else:
            self._tell(TrialOutcome(reason=reason))

    def prepare(self, cancellation: Cancellation) -> None:
        """Has the CPU device prepare the whole model."""
        try:
            preparer = self._preparer.in_background(cancellation)
            with convert_driver_faults(cpu_device().name):
                prepared = preparer.prepare(cpu_device(), self._model)
        except Error as error:
            self.stop(f"the CPU device cannot prepare the whole model: {error}")
            return
        graph = self._model.main
        step = ExecutionStep(
            device=cpu_device(),
            operations=graph.operation_numbers,
            model=self._model,
            prepared_model=prepared.prepared_model,
            inputs=graph.inputs,
            outputs=graph.outputs,
        )
        self._recovery.add(step)
        with self._lock:
            self._step, self._report = step, prepared.report
            self._cpu = SimpleExecutor(step)


def _prepare(reference: "weakref.ref[CpuTrial]", cancellation: Cancellation) -> None:
    trial = reference()
    if trial is not None:
        trial.prepare(cancellation)
