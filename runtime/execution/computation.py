"""Computation: runs a compilation, from the state variables down to the devices of the steps."""

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeGuard

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.errors import (
    BadData,
    Cancelled,
    DeadObject,
    Error,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    OpFailed,
    OutputInsufficientSize,
)
from neurald.hal.execution.native_serving import NativeCall
from neurald.hal.execution.reusable import ReusableExecution
from neurald.hal.model.request import Request
from neurald.hal.validation.request_rules import merge_dimensions
from neurald.runtime.execution.binding.arguments import ExecutionArguments
from neurald.runtime.execution.binding.device_memory import (
    device_memories_in_use,
    has_device_memory,
    recover_device_memories,
)
from neurald.runtime.execution.binding.string_output import checked_result, grow_outputs
from neurald.runtime.execution.burst import Burst
from neurald.runtime.execution.compiled_model import CompiledModel
from neurald.runtime.execution.program.executor import PlanExecutor, SimpleExecutor
from neurald.runtime.execution.program.step_runner import checked_step_result
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.execution.variables.stateful import StatefulRuns
from neurald.runtime.plan.plan import ExecutionStep

_LOGGER = logging.getLogger(__name__)


class Computation:
    """Runs a compilation with the arguments of one execution.

    Args:
        compilation: the compilation to run.
        arguments: the arguments, all of which must be bound.
    """

    def __init__(self, compilation: CompiledModel, arguments: ExecutionArguments) -> None:
        self._compilation = compilation
        self._arguments = arguments
        self._request = arguments.request()
        model = compilation.model
        variables = [operand.type for operand in model.outline.input_operands[len(model.inputs) :]]
        self._stateful = StatefulRuns(compilation.state, variables) if variables else None
        self._has_strings = bool(arguments.string_outputs)
        self._has_device_memory = has_device_memory(self._request)
        # Results are immutable, so that one which is returned again need not be checked again.
        self._validated_result: ExecutionResult | None = None
        self._step_result: ExecutionResult | None = None

    @property
    def request(self) -> Request:
        """The request of the execution, without state variables."""
        return self._request

    @property
    def is_plain(self) -> bool:
        """True if the devices' result needs no post-processing.

        State variables, strings and device memory need it.
        """
        return not (self._stateful or self._has_strings or self._has_device_memory)

    def require_shapes(self, result: ExecutionResult) -> None:
        """Raises OpFailed if a reported output shape contradicts the application's."""
        if result is not self._validated_result:
            _require_shapes(self._request, result)
            self._validated_result = result

    def checked_result_of(self, step: ExecutionStep, result: ExecutionResult) -> ExecutionResult:
        """Returns the result of a plain plan's only step, see `checked_step_result`."""
        if result is not self._step_result or result is None:  # as a faulty driver may return it
            self._step_result = checked_step_result(step, self._request, result)
        return result

    def run(self, options: ExecuteOptions, burst: Burst | None = None) -> ExecutionResult:
        """Runs the compilation once.

        Args:
            options: the options for the whole run.
            burst: executes the steps, if given.

        Raises:
            Error: a device failed and no fallback succeeded.
        """
        result = self._run_once(options, burst)
        if not self._has_strings:
            return result
        strings = self._arguments.string_outputs
        while grow_outputs(result, strings):
            self._arguments.rebind_string_outputs()
            self._request = self._arguments.request()
            result = self._run_once(options, burst)
        if result.is_sufficient:
            for index, output in strings.items():
                output.fill(result.output_shapes[index].dimensions or ())
        return result

    def create_reusable_execution(self) -> ReusableExecution | None:
        """Returns a function that repeats the last successful `run` without timing or limits.

        Returns:
            The function, see `ReusesExecutions.create_reusable_execution`, whose results `accepts`
                checks; None if only `run` is possible. If it raises an error other than Cancelled,
                call `run`, which handles failures.
        """
        executor = self._compilation.executor
        if not self._may_repeat(executor):
            return None
        create = self._compilation.recovery.step(executor.step).create_reusable_execution
        if self._stateful is not None:
            return self._stateful.create_reusable_execution(self._request, create)
        return create(self._request)

    def create_short_execution(self) -> Callable[[], bool | ExecutionResult | None] | None:
        """Returns a function that repeats the last successful `run` without other threads.

        Returns:
            The function, see `CallsDirectly.create_short_execution`, whose results `accepts`
                checks. None if only `run` is possible.
        """
        executor = self._compilation.executor
        if not self._may_repeat(executor):
            return None
        create = self._compilation.recovery.step(executor.step).create_short_execution
        if self._stateful is not None:
            return self._stateful.create_short_execution(self._request, create)
        return create(self._request)

    def create_native_call(self) -> NativeCall | None:
        """Returns what native code runs to repeat the last successful `run`; None if it cannot."""
        executor = self._compilation.executor
        if not self.is_plain or not isinstance(executor, SimpleExecutor):
            return None
        return self._compilation.recovery.step(executor.step).create_native_call(self._request)

    def accepts(self, result: ExecutionResult) -> bool:
        """Returns True if a function that repeats the last `run` may have this result."""
        executor = self._compilation.executor
        if not (self.is_plain and isinstance(executor, SimpleExecutor) and result.is_sufficient):
            return False
        try:
            self.require_shapes(self.checked_result_of(executor.step, result))
        except OpFailed:
            return False
        return True

    def _may_repeat(self, executor: PlanExecutor) -> TypeGuard[SimpleExecutor]:
        """Returns True if a device may run the request again by itself.

        Only devices in this process write strings to the arrays of the application.
        """
        if self._has_device_memory or not isinstance(executor, SimpleExecutor):
            return False
        return not (self._has_strings and executor.step.device.is_remote)

    def create_reusable_execution_in(
        self, burst: Burst
    ) -> Callable[[ExecuteOptions], ExecutionResult] | None:
        """Returns a function that repeats the last successful `run` through a burst.

        Args:
            burst: the burst of the last `run`.

        Returns:
            See `create_reusable_execution`; it always returns its result.
        """
        executor = self._compilation.executor
        if not self.is_plain or not isinstance(executor, SimpleExecutor):
            return None
        state = self._compilation.recovery.step(executor.step)
        prepared = state.usable()
        if prepared is None:
            return None
        run = burst.create_reusable_execution(executor.step, prepared, self._request)
        return state.watched(run)

    def _run_once(self, options: ExecuteOptions, burst: Burst | None) -> ExecutionResult:
        if self._stateful is None:
            return self._execute(self._request, options, burst)
        return self._stateful.run(
            self._request, options, lambda request: self._execute(request, options, burst)
        )

    def _execute(self, request: Request, options: ExecuteOptions, burst: Burst | None) -> ExecutionResult:
        if not self._has_device_memory:
            return self._execute_plan(request, options, burst)
        recover_device_memories(request)
        try:
            return self._execute_in_device_memory(request, options, burst)
        except DeadObject:
            if not recover_device_memories(request):
                raise
        return self._execute_in_device_memory(request, options, burst)

    def _execute_in_device_memory(
        self, request: Request, options: ExecuteOptions, burst: Burst | None
    ) -> ExecutionResult:
        with device_memories_in_use(self._compilation, self._compilation.model.main, request) as use:
            result = self._execute_plan(use.request, options, burst)
            use.wrote(result)
        return result

    def _execute_plan(
        self, request: Request, options: ExecuteOptions, burst: Burst | None
    ) -> ExecutionResult:
        recovery = self._compilation.recovery
        runner = recovery.run if burst is None else partial(_run_in_burst, recovery, burst)
        try:
            result = self._compilation.executor.execute(request, options, runner=runner)
        except Cancelled:
            raise
        except (MissedDeadlineTransient, MissedDeadlinePersistent) as error:
            note_missed_deadline(error)
            raise
        except Error as error:
            result = recovery.run_whole_model(request, options, error)
        if result is not self._validated_result:
            # All requests require the same shapes.
            _require_shapes(request, result)
            self._validated_result = result
        return checked_result(result, self._arguments.string_outputs)


