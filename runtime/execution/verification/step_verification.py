"""Verifies sampled executions of one step against the CPU device.

Inputs and outputs of a sampled execution are copied. The CPU device computes the same in the
background while the application goes on, and the results are compared; the first sampled execution
waits for this, and with a share of 1 all do, so that the application gets the right results. If
results differ, the CPU device runs the step from then on. In the background the operations are
found that the device computes wrong; they are recorded, so that no application of the user gives
them to this version of the driver again.
"""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from neurald.hal.crashes.wrong_results import WrongResults
from neurald.hal.device import Device, ExecuteOptions, ExecutionResult, PreparedModel
from neurald.hal.errors import BadState, Error
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.memory.pool import Memory
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.lanes import lane
from neurald.runtime.execution.verification.captured_run import (
    CapturedRun,
    Copies,
    copied_inputs,
    output_space,
    outputs_of,
    write_outputs,
)
from neurald.runtime.execution.verification.investigation import Investigation, Prepare, WrongOperations
from neurald.runtime.execution.verification.sampling import Sampler
from neurald.runtime.execution.verification.step_comparison import Difference, StepComparison, may_be_compared
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.preparer import Preparer

logger = logging.getLogger(__name__)

#: How many differences that rounding may explain are investigated.
_MAX_INVESTIGATIONS: Final = 3
#: While copies of this many bytes wait to be compared, no further execution is verified.
_MAX_WAITING_BYTES: Final = 64 << 20


class VerificationStatus(Struct, frozen=True, kw_only=True):
    """The verification of one step so far.

    Attributes:
        step: position of the step in the plan.
        device: the device of the step.
        runs: how many executions of the device there were.
        verified: how many of them were verified; those that wait to be compared do not count.
        is_wrong: True if the device was found to be wrong, so that the CPU device runs the step.
        finding: what was found; empty if all results were right.
    """

    step: int
    device: str
    runs: int
    verified: int
    is_wrong: bool
    finding: str

    def __str__(self) -> str:
        found = self.finding or "all were right"
        if self.is_wrong:
            found = f"the CPU device runs it from now on, since {found}"
        return (
            f"step {self.step} of {self.device}: {self.verified} of {self.runs} runs were verified; {found}"
        )


class _Ran(Struct, frozen=True, kw_only=True):
    """An execution of the device that is to be compared, in memory of its own.

    Attributes:
        arguments, copies: the arguments and copies of the inputs; see `CapturedRun.of`.
        space: how much space each output had; see `output_space`.
        result: the result of the device.
        outputs: the outputs of the device, as many bytes as the result needs.
        options: the options of the execution.
    """

    arguments: Sequence[Argument]
    copies: Copies
    space: list[tuple[int, Argument]]
    result: ExecutionResult
    outputs: list[Memory]
    options: ExecuteOptions

    @property
    def size_bytes(self) -> int:
        """The memory that it takes."""
        copied = sum(len(each) for each in self.copies if each is not None)
        return copied + sum(memory.size for memory in self.outputs)


