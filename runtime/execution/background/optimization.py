"""Prepares the steps that run a first tier, in the background, and replaces it.

The work is done in lanes, one for each device: a lane is a thread that does one piece after
another, for all compilations of the process. A piece refers to its compilation weakly. If the
compilation is freed, the piece is cancelled, unless later processes can use its result (see
`unfinished`); after a fork, the child begins again when it uses the compilation.

Where the device is another than the CPU device and takes long, the CPU device compiles the step,
too. Its code runs until the device is ready, and stays if the device fails.
"""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from neurald.hal.device import Device, PreparedModel
from neurald.hal.errors import Error
from neurald.hal.model.model import Model
from neurald.hal.process.fork import forkable_lock
from neurald.hal.process.threads.preparing import PREPARING
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.interpreter_turns import turns
from neurald.hal.sync.progress import progress_to
from neurald.hal.wording import described
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.background import unfinished
from neurald.runtime.execution.lanes import lane
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.execution.recovery.retry import tried_again
from neurald.runtime.plan.compiling import has_known_inputs
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.prepared_step import PreparedStep
from neurald.runtime.plan.preparer import Preparer
from neurald.runtime.plan.startup import Startup
from neurald.runtime.plan.status import CompilationStatus, StepStatus, StepTier

if TYPE_CHECKING:
    from neurald.hal.execution.background_worker import SubmittedWork

#: The work begins when the application has prepared no model for this time, in seconds, which it
#: has for the first calls; or after the longest time; or when the application waits for the result.
_FIRST_CALLS_S: Final = 0.05
_MAX_DELAY_S: Final = 1.0
#: Time after which the CPU device compiles a step that its own device still prepares.
_LONG_S: Final = 1.0


class _Urgency:
    """A signal for threads, which finalizers may give; an event has a lock that they may hold."""

    def __init__(self) -> None:
        self._given = threading.Lock()
        self._given.acquire()

    def tell(self) -> None:
        """Gives the signal."""
        with contextlib.suppress(RuntimeError):  # it is given
            self._given.release()

    def wait(self, timeout_s: float) -> bool:
        """Waits for the signal; returns whether it is given."""
        is_given = self._given.acquire(timeout=timeout_s)
        if is_given:
            self.tell()
        return is_given


class _Goal(Struct, frozen=True, kw_only=True):
    """The step that a piece of work has to prepare; it keeps no compilation alive.

    Attributes:
        first_tier: the first tier of the step, if executions bind it and it is of the step's own
            device.
        urgency: the signal that the work is no longer to wait for the first calls.
    """

    step: int
    steps: int
    device: Device
    model: Model
    preparer: Preparer
    first_tier: weakref.ref[PreparedModel] | None
    urgency: "_Urgency"


class _StepProgress:
    """The progress of one step; written by its lane."""

    def __init__(self) -> None:
        self.share = 0.0
        self.started_s = 0.0
        self.reason = ""

    def begin(self) -> None:
        """Notes that the device begins."""
        self.share, self.started_s = 0.0, time.monotonic()

    def reached(self, share: float) -> None:
        """Notes the progress, which never decreases."""
        self.share = max(self.share, share)

    @property
    def elapsed_s(self) -> float:
        """Time since the device began; 0 if it has not."""
        return time.monotonic() - self.started_s if self.started_s else 0.0


