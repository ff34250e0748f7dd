"""CompilationBuilder and Compilation: compile a model for devices into an executable plan."""

import math
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from neurald.hal.api_arguments import file_path, instance, integer, member, number, shown, time_limit
from neurald.hal.device import MAX_THREADS, Device, PrepareOptions
from neurald.hal.errors import BadData, BadState, OutputInsufficientSize, UnexpectedNull
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.extension import AttributeUse
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.model.types import Dimensions, Model, OperandType, Preference, Priority, as_elements, counted
from neurald.hal.records import replace
from neurald.hal.sync.deadline import deadline_in
from neurald.runtime.devices.discovery import check_devices, cpu_device, devices
from neurald.runtime.devices.extensions import with_attribute
from neurald.runtime.execution.array_runs import ArrayRuns
from neurald.runtime.execution.executor import plan_executor
from neurald.runtime.execution.fallback import Recovery
from neurald.runtime.execution.optimization import Optimization
from neurald.runtime.execution.quick_runs import QuickRuns
from neurald.runtime.execution.state import State
from neurald.runtime.explain.partitioned_model import PartitionedModel
from neurald.runtime.partitioning.candidates import find_candidates
from neurald.runtime.partitioning.groups import StepGroup
from neurald.runtime.partitioning.options import ANDROID, MIN_COST, Partitioning, PartitioningMode
from neurald.runtime.partitioning.overrides import Override
from neurald.runtime.partitioning.partitioner import partition
from neurald.runtime.plan.plan import ExecutionPlan, SimpleBody
from neurald.runtime.plan.planner import PlanningResult, make_plan
from neurald.runtime.plan.preparer import Caching, Preparer
from neurald.runtime.plan.progress import ProgressCallback, ProgressMonitor
from neurald.runtime.plan.report import CompilationReport
from neurald.runtime.plan.startup import Startup, default_startup
from neurald.runtime.plan.status import CompilationStatus, StepTier

if TYPE_CHECKING:
    # Imported on demand: a model that runs in one call of its device needs none of these.
    from neurald.runtime.execution.burst import Burst
    from neurald.runtime.execution.cpu_guard import CpuGuard
    from neurald.runtime.execution.cpu_trial import CpuTrial, TrialOutcome
    from neurald.runtime.execution.profile import StepProfile
    from neurald.runtime.explain.explanation import Explanation

CACHE_TOKEN_BYTES = 32

#: Number of input shape combinations whose output shapes are cached.
_SHAPE_CACHE_SIZE = 256

#: Maximum share of the compile timeout that querying devices may take. Devices that have not
#: answered by then are not used.
_MAX_QUERY_SHARE = 0.5

#: Maximum number of times that `run` enlarges output buffers whose size depends on the data.
_MAX_OUTPUT_GROWTHS = 8


