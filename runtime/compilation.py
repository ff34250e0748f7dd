"""Compilation: a model with an executable plan, which runs it and explains it."""

import logging
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.api_arguments import flag, items, waiting_time
from neurald.hal.device import Device
from neurald.hal.lazy_numpy import Array
from neurald.hal.model.extension import AttributeUse
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.model.model import Model
from neurald.hal.process.fork import notice_fork
from neurald.hal.records import replace
from neurald.hal.unpicklable import Unpicklable
from neurald.hal.wording import counted, listed
from neurald.runtime.devices.explicit_list import require_one_device
from neurald.runtime.devices.extensions import with_attribute
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.array_runs import ArrayRuns
from neurald.runtime.execution.background.optimization import Optimization
from neurald.runtime.execution.binding.given_inputs import GivenInputs
from neurald.runtime.execution.compiled_model import COMPILE_ELSEWHERE
from neurald.runtime.execution.expected_shapes import ExpectedShapes, shapes_of
from neurald.runtime.execution.program.executor import plan_executor
from neurald.runtime.execution.quick_runs import QuickRuns
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.execution.variables.state import State
from neurald.runtime.plan.planning_result import PlanningResult
from neurald.runtime.plan.preparer import Preparer
from neurald.runtime.plan.report import CompilationReport, Move
from neurald.runtime.plan.status import CompilationStatus, StepTier

if TYPE_CHECKING:
    # Imported on demand: a model that runs in one call of its device needs none of these.
    from neurald.runtime.execution.burst import Burst
    from neurald.runtime.execution.execution import Execution
    from neurald.runtime.execution.measurement.receipt import ExecutionReceipt
    from neurald.runtime.execution.profile import StepProfile
    from neurald.runtime.execution.trials.plan_guard import PlanGuard
    from neurald.runtime.execution.trials.plan_trial import PlanTrial, TrialOutcome
    from neurald.runtime.execution.verification.step_verification import VerificationStatus
    from neurald.runtime.explain.explanation import Explanation
    from neurald.runtime.explain.partitioned_model import PartitionedModel
    from neurald.runtime.partitioning.overrides import Override

_LOGGER: Final = logging.getLogger(__name__)