class Optimization:
    """The preparation of the optimised code of one compilation. Thread-safe.

    Args:
        startup: the startup of the compilation.
        steps: the steps of its plan.
        recovery: the state of the steps.
        preparer: prepares them.

    Attributes:
        startup, preparer: as given.
    """

    def __init__(
        self, startup: Startup, steps: Sequence[ExecutionStep], recovery: Recovery, preparer: Preparer
    ) -> None:
        self.startup = startup
        self._steps = tuple(steps)
        self._recovery = recovery
        self.preparer = preparer
        self._progress = [_StepProgress() for _ in self._steps]
        self._process = 0
        #: What has not ended yet, as far as runs have noticed.
        self._works: list[SubmittedWork] = []
        self._when_replaced: weakref.WeakMethod[Callable[[], None]] | None = None
        self._resuming = forkable_lock()
        # Created when the work begins, which is never where all code is in the cache.
        self._changed: threading.Condition
        self._urgency: _Urgency
        first = [step for step in self._steps if step.is_first_tier]
        if first:
            # For shapes that only executions know, there is nothing to compile before the first.
            if any(has_known_inputs(step.model) for step in first):
                self.resume()
            reference = weakref.ref(self)
            for step in first:
                recovery.step(step).call_on_first_tier(partial(_before_run, reference))

    def resume(self) -> None:
        """Begins the work, in a forked child again."""
        if self._process == os.getpid():
            return
        with self._resuming:
            if self._process == os.getpid():
                return
            self._changed = threading.Condition()
            self._urgency = _Urgency()
            self._works.clear()
            self._process = os.getpid()
        for number, step in enumerate(self._steps):
            if self._status(number).is_pending:
                self._submit(number, step)

    def _submit(self, number: int, step: ExecutionStep) -> None:
        goal = _Goal(
            step=number,
            steps=len(self._steps),
            device=step.device,
            model=step.model,
            preparer=self.preparer,
            first_tier=_bound_by_executions(step),
            urgency=self._urgency,
        )
        reference = weakref.ref(self)
        unfinished.begin(goal)
        submitted = self._enqueue(step.device.name, partial(_prepare, reference, goal))
        if submitted is not None:
            weakref.finalize(self, _free, goal, submitted).atexit = False
        else:
            self.end(number, "the process is about to exit")
        if step.device is not cpu_device():
            beside = self._enqueue(f"cpu beside {step.device.name}", partial(_improve, reference, goal))
            if beside is not None:
                weakref.finalize(self, beside.cancel).atexit = False

    def _enqueue(self, name: str, work: "partial[None]") -> "SubmittedWork | None":
        """Adds a piece of work to a lane; see `BackgroundWorker.submit`."""
        submitted = lane(name).submit(work)
        if submitted is not None:
            self._works.append(submitted)
        return submitted

    def call_when_replaced(self, callback: "weakref.WeakMethod[Callable[[], None]]") -> None:
        """Sets what is called after a first tier was replaced, unless its object is gone."""
        self._when_replaced = callback

    def begin(self, number: int) -> _StepProgress:
        """Notes that the device of a step begins, and returns what records its progress."""
        progress = self._progress[number]
        progress.begin()
        return progress

    def end(self, number: int, reason: str = "") -> None:
        """Notes that the work for a step has ended.

        Args:
            number: position of the step.
            reason: why the first tier stays; empty if it was replaced.
        """
        self._progress[number].reason = reason
        callback = None if reason or self._when_replaced is None else self._when_replaced()
        if callback is not None:
            callback()
        with self._changed:
            self._changed.notify_all()

    def give_way(self, deadline_s: float | None) -> None:
        """Lets the work use the interpreter before a run of a first tier.

        Args:
            deadline_s: see `InterpreterTurns.give_way`.
        """
        # All work of the process has the same turns.
        for work in tuple(self._works):
            if work.give_way(deadline_s):
                return
            with contextlib.suppress(ValueError):  # another thread has removed it
                self._works.remove(work)

    def step(self, number: int) -> ExecutionStep:
        """Returns a step of the plan."""
        return self._steps[number]

    @property
    def recovery(self) -> Recovery:
        """The state of the steps."""
        return self._recovery

    def _status(self, number: int) -> StepStatus:
        step, progress = self._steps[number], self._progress[number]
        # In this order, because the first tier is replaced before the reason is cleared.
        reason = progress.reason
        if not self._recovery.step(step).has_first_tier:
            return StepStatus(
                step=number, device=step.device.name, tier=StepTier.OPTIMIZED, runs_on=step.device.name
            )
        return StepStatus(
            step=number,
            device=step.device.name,
            tier=StepTier.FIRST,
            runs_on=cpu_device().name,
            progress=progress.share,
            elapsed_s=progress.elapsed_s,
            reason=reason,
        )

    def status(self) -> CompilationStatus:
        """Returns the state of all steps."""
        self.resume()
        return CompilationStatus(
            startup=self.startup, steps=tuple(self._status(number) for number in range(len(self._steps)))
        )

    def wait(self, timeout_s: float | None) -> bool:
        """Waits until no step is prepared any more.

        Args:
            timeout_s: how long to wait; None for no limit.

        Returns:
            True if every step runs optimised code.
        """
        self.resume()
        self._urgency.tell()
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._changed:
                status = self.status()
                if not status.is_pending:
                    return status.is_optimized
                left_s = None if end_s is None else end_s - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return False
                self._changed.wait(left_s)


