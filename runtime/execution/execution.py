"""Execution: binds buffers to a compilation's inputs and outputs, and runs it.

States: preparation, computation, completed. Buffers and settings belong to preparation; a one-shot execution computes
once, a reusable one again and again with the same buffers, never twice at the same time. A call that is refused changes
nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any, TypeVar

import numpy as np

from neurald.hal.api_arguments import flag, integer, member, number, shown, time_limit
from neurald.hal.device import (
    LOOP_TIMEOUT_DEFAULT_S,
    LOOP_TIMEOUT_MAXIMUM_S,
    ExecuteOptions,
    ExecutionResult,
    StepDuration,
    Timing,
)
from neurald.hal.errors import (
    BadData,
    BadState,
    Cancelled,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    ResourceExhaustedTransient,
    UnexpectedNull,
)
from neurald.hal.memory.pool import Memory
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.model.types import Dimensions, Duration
from neurald.hal.process.fork import forkable_lock
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.deadline import deadline_in
from neurald.runtime.execution.arguments import Arguments
from neurald.runtime.execution.burst import Burst
from neurald.runtime.execution.compiled_model import CompiledModel, require_compiled
from neurald.runtime.execution.computation import Computation, insufficient
from neurald.runtime.execution.event import Event, event_of
from neurald.runtime.execution.fenced import FencedResult, start_fenced

_Limit = TypeVar("_Limit", Cancellation, ExecuteOptions)


class _State(Enum):
    PREPARATION = auto()
    COMPUTATION = auto()
    COMPLETED = auto()


class Execution:
    """One execution of a compilation. Thread-safe.

    Args:
        compilation: a finished compilation.
        reusable: whether it may compute again after it has completed.

    Raises:
        UnexpectedNull: there is no compilation.
        BadState: it is not finished.
    """

    def __init__(self, compilation: CompiledModel, *, reusable: bool = False) -> None:
        require_compiled(compilation)
        self._compilation = compilation
        self._arguments = Arguments(compilation.model, compilation)
        self._computation: Computation | None = None
        self._again: Callable[[Cancellation], None] | None = None
        self._again_in: tuple[Burst, Callable[[ExecuteOptions], None]] | None = None
        self._cancellation: Cancellation | None = None
        self._options: ExecuteOptions | None = None
        self._reusable = flag(reusable, "whether the execution is reusable")
        self._measure = False
        self._attributes: tuple[AttributeValue, ...] = ()
        self._timeout_s: float | None = None
        self._loop_timeout_s = LOOP_TIMEOUT_DEFAULT_S
        self._state = _State.PREPARATION
        self._lock = forkable_lock()
        self._result: ExecutionResult | None = None
        self._after_fences: Timing | None = None

    @property
    def compilation(self) -> CompiledModel:
        """What is executed."""
        return self._compilation

    def enable_input_and_output_padding(self, enable: bool = True) -> None:
        """Whether the memory of an input or output may be larger than what lies in it, as devices like it.

        What is behind an input may be read, and what is behind an output written. How much a device likes
        `Compilation.preferred_memory_padding_for_input` tells.

        Raises:
            BadState: an input or output is bound already, or the execution has started.
        """
        with self._lock:
            self._require_preparation()
            self._arguments.enable_padding(flag(enable, "whether padding is enabled"))

    def set_input(
        self, index: int, array: "np.ndarray[Any, Any] | None", dimensions: Dimensions = None
    ) -> None:
        """Binds an array as an input; None omits an optional one. See `Arguments.set_input`.

        Raises:
            BadData: no such input, not C-contiguous, or another type or shape than the model's.
            BadState: the input is bound already, or the execution has started.
        """
        with self._lock:
            self._require_preparation()
            self._arguments.set_input(index, array, dimensions)

    def set_output(self, index: int, array: "np.ndarray[Any, Any]", dimensions: Dimensions = None) -> None:
        """Binds an array as an output, which is written where it lies. See `Arguments.set_output`.

        Raises:
            BadData: no such output, read-only, not C-contiguous, or another type or size than the model's.
            BadState: the output is bound already, or the execution has started.
            UnexpectedNull: there is no array.
        """
        with self._lock:
            self._require_preparation()
            self._arguments.set_output(index, array, dimensions)

    def set_input_from_memory(
        self, index: int, memory: Memory, offset: int, length: int, dimensions: Dimensions = None
    ) -> None:
        """Binds `length` bytes of a memory, from `offset`, as an input. See `Arguments.set_input_from_memory`.

        Raises:
            BadData: no such input, the range is not inside the memory, or its length is not the input's size.
            BadState: the input is bound already, or the execution has started.
            UnexpectedNull: there is no memory.
        """
        with self._lock:
            self._require_preparation()
            self._arguments.set_input_from_memory(index, memory, offset, length, dimensions)

    def set_output_from_memory(
        self, index: int, memory: Memory, offset: int, length: int, dimensions: Dimensions = None
    ) -> None:
        """Binds `length` bytes of a memory, from `offset`, as an output; see `set_input_from_memory`."""
        with self._lock:
            self._require_preparation()
            self._arguments.set_output_from_memory(index, memory, offset, length, dimensions)

    def set_reusable(self, reusable: bool = True) -> None:
        """Whether it may compute again after it has completed.

        Raises:
            BadState: the execution has started.
        """
        with self._lock:
            self._require_preparation()
            self._reusable = flag(reusable, "whether the execution is reusable")

    def set_measure_timing(self, measure: bool = True) -> None:
        """Whether `duration` will be known.

        Raises:
            BadData: strict mode forbids it.
            BadState: the execution has started.
        """
        self._compilation.require_one_device("timing")
        with self._lock:
            self._require_preparation()
            self._measure = flag(measure, "whether timing is measured")

    def set_timeout(self, seconds: float | None) -> None:
        """How long one computation may take; None, 0 and infinity for no limit.

        One that takes longer ends soon after with MissedDeadlineTransient or MissedDeadlinePersistent, also in the midst of a step.

        Raises:
            BadData: the time is negative, or strict mode forbids it.
            BadState: the execution has started.
        """
        self._compilation.require_one_device("a time limit")
        limit = time_limit(seconds, "the timeout")
        with self._lock:
            self._require_preparation()
            self._timeout_s = limit

    def set_loop_timeout(self, seconds: float) -> None:
        """How long one WHILE operation may run: 2 s unless set, 15 s at the most.

        Raises:
            BadData: the time is negative.
            BadState: the execution has started.
        """
        limit = number(seconds, "the loop timeout")
        if not limit >= 0:
            raise BadData(f"the loop timeout is {limit} s; it must not be negative")
        with self._lock:
            self._require_preparation()
            self._loop_timeout_s = min(limit, LOOP_TIMEOUT_MAXIMUM_S)

    def add_extension_attribute(self, extension: str, attribute: int, value: bytes) -> None:
        """Gives the execution a value for an execution attribute of a vendor's extension, each time that it computes.

        Args:
            extension, attribute, value: as for `CompilationBuilder.add_extension_attribute`.

        Raises:
            BadData: the compilation was not made for a list of exactly one device, or that does not declare the attribute, or
                it has a value already.
            BadState: the execution has started.
        """
        with self._lock:
            attributes = self._compilation.with_attribute(self._attributes, extension, attribute, value)
            self._require_preparation()
            self._attributes = attributes

    def compute(self, *, burst: Burst | None = None) -> None:
        """Runs the model; returns when the outputs are written.

        Args:
            burst: of the same compilation, through which its devices are reached.

        Raises:
            BadData: an input or output is not bound (bind it and call again), or the burst is of another compilation.
            BadState: it is computing, or has computed and is not reusable, or the burst is in use.
            OutputInsufficientSize: an output buffer is too small; no output is defined, all shapes are known.
            Cancelled: `cancel` was called.
            Error: the device failed.
        """
        if burst is None:
            if not self._computed_again():
                self._keep_for_again(self._run(*self._start()))
            return
        if not isinstance(burst, Burst):
            raise BadData(f"burst is a {type(burst).__name__}; create_burst() makes one")
        with burst.in_use(self._compilation):
            if not self._computed_again_in(burst):
                self._keep_for_again(self._run(*self._start(), burst), burst)

    def _computed_again(self) -> bool:
        """Computes just as the last time, if that can be done in less time. If it fails nothing has happened yet."""
        with self._lock:
            again = self._again
            if again is None or self._state is not _State.COMPLETED:
                return False
            cancellation = self._cancellation or self._next_cancellation()
            self._state = _State.COMPUTATION
        return self._has_computed(again, cancellation)

    def _has_computed(self, again: Callable[[_Limit], None], limit: _Limit) -> bool:
        """Runs what does the same as the last computation; whether it had success."""
        try:
            again(limit)
        except (Cancelled, MissedDeadlineTransient, MissedDeadlinePersistent):
            self._complete(None)
            raise
        except Exception:
            # Also a fault of a driver: the longer way makes an error of it.
            self._complete(None)
            return False
        except BaseException:
            self._complete(None)
            raise
        # The result is the last one's.
        self._state = _State.COMPLETED
        return True

    def _computed_again_in(self, burst: Burst) -> bool:
        """As `_computed_again`, through the burst that the last computation went through."""
        with self._lock:
            again = self._again_in
            if again is None or again[0] is not burst or self._state is not _State.COMPLETED:
                return False
            options = self._next_options()
            self._state = _State.COMPUTATION
        return self._has_computed(again[1], options)

    def _keep_for_again(self, result: ExecutionResult, burst: Burst | None = None) -> None:
        """After a success: looks for what does the same with less around it."""
        computation = self._computation
        has_options = self._measure or self._timeout_s is not None or self._attributes
        if computation is None or not self._reusable or has_options:
            return
        again = computation.create_reusable_execution() if burst is None else None
        run = None if burst is None else computation.create_reusable_execution_in(burst, result)
        with self._lock:
            # Unless another computation has begun meanwhile.
            if self._result is result and self._after_fences is None:
                self._again = again
                self._again_in = None if burst is None or run is None else (burst, run)

    def start_compute(self) -> Event:
        """Runs the model in a thread of its own; see `compute` for what it raises at once or in `Event.wait`."""
        started = self._start()
        try:
            return event_of(lambda: self._run(*started), "neurald execution")
        except ResourceExhaustedTransient:
            self._complete(None)
            raise

    def start_compute_with_dependencies(
        self, dependencies: Sequence[Event] = (), duration_s: float = 0.0
    ) -> Event:
        """Runs the model once all of `dependencies` are over, and returns at once.

        Args:
            dependencies: events of any executions, of whatever devices. If one of them failed, so does this.
            duration_s: how long it may take from then on; 0 for no limit.

        Returns:
            An event that has a fence.

        Raises:
            BadData: an input or output is not bound, the shape of an output is not known beforehand, what is given is no
                event, or the duration is negative.
            BadState: it is computing, or has computed and is not reusable.
            UnexpectedNull: a dependency is None.
            Error: the device failed at once.
        """
        if not isinstance(dependencies, Iterable):
            raise BadData(f"the dependencies are {shown(dependencies)}; a sequence of events is expected")
        dependencies = tuple(dependencies)
        if any(event is None for event in dependencies):
            raise UnexpectedNull("a dependency is None")
        for event in dependencies:
            if not isinstance(event, Event):
                raise BadData(f"a dependency is a {type(event).__name__}; events are expected")
        limit_s = time_limit(duration_s, "the duration")
        if limit_s is not None:
            self._compilation.require_one_device("a duration after fences")
        computation, options = self._start(has_specified_outputs=True)
        try:
            return start_fenced(
                self._compilation,
                computation,
                dependencies,
                options,
                limit_s,
                self._complete_fenced,
            )
        except BaseException:
            self._complete(None)
            raise

    def cancel(self) -> None:
        """Asks a computation under way to stop; it then fails with Cancelled, unless it was over first.

        Without one nothing happens.
        """
        with self._lock:
            if self._state is not _State.COMPUTATION:
                return
            # The next computation gets another one, however late this one is told.
            cancellation, self._cancellation = self._cancellation, None
        if cancellation is not None:
            cancellation.cancel()

    def _start(self, *, has_specified_outputs: bool = False) -> tuple[Computation, ExecuteOptions]:
        with self._lock:
            if self._state is _State.COMPUTATION:
                raise BadState("the execution is computing")
            if self._state is _State.COMPLETED and not self._reusable:
                raise BadState("the execution has computed, and it is not reusable")
            computation = self._computation or Computation(self._compilation, self._arguments)
            if has_specified_outputs:
                self._arguments.require_specified_outputs()
            self._computation = computation
            options = self._next_options()
            self._state = _State.COMPUTATION
            self._result = None
            return computation, options

    def _next_options(self) -> ExecuteOptions:
        """Those of the last computation, unless it was cancelled or has a time limit."""
        cancellation, timeout = self._cancellation, self._timeout_s
        if cancellation is None or not cancellation.is_unused:
            cancellation = self._next_cancellation()
        options = self._options
        if options is None or timeout is not None:
            options = ExecuteOptions(
                measure=self._measure,
                deadline_s=deadline_in(timeout),
                loop_timeout_s=self._loop_timeout_s,
                cancellation=cancellation,
                attributes=self._attributes,
            )
        self._options = options
        return options

    def _next_cancellation(self) -> Cancellation:
        """A new one, which options from before are not for."""
        self._options = None
        self._cancellation = cancellation = Cancellation()
        return cancellation

    def _run(
        self, computation: Computation, options: ExecuteOptions, burst: Burst | None = None
    ) -> ExecutionResult:
        result = None
        try:
            result = computation.run(options, burst)
        finally:
            self._complete(result)
        if not result.is_sufficient:
            raise insufficient(result)
        return result

    def _complete(self, result: ExecutionResult | None, after_fences: Timing | None = None) -> None:
        with self._lock:
            self._again = self._again_in = None
            self._result = result
            self._after_fences = after_fences
            self._state = _State.COMPLETED

    def _complete_fenced(self, outcome: FencedResult | None) -> None:
        if outcome is None:
            self._complete(None)
        else:
            self._complete(outcome.result, outcome.after_fences)

    def output_dimensions(self, index: int) -> tuple[int, ...]:
        """The real shape of an output.

        Raises:
            BadData: no such output, or it is a scalar.
            BadState: the execution has not completed, or failed for another reason than a small buffer.
            OutputInsufficientSize: the buffer was too small, and the rank is not known.
        """
        index = integer(index, "the index of the output")
        with self._lock:
            result = self._completed()
        if not 0 <= index < len(self._arguments.output_operands):
            raise BadData(f"there is no output {index}; the model has {len(self._arguments.output_operands)}")
        if not self._arguments.output_operands[index].type.is_tensor:
            raise BadData(f"output {index} is a scalar; it has no dimensions")
        dimensions = result.output_shapes[index].dimensions
        if dimensions is None:
            raise insufficient(result)
        return dimensions

    def output_shapes(self) -> list[tuple[int, ...]]:
        """The real shapes of all outputs, `()` for a scalar.

        Raises:
            BadState: see `output_dimensions`.
        """
        return [
            self.output_dimensions(index) if operand.type.is_tensor else ()
            for index, operand in enumerate(self._arguments.output_operands)
        ]

    def output_rank(self, index: int) -> int:
        """The rank of an output; see `output_dimensions`."""
        return len(self.output_dimensions(index))

    def duration(self, duration: Duration) -> int | None:
        """Nanoseconds that the last computation took, None where the device cannot tell, or another one stood in for it.

        Raises:
            BadData: there is no such duration.
            BadState: timing was not measured, or the execution has not completed or failed.
        """
        duration = member(duration, Duration, "the duration")
        with self._lock:
            result = self._measured()
            fenced = duration in (Duration.FENCED_ON_HARDWARE, Duration.FENCED_IN_DRIVER)
            timing = self._after_fences if fenced and self._after_fences is not None else result.timing
        on_hardware = duration in (Duration.ON_HARDWARE, Duration.FENCED_ON_HARDWARE)
        return timing.on_device_ns if on_hardware else timing.in_driver_ns

    def step_durations(self) -> tuple[StepDuration, ...]:
        """Where the time of each step of the plan went in the last computation, all its runs together.

        Raises:
            BadState: timing was not measured, or the execution has not completed or failed.
        """
        with self._lock:
            return self._measured().step_durations

    def _measured(self) -> ExecutionResult:
        result = self._completed()
        if not self._measure or not result.is_sufficient:
            raise BadState("no duration is known: it was not measured, or the execution failed")
        return result

    def _completed(self) -> ExecutionResult:
        if self._state is not _State.COMPLETED:
            raise BadState("the execution has not completed")
        if self._result is None:
            raise BadState("the execution failed")
        return self._result

    def _require_preparation(self) -> None:
        if self._state is not _State.PREPARATION:
            raise BadState("the execution has started")
