"""Compiles a model: lets devices prepare it as a whole, or splits it, plans it, and prepares it."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from neurald.hal.device import Device, PrepareOptions
from neurald.hal.errors import Error
from neurald.hal.model.model import Model
from neurald.hal.model.types import Preference
from neurald.hal.process.memory.gc_pause import paused_gc
from neurald.hal.records import replace
from neurald.hal.sync.deadline import deadline_in
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_settings import CompilationSettings
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.background.optimization import Optimization
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.execution.variables.state import State
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.groups import Group, StepGroup
from neurald.runtime.partitioning.options import ANDROID, MIN_COST
from neurald.runtime.plan.planning_result import PlanningResult, whole_plan
from neurald.runtime.plan.preparer import Caching, Preparer
from neurald.runtime.plan.startup import Startup

if TYPE_CHECKING:
    # Imported on demand: a model that runs in one call of its device needs none of these.
    from neurald.runtime.execution.trials.plan_guard import PlanGuard
    from neurald.runtime.explain.partitioned_model import PartitionedModel
    from neurald.runtime.plan.provided_plan import ProvidedPlan

_LOGGER = logging.getLogger(__name__)


class ModelCompilation:
    """The work of compiling one model. The time limit of the settings begins with it.

    Args:
        model: a finished model.
        settings: the settings of the application.
    """

    def __init__(self, model: Model, settings: CompilationSettings) -> None:
        self._model = model
        self._settings = settings
        self._preparer = Preparer(
            PrepareOptions(
                preference=settings.preference,
                priority=settings.priority,
                deadline_s=deadline_in(settings.timeout_s),
                threads=settings.threads,
                attributes=settings.attributes,
            ),
            Caching.by_default() if settings.caches_by_default else settings.caching,
            startup=settings.chosen_startup,
            monitor=settings.monitor,
            provided=settings.plan,
        )

    def finish(self, chosen: Sequence[Device], query_deadline_s: float | None) -> Compilation:
        """Chooses a device for every operation and has the devices prepare their steps.

        Args:
            chosen: the devices that may be used.
            query_deadline_s: when they must have said what they support; None for no limit.

        Raises:
            Error: see `CompilationBuilder.finish`.
        """
        if self._has_no_choice(chosen):
            whole = self._loaded(chosen)
            if whole is None:
                whole = self._prepared_as_whole(chosen)
            if whole is not None:
                return whole
        return self._prepared_in_steps(chosen, query_deadline_s)

    def _loaded(self, chosen: Sequence[Device]) -> Compilation | None:
        """Returns the compilation whose code the cache has for the only device, or None."""
        # The objects of a start from the cache last, so that collections would find nothing.
        with paused_gc():
            loaded = self._preparer.load(chosen[0], self._model)
            if loaded is None:
                return None
            planned = whole_plan(self._model, chosen[0], loaded)
            return self._compilation(planned, self._split_later(chosen))

    def _prepared_as_whole(self, chosen: Sequence[Device]) -> Compilation | None:
        """Returns the compilation in which the only device runs everything; None if it cannot."""
        if not self._is_supported(chosen[0]):
            return None
        everything = tuple(range(len(self._model.main.operations)))
        groups = (StepGroup(graph=MAIN, device=0, operations=everything),)
        planned = self._planned(groups, chosen, may_fall_back=self._settings.may_fall_back)
        return self._compilation(planned, self._split_later(chosen))

    def _prepared_in_steps(self, chosen: Sequence[Device], query_deadline_s: float | None) -> Compilation:
        """Splits the model over devices, and has each of them prepare its steps; see `finish`."""
        plan = self._settings.plan
        partitioned, unfit = _split(self._model, chosen, self._settings, query_deadline_s, plan)
        guard = None if plan is not None else self._guard(partitioned, chosen)
        won = self._decided_earlier(partitioned, guard, chosen)
        if won is not None:
            partitioned, planned = won
        else:
            groups = partitioned.result.groups
            planned = self._planned(groups, chosen, may_fall_back=self._settings.may_fall_back)
        compilation = self._compilation(planned, lambda: partitioned)
        if plan is not None:
            compilation.add_note(f"planned again: {unfit}" if unfit else self._settings.plan_note)
        if guard is not None and guard.is_open and not planned.report.fallback:
            compilation.compare_with_rivals(self._preparer.without_deadline(), guard)
        return compilation

    def _planned(
        self, groups: Sequence[Group], chosen: Sequence[Device], *, may_fall_back: bool
    ) -> PlanningResult:
        from neurald.runtime.plan.planner import make_plan  # Not needed for a warm start.

        return make_plan(self._model, groups, chosen, self._preparer, may_fall_back=may_fall_back)

    def _split_later(self, chosen: Sequence[Device]) -> "Callable[[], PartitionedModel]":
        """Returns what splits the model, which only explanations need."""
        split = partial(_split, self._model, tuple(chosen), self._settings)
        return lambda: split()[0]

    def _compilation(
        self,
        planned: PlanningResult,
        split: "Callable[[], PartitionedModel]",
    ) -> Compilation:
        """Returns the compilation with a plan.

        Args:
            planned: the plan.
            split: returns how the model was split.
        """
        settings, startup = self._settings, self._settings.chosen_startup
        steps = planned.plan.steps
        recovery = Recovery(
            self._model,
            steps,
            self._preparer.without_deadline(),
            may_fall_back=settings.may_fall_back,
            watches_drift=settings.partitioning.policy == MIN_COST
            and settings.preference is not Preference.LOW_POWER,
            verified_share=settings.verified_share,
        )
        if startup is Startup.OPTIMIZED and settings.timeout_s is None:
            recovery.get_ready_to_verify()
        return Compilation(
            self._model,
            planned,
            split,
            recovery,
            State(self._model.state, settings.shared_state),
            Optimization(startup, steps, recovery, self._preparer),
            explicit_devices=settings.devices,
            strict=settings.strict,
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
        wanted = self._settings.partitioning
        return (
            len(chosen) == 1
            and chosen[0] is cpu_device()
            and self._settings.plan is None
            and wanted.policy in (ANDROID, MIN_COST)
            and not wanted.overrides
            and not wanted.require_full_delegation
        )

    def _decided_earlier(
        self,
        partitioned: "PartitionedModel",
        guard: "PlanGuard | None",
        chosen: Sequence[Device],
    ) -> "tuple[PartitionedModel, PlanningResult] | None":
        """Returns the plan of the device that has won against others, unless it fails now."""
        if guard is None or guard.winner is None:
            return None
        result = partitioned.on_device(self._model, guard.winner.index, guard.reason)
        try:
            planned = self._planned(result.groups, chosen, may_fall_back=False)
        except Error as error:
            _LOGGER.info("%s does not run the whole model any more: %s", guard.winner.name, error)
            return None
        return replace(partitioned, result=result), planned

    def _guard(self, partitioned: "PartitionedModel", chosen: Sequence[Device]) -> "PlanGuard | None":
        """Returns what is known about the plan and its rivals; None if the plan stays anyway.

        It stays if the application has said what it wants, or if no other device can run
        everything.
        """
        settings, wanted = self._settings, self._settings.partitioning
        if wanted.policy != MIN_COST or len(chosen) < 2 or settings.preference is Preference.LOW_POWER:
            return None
        if wanted.overrides or wanted.require_full_delegation or settings.strict or settings.attributes:
            return None
        from neurald.runtime.execution.trials.plan_guard import find_guard  # slow to import

        return find_guard(
            self._model,
            partitioned.result,
            partitioned.candidates,
            chosen,
            settings.threads,
            keeps=settings.caches,
        )


def _split(
    model: Model,
    chosen: Sequence[Device],
    settings: CompilationSettings,
    query_deadline_s: float | None = None,
    plan: "ProvidedPlan | None" = None,
) -> "tuple[PartitionedModel, str]":
    """Splits a model over devices.

    Args:
        model: a valid model.
        chosen: the devices.
        settings: the settings of the compilation.
        query_deadline_s: when devices must have answered; None for no limit.
        plan: takes its split, if it fits.

    Returns:
        The split model, and why the plan does not fit, or "".
    """
    # Not needed for a warm start.
    from neurald.runtime.explain.partitioned_model import PartitionedModel
    from neurald.runtime.partitioning.candidates import find_candidates
    from neurald.runtime.partitioning.partitioner import partition

    partitioning, preference = settings.partitioning, settings.preference
    # Only what operations cost decides, unless the application has said more.
    policy = partitioning.policy
    is_particular = bool(
        settings.has_explicit_devices or partitioning.overrides or policy not in (ANDROID, MIN_COST)
    )
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