class StepVerification:
    """The verification of one step. Thread-safe.

    Args:
        step: a step of a device other than the CPU device.
        sampler: chooses executions.
        cpu_model: returns the step's prepared model of the CPU device.
        prepare: prepares parts of the step.
        when_wrong: the function that is called with the reason when the device is found to be
            wrong, and again when more is known.

    Attributes:
        is_refuted: True if the device was found to be wrong.
        finding: describes what was found.
        ran: notes an execution of the device that was not verified; takes its time, or None if that
            is not known.
    """

    def __init__(
        self,
        step: ExecutionStep,
        sampler: Sampler,
        cpu_model: Callable[[], PreparedModel],
        prepare: Prepare,
        when_wrong: Callable[[str], None],
    ) -> None:
        self._step = step
        self._sampler = sampler
        self._cpu_model = cpu_model
        self._prepare = prepare
        self._when_wrong = when_wrong
        self._comparison = StepComparison(step.model)
        self._investigations = 0
        self._is_investigating = False
        self._changed = threading.Condition(forkable_lock())
        #: How many executions wait to be compared, or differences to be investigated.
        self._unfinished = 0
        self._waiting_bytes = 0
        self._is_ready = False
        self._is_possible = True
        self.is_refuted = False
        self.finding = ""
        # Methods of this class would call others for every run.
        self.ran: Callable[[float | None], None] = sampler.ran
        self._noted = sampler.noted
        lane("stand-ins").submit(partial(_get_ready, weakref.ref(self)))

    @property
    def is_due(self) -> bool:
        """True if the next execution is to be verified."""
        sampler = self._sampler
        if not self._is_possible or not sampler.is_due:
            return False
        return sampler.is_certain or (
            self._has_room and (self._is_ready or sampler.verified > 0 or sampler.runs >= sampler.patience)
        )

    @property
    def _has_room(self) -> bool:
        """True if another execution may wait to be compared."""
        return self._waiting_bytes < _MAX_WAITING_BYTES

    def closes_fast_paths(self) -> bool:
        """Returns True if the next execution must not take a fast path. Asked before every one."""
        return self.is_refuted or (len(self._noted) >= self._sampler.pause and self.is_due)

    def status(self, number: int) -> VerificationStatus:
        """Returns the verification so far.

        Args:
            number: position of the step in the plan.
        """
        return VerificationStatus(
            step=number,
            device=self._step.device.name,
            runs=self._sampler.runs,
            verified=self._sampler.verified - self._sampler.waiting,
            is_wrong=self.is_refuted,
            finding=self.finding,
        )

    def get_ready(self) -> None:
        """Makes the CPU device prepare the step, and run it once, since first runs take longer."""
        try:
            with convert_driver_faults(cpu_device().name):
                _run_on_zeros(self._step.model, self._cpu_model())
        except Error as error:
            logger.warning("a step of %s cannot be verified: %s", self._step.device.name, error)
            self.finding = f"it cannot be verified: {error}"
            self._is_possible = False
        self._is_ready = True

    def begin(self, request: Request) -> Copies | None:
        """Returns copies of the inputs of an execution that is to be verified; None for others."""
        if len(self._noted) < self._sampler.pause or not self.is_due:
            return None
        try:
            return copied_inputs(self._step.model, request)
        except Error as error:
            logger.debug("an execution of %s cannot be verified: %s", self._step.device.name, error)
            return None

    def end(
        self,
        copies: Copies,
        request: Request,
        options: ExecuteOptions,
        result: ExecutionResult,
        device_s: float,
        begun: float,
    ) -> ExecutionResult:
        """Compares a valid result, or has it compared in the background.

        Args:
            copies: see `begin`.
            request, options: the request and options of the execution.
            result: the result of the device, in the memory of the request.
            device_s: how long the device took.
            begun: when `begin` was called, on the clock of `time.perf_counter()`.

        Returns:
            The result, or that of the CPU device if it is known already that they differ.
        """
        sampler = self._sampler
        waits = sampler.verifies_all or not sampler.verified or not self._has_room
        is_later = False
        try:
            if not result.is_sufficient:
                return result
            model = self._step.model
            ran = _Ran(
                arguments=request.inputs,
                copies=copies,
                space=output_space(model, request, result.output_shapes),
                result=result,
                outputs=outputs_of(model, request, result),
                options=options,
            )
            if not waits:
                is_later = self._compare_later(ran)
                return result
            found = self._right_result(ran, options)
            if found is None:
                return result
            right, arrays = found
            return write_outputs(request, right, arrays) if right.is_sufficient else right
        except Error as error:
            logger.debug("an execution of %s cannot be verified: %s", self._step.device.name, error)
            return result
        finally:
            sampler.verified_run(device_s, time.perf_counter() - begun - device_s, is_waiting=is_later)

    def _compare_later(self, ran: _Ran) -> bool:
        """Compares an execution in the background. False if the process is about to exit."""
        size = ran.size_bytes
        with self._changed:
            self._waiting_bytes += size

        def compare(cancellation: Cancellation) -> None:
            begun = time.perf_counter()
            try:
                if not self.is_refuted:
                    options = replace(ran.options, measure=False, deadline_s=None, cancellation=cancellation)
                    self._right_result(ran, options)
            except Error as error:
                logger.debug("an execution of %s cannot be verified: %s", self._step.device.name, error)
            finally:
                self._sampler.compared(time.perf_counter() - begun)
                with self._changed:
                    self._waiting_bytes -= size

        return self._submit("verified executions", compare)

    def _submit(self, name: str, work: Callable[[Cancellation], None]) -> bool:
        """Does work in a lane, for which `wait` waits. False if the process is about to exit."""

        def finish(cancellation: Cancellation) -> None:
            try:
                work(cancellation)
            finally:
                self._finish()

        with self._changed:
            self._unfinished += 1
        if lane(name).submit(finish) is not None:
            return True
        self._finish()
        return False

    def _finish(self) -> None:
        with self._changed:
            self._unfinished -= 1
            self._changed.notify_all()

    def _right_result(self, ran: _Ran, options: ExecuteOptions) -> tuple[ExecutionResult, list[Array]] | None:
        """Compares an execution.

        Returns:
            None if the results agree; otherwise the CPU device's result, and its outputs if they
                had enough space.

        Raises:
            Error: the CPU device failed.
        """
        cpu = self._cpu_model()
        run = CapturedRun.of(self._step.model, ran.arguments, ran.copies)
        with convert_driver_faults(cpu_device().name):
            right, memories = run.execute(cpu, options, ran.space)
        if not right.is_sufficient:
            self._differ(run, Difference(text="an output has another shape", is_certain=True))
            return right, []
        wanted = run.output_arrays(right, memories)
        found = run.output_arrays(ran.result, ran.outputs)
        difference = self._comparison.difference(wanted, found)
        if difference is None:
            return None
        self._differ(run, difference)
        return right, wanted

    def _differ(self, run: CapturedRun, difference: Difference) -> None:
        """Begins to find out what is wrong."""
        if difference.is_certain and not self.is_refuted:
            self._refute(f"it computed wrong values: {difference.text}")
        elif not self.is_refuted:
            self.finding = f"results differ, perhaps by rounding: {difference.text}"
        if self._is_investigating or self._investigations >= _MAX_INVESTIGATIONS:
            return
        self._is_investigating = True
        self._investigations += 1
        self._submit("verification", partial(self.investigate, run, difference.text))

    def wait(self, timeout_s: float | None) -> bool:
        """Waits until nothing is compared or investigated; returns False if that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unfinished, timeout_s)

    def _refute(self, finding: str) -> None:
        self.finding = finding
        self.is_refuted = True
        self._when_wrong(finding)

    def investigate(self, run: CapturedRun, difference: str, cancellation: Cancellation) -> None:
        """Finds the operations that the device computes wrong, and records them."""
        try:
            device = self._step.device
            found = Investigation(run, difference, device, cpu_device(), self._prepare, cancellation).search()
            if not cancellation.is_cancelled:
                self._conclude(found)
        finally:
            self._is_investigating = False

    def _conclude(self, found: WrongOperations) -> None:
        if not found.is_certain and not self.is_refuted:
            self.finding = f"results differ by rounding: {found.difference}"
            return
        device = self._step.device.name
        self._refute(f"it computed wrong values: {found.difference}; {found.narrowing}")
        logger.warning("%s computes operations wrong: %s; %s", device, found.difference, found.narrowing)
        self._keep(found)

    def _keep(self, found: WrongOperations) -> None:
        device = self._step.device
        records = WrongResults.of_user()
        if records is None:
            return
        try:
            records.add(device.name, device.version, found.pattern, found.difference, found.narrowing)
        except BadState as error:
            logger.warning("what %s computes wrong is not recorded: %s", device.name, error)


def verification_of(
    step: ExecutionStep,
    share: float,
    cpu_model: Callable[[], PreparedModel],
    preparer: Preparer,
    when_wrong: Callable[[str], None],
) -> StepVerification | None:
    """Returns the verification of a step, or None if its results cannot be compared.

    Args:
        step, cpu_model, when_wrong: see `StepVerification`.
        share: the share of the executions.
        preparer: the preparer of the step, which prepares parts of it.
    """
    if not may_be_compared(step.model):
        return None
    parts = preparer.without_cache()

    def prepare(device: Device, model: Model) -> PreparedModel:
        return parts.prepare(device, model).prepared_model

    return StepVerification(step, Sampler(share), cpu_model, prepare, when_wrong)


def _run_on_zeros(model: Model, prepared: PreparedModel) -> None:
    """Runs a model once if the sizes of its inputs are known, whatever comes out."""
    operands = [model.main.operands[index] for index in model.main.inputs]
    if not all(operand.is_fully_specified for operand in operands):
        return
    arrays = [np.zeros(operand.dimensions or (), operand.type.dtype) for operand in operands]
    try:
        CapturedRun.on_arrays(model, arrays).execute(prepared, ExecuteOptions())
    except Error as error:
        logger.debug("a step does not run on zeros: %s", error)


def _get_ready(reference: "weakref.ref[StepVerification]", _: Cancellation) -> None:
    verification = reference()
    if verification is not None:
        verification.get_ready()