class CompilationBuilder:
    """Collects the options for compiling a model. Not thread-safe.

    Args:
        model: a finished model.
        devices: the only devices that may be used; their errors are raised to the caller. None
            allows every device, and the CPU device takes over from a device that fails.
        threads: number of CPU threads that one execution may use; None to let the driver choose.
        strict: whether to enforce Android's rule that time limits and timing need a list of exactly
            one device.

    Raises:
        UnexpectedNull: `model` is None.
        BadState: the model is not finished.
        BadData: the list of devices is empty or contains a device twice, or `threads` is not in 1
            to 1024.
    """

    def __init__(
        self,
        model: Model,
        devices: Sequence[Device] | None = None,
        threads: int | None = None,
        *,
        strict: bool = False,
    ) -> None:
        if model is None:
            raise UnexpectedNull("model is None")
        if not isinstance(model, Model):
            raise BadState(f"{type(model).__name__} is not a Model returned by ModelBuilder.finish()")
        if devices is not None:
            check_devices(devices)
        if threads is not None and not 1 <= integer(threads, "threads") <= MAX_THREADS:
            raise BadData(f"threads is {shown(threads)}; a number from 1 to {MAX_THREADS} is expected")
        self._model = model
        self._devices = None if devices is None else tuple(devices)
        self._threads = None if threads is None else integer(threads, "threads")
        self._preference = Preference.FAST_SINGLE_ANSWER
        self._priority = Priority.MEDIUM
        self._strict = strict
        self._timeout_s: float | None = None
        self._attributes: tuple[AttributeValue, ...] = ()
        self._caching: Caching | None = None
        self._caches_by_default = True
        self._partitioning = Partitioning()
        self._shared: State | None = None
        self._startup: Startup | None = None
        self._monitor: ProgressMonitor | None = None
        self._finished = False

    def set_preference(self, preference: Preference) -> None:
        """Sets what compilation optimises for.

        Raises:
            BadData: the value is not a preference.
            BadState: the compilation is finished.
        """
        self._require_open()
        self._preference = member(preference, Preference, "the preference")

    def set_priority(self, priority: Priority) -> None:
        """Sets the priority of this compilation's executions among those of the same user.

        Raises:
            BadData: the value is not a priority.
            BadState: the compilation is finished.
        """
        self._require_open()
        self._priority = member(priority, Priority, "the priority")

    def set_timeout(self, seconds: float | None) -> None:
        """Limits the total compile time of all steps, in seconds; None or 0 for no limit.

        Raises:
            BadData: the time is negative, or strict mode forbids it.
            BadState: the compilation is finished.
        """
        self._require_open()
        if self._strict:
            require_one_device(self._devices, "a time limit", " in strict mode")
        self._timeout_s = time_limit(seconds, "the timeout")

    def set_caching(self, cache_dir: str | Path | None, token: bytes = b"") -> None:
        """Sets the directory for compiled artifacts; None disables caching.

        Without this call artifacts are stored in the user's own cache. The cache key always
        includes the content of the model. Nothing is stored for devices that need no cache files.

        Args:
            cache_dir: the directory.
            token: 32 bytes that identify the model to the application; part of the cache key.

        Raises:
            BadData: the token has another length, or the directory name is not valid.
            BadState: the compilation is finished.
        """
        self._require_open()
        if cache_dir is None:
            self._caching = None
        else:
            if len(instance(token, bytes, "the cache token")) != CACHE_TOKEN_BYTES:
                raise BadData(f"the cache token has {len(token)} bytes; {CACHE_TOKEN_BYTES} are expected")
            self._caching = Caching(directory=file_path(cache_dir, "the cache directory"), token=token)
        self._caches_by_default = False

    def add_extension_attribute(self, extension: str, attribute: int, value: bytes) -> None:
        """Sets a compilation attribute of a vendor's extension.

        The attributes are part of the cache key.

        Args:
            extension: name of the extension.
            attribute: its code within the extension, among the compilation attributes.
            value: the bytes; all attributes together may have at most 65,536.

        Raises:
            BadData: the list of devices does not have exactly one entry, that device does not
                declare the attribute, or the attribute already has a value.
            BadState: the compilation is finished.
        """
        self._require_open()
        (device,) = require_one_device(self._devices, "an attribute of an extension")
        self._attributes = with_attribute(
            self._attributes, AttributeUse.COMPILATION, extension, attribute, value, [device]
        )

    def set_partitioning(self, partitioning: Partitioning | PartitioningMode | int | str) -> None:
        """Sets how the model is split over devices.

        Args:
            partitioning: all options, or only a mode (0, 1 or 2) or the name of a policy; the other
                options then have their defaults.

        Raises:
            BadData: there is no such mode or policy.
            BadState: the compilation is finished.
        """
        self._require_open()
        self._partitioning = _partitioning(partitioning)

    def set_startup(self, startup: Startup) -> None:
        """Sets whether `finish` waits for optimised code.

        With INSTANT it returns as soon as every step has code of any kind: what the cache has, or
        else a first tier. That is one of the CPU device, also for steps of other devices. Optimised
        code is prepared in the background and replaces the first tier between two calls. With
        OPTIMIZED it returns when all code is optimised.

        The default is INSTANT if neurald chooses the devices, and OPTIMIZED for an explicit list,
        unless the environment variable NEURALD_STARTUP is set.

        Raises:
            BadData: the value is not a startup.
            BadState: the compilation is finished.
        """
        self._require_open()
        if not isinstance(startup, Startup):
            raise BadData(
                f"the startup is {shown(startup)}; Startup.INSTANT or Startup.OPTIMIZED is expected"
            )
        self._startup = startup

    def set_progress_callback(self, callback: ProgressCallback | None) -> None:
        """Sets a function that is called while a step is prepared for longer than a second.

        Args:
            callback: called every 0.2 s for each such step, and once at its end, from other threads
                but never at the same time; None for no calls.

        Raises:
            BadData: it cannot be called.
            BadState: the compilation is finished.
        """
        self._require_open()
        if callback is not None and not callable(callback):
            raise BadData(f"the callback is {shown(callback)}; a function is expected")
        self._monitor = None if callback is None else ProgressMonitor(callback)

    def share_state(self, other: "Compilation") -> None:
        """Shares the variables of the same names with another compilation.

        A value that one compilation assigns is read by the other, as with the signatures of a
        `.tflite` file in one TFLite interpreter:

            train = CompilationBuilder(load_tflite(path, "train")).finish()
            builder = CompilationBuilder(load_tflite(path, "infer"))
            builder.share_state(train)
            infer = builder.finish()

        Executions of both compilations run one after another.

        Args:
            other: a compilation of another signature of the same file. It may itself share the
                state of a third one.

        Raises:
            BadData: variables of the same name have different initial values, or names are not
                unique.
            BadState: the compilation is finished.
            UnexpectedNull: `other` is None.
        """
        self._require_open()
        if other is None:
            raise UnexpectedNull("other is None")
        instance(other, Compilation, "the other compilation").state.check_shared(self._model.state)
        self._shared = other.state

    def finish(self) -> "Compilation":
        """Chooses a device for every operation and has the devices prepare their steps.

        Raises:
            BadData: no device can run an operation.
            BadState: the compilation is already finished.
            Error: a device of an explicit list failed.
        """
        self._require_open()
        options = PrepareOptions(
            preference=self._preference,
            priority=self._priority,
            deadline_s=deadline_in(self._timeout_s),
            threads=self._threads,
            attributes=self._attributes,
        )
        startup = self._startup or default_startup(has_explicit_devices=self._devices is not None)
        preparer = Preparer(
            options,
            Caching.by_default() if self._caches_by_default else self._caching,
            startup=startup,
            monitor=self._monitor,
        )
        query_deadline_s = deadline_in(
            None if self._timeout_s is None else self._timeout_s * _MAX_QUERY_SHARE
        )
        chosen = self._devices
        if chosen is None:
            chosen = devices() if query_deadline_s is None else devices(query_deadline_s)
        # Only what operations cost decides, unless the application has said more.
        policy = self._partitioning.policy
        is_particular = bool(
            self._devices is not None or self._partitioning.overrides or policy not in (ANDROID, MIN_COST)
        )
        candidates = find_candidates(
            self._model,
            chosen,
            self._partitioning.mode,
            query_deadline_s,
            None if is_particular else self._preference,
            knows_costs=policy == MIN_COST,
        )
        result = partition(self._model, candidates, self._preference, self._partitioning)
        partitioned = PartitionedModel(
            candidates=candidates,
            result=result,
            preference=self._preference,
            partitioning=self._partitioning,
        )
        guard = self._cpu_guard(partitioned, chosen)
        if guard is not None and guard.is_cpu:
            result = partitioned.on_cpu(self._model, guard.reason)
            partitioned = replace(partitioned, result=result)
        mode = self._partitioning.mode
        may_fall_back = self._devices is None and mode is not PartitioningMode.WITHOUT_FALLBACK
        planned = make_plan(self._model, result.groups, chosen, preparer, may_fall_back=may_fall_back)
        self._finished = True
        steps = planned.plan.steps
        recovery = Recovery(
            self._model,
            steps,
            preparer.without_deadline(),
            may_fall_back=may_fall_back,
            watches_drift=policy == MIN_COST and self._preference is not Preference.LOW_POWER,
        )
        compilation = Compilation(
            self._model,
            planned,
            partitioned,
            recovery,
            State(self._model.state, self._shared),
            Optimization(startup, steps, recovery, preparer),
            explicit_devices=self._devices,
            strict=self._strict,
        )
        if guard is not None and guard.is_open and not planned.report.fallback:
            compilation.compare_with_cpu(preparer.without_deadline(), guard.key)
        return compilation

    def _cpu_guard(self, partitioned: PartitionedModel, chosen: Sequence[Device]) -> "CpuGuard | None":
        """Returns what is known about the plan and the CPU device; None if the plan stays anyway.

        It stays if the application has said what it wants, or if the CPU device cannot run everything.
        """
        wanted = self._partitioning
        if wanted.policy != MIN_COST or len(chosen) < 2 or self._preference is Preference.LOW_POWER:
            return None
        if wanted.overrides or wanted.require_full_delegation or self._strict or self._attributes:
            return None
        if all(
            isinstance(g, StepGroup) and partitioned.candidates[g.device].is_cpu
            for g in partitioned.result.groups
        ):
            return None
        cpu = partitioned.cpu
        if cpu is None or chosen[cpu] is not cpu_device():
            return None
        from neurald.runtime.execution.cpu_guard import find_guard  # imports much

        return find_guard(self._model, partitioned.result.groups, chosen, self._threads, keeps=self._keeps)

    @property
    def _keeps(self) -> bool:
        """True if anything may be kept on disk."""
        return self._caches_by_default or self._caching is not None

    def _require_open(self) -> None:
        if self._finished:
            raise BadState("the compilation is finished")


