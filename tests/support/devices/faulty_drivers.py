"""Drivers with one fault each, which a conformance suite must find.

Each is the sample driver with a realistic fault. `FAULTS` lists the operations that show it, and
what a report on it must say.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from support.devices.faulty import Execute, FaultyPrepared
from support.devices.faulty_answers import (
    Allocating,
    Boasting,
    Impatient,
    Keeping,
    Leaking,
    Moody,
    NoEmpty,
    Promising,
    SameMemory,
    Silent,
)
from support.devices.faulty_compilers import (
    Colliding,
    CollidingArtifacts,
    Crashing,
    Miscompiling,
    Trusting,
    Varying,
    equal_padding,
    first_channel_scale,
    negative_axis,
    replacing,
    unsigned_zero,
)
from support.devices.faulty_executions import (
    Remembering,
    SharedScratch,
    StaleBurst,
    StaleScratch,
    WritesConstants,
    aborts,
    adds_to_output,
    always_sufficient,
    from_the_start,
    ignores_cancel,
    ignores_deadline,
    ignores_deadline_while_running,
    jumps_to_nowhere,
    late_as_failure,
    leaves_tail,
    long_remainder,
    negative_time,
    no_nan,
    no_shape_when_short,
    overrun,
    past_the_memory,
    read_past_constants,
    reads_before_an_input,
    reads_behind_input,
    reads_past_an_input,
    short_overrun,
    two_steps_off,
    underrun,
    waits_for_ever,
    writes_back_past_an_output,
    writes_input,
    wrong_at_the_end_of_a_page,
    wrong_shape,
)
from support.devices.unrecorded import Faulty, SampleDevice

from neurald.hal.device import Device, ExecuteOptions, ExecutionResult, PreparedModel, PrepareOptions
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Request


class Wrapping(SampleDevice):
    """Wraps its prepared models in another class."""

    def __init__(self, kind: Callable[[PreparedModel], PreparedModel]) -> None:
        super().__init__("faulty")
        self._kind = kind

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        return self._kind(prepared)


class OrderDependent(SampleDevice):
    """Prepared models with equal numbers of inputs and outputs use the constants loaded last."""

    last: PreparedModel | None = None

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        right = super().prepare_model(model, options)
        self.last = right
        outer = self

        def execute(own: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
            used = outer.last or own
            graphs = [each.model.main for each in (used, own)]  # type: ignore[attr-defined]
            ends = [[[g.operands[i] for i in (*g.inputs, *g.outputs)], len(g.inputs)] for g in graphs]
            return (used if ends[0] == ends[1] else own).execute(request, options)

        return FaultyPrepared(right, execute)


# Drivers with faults that only guard pages reveal. Another process creates them, by their names.


def create_reading_past_an_input() -> Device:
    return Faulty(reads_past_an_input)


def create_reading_before_an_input() -> Device:
    return Faulty(reads_before_an_input)


def create_writing_past_an_output() -> Device:
    return Faulty(writes_back_past_an_output)


def create_aborting() -> Device:
    return Faulty(aborts)


def create_ending_its_process() -> Device:
    def ends(*call: object) -> ExecutionResult:
        os.abort()

    return Faulty(ends)


def create_following_null() -> Device:
    return Faulty(jumps_to_nowhere)


def create_waiting() -> Device:
    return Faulty(waits_for_ever)


def create_wrong_at_the_end_of_a_page() -> Device:
    return Faulty(wrong_at_the_end_of_a_page)


class Printing(SampleDevice):
    """Writes to standard output."""

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        os.write(1, b"a model of mine\n" * 100)
        return super().prepare_model(model, options)


def create_printing() -> Device:
    return Printing("faulty")


class Forking(SampleDevice):
    """Forks a process that outlives it for a while, and aborts."""

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        if not os.fork():
            time.sleep(25)
            os._exit(0)
        os.abort()


def create_forking() -> Device:
    return Forking("faulty")


class ReadingConstants(SampleDevice):
    """Reads the constants of convolutions in whole vectors."""

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        if model.main.operations[0].type is OperationType.CONV_2D:
            read_past_constants(model)
        return super().prepare_model(model, options)


def create_reading_past_constants() -> Device:
    return ReadingConstants("faulty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A driver with a fault.

    Attributes:
        create: creates the device.
        operations: operations that show the fault.
        says: text in the subject, label or detail of a reported failure.
        driver: name that opens the device in another process, for faults that guard pages reveal.
    """

    create: Callable[[], Device]
    operations: tuple[str, ...]
    says: str
    driver: str = ""


