"""Execution: binds buffers to a compilation's inputs and outputs, and runs it.

Its states, and what is set before it computes, are in `execution_preparation.py`; what it tells
after that is in `execution_results.py`. A one-shot execution computes once. A reusable one computes
any number of times with the same buffers, but not twice at the same time. A rejected call changes
nothing.
"""

from collections.abc import Callable, Sequence

from neurald.hal.api_arguments import items, shown, time_limit
from neurald.hal.device import (
    ExecuteOptions,
    ExecutionResult,
    Timing,
)
from neurald.hal.errors import (
    DRIVER_FAULTS,
    BadState,
    Cancelled,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    OpFailed,
    UnexpectedNull,
    WrongType,
)
from neurald.hal.execution.native_serving import NativeCall
from neurald.hal.execution.reusable import ReusableExecution
from neurald.hal.process.fork import notice_fork
from neurald.runtime.execution.background.event import Event, event_of
from neurald.runtime.execution.background.fenced import (
    FencedResult,
    have_succeeded,
    start_fenced,
    start_submitted,
)
from neurald.runtime.execution.burst import Burst
from neurald.runtime.execution.compiled_model import CompiledModel
from neurald.runtime.execution.computation import Computation, insufficient
from neurald.runtime.execution.execution_preparation import COMPLETED, COMPUTATION
from neurald.runtime.execution.execution_results import ExecutionResults
from neurald.runtime.execution.measurement.receipt import ReceiptRecorder, recording