def note_missed_deadline(error: Error) -> None:
    """Counts an execution that did not finish in time, and logs it."""
    note_event(
        CountedEvent.DEADLINE,
        type(error).__name__,
        _LOGGER.info,
        "an execution missed its deadline: %s",
        error,
    )


def _run_in_burst(
    recovery: Recovery, burst: Burst, step: ExecutionStep, request: Request, options: ExecuteOptions
) -> ExecutionResult:
    """Implements `neurald.runtime.execution.program.step_runner.Runner` with a burst."""

    def call(prepared_model: PreparedModel, placed: Request) -> ExecutionResult:
        return burst.execute(step, prepared_model, placed, options)

    return recovery.step(step).execute(request, options, call)


def insufficient(result: ExecutionResult) -> OutputInsufficientSize:
    """Builds the error for outputs that are too small, with the shapes of all outputs."""
    short = [
        f"output {n} has shape {'of unknown rank' if s.dimensions is None else list(s.dimensions)}"
        for n, s in enumerate(result.output_shapes)
        if not s.sufficient
    ]
    return OutputInsufficientSize(
        f"{', '.join(short)}; its buffer is too small; compute again with a larger one",
        [shape.dimensions for shape in result.output_shapes],
    )


def _require_shapes(request: Request, result: ExecutionResult) -> None:
    """Raises OpFailed if an output does not have the shape that the application set."""
    for position, (argument, shape) in enumerate(zip(request.outputs, result.output_shapes, strict=True)):
        if argument.dimensions is None:
            continue
        try:
            agreed = merge_dimensions(argument.dimensions, shape.dimensions, f"output {position}")
        except BadData:
            agreed = None
        if agreed is None or (result.is_sufficient and agreed != shape.dimensions):
            raise OpFailed(
                f"output {position} has shape {shape.dimensions}; the application set it to "
                f"{argument.dimensions}"
            )
