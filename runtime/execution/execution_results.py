"""The part of an execution that tells of its last computation: shapes, durations and receipts."""

from neurald.hal.api_arguments import integer, member
from neurald.hal.device import ExecutionResult, StepDuration, Timing
from neurald.hal.errors import BadData, BadState
from neurald.hal.model.types import Duration
from neurald.hal.wording import counted
from neurald.runtime.execution.background.event import Event
from neurald.runtime.execution.compiled_model import CompiledModel
from neurald.runtime.execution.computation import insufficient
from neurald.runtime.execution.execution_preparation import COMPLETED, ExecutionPreparation
from neurald.runtime.execution.measurement.receipt import ExecutionReceipt, ReceiptRecorder


class ExecutionResults(ExecutionPreparation):
    """The results of the last computation of an execution. Thread-safe.

    Args:
        compilation, reusable: see `ExecutionPreparation`.
    """

    def __init__(self, compilation: CompiledModel, *, reusable: bool = False) -> None:
        super().__init__(compilation, reusable=reusable)
        self._recorder: ReceiptRecorder | None = None
        #: The event of a computation under way that the threads which wait for it finish.
        self._event: Event | None = None
        self._result: ExecutionResult | None = None
        self._after_fences: Timing | None = None

    def _finish_if_over(self) -> None:
        """Finishes a computation that is over, if no thread has waited for it."""
        event = self._event
        if event is not None:
            event.ends_within(0)

    def output_dimensions(self, index: int | str) -> tuple[int, ...]:
        """Returns the actual shape of an output.

        Args:
            index: the position of the output, or its name.

        Raises:
            BadData: there is no such output, or it is a scalar.
            BadState: the execution has not completed, or it failed for a reason other than a small
                buffer.
            OutputInsufficientSize: the buffer was too small, and the rank is not known.
        """
        index = integer(self._position(index, "output"), "the index of the output")
        self._finish_if_over()
        with self._lock:
            result = self._completed()
        if not 0 <= index < len(self._arguments.output_operands):
            count = counted(len(self._arguments.output_operands), "output")
            raise BadData(f"there is no output {index}; the model has {count}")
        if not self._arguments.output_operands[index].type.is_tensor:
            raise BadData(f"output {index} is a scalar and has no dimensions")
        dimensions = result.output_shapes[index].dimensions
        if dimensions is None:
            raise insufficient(result)
        return dimensions

    def output_shapes(self) -> list[tuple[int, ...]]:
        """Returns the actual shapes of all outputs; `()` for a scalar.

        Raises:
            BadState: see `output_dimensions`.
        """
        return [
            self.output_dimensions(index) if operand.type.is_tensor else ()
            for index, operand in enumerate(self._arguments.output_operands)
        ]

    def output_rank(self, index: int | str) -> int:
        """Returns the rank of an output; see `output_dimensions`.

        Args:
            index: the position of the output, or its name.
        """
        return len(self.output_dimensions(index))

    @property
    def receipt(self) -> ExecutionReceipt:
        """The receipt of the last computation, also of one that failed.

        For each step: its device, the driver's version, the kind of code, the outcome of the cache,
        every call of a device with its duration, and why another device ran it.

        Raises:
            BadState: `enable_receipt` was not called before, or nothing has been computed.
        """
        self._finish_if_over()
        with self._lock:
            recorder, result, state = self._recorder, self._result, self._state
        if recorder is None or state is not COMPLETED:
            raise BadState("there is no receipt: call enable_receipt() before computing")
        durations = () if result is None else result.step_durations
        compilation = self._compilation
        return recorder.receipt(compilation.plan.steps, compilation.report, durations)

    def duration(self, duration: Duration) -> int | None:
        """Returns how long the last computation took, in nanoseconds.

        Returns None if the device does not report this duration, or if another device took over.

        Raises:
            BadData: the value is not a duration.
            BadState: timing was not enabled, or the execution has not completed or has failed.
        """
        duration = member(duration, Duration, "the duration")
        self._finish_if_over()
        with self._lock:
            result = self._measured()
            fenced = duration in (Duration.FENCED_ON_HARDWARE, Duration.FENCED_IN_DRIVER)
            timing = self._after_fences if fenced and self._after_fences is not None else result.timing
        on_hardware = duration in (Duration.ON_HARDWARE, Duration.FENCED_ON_HARDWARE)
        return timing.on_device_ns if on_hardware else timing.in_driver_ns

    def step_durations(self) -> tuple[StepDuration, ...]:
        """Returns the time of each step in the last computation, summed over the step's runs.

        Raises:
            BadState: timing was not enabled, or the execution has not completed or has failed.
        """
        self._finish_if_over()
        with self._lock:
            return self._measured().step_durations

    def _measured(self) -> ExecutionResult:
        result = self._completed()
        if not self._settings.measure or not result.is_sufficient:
            raise BadState(
                "no duration is known: call set_measure_timing() before computing, and compute without errors"
            )
        return result

    def _completed(self) -> ExecutionResult:
        if self._state is not COMPLETED:
            raise BadState("the execution has not completed; call compute(), or wait for its event")
        if self._result is None:
            raise BadState(
                "the execution failed and has no results; its error was raised by compute() or the event"
            )
        return self._result