class Execution(ExecutionResults):
    """One execution of a compilation. Thread-safe.

    Args:
        compilation: a finished compilation.
        reusable: True if it may compute again after it has completed.

    Raises:
        UnexpectedNull: `compilation` is None.
        BadState: the compilation is not finished.
    """

    def __init__(self, compilation: CompiledModel, *, reusable: bool = False) -> None:
        super().__init__(compilation, reusable=reusable)
        self._computation: Computation | None = None
        # The fastest way to compute again, if the execution has completed. It keeps the GIL, so it
        # needs no lock: nothing can observe that it computes.
        self._short: Callable[[], bool | ExecutionResult | None] | None = None
        self._fast_path: ReusableExecution | None = None
        self._burst_fast_path: tuple[Burst, Callable[[ExecuteOptions], ExecutionResult]] | None = None
        self._is_expected = False
        #: Stands for the computation under way, if it is not on a fast path; see `_start`.
        self._user: object | None = None

    def compute(self, *, burst: Burst | None = None) -> None:
        """Runs the model and returns when the outputs are written.

        Args:
            burst: burst of the same compilation that executes the steps.

        Raises:
            BadData: an input or output is not bound (bind it and call again), or the burst belongs
                to another compilation.
            BadState: it is computing, or it has computed and is not reusable, or the burst is in
                use.
            OutputInsufficientSize: an output buffer is too small. The contents of all outputs are
                undefined; `output_dimensions` returns their shapes.
            Cancelled: `cancel` was called.
            Error: the device failed.
        """
        if burst is None:
            short = self._short
            if short is not None:
                done = short()
                if done is True or (done and self._accepts(done)):
                    return
            notice_fork()
            if not self._ran_fast_path():
                self._cache_fast_path(self._run())
            return
        if not isinstance(burst, Burst):
            raise WrongType(f"the burst is {shown(burst)}; one of Compilation.create_burst() is expected")
        notice_fork()
        user = object()
        try:
            burst.begin_use(self._compilation, user)
            if self._ran_short():
                return
            ran = self._ran_burst_fast_path(burst) if burst.uses_devices else self._ran_fast_path()
            if not ran:
                self._cache_fast_path(self._run(burst), burst)
        finally:
            if burst.use.user is user:
                burst.use.user = None

    def _ran_fast_path(self) -> bool:
        """Repeats the last computation on the fast path, if one is cached.

        Returns:
            False if no fast path is cached or it failed. The caller then takes the regular path,
                which writes all outputs again.
        """
        has_begun = False
        try:
            with self._lock:
                fast_path = self._fast_path
                if fast_path is None or self._state is not COMPLETED:
                    return False
                cancellation = self._settings.next_cancellation()
                has_begun = True
                self._state = COMPUTATION
                self._settings.cancel_if_asked(cancellation)
            result = fast_path(cancellation)
            if result is not None and not self._accepts(result):
                return self._failed(OpFailed("the result is not valid"))
        except BaseException as error:
            if not has_begun:
                raise
            return self._failed(error)
        # Without a result, that of the previous computation remains valid.
        self._state = COMPLETED
        return True

    def _ran_short(self) -> bool:
        """Repeats the last computation as a short one; returns False if the caller has to."""
        short = self._short
        done = False if short is None else short()
        return done is True or (bool(done) and self._accepts(done))

    def _accepts(self, result: "bool | ExecutionResult | None") -> bool:
        """Takes the result of a repeated computation, of other shapes, if it is valid."""
        computation = self._computation
        if result is self._result:
            return True
        if computation is None or not isinstance(result, ExecutionResult) or not computation.accepts(result):
            return False
        self._result = result
        return True

    def _failed(self, error: BaseException) -> bool:
        """Ends a failed computation on a fast path; returns False if the regular path must run."""
        self._complete(None)
        stops = isinstance(error, Cancelled | MissedDeadlineTransient | MissedDeadlinePersistent)
        # The regular path converts any exception of a driver to an Error.
        if stops or not isinstance(error, Exception):
            try:
                raise error
            finally:
                # The error refers to this frame, so the frame must not refer to it.
                del error
        return False

    def _ran_burst_fast_path(self, burst: Burst) -> bool:
        """Repeats the last computation on its burst's fast path; see `_ran_fast_path`."""
        has_begun = False
        try:
            with self._lock:
                fast_path = self._burst_fast_path
                if fast_path is None or fast_path[0] is not burst or self._state is not COMPLETED:
                    return False
                options = self._settings.next_options()
                has_begun = True
                self._state = COMPUTATION
                self._settings.cancel_if_asked(options.cancellation)
            if not self._accepts(fast_path[1](options)):
                return self._failed(OpFailed("the result is not valid"))
        except BaseException as error:
            if not has_begun:
                raise
            return self._failed(error)
        self._state = COMPLETED
        return True

    def create_native_call(self) -> NativeCall | None:
        """Returns what native code runs to repeat the last computation, for serving processes.

        Only neurald itself calls this.

        The computation has succeeded, with the default settings. The arguments stay bound as long
        as the result lives. None if only `compute` can repeat it.
        """
        computation = self._repeatable()
        return None if computation is None else computation.create_native_call()

    def forget_fast_paths(self) -> None:
        """Drops what earlier computations have kept, so that the next one goes through all layers.

        Only neurald itself calls this.
        """
        with self._lock:
            self._short = self._fast_path = self._burst_fast_path = None

    def _repeatable(self) -> Computation | None:
        """Returns the last computation if it may be repeated by shorter ways, else None."""
        return self._computation if self._reusable and self._settings.are_default else None

    def _cache_fast_path(self, result: ExecutionResult, burst: Burst | None = None) -> None:
        """Caches a fast path for the next computation, after a successful one."""
        computation = self._repeatable()
        if computation is None:
            return
        short = computation.create_short_execution()
        run = None if burst is None else computation.create_reusable_execution_in(burst)
        fast_path = computation.create_reusable_execution() if run is None and short is None else None
        with self._lock:
            # Another computation may have started in the meantime.
            if self._result is result and self._after_fences is None:
                self._short, self._fast_path = short, fast_path
                self._burst_fast_path = None if burst is None or run is None else (burst, run)

    def _cache_short(self, result: ExecutionResult) -> None:
        """Caches what repeats a computation in less time than a thread takes to start.

        The thread of a computation in the background calls this, since such a computation has no
        other fast path.

        Args:
            result: that of the computation, which may have failed for a short buffer.
        """
        computation = self._repeatable()
        if computation is None or not result.is_sufficient:
            return
        try:
            short = computation.create_short_execution()
        except DRIVER_FAULTS:
            # This computation has succeeded. The next one takes the regular path, which converts
            # any exception of a driver to an Error.
            return
        with self._lock:
            # Another computation may have started in the meantime.
            if self._result is result:
                self._short = short

    def start_compute(self) -> Event:
        """Runs the model in the background. Returns at once.

        A computation that takes less time than starting a thread has ended by then. The errors are
        those of `compute`; they are raised at once or by `Event.wait`.
        """
        if self._ran_short():
            return Event.ended()
        notice_fork()
        user = object()
        try:
            started = self._start(user)
            event = None
            if not self._settings.wants_receipt:
                event = start_submitted(self._compilation, *started, self._complete_submitted)
            if event is not None:
                return self._begun(event)
            return event_of(lambda: self._cache_short(self._computed(*started)), "neurald execution")
        except BaseException:
            if self._user is user:
                self._complete(None)
            raise

    def start_compute_with_dependencies(
        self, dependencies: Sequence[Event] = (), duration_s: float = 0.0
    ) -> Event:
        """Runs the model after all `dependencies` have ended. Returns at once.

        An output of open dimensions takes as many elements as fit in its memory; its dimensions are
        known when the execution has ended.

        Args:
            dependencies: events of any executions, on any devices. If one of them failed, this
                execution fails.
            duration_s: time limit in seconds from the end of the dependencies; 0 for no limit.

        Returns:
            An event that has a fence.

        Raises:
            BadData: an input or output is not bound, an output has strings, a dependency is not an
                event, or the duration is negative.
            BadState: it is computing, or it has computed and is not reusable, or it is to keep a
                receipt.
            UnexpectedNull: a dependency is None.
            Error: the device failed immediately.
        """
        notice_fork()
        if self._settings.wants_receipt:
            raise BadState("an execution that waits for fences keeps no receipt; call compute() for one")
        dependencies = items(dependencies, "dependencies", "a sequence of events")
        if any(event is None for event in dependencies):
            raise UnexpectedNull("a dependency is None; an event is expected")
        for event in dependencies:
            if not isinstance(event, Event):
                raise WrongType(f"a dependency is {shown(event)}; an event is expected")
        limit_s = time_limit(duration_s, "the duration")
        if limit_s is not None:
            self._compilation.require_one_device("a duration after fences")
        if self._short is not None and limit_s is None and have_succeeded(dependencies) and self._ran_short():
            return Event.ended(has_fence=True)
        user = object()
        try:
            computation, options = self._start(user, has_bounded_outputs=True)
            event = start_fenced(
                self._compilation,
                computation,
                dependencies,
                options,
                limit_s,
                self._complete_fenced,
            )
        except BaseException:
            if self._user is user:
                self._complete(None)
            raise
        return self._begun(event)

    def _begun(self, event: Event) -> Event:
        """Remembers the event of the computation under way, and returns it."""
        with self._lock:
            if self._state is COMPUTATION:
                self._event = event
        return event

    def expect(self) -> None:
        """Says that a thread is about to compute, so that `cancel` also ends this before it begins.

        Only neurald itself calls this.

        A cancellation that came after the computation before is forgotten.
        """
        with self._lock:
            self._is_expected = True
            self._settings.forget_cancellation()

    def cancel(self) -> None:
        """Asks the current computation to stop; it raises Cancelled unless it ends first.

        Does nothing if the execution is not computing, unless `expect` was called.
        """
        with self._lock:
            if self._state is not COMPUTATION:
                if self._is_expected:
                    self._settings.cancel_next()
                return
            # The next computation gets a new cancellation, so that a late signal cannot stop it.
            cancellation = self._settings.take_cancellation()
        if cancellation is not None:
            cancellation.cancel()

    def _start(
        self, user: object, *, has_bounded_outputs: bool = False
    ) -> tuple[Computation, ExecuteOptions]:
        """Begins a computation.

        Args:
            user: an object that stands for the computation, by which its caller knows that it has
                begun, also if a signal interrupts this method.
            has_bounded_outputs: whether the outputs must have a known size.
        """
        self._finish_if_over()
        with self._lock:
            if self._state is COMPUTATION:
                raise BadState("the execution is already computing; wait for its end, or use another one")
            if self._state is COMPLETED and not self._reusable:
                raise BadState("the execution has already computed; only a reusable one may compute again")
            computation = self._computation or Computation(self._compilation, self._arguments)
            if has_bounded_outputs:
                self._arguments.require_bounded_outputs()
            self._computation = computation
            self._short = None
            options = self._settings.next_options()
            self._result = None
            self._user = user
            self._state = COMPUTATION
            self._settings.cancel_if_asked(options.cancellation)
            return computation, options

    def _run(self, burst: Burst | None = None) -> ExecutionResult:
        user = object()
        try:
            return self._computed(*self._start(user), burst)
        finally:
            if self._user is user:
                # A signal has interrupted it before it could end.
                self._user = None
                self._state = COMPLETED

    def _computed(
        self, computation: Computation, options: ExecuteOptions, burst: Burst | None = None
    ) -> ExecutionResult:
        """Computes what `_start` has begun."""
        result = None
        try:
            if self._settings.wants_receipt:
                self._recorder = recorder = ReceiptRecorder()
                with recording(recorder):
                    result = computation.run(options, burst)
            else:
                result = computation.run(options, burst)
        finally:
            self._complete(result)
        if not result.is_sufficient:
            raise insufficient(result)
        return result

    def _complete(self, result: ExecutionResult | None, after_fences: Timing | None = None) -> None:
        with self._lock:
            self._fast_path = self._burst_fast_path = None
            self._result = result
            self._after_fences = after_fences
            self._event = None
            self._state = COMPLETED
            self._user = None

    def _complete_submitted(self, outcome: FencedResult | None) -> None:
        self._complete(None if outcome is None else outcome.result)

    def _complete_fenced(self, outcome: FencedResult | None) -> None:
        if outcome is None:
            self._complete(None)
        else:
            self._complete(outcome.result, outcome.after_fences)
            self._cache_short(outcome.result)
