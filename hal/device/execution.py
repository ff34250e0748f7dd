"""Executions: their options, the shapes of their outputs, and their durations."""

import time
from numbers import Integral

from msgspec import Struct

from neurald.hal.api_arguments import shown
from neurald.hal.errors import BadData, MissedDeadlinePersistent, MissedDeadlineTransient
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.model.types import Dimensions, OperandType, byte_size
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.deadline import deadline_in

#: How many seconds a WHILE may run, unless the execution sets another limit, and the longest limit
#: that applications and clients of a daemon can set.
DEFAULT_LOOP_TIMEOUT_S = 2.0
MAX_LOOP_TIMEOUT_S = 15.0

#: The largest duration in nanoseconds. Android uses the next number for unknown durations.
MAX_DURATION_NS = 2**64 - 2

#: The value of `KernelTime.label` for an operation that runs on its reference, because it has no
#: kernel.
REFERENCE = "reference"
#: Values of `KernelTime.label` for the copies of inputs to a device, and of outputs from it, that
#: are part of each execution.
COPY_IN = "copy to the device"
COPY_OUT = "copy from the device"


def loop_timed_out(loop: str) -> MissedDeadlineTransient:
    """Returns the error of a loop that ran longer than its timeout.

    Args:
        loop: the name of the operation.
    """
    return MissedDeadlineTransient(
        f"{loop} ran longer than its loop timeout; the default is {DEFAULT_LOOP_TIMEOUT_S:g} s, and "
        f"Execution.set_loop_timeout takes up to {MAX_LOOP_TIMEOUT_S:g} s"
    )


class ExecuteOptions(Struct, frozen=True, kw_only=True):
    """Options for running a request.

    Attributes:
        measure: report `ExecutionResult.timing`.
        deadline_s: the deadline on the clock of `time.monotonic()`; None for no limit.
        loop_timeout_s: how long one WHILE operation may run; infinity for no limit, as LiteRT has
            none.
        cancellation: checked between operations and inside long ones; None if it cannot be
            cancelled.
        attributes: values of execution attributes of extensions, all of which the device declares.
    """

    measure: bool = False
    deadline_s: float | None = None
    loop_timeout_s: float = DEFAULT_LOOP_TIMEOUT_S
    cancellation: Cancellation | None = None
    attributes: tuple[AttributeValue, ...] = ()

    def require_time(self) -> None:
        """Raises MissedDeadlinePersistent if the deadline has passed before the execution began."""
        if self.deadline_s is not None and time.monotonic() >= self.deadline_s:
            raise MissedDeadlinePersistent("the deadline had passed before the execution started")

    def require_start(self) -> None:
        """Raises an error if the execution is late or cancelled before it starts.

        Raises:
            MissedDeadlinePersistent: its deadline has passed.
            Cancelled: it was cancelled.
        """
        self.require_time()
        if self.cancellation is not None:
            self.cancellation.require_not_cancelled("before it began")

    def limited_to(self, seconds: float | None) -> "ExecuteOptions":
        """Returns the options with a deadline in this many seconds, if that is earlier."""
        limit = deadline_in(seconds)
        if limit is None:
            return self
        return replace(self, deadline_s=limit if self.deadline_s is None else min(limit, self.deadline_s))


class OutputShape(Struct, frozen=True, kw_only=True):
    """The actual shape of an output, and whether the request's buffer was large enough for it.

    Attributes:
        dimensions: the dimensions of the output.
        sufficient: whether the buffer was large enough.
        length: the size in bytes of an output of type TENSOR_STRING, which its shape does not
            determine.
    """

    dimensions: Dimensions
    sufficient: bool = True
    length: int | None = None

    def size_bytes(self, operand_type: OperandType) -> int | None:
        """Returns the size of an output of that type in bytes, None if it is not known."""
        if operand_type is OperandType.TENSOR_STRING:
            return self.length
        return None if self.dimensions is None else byte_size(operand_type, self.dimensions)