def _executing(execute: Execute, says: str, *operations: str) -> Fault:
    return Fault(create=lambda: Faulty(execute), operations=operations or ("ADD",), says=says)


def _wrapping(kind: Callable[[PreparedModel], PreparedModel], says: str, *operations: str) -> Fault:
    return Fault(create=lambda: Wrapping(kind), operations=operations or ("ADD",), says=says)


def _miscompiling(
    change: Callable[[str, Operand, Mapping[str, Operand]], Operand], says: str, *operations: str
) -> Fault:
    return Fault(create=lambda: Miscompiling(change), operations=operations, says=says)


def _replacing(parameter: str, old: int | None, new: int, says: str, *operations: str) -> Fault:
    return Fault(create=replacing(parameter, old, new), operations=operations, says=says)


def _colliding(without: Sequence[str], says: str, *operations: str) -> Fault:
    return Fault(create=lambda: Colliding(*without), operations=operations, says=says)


def _of(kind: Callable[..., Device], says: str, *operations: str) -> Fault:
    return Fault(create=kind, operations=operations or ("ADD",), says=says)


def _beside_buffers(create: Callable[[], Device], says: str, *operations: str) -> Fault:
    driver = f"{create.__module__}:{create.__name__}"
    return Fault(create=create, operations=operations or ("ADD",), says=says, driver=driver)


