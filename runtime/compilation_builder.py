"""CompilationBuilder: collects options, and compiles a model to an executable plan."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from neurald.hal.api_arguments import file_path, instance, integer, member, number, shown, time_limit
from neurald.hal.device import MAX_THREADS, Device, PrepareOptions
from neurald.hal.errors import BadData, BadState, Error, UnexpectedNull, WrongType
from neurald.hal.model.extension import AttributeUse
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.model.model import Model
from neurald.hal.model.types import Preference, Priority
from neurald.hal.process.memory.gc_pause import paused_gc
from neurald.hal.process.preparing import PREPARING
from neurald.hal.records import replace
from neurald.hal.sync.deadline import deadline_in
from neurald.hal.unpicklable import Unpicklable
from neurald.runtime.devices.extensions import with_attribute
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.background.optimization import Optimization
from neurald.runtime.execution.compiled_model import COMPILE_ELSEWHERE
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.execution.variables.state import State
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.groups import Group, StepGroup
from neurald.runtime.partitioning.options import (
    ANDROID,
    MIN_COST,
    Partitioning,
    PartitioningMode,
    default_partitioning,
)
from neurald.runtime.plan.planning_result import PlanningResult, whole_plan
from neurald.runtime.plan.preparer import Caching, Preparer
from neurald.runtime.plan.progress import ProgressCallback, ProgressMonitor
from neurald.runtime.plan.startup import Startup, default_startup

if TYPE_CHECKING:
    # Imported on demand: a model that runs in one call of its device needs none of these.
    from neurald.runtime.execution.trials.plan_guard import PlanGuard
    from neurald.runtime.explain.partitioned_model import PartitionedModel
    from neurald.runtime.plan.provided_plan import ProvidedPlan

from neurald.runtime.compilation import Compilation, require_one_device
from neurald.runtime.model.finished import finished_model

_LOGGER = logging.getLogger(__name__)

CACHE_TOKEN_BYTES = 32

#: Maximum share of the compile timeout that querying devices may take. Devices that have not
#: answered by then are not used.
_MAX_QUERY_SHARE = 0.5


def devices(deadline_s: float | None = None) -> tuple[Device, ...]:
    """Returns the devices that are ready; see `neurald.runtime.devices.discovery.devices`."""
    # With a list of devices, nothing that finds daemons is imported.
    from neurald.runtime.devices import discovery

    return discovery.devices(deadline_s)


class CompilationBuilder(Unpicklable):
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

    instead_of_pickling = COMPILE_ELSEWHERE

    def __init__(
        self,
        model: Model,
        devices: Sequence[Device] | None = None,
        threads: int | None = None,
        *,
        strict: bool = False,
    ) -> None:
        if devices is not None:
            from neurald.runtime.devices.asking import check_devices  # Most programs list none.

            check_devices(devices)
        if threads is not None and not 1 <= integer(threads, "threads") <= MAX_THREADS:
            raise BadData(f"threads is {shown(threads)}; a number from 1 to {MAX_THREADS} is expected")
        self._model = finished_model(model)
        self._devices = None if devices is None else tuple(devices)
        self._threads = None if threads is None else integer(threads, "threads")
        self._preference = Preference.FAST_SINGLE_ANSWER
        self._priority = Priority.MEDIUM
        self._strict = strict
        self._timeout_s: float | None = None
        self._attributes: tuple[AttributeValue, ...] = ()
        self._caching: Caching | None = None
        self._caches_by_default = True
        self._partitioning = default_partitioning()
        self._shared: State | None = None
        self._startup: Startup | None = None
        self._monitor: ProgressMonitor | None = None
        self._verified_share = 0.0
        self._plan: ProvidedPlan | None = None
        self._plan_note = ""
        self._finished = False

    def __repr__(self) -> str:
        devices = "any device" if self._devices is None else ", ".join(each.name for each in self._devices)
        return (
            f"<CompilationBuilder of {self._model!r} for {devices}{', finished' if self._finished else ''}>"
        )

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
            WrongType: the directory is not a path, or the token is not bytes.
            BadState: the compilation is finished.
        """
        self._require_open()
        if cache_dir is None:
            self._caching = None
        else:
            directory = file_path(cache_dir, "the cache directory")
            if len(instance(token, bytes, "the cache token")) != CACHE_TOKEN_BYTES:
                raise BadData(
                    f"the cache token has {len(token)} bytes; a directory of your own needs one of "
                    f"{CACHE_TOKEN_BYTES} bytes, which identifies the model to the application"
                )
            self._caching = Caching(directory=directory, token=token)
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
            WrongType: the value is not a startup.
            BadState: the compilation is finished.
        """
        self._require_open()
        if not isinstance(startup, Startup):
            raise WrongType(
                f"the startup is {shown(startup)}; Startup.INSTANT or Startup.OPTIMIZED is expected"
            )
        self._startup = startup

    def set_verification(self, sample: float | None) -> None:
        """Sets for which share of the time executions are verified on the CPU device.

        The CPU device then executes steps of other devices, too, in four times that share of the
        executions at most, so that executions take no larger share longer. It does so in the
        background, for at most ten times the share of the time; only the first verified execution
        waits for it. The first ten that can be verified follow each other, at the expense of the
        first `10 / sample`, and later ones are at random distances. With 1 every execution is
        verified, and waits.

        Integers must be equal, quantised values may differ by one step of the scale, and
        floating-point values by the bounds of the conformance suite; the bounds are wider for steps
        of several operations and for relaxed models. If results differ by more, the CPU device runs
        the step from then on, also with an explicit list of devices, and an execution that waited
        has its results. In the background, the operations are found that the device computes wrong.
        They are no longer given to this version of its driver by any application of the user, until
        `neurald forgive`. `Compilation.explain` and `neurald status` show what was found.

        Args:
            sample: share of the time, from 0 to 1; 0 or None to verify nothing, which is the
                default.

        Raises:
            BadData: the share is not in 0 to 1.
            BadState: the compilation is finished.
        """
        self._require_open()
        share = 0.0 if sample is None else number(sample, "the share of verified executions")
        if not 0 <= share <= 1:
            raise BadData(
                f"the share of verified executions is {shown(sample)}; a number from 0 to 1 is expected"
            )
        self._verified_share = share

    def set_progress_callback(self, callback: ProgressCallback | None) -> None:
        """Sets a function that is called while a step is prepared for longer than a second.

        Args:
            callback: called every 0.2 s for each such step, and once at its end, from other threads
                but never at the same time; None for no calls.

        Raises:
            WrongType: it cannot be called.
            BadState: the compilation is finished.
        """
        self._require_open()
        if callback is not None and not callable(callback):
            raise WrongType(f"the callback is {shown(callback)}; a function is expected")
        self._monitor = None if callback is None else ProgressMonitor(callback)

    def use_plan(self, plan: "ProvidedPlan", note: str) -> None:
        """Uses a plan that was made before, as far as it fits; see `neurald.load_plan`.

        Only neurald itself calls this.

        Args:
            plan: the plan with artifacts.
            note: the note for explanations, if it fits.

        Raises:
            BadState: the compilation is finished.
        """
        self._require_open()
        self._plan, self._plan_note = plan, note

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
            raise UnexpectedNull(
                "other is None; a Compilation of a model with the same variables is expected"
            )
        instance(other, Compilation, "the other compilation").state.check_shared(self._model.state)
        self._shared = other.state

    def finish(self) -> "Compilation":
        """Chooses a device for every operation and has the devices prepare their steps.

        Raises:
            BadData: no device can run an operation.
            BadState: the compilation is already finished.
            Error: a device of an explicit list failed.
        """
        with PREPARING:
            return self._finish()

    def _finish(self) -> "Compilation":
        self._require_open()
        startup = self._startup or default_startup(has_explicit_devices=self._devices is not None)
        preparer = self._preparer(startup)
        query_deadline_s = deadline_in(
            None if self._timeout_s is None else self._timeout_s * _MAX_QUERY_SHARE
        )
        chosen = self._devices
        if chosen is None:
            chosen = devices() if query_deadline_s is None else devices(query_deadline_s)
        split = partial(
            _split,
            self._model,
            tuple(chosen),
            self._partitioning,
            self._preference,
            has_explicit_devices=self._devices is not None,
        )
        if self._has_no_choice(chosen):
            # The objects of a start from the cache last, so that collections would find nothing.
            with paused_gc():
                loaded = preparer.load(chosen[0], self._model)
                if loaded is not None:
                    planned = whole_plan(self._model, chosen[0], loaded)
                    return self._compilation(planned, lambda: split()[0], preparer, startup)
        from neurald.runtime.plan.planner import make_plan  # Not needed for a warm start.

        if self._has_no_choice(chosen) and self._is_supported(chosen[0]):
            everything = tuple(range(len(self._model.main.operations)))
            groups: Sequence[Group] = (StepGroup(graph=MAIN, device=0, operations=everything),)
            planned = make_plan(self._model, groups, chosen, preparer, may_fall_back=self._may_fall_back)
            return self._compilation(planned, lambda: split()[0], preparer, startup)
        partitioned, unfit = split(query_deadline_s, self._plan)
        guard = None if self._plan is not None else self._guard(partitioned, chosen)
        won = self._decided_earlier(partitioned, guard, chosen, preparer)
        if won is not None:
            partitioned, planned = won
        else:
            groups = partitioned.result.groups
            planned = make_plan(self._model, groups, chosen, preparer, may_fall_back=self._may_fall_back)
        compilation = self._compilation(planned, lambda: partitioned, preparer, startup)
        if self._plan is not None:
            compilation.add_note(f"planned again: {unfit}" if unfit else self._plan_note)
        if guard is not None and guard.is_open and not planned.report.fallback:
            compilation.compare_with_rivals(preparer.without_deadline(), guard)
        return compilation

    def _preparer(self, startup: Startup) -> Preparer:
        """Returns what prepares the steps."""
        return Preparer(
            PrepareOptions(
                preference=self._preference,
                priority=self._priority,
                deadline_s=deadline_in(self._timeout_s),
                threads=self._threads,
                attributes=self._attributes,
            ),
            Caching.by_default() if self._caches_by_default else self._caching,
            startup=startup,
            monitor=self._monitor,
            provided=self._plan,
        )

    @property
    def _may_fall_back(self) -> bool:
        """True if the CPU device may take over from others."""
        return self._devices is None and self._partitioning.mode is not PartitioningMode.WITHOUT_FALLBACK

    def _compilation(
        self,
        planned: PlanningResult,
        split: "Callable[[], PartitionedModel]",
        preparer: Preparer,
        startup: Startup,
    ) -> "Compilation":
        """Returns the compilation with a plan.

        Args:
            planned: the plan.
            split: returns how the model was split.
            preparer, startup: the preparer and startup that the plan was made with.
        """
        self._finished = True
        steps = planned.plan.steps
        recovery = Recovery(
            self._model,
            steps,
            preparer.without_deadline(),
            may_fall_back=self._may_fall_back,
            watches_drift=self._partitioning.policy == MIN_COST
            and self._preference is not Preference.LOW_POWER,
            verified_share=self._verified_share,
        )
        if startup is Startup.OPTIMIZED and self._timeout_s is None:
            recovery.get_ready_to_verify()
        return Compilation(
            self._model,
            planned,
            split,
            recovery,
            State(self._model.state, self._shared),
            Optimization(startup, steps, recovery, preparer),
            explicit_devices=self._devices,
            strict=self._strict,
        )

    def _is_supported(self, device: Device) -> bool:
        """Returns True if the model has operations, and a device supports all of them."""
        from neurald.runtime.devices.asking import verdicts_in_execution_order  # Not for a warm start.

        verdicts = verdicts_in_execution_order(self._model, [device])[device.name]
        return bool(verdicts) and all(verdict.ok for verdict in verdicts)

    def _has_no_choice(self, chosen: Sequence[Device]) -> bool:
        """Returns True if the CPU device runs the whole model, provided that it supports all of it.

        It does if it has prepared the model before.
        """
        wanted = self._partitioning
        return (
            len(chosen) == 1
            and chosen[0] is cpu_device()
            and self._plan is None
            and wanted.policy in (ANDROID, MIN_COST)
            and not wanted.overrides
            and not wanted.require_full_delegation
        )

    def _decided_earlier(
        self,
        partitioned: "PartitionedModel",
        guard: "PlanGuard | None",
        chosen: Sequence[Device],
        preparer: Preparer,
    ) -> "tuple[PartitionedModel, PlanningResult] | None":
        """Returns the plan of the device that has won against others, unless it fails now."""
        if guard is None or guard.winner is None:
            return None
        from neurald.runtime.plan.planner import make_plan  # Not needed for a warm start.

        result = partitioned.on_device(self._model, guard.winner.index, guard.reason)
        try:
            planned = make_plan(self._model, result.groups, chosen, preparer, may_fall_back=False)
        except Error as error:
            _LOGGER.info("%s does not run the whole model any more: %s", guard.winner.name, error)
            return None
        return replace(partitioned, result=result), planned

    def _guard(self, partitioned: "PartitionedModel", chosen: Sequence[Device]) -> "PlanGuard | None":
        """Returns what is known about the plan and its rivals; None if the plan stays anyway.

        It stays if the application has said what it wants, or if no other device can run
        everything.
        """
        wanted = self._partitioning
        if wanted.policy != MIN_COST or len(chosen) < 2 or self._preference is Preference.LOW_POWER:
            return None
        if wanted.overrides or wanted.require_full_delegation or self._strict or self._attributes:
            return None
        from neurald.runtime.execution.trials.plan_guard import find_guard  # slow to import

        return find_guard(
            self._model,
            partitioned.result,
            partitioned.candidates,
            chosen,
            self._threads,
            keeps=self._keeps,
        )

    @property
    def _keeps(self) -> bool:
        """True if anything may be kept on disk."""
        return self._caches_by_default or self._caching is not None

    def _require_open(self) -> None:
        if self._finished:
            raise BadState(
                "the builder has finished its compilation; settings of another need another CompilationBuilder"
            )


def _split(
    model: Model,
    chosen: Sequence[Device],
    partitioning: Partitioning,
    preference: Preference,
    query_deadline_s: float | None = None,
    plan: "ProvidedPlan | None" = None,
    *,
    has_explicit_devices: bool,
) -> "tuple[PartitionedModel, str]":
    """Splits a model over devices.

    Args:
        model: a valid model.
        chosen: the devices.
        partitioning, preference: the partitioning and preference of the compilation.
        query_deadline_s: when devices must have answered; None for no limit.
        plan: takes its split, if it fits.
        has_explicit_devices: whether the application chose the devices.

    Returns:
        The split model, and why the plan does not fit, or "".
    """
    # Not needed for a warm start.
    from neurald.runtime.explain.partitioned_model import PartitionedModel
    from neurald.runtime.partitioning.candidates import find_candidates
    from neurald.runtime.partitioning.partitioner import partition

    # Only what operations cost decides, unless the application has said more.
    policy = partitioning.policy
    is_particular = bool(has_explicit_devices or partitioning.overrides or policy not in (ANDROID, MIN_COST))
    candidates = find_candidates(
        model,
        chosen,
        partitioning.mode,
        query_deadline_s,
        None if is_particular else preference,
        knows_costs=policy == MIN_COST,
    )
    before = None if plan is None else plan.partition(model, chosen, candidates)
    result = before
    if result is None or isinstance(result, str):
        result = partition(model, candidates, preference, partitioning)
    found = PartitionedModel(
        candidates=candidates, result=result, preference=preference, partitioning=partitioning
    )
    return found, before if isinstance(before, str) else ""


def _partitioning(wanted: Partitioning | PartitioningMode | int | str) -> Partitioning:
    if isinstance(wanted, Partitioning):
        return wanted
    if isinstance(wanted, str):
        return Partitioning(policy=wanted)
    return Partitioning(mode=member(wanted, PartitioningMode, "the partitioning"))