class Timing(Struct, frozen=True, kw_only=True):
    """Durations of an execution in nanoseconds; None where a device cannot measure them.

    Attributes:
        on_device_ns: time of computing on the device; part of `in_driver_ns`.
        in_driver_ns: time that the driver had the execution, without the time in queues.
        queued_ns: time that the execution waited for others to end.
    """

    on_device_ns: int | None = None
    in_driver_ns: int | None = None
    queued_ns: int | None = None

    def check(self) -> None:
        """Raises BadData unless each duration is unknown or a possible number of nanoseconds."""
        for what, ns in (
            ("on the device", self.on_device_ns),
            ("in the driver", self.in_driver_ns),
            ("in queues", self.queued_ns),
        ):
            if ns is not None and not (isinstance(ns, Integral) and 0 <= ns <= MAX_DURATION_NS):
                raise BadData(f"it reports {shown(ns)} as its time {what}; nanoseconds are expected")

    def queued_for(self, waited_ns: int) -> "Timing":
        """Returns the timing of an execution that had waited this long in a queue before."""
        return replace(self, queued_ns=min((self.queued_ns or 0) + max(0, waited_ns), MAX_DURATION_NS))

    def after_waiting(self, waited_ns: int) -> "Timing":
        """Returns the timing from `waited_ns` earlier on, which counts as time in the driver."""
        if self.in_driver_ns is None:
            return self
        return replace(self, in_driver_ns=min(self.in_driver_ns + waited_ns, MAX_DURATION_NS))


class StepDuration(Struct, frozen=True, kw_only=True):
    """The durations of one step of a plan, over all its runs in one execution, in nanoseconds.

    Attributes:
        step: its position among the plan's steps.
        device: name of the device that it was planned for.
        runs: how often it ran: several times in a loop, or when a buffer had to grow; never in a
            branch that was not taken.
        compute_ns: computing on the device; None if the device cannot measure it.
        overhead_ns: the time in the driver, other than computing; None if the
            device cannot measure it.
        queue_ns: waiting for other executions to end; None if the device cannot measure it.
        transfer_ns: the time in the calls, but outside of the driver and its
            queue: data transfer. All of the time if the device cannot measure the other parts.
    """

    step: int
    device: str
    runs: int
    compute_ns: int | None
    overhead_ns: int | None
    queue_ns: int | None
    transfer_ns: int

    @property
    def total_ns(self) -> int:
        """The total duration of its calls."""
        return (self.compute_ns or 0) + (self.overhead_ns or 0) + (self.queue_ns or 0) + self.transfer_ns


class ExecutionResult(Struct, frozen=True, kw_only=True):
    """The outcome of an execution. If an output did not fit, only the shapes are defined.

    Attributes:
        output_shapes: one for each output.
        timing: if it was to be measured.
        step_durations: the step durations of a plan, if they were to be measured; devices leave it
            empty.
    """

    output_shapes: tuple[OutputShape, ...]
    timing: Timing = Timing()
    step_durations: tuple[StepDuration, ...] = ()

    @property
    def is_sufficient(self) -> bool:
        """True if every output fitted its buffer."""
        # A generator takes longer, and every execution asks.
        for shape in self.output_shapes:  # noqa: SIM110
            if not shape.sufficient:
                return False
        return True


class KernelTime(Struct, frozen=True, kw_only=True):
    """The duration of one kernel of a prepared model.

    Attributes:
        name: the name of the kernel, or of whatever else computes the operations.
        duration_ns: the duration on the device.
        operations: positions in the main graph of the operations that it computes. A kernel may
            compute several operations, and several kernels one operation.
        label: how it computes, for display: "tile 64x64, tensor cores" for example; `REFERENCE`,
            `COPY_IN` or `COPY_OUT`.
    """

    name: str
    duration_ns: int
    operations: tuple[int, ...]
    label: str = ""

    @property
    def is_reference(self) -> bool:
        """True if this is the reference of an operation, not a kernel."""
        return self.label == REFERENCE

    @property
    def is_copy(self) -> bool:
        """True if this is a copy of inputs or outputs, which computes no operation."""
        return self.label in (COPY_IN, COPY_OUT)