def _partitioning(wanted: Partitioning | PartitioningMode | int | str) -> Partitioning:
    if isinstance(wanted, Partitioning):
        return wanted
    if isinstance(wanted, str):
        return Partitioning(policy=wanted)
    return Partitioning(mode=member(wanted, PartitioningMode, "the partitioning"))


def require_one_device(explicit_devices: Sequence[Device] | None, what: str, when: str = "") -> tuple[Device]:
    """Returns the only device of an explicit list, which Android requires for some features.

    Args:
        explicit_devices: the list of devices; None if the application gave none.
        what: the feature, for messages.
        when: the condition under which the feature needs one device, for messages.

    Raises:
        BadData: no list was given, or it has several devices.
    """
    if explicit_devices is not None and len(explicit_devices) == 1:
        return (explicit_devices[0],)
    count = "none is" if explicit_devices is None else f"{len(explicit_devices)} are"
    raise BadData(f"{what} needs exactly one device in the list{when}; {count} listed")


class Compilation:
    """A compiled model, ready to run. Thread-safe: several executions may run at once.

    Attributes:
        model: the compiled model.
        plan: which device runs which operations, and in which order.
        state: the variables of a stateful model.
        executor: runs the plan.
        recovery: handles devices that fail.
    """

    def __init__(
        self,
        model: Model,
        planned: PlanningResult,
        partitioned: PartitionedModel,
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
        self._partitioned = partitioned
        self._explicit_devices = explicit_devices
        self._strict = strict
        # The function must not refer to the compilation, since devices release their resources with
        # the last reference to it.
        self._output_shapes = _output_shapes_of(model)
        self._array_runs = ArrayRuns()
        #: Shapes of inputs of earlier runs, if shapes may vary; else None.
        self._earlier_shapes: set[tuple[Dimensions, ...]] | None = None
        if not all(model.main.operands[index].is_fully_specified for index in model.inputs):
            self._earlier_shapes = set()
        #: The shapes of the outputs of the last run whose shapes were not known in advance.
        self._latest_shapes: Sequence[tuple[int, ...] | None] = (None,) * len(self.model.outputs)
        self._quick_runs = QuickRuns()
        self._trial: CpuTrial | None = None
        self._verdict = ""
        optimization.call_when_replaced(weakref.WeakMethod(self._forget_runs))

    def __repr__(self) -> str:
        devices = ", ".join(dict.fromkeys(step.device.name for step in self.plan.steps)) or "no device"
        return (
            f"<Compilation of {counted(len(self.model.main.operations), 'operation')} "
            f"in {counted(len(self.plan.steps), 'step')} on {devices}>"
        )

    @property
    def report(self) -> CompilationReport:
        """How the steps were compiled, whether the CPU took over, and which devices have failed."""
        steps = tuple(
            self.recovery.step(step).report or report
            for step, report in zip(self.plan.steps, self._report.steps, strict=True)
        )
        return replace(self._report, steps=steps, failures=self.recovery.failures)

    def compare_with_cpu(self, preparer: Preparer, key: str) -> None:
        """Lets runs of the whole model on the CPU device alternate with the first ones of the plan.

        Args:
            preparer: prepares the model for the CPU device.
            key: to keep the decision under; empty if it is not kept.
        """
        from neurald.runtime.execution.cpu_trial import CpuTrial  # imports much

        decide = weakref.WeakMethod(self._change_over)
        self._trial = CpuTrial(
            self.model,
            self.executor,
            self.recovery,
            preparer,
            key,
            self._partitioned.predicted_cpu_s,
            decide,
        )
        self.executor = self._trial

    def keep_plan(self, reason: str) -> None:
        """Ends the comparison with the CPU device, so that the plan stays."""
        trial = self._trial
        if trial is not None:
            trial.stop(reason)

    def _change_over(self, outcome: "TrialOutcome") -> None:
        """Takes over what the comparison with the CPU device has decided."""
        self._verdict = f"the plan or the CPU device: {outcome.reason}"
        step, report = outcome.step, outcome.report
        if step is None or report is None:
            self.executor = plan_executor(self.plan)
        else:
            self.plan = ExecutionPlan(self.model, SimpleBody(step=step))
            self._report = CompilationReport(steps=(report,), fallback=outcome.reason)
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
        """Drops what earlier runs have kept, so that the next one goes through all layers."""
        self._forget_runs()
        self._array_runs = ArrayRuns()

    @property
    def status(self) -> CompilationStatus:
        """Which code the steps run, the progress of better code, and why a step has none."""
        return self._optimization.status()

    def wait_until_optimized(self, timeout: float | None = None) -> bool:
        """Waits until no step is prepared in the background any more.

        Args:
            timeout: how long to wait, in seconds; None for no limit.

        Returns:
            True if every step runs optimised code. False if the time is over, or if optimised code
                could not be prepared; `status` then says why.

        Raises:
            BadData: the time is negative.
        """
        if timeout is not None and not number(timeout, "the timeout") >= 0:
            raise BadData(f"the timeout is {shown(timeout)}; it must not be negative")
        return self._optimization.wait(timeout)

    @property
    def has_explicit_devices(self) -> bool:
        """True if the application chose the devices, so that no other device may replace them."""
        return self._explicit_devices is not None

    def require_one_device(self, what: str) -> None:
        """Raises BadData in strict mode unless the application listed exactly one device."""
        if self._strict:
            require_one_device(self._explicit_devices, what, " in strict mode")

    def with_attribute(
        self, values: tuple[AttributeValue, ...], extension: str, attribute: int, value: bytes
    ) -> tuple[AttributeValue, ...]:
        """Adds an attribute to those of an execution; see `Execution.add_extension_attribute`."""
        (device,) = require_one_device(self._explicit_devices, "an attribute of an extension")
        return with_attribute(values, AttributeUse.EXECUTION, extension, attribute, value, [device])

    def explain(
        self, pin: Override | Sequence[Override] | None = None, *, kernels: bool = False
    ) -> "Explanation":
        """Explains the device choice for every operation.

        The notes list steps that currently run on the CPU device. `str()` formats the explanation
        as text.

        Args:
            pin: a what-if: rules, such as `neurald.pin("gpu", range(4))`, in addition to those of the
                compilation. The explanation is then that of the plan with these rules, with the
                operations that would move and what is predicted. Nothing is changed.
            kernels: also measure the kernels, as `profile` does, with the operations that each fuses.
                Execute the compilation first. A what-if has none.

        Raises:
            BadData: the rules of a what-if contradict each other or the devices.
        """
        if pin is not None:
            rules = (pin,) if isinstance(pin, Override) else tuple(pin)
            return self._partitioned.what_if(self.model, self._report.fallback, rules)
        notes = [
            f"step {state.step} of {state.device} runs on the CPU device for now: {state.reason}"
            for state in self.recovery.fallbacks
        ]
        notes += [str(step) for step in self.status.steps if step.tier is StepTier.FIRST]
        if self._trial is not None:
            notes.append("runs of the CPU device alternate with those of the plan, until the faster is known")
        if self._verdict:
            notes.append(self._verdict)
        found = self._partitioned.explain(self.model, self._report.fallback, notes)
        return found.with_kernels(self.profile()) if kernels else found

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

        Raises:
            BadData: there is no such input.
        """
        return self.plan.preferred_memory_of_input(index).alignment

    def preferred_memory_padding_for_input(self, index: int) -> int:
        """Returns the multiple, in bytes, that the length of an input's memory should have.

        `Execution.enable_input_and_output_padding` allows such lengths.

        Raises:
            BadData: there is no such input.
        """
        return self.plan.preferred_memory_of_input(index).padding

    def preferred_memory_alignment_for_output(self, index: int) -> int:
        """Returns the preferred alignment for an output.

        See `preferred_memory_alignment_for_input`.
        """
        return self.plan.preferred_memory_of_output(index).alignment

    def preferred_memory_padding_for_output(self, index: int) -> int:
        """Returns the preferred padding for an output; see `preferred_memory_padding_for_input`."""
        return self.plan.preferred_memory_of_output(index).padding

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
        if outputs is None:
            outputs = self._quick_runs.run(arrays)
        return self._run(arrays) if outputs is None else outputs

    def stream(self, inputs: Iterable[Sequence[Any]], depth: int = 4) -> Generator[list[Array], None, None]:
        """Yields the outputs for a sequence of inputs, in order, with several runs at once.

        Steps on different devices then work at the same time, each for another run. Inputs are
        taken from the iterable only as results are taken from the iterator.

        Args:
            inputs: for each run the arrays, as for `run`.
            depth: number of runs at once; those of a model with variables run one after another.

        Raises:
            BadData: the depth is not in 1 to 1024. Errors of a run are raised where its outputs
                would be returned.
        """
        from neurald.runtime.execution.stream import streamed  # imports much

        return streamed(lambda arrays: self.run(*arrays), inputs, depth, is_ordered=bool(self.model.state))

    def _run(self, arrays: Sequence[Any]) -> list[Array]:
        """Runs the model on arrays unlike those of this thread's earlier runs; see `run`."""
        graph = self.model.main
        if len(arrays) != len(self.model.inputs):
            raise BadData(f"{len(arrays)} inputs are given; the model has {len(self.model.inputs)}")
        inputs = [
            None if array is None else _contiguous(array, graph.operands[index].type, position)
            for position, (array, index) in enumerate(zip(arrays, self.model.inputs, strict=True))
        ]
        outputs = self._array_runs.run(self, inputs)
        if outputs is not None:
            return outputs
        given = tuple(None if array is None else array.shape for array in inputs)
        shapes = list(self._output_shapes(given))
        # What makes further runs on inputs of these shapes fast takes longer than a run.
        is_repeated = self._may_repeat(given)
        if is_repeated:
            # A proxy, so that the compilation is released with the last reference to it.
            quick = self._quick_runs.run(inputs) or self._quick_runs.first_run(
                weakref.proxy(self), inputs, shapes
            )
            if quick is not None:
                self._array_runs.prepare(self, inputs)
                return quick
        from neurald.runtime.execution.execution import Execution

        shapes = [
            found if found is not None and _may_have_shape(shape, found) else shape
            for shape, found in zip(shapes, self._latest_shapes, strict=True)
        ]
        for _ in range(_MAX_OUTPUT_GROWTHS):
            outputs = [
                np.empty([d or 1 for d in shape or ()] if shape is None or 0 in shape else shape, dtype)
                for shape, dtype in zip(
                    shapes, (graph.operands[i].type.dtype for i in self.model.outputs), strict=True
                )
            ]
            execution = Execution(self)
            for position, array in enumerate(inputs):
                execution.set_input(position, array)
            for position, array in enumerate(outputs):
                execution.set_output(position, array)
            try:
                execution.compute()
            except OutputInsufficientSize as error:
                shapes = list(error.dimensions)
                continue
            if is_repeated:
                self._array_runs.prepare(self, inputs)
            # Another run often has as many results.
            self._latest_shapes = execution.output_shapes()
            return [
                _beginning(output, shape) for output, shape in zip(outputs, self._latest_shapes, strict=True)
            ]
        raise OutputInsufficientSize(
            f"the outputs did not fit their buffers in {_MAX_OUTPUT_GROWTHS} runs with larger and "
            "larger buffers",
            shapes,
        )

    def _may_repeat(self, shapes: tuple[Dimensions, ...]) -> bool:
        """Returns True if further runs with these shapes are likely.

        If shapes may vary, that is from their second run on.
        """
        earlier = self._earlier_shapes
        if earlier is None or shapes in earlier:
            return True
        if len(earlier) >= _SHAPE_CACHE_SIZE:
            earlier.clear()
        earlier.add(shapes)
        return False


def _may_have_shape(declared: Dimensions, shape: tuple[int, ...]) -> bool:
    """Returns True if a shape that is not fully known may be this one."""
    if declared is None:
        return True
    return (
        0 in declared
        and len(declared) == len(shape)
        and all(length in (0, found) for length, found in zip(declared, shape, strict=True))
    )


def _beginning(array: Array, shape: tuple[int, ...]) -> Array:
    """Returns the first elements of an array in this shape; a copy if they take little of its memory."""
    found = array.reshape(-1)[: math.prod(shape)].reshape(shape)
    return found if 2 * found.nbytes >= array.nbytes else found.copy()


_OutputShapes: TypeAlias = tuple[Dimensions, ...]


def _output_shapes_of(model: Model) -> Callable[[tuple[tuple[int, ...] | None, ...]], _OutputShapes]:
    """Returns a function that infers the output shapes from the input shapes, where possible."""
    graph = model.main
    declared = tuple(graph.operands[index] for index in model.inputs)
    results = tuple(graph.operands[index] for index in model.outputs)
    are_known = all(operand.is_fully_specified for operand in (*declared, *results))

    @lru_cache(maxsize=_SHAPE_CACHE_SIZE)
    def output_shapes(inputs: tuple[tuple[int, ...] | None, ...]) -> _OutputShapes:
        if are_known and inputs == tuple(operand.dimensions for operand in declared):
            return tuple(operand.dimensions for operand in results)
        from neurald.hal.validation.shape_inference import bind_operations, infer_shapes

        given = {index: shape for index, shape in zip(model.inputs, inputs, strict=True) if shape is not None}
        shapes = infer_shapes(model, graph, bind_operations(graph), given)
        return tuple(shapes.get(index, graph.operands[index].dimensions) for index in model.outputs)

    return output_shapes


def _contiguous(value: Any, operand_type: OperandType, position: int) -> Array:
    """Converts `value` to a C-contiguous array.

    A value without a dtype gets that of the operand's type.
    """
    dtype = operand_type.dtype
    try:
        array = np.asarray(value, None if isinstance(value, np.ndarray | np.generic) else dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadData(f"input {position} cannot be stored as {dtype}: {error}") from None
    return as_elements(np.ascontiguousarray(array).reshape(array.shape), operand_type)