class Compilation(Unpicklable):
    """A compiled model, ready to run. Thread-safe: several executions may run at once.

    Args:
        model: the compiled model.
        planned: its plan.
        split: returns how it was split, which only explanations tell.
        recovery: handles devices that fail.
        state: the variables of a stateful model.
        optimization: prepares optimised code.
        explicit_devices: the devices that the application chose; None if it left the choice open.
        strict: see `CompilationBuilder`.

    Attributes:
        model: the compiled model.
        plan: which device runs which operations, and in which order.
        state: the variables of a stateful model.
        executor: runs the plan.
        recovery: handles devices that fail.
    """

    instead_of_pickling = COMPILE_ELSEWHERE

    def __init__(
        self,
        model: Model,
        planned: PlanningResult,
        split: "Callable[[], PartitionedModel]",
        recovery: Recovery,
        state: State,
        optimization: Optimization,
        *,
        explicit_devices: tuple[Device, ...] | None,
        strict: bool,
    ) -> None:
        self.model = model
        self.plan = planned.plan
        self._report = planned.report
        self.recovery = recovery
        self._optimization = optimization
        self.executor = plan_executor(planned.plan)
        self.state = state
        self._split = split
        self._explicit_devices = explicit_devices
        self._strict = strict
        self._inputs = GivenInputs(model)
        self._shapes = ExpectedShapes(model)
        self._array_runs = ArrayRuns()
        self._quick_runs = QuickRuns()
        self._trial: PlanTrial | None = None
        self._verdict = ""
        self._notes: list[str] = []
        self._moves: tuple[Move, ...] = ()
        optimization.call_when_replaced(weakref.WeakMethod(self._forget_runs))

    def __repr__(self) -> str:
        devices = ", ".join(dict.fromkeys(step.device.name for step in self.plan.steps)) or "no device"
        return (
            f"<Compilation of {counted(len(self.model.main.operations), 'operation')} "
            f"in {counted(len(self.plan.steps), 'step')} on {devices}>"
        )

    @property
    def report(self) -> CompilationReport:
        """The preparation of each step, a takeover by the CPU, and the devices that have failed."""
        steps = tuple(
            self.recovery.step(step).report or report
            for step, report in zip(self.plan.steps, self._report.steps, strict=True)
        )
        return replace(self._report, steps=steps, failures=self.recovery.failures)

    def compare_with_rivals(self, preparer: Preparer, guard: "PlanGuard") -> None:
        """Lets the plan and devices that can run the whole model take turns at first.

        Only neurald itself calls this.

        Args:
            preparer: prepares the model for these devices.
            guard: the devices, and what to keep the decision under.
        """
        from neurald.runtime.execution.trials.plan_trial import PlanTrial  # slow to import

        decide = weakref.WeakMethod(self._change_over)
        self._trial = PlanTrial(
            self.model, self.executor, self.recovery, preparer, guard.key, guard.rivals, decide
        )
        self.executor = self._trial

    def add_note(self, note: str) -> None:
        """Adds a note to explanations. Only neurald itself calls this."""
        self._notes.append(note)

    @cached_property
    def partitioned(self) -> "PartitionedModel":
        """The devices that were considered, and how the model was split."""
        return self._split()

    def keep_plan(self, reason: str) -> None:
        """Ends the comparison with other devices, so that the plan stays.

        Only neurald itself calls this.

        Args:
            reason: the reason for explanations.
        """
        trial = self._trial
        if trial is not None:
            trial.stop(reason)

    def _change_over(self, outcome: "TrialOutcome") -> None:
        """Takes over what the comparison with other devices has decided."""
        if self._trial is not None:
            self._verdict = f"{listed(self._trial.contestants, 'or')}: {outcome.reason}"
        winner, planned = outcome.winner, outcome.planned
        if winner is not None and planned is not None:
            (step,) = planned.plan.steps
            is_cpu = step.device is cpu_device()
            moved = Move(
                step=None,
                device="",
                reason="it is faster there",
                since_s=time.time(),
                to="" if is_cpu else step.device.name,
            )
            self._moves = (*self.recovery.moves, moved)
            self._report = replace(planned.report, fallback=outcome.reason if is_cpu else "")
            result = self.partitioned.on_device(self.model, winner.index, outcome.reason)
            self.partitioned = replace(self.partitioned, result=result)
            self.recovery.replace_plan(step)
            self.plan = planned.plan
            text = "%s runs the model from now on: %s"
            note_event(CountedEvent.PLAN_CHANGE, "", _LOGGER.info, text, winner.name, outcome.reason)
            self._optimization = Optimization(
                self._optimization.startup, (step,), self.recovery, self._optimization.preparer
            )
        self.executor = plan_executor(self.plan)
        self._trial = None
        self._forget_runs()

    def _forget_runs(self) -> None:
        """Drops what earlier runs have kept, since optimised code may have faster ways to run."""
        self._quick_runs = QuickRuns()

    def forget_fast_paths(self) -> None:
        """Drops what earlier runs have kept, so that the next one goes through all layers.

        Only neurald itself calls this.
        """
        self._forget_runs()
        self._array_runs = ArrayRuns()

    @property
    def status(self) -> CompilationStatus:
        """The code that the steps run, the progress of better code, and why a step has none."""
        return self._optimization.status()

    def wait_until_optimized(self, timeout: float | None = None) -> bool:
        """Waits until no step is prepared in the background any more.

        Args:
            timeout: how long to wait, in seconds; None for no limit.

        Returns:
            True if every step runs optimised code. False if the time is over, or if optimised code
                could not be prepared; `status` then says why.

        Raises:
            BadData: the timeout is negative.
        """
        notice_fork()
        return self._optimization.wait(waiting_time(timeout))

    @property
    def verifications(self) -> "tuple[VerificationStatus, ...]":
        """The number of verified executions of each step, and what was found.

        See `CompilationBuilder.set_verification`. Empty if nothing is verified.
        """
        return self.recovery.verifications

    def wait_until_investigated(self, timeout: float | None = None) -> bool:
        """Waits until no execution is verified in the background, and no difference is examined.

        Args:
            timeout: how long to wait, in seconds; None for no limit.

        Returns:
            False if the time is over.

        Raises:
            BadData: the timeout is negative.
        """
        return self.recovery.wait_until_investigated(waiting_time(timeout))

    @property
    def has_explicit_devices(self) -> bool:
        """True if the application chose the devices, so that no other device may replace them."""
        return self._explicit_devices is not None

    def require_one_device(self, what: str) -> None:
        """Raises BadData in strict mode unless the application listed exactly one device.

        Only neurald itself calls this.

        Args:
            what: what needs one, for the message.
        """
        if self._strict:
            require_one_device(self._explicit_devices, what, " in strict mode")

    def with_attribute(
        self, values: tuple[AttributeValue, ...], extension: str, attribute: int, value: bytes
    ) -> tuple[AttributeValue, ...]:
        """Adds an attribute to those of an execution; see `Execution.add_extension_attribute`.

        Only neurald itself calls this.

        Args:
            values: the attributes so far.
            extension, attribute, value: the new one.
        """
        (device,) = require_one_device(self._explicit_devices, "an attribute of an extension")
        return with_attribute(values, AttributeUse.EXECUTION, extension, attribute, value, [device])

    def explain(
        self, pin: "Override | Sequence[Override] | None" = None, *, kernels: bool = False
    ) -> "Explanation":
        """Explains the device choice for every operation.

        `moves` lists the steps that the CPU device runs, or ran, in place of other devices. `str()`
        formats the explanation as text.

        Args:
            pin: a what-if: rules, such as `neurald.pin("gpu", range(4))`, in addition to those of
                the compilation. The explanation is then that of the plan with these rules, with the
                operations that would move and what is predicted. Nothing is changed.
            kernels: also measure the kernels, as `profile` does, with the operations that each
                fuses. Execute the compilation first. A what-if has none.

        Raises:
            BadData: the rules of a what-if contradict each other or the devices.
        """
        measures = flag(kernels, "kernels")
        if pin is not None:
            from neurald.runtime.partitioning.overrides import Override

            is_rule = isinstance(pin, Override)
            rules = (pin,) if is_rule else items(pin, "pin", "a rule or a sequence of rules")
            return self.partitioned.what_if(self.model, self._report.fallback, rules)
        notes = [str(step) for step in self.status.steps if step.tier is StepTier.FIRST]
        if self._trial is not None:
            contestants = listed(self._trial.contestants, "and")
            notes.append(f"{contestants} run in turns, until the fastest is known")
        if self._verdict:
            notes.append(self._verdict)
        notes += [*map(str, self.verifications), *self._notes]
        moves = (*self._moves, *self.recovery.moves)
        found = replace(self.partitioned.explain(self.model, self._report.fallback, notes), moves=moves)
        return found.with_kernels(self.profile()) if measures else found

    def profile(self) -> "tuple[StepProfile, ...]":
        """Measures the time of each kernel, and returns it with the operations that it computes.

        Execute the compilation first: where dimensions are unspecified, the shapes of the last
        execution are used. Kernels are timed one by one on arbitrary data. The sum of their times
        is not the time of an execution, which also moves data and may run several kernels at once.
        If a device reports no times, the profile of its step has no kernels, but a reason.
        """
        from neurald.runtime.execution.profile import profile

        return profile(self.plan.steps, self.recovery)

    def create_burst(self) -> "Burst":
        """Creates a burst for executions of this compilation, one at a time.

        Use it as a context manager, or close it.
        """
        from neurald.runtime.execution.burst import Burst

        return Burst(self)

    def preferred_memory_alignment_for_input(self, index: int) -> int:
        """Returns the preferred alignment of an input's offset in its memory, in bytes.

        Args:
            index: the index of the input.

        Raises:
            BadData: there is no such input.
        """
        return self.plan.preferred_memory_of_input(index).alignment

    def preferred_memory_padding_for_input(self, index: int) -> int:
        """Returns the multiple, in bytes, that the length of an input's memory should have.

        `Execution.enable_input_and_output_padding` allows such lengths.

        Args:
            index: the index of the input.

        Raises:
            BadData: there is no such input.
        """
        return self.plan.preferred_memory_of_input(index).padding

    def preferred_memory_alignment_for_output(self, index: int) -> int:
        """Returns the preferred alignment for an output.

        See `preferred_memory_alignment_for_input`.

        Args:
            index: the index of the output.
        """
        return self.plan.preferred_memory_of_output(index).alignment

    def preferred_memory_padding_for_output(self, index: int) -> int:
        """Returns the preferred padding for an output; see `preferred_memory_padding_for_input`.

        Args:
            index: the index of the output.
        """
        return self.plan.preferred_memory_of_output(index).padding

    def run_with_receipt(self, *arrays: Any) -> "tuple[list[Array], ExecutionReceipt]":
        """Runs the model once like `run`, and also returns what happened; see `Execution.receipt`.

        Args:
            arrays: one for each input, as for `run`.
        """
        outputs, execution = self._executed(arrays, wants_receipt=True)
        return outputs, execution.receipt

    def run_endless_loops(self, *arrays: Any) -> list[Array]:
        """Runs the model once like `run`, without a limit for the time of its loops.

        Only neurald itself calls this.

        Args:
            arrays: one for each input, as for `run`.
        """
        outputs, _ = self._executed(arrays, allows_endless_loops=True)
        return outputs

    def run_stoppable(
        self,
        arrays: Sequence[Any],
        begin: "Callable[[Execution], object]",
        *,
        wants_receipt: bool = False,
    ) -> "tuple[list[Array], Execution]":
        """Runs the model once like `run`, by an execution that can be stopped.

        Only neurald itself calls this.

        Args:
            arrays: one for each input, as for `run`.
            begin: is called with the execution before it computes.
            wants_receipt: whether the execution keeps a receipt.

        Returns:
            The outputs, and the completed execution.
        """
        return self._executed(arrays, begin=begin, wants_receipt=wants_receipt)

    def _executed(self, arrays: Sequence[Any], **settings: Any) -> "tuple[list[Array], Execution]":
        """Runs the model once by an execution with other settings; see `compute_arrays`."""
        from neurald.runtime.execution.array_computation import compute_arrays  # slow to import

        inputs = self._inputs.converted(arrays)
        shapes = self._shapes.of_outputs(self, shapes_of(inputs))
        return compute_arrays(self, inputs, shapes, **settings)

    def run(self, *arrays: Any) -> list[Array]:
        """Runs the model once.

        Args:
            arrays: one for each model input, in order; None omits an optional one. An array must
                have the operand's type; any other value is converted.

        Returns:
            The outputs in order, with their actual shapes.

        Raises:
            BadData: the number of arrays, a type or a shape is wrong.
            Error: the execution failed.
        """
        run = self._array_runs.latest
        outputs = None if run is None else run(*arrays)
        if outputs is None and self._trial_of_calls is None:
            outputs = self._quick_runs.run(arrays)
        return self._run(arrays) if outputs is None else outputs

    def stream(
        self, inputs: Iterable[Sequence[Any]], depth: int | None = None
    ) -> Generator[list[Array], None, None]:
        """Yields the outputs for a sequence of inputs, in order, with several runs at once.

        Steps on different devices then work at the same time, each for another run. Inputs are
        taken from the iterable only as results are taken from the iterator.

        Args:
            inputs: for each run the arrays, as for `run`.
            depth: number of runs at once, by default two for each device of the plan, and four at
                least; those of a model with variables run one after another.

        Raises:
            BadData: the depth is not in 1 to 1024. Errors of a run are raised where its outputs
                would be returned.
        """
        from neurald.runtime.execution.background.stream import streamed, usual_depth  # slow to import

        depth = usual_depth(self.plan) if depth is None else depth

        def run(arrays: Sequence[Any]) -> list[Array]:
            return self.run(*items(arrays, "the inputs of a run", "a sequence of arrays"))

        return streamed(run, inputs, depth, is_ordered=bool(self.model.state))

    def _run(self, arrays: Sequence[Any]) -> list[Array]:
        """Runs the model on arrays unlike those of this thread's earlier runs; see `run`."""
        notice_fork()
        trial = self._trial_of_calls
        if trial is None:
            return self._run_arrays(arrays)
        with trial.call():
            return self._run_arrays(arrays)

    @property
    def _trial_of_calls(self) -> "PlanTrial | None":
        """The trial that compares whole calls, which are those of plans of several steps."""
        if self._trial is None or len(self.plan.steps) == 1 or self._shapes.has_open_inputs:
            return None
        return self._trial

    def _run_arrays(self, arrays: Sequence[Any]) -> list[Array]:
        inputs = self._inputs.converted(arrays)
        outputs = self._array_runs.run(self, inputs)
        if outputs is not None:
            return outputs
        given = shapes_of(inputs)
        shapes = self._shapes.of_outputs(self, given)
        # Preparing fast runs on inputs of these shapes takes longer than a run.
        is_repeated = self._shapes.may_repeat(given)
        if is_repeated:
            # A proxy, so that the compilation is released with the last reference to it.
            quick = self._quick_runs.run(inputs) or self._quick_runs.first_run(
                weakref.proxy(self), inputs, shapes
            )
            if quick is not None:
                self._array_runs.prepare(self, inputs)
                return quick
        from neurald.runtime.execution.array_computation import compute_arrays  # slow to import

        outputs, execution = compute_arrays(self, inputs, self._shapes.completed(shapes))
        if is_repeated:
            self._array_runs.prepare(self, inputs)
        self._shapes.note(execution.output_shapes())
        return outputs