FAULTS: Mapping[str, Fault] = {
    "overrun": _executing(overrun, "behind the end of output 0"),
    "overrun by address": _executing(past_the_memory, "it wrote"),
    "underrun": _executing(underrun, "before output 0"),
    "overrun of a short output": _executing(short_overrun, "with a buffer that is too small: it wrote"),
    "writes to an input": _executing(writes_input, "it wrote to input"),
    "writes to constants": _wrapping(WritesConstants, "constant"),
    "leaves the tail unwritten": _executing(leaves_tail, "never written"),
    "adds to what the output held": _executing(adds_to_output, "differ"),
    "reads behind an input": _executing(reads_behind_input, "differ"),
    "reads inputs from the start": _executing(from_the_start, "differ"),
    "two steps off": _executing(two_steps_off, "QUANT8"),
    "no NaN": _executing(no_nan, "expected nan", "LOG"),
    "wrong remainder of long vectors": _executing(long_remainder, "long", "FLOOR"),
    "wrong shape": _executing(wrong_shape, "shape"),
    "always sufficient": _executing(
        always_sufficient, "a buffer that is too small was reported as sufficient"
    ),
    "no shapes when short": _executing(no_shape_when_short, "the reported shapes are"),
    "ignores cancel": _executing(ignores_cancel, "cancellation"),
    "ignores the deadline of a run": _executing(
        ignores_deadline_while_running, "deadline during an execution"
    ),
    "ignores deadlines": _executing(ignores_deadline, "past deadlines"),
    "calls lateness a failure": _executing(late_as_failure, "OP_FAILED"),
    "times that do not add up": _executing(negative_time, "ns on the device"),
    "remembers its first results": _wrapping(Remembering, "differ"),
    "stale scratch": _wrapping(StaleScratch, "the same inputs gave the right outputs before"),
    "shared scratch": _wrapping(SharedScratch, "concurrent executions"),
    "stale burst": _wrapping(StaleBurst, "burst"),
    "depends on the order": Fault(
        create=lambda: OrderDependent("faulty"), operations=("ADD",), says="had been prepared and run"
    ),
    "ignores RELU1": _replacing("activation", 2, 0, "activation=RELU1", "ADD"),
    "takes RELU6 for RELU": _replacing("activation", 3, 1, "activation=RELU6", "MUL"),
    "takes RELU1 for RELU6": _replacing("activation", 2, 3, "activation=RELU1", "CONV_2D"),
    "takes SAME for VALID": _replacing("padding_scheme", 1, 2, "padding_scheme=1", "MAX_POOL_2D"),
    "ignores dilation": _replacing("dilation_width", None, 1, "dilation_width=2", "CONV_2D"),
    "ignores NCHW": _replacing("nchw", None, 0, "nchw=True", "AVERAGE_POOL_2D"),
    "ignores keep_dims": _replacing("keep_dims", None, 0, "is declared", "REDUCE_SUM"),
    "ignores align_corners": _replacing("align_corners", None, 0, "differ", "RESIZE_BILINEAR"),
    "negative axes": _miscompiling(negative_axis, "axis=-", "SOFTMAX"),
    "pads both sides alike": _miscompiling(equal_padding, "padding_", "DEPTHWISE_CONV_2D"),
    "first scale for all channels": _miscompiling(first_channel_scale, "PER_CHANNEL", "CONV_2D"),
    "zero point of the input": _miscompiling(unsigned_zero, "zero point of", "ADD"),
    "key without stride": _colliding(("stride_width", "stride_height"), "stride_", "CONV_2D"),
    "key without dilation": _colliding(("dilation_width", "dilation_height"), "dilation_", "CONV_2D"),
    "key without padding": _colliding(
        ("padding_left", "padding_right", "padding_top", "padding_bottom"), "padding_", "CONV_2D"
    ),
    "key without activation": _colliding(("activation",), "activation=", "ADD"),
    "key without axis": _colliding(("axis",), "axis=", "SOFTMAX"),
    "key without scales": _colliding(("scale",), "scale of", "ADD"),
    "key without zero points": _colliding(("zero_point",), "zero point of", "ADD"),
    "key without constants": _colliding(("constants",), "other values", "ADD"),
    "colliding artifacts": _of(CollidingArtifacts, "(from the cache)"),
    "crash of bad artifacts": _of(Crashing, "IndexError"),
    "trusts bad artifacts": _of(Trusting, "damaged cache files"),
    "artifacts with the time": _of(Varying, "two preparations of the same model differ"),
    "promises what it cannot do": _of(Promising, "two dimensions of length 1"),
    "verdicts with moods": _of(Moody, "busy"),
    "verdicts that allocate": _of(Allocating, "verdicts are cheap"),
    "refuses without a reason": _of(Silent, "without a reason"),
    "needs no time": _of(Boasting, "capabilities"),
    "keeps prepared models": _of(Keeping, "release of models"),
    "keeps constants": _of(Leaking, "MiB are still in use"),
    "no empty tensors": _of(NoEmpty, "ZeroDivisionError"),
    "does not wait for fences": _of(Impatient, "signalled before"),
    "one memory for all": _of(SameMemory, "other device memory"),
    "reads past an input": _beside_buffers(
        create_reading_past_an_input, "it read 1 byte behind the end of input 1"
    ),
    "reads before an input": _beside_buffers(
        create_reading_before_an_input, "it read 64 bytes before the start of input 0"
    ),
    "writes past an output what is there": _beside_buffers(
        create_writing_past_an_output, "it wrote 1 byte behind the end of output 0"
    ),
    "reads past constants": _beside_buffers(
        create_reading_past_constants, "prepare_model: it read 1 byte behind the end of constant 0", "CONV_2D"
    ),
    "aborts": _beside_buffers(create_aborting, "its process ended with SIGABRT: an assertion does not hold"),
    "follows a null pointer": _beside_buffers(
        create_following_null, "its process ended with SIGSEGV at 0x10, which is near no buffer"
    ),
    "wrong at the end of a page": _beside_buffers(
        create_wrong_at_the_end_of_a_page, "buffers before guard pages: output 0"
    ),
}