def _bound_by_executions(step: ExecutionStep) -> weakref.ref[PreparedModel] | None:
    if step.device is not cpu_device() or has_known_inputs(step.model):
        return None
    return weakref.ref(step.prepared_model)


def _free(goal: _Goal, work: "SubmittedWork") -> None:
    """Cancels the work for a compilation that is freed, unless it has another use."""
    if not unfinished.note_freed(goal):
        work.cancel()


def _before_run(reference: "weakref.ref[Optimization]", deadline_s: float | None) -> None:
    """Begins the work, or lets it use the interpreter, before a run of a first tier."""
    found = reference()
    if found is not None:
        found.resume()
        found.give_way(deadline_s)


def _prepare(reference: "weakref.ref[Optimization]", goal: _Goal, cancellation: Cancellation) -> None:
    """Makes the device of a step prepare it, after the first calls."""
    _await_turn(goal, cancellation)
    if cancellation.is_cancelled:
        return
    found = reference()
    if found is None and not unfinished.is_wanted(goal):
        return
    progress = _StepProgress() if found is None else found.begin(goal.step)
    del found
    try:
        prepared, reason = _prepared(goal, progress, cancellation)
    finally:
        if not cancellation.is_cancelled:
            unfinished.end(goal)
    found = reference()
    if found is None:
        return
    if prepared is not None:
        found.recovery.step(found.step(goal.step)).replace_first_tier(prepared)
    found.end(goal.step, reason)


def _await_turn(goal: _Goal, cancellation: Cancellation) -> None:
    """Waits until the application has had time for its first calls."""
    end_s = time.monotonic() + _MAX_DELAY_S
    with turns.waiting(), cancellation.calling(goal.urgency.tell):
        while (left_s := min(PREPARING.left_s(_FIRST_CALLS_S), end_s - time.monotonic())) > 0:
            if goal.urgency.wait(left_s):
                break


def _prepared(
    goal: _Goal, progress: _StepProgress, cancellation: Cancellation
) -> tuple[PreparedStep | None, str]:
    """Returns the prepared step; if that fails None, and the reason."""
    first_tier = None if goal.first_tier is None else goal.first_tier()
    preparer = goal.preparer.in_background(cancellation, first_tier)
    del first_tier

    def prepare() -> PreparedStep:
        with progress_to(progress.reached), convert_driver_faults(goal.device.name):
            return preparer.prepare(goal.device, goal.model, goal.step, goal.steps)

    try:
        return tried_again(prepare, cancellation), ""
    except Error as error:
        return None, f"{goal.device.name} could not prepare it: {error}"
    except BaseException as error:
        return None, f"{goal.device.name} could not prepare it: {described(error)}"


def _improve(reference: "weakref.ref[Optimization]", goal: _Goal, cancellation: Cancellation) -> None:
    """Makes the CPU device compile a step whose own device takes long, or fails."""
    found = reference()
    if found is None:
        return
    recovering = found.recovery.step(found.step(goal.step))
    del found
    end_s = time.monotonic() + _LONG_S
    while recovering.has_first_tier and time.monotonic() < end_s:
        with turns.waiting():
            if cancellation.wait(_LONG_S / 10):
                return
    if recovering.has_first_tier:
        preparer = goal.preparer.in_background(cancellation)
        recovering.improve_first_tier(preparer.prepare(cpu_device(), goal.model, goal.step, goal.steps))
