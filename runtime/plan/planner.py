"""Builds a plan from groups: creates the models of the steps and has devices prepare them.

If preparing fails and the application left the choice of devices open, the CPU device runs the
whole model (AOSP's full fallback), unless the error says that the model itself is invalid. With an
explicit list of devices the error is raised.

Operations whose results nobody needs are in no group (`neurald.runtime.partitioning.live_part`). On
Android they may become a step without outputs, which sends the whole model to the CPU device.
Unlike Android, neurald also accepts a step without inputs, whose device computes only with
constants.
"""

import logging
from collections.abc import Sequence

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.device import Device
from neurald.hal.errors import BadData, Error, UnexpectedNull, error_for
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operation_name
from neurald.runtime.devices.asking import verdicts_in_execution_order
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.model.boundary import Boundary, boundaries
from neurald.runtime.model.branches import graph_of
from neurald.runtime.model.dead_operations import dead_operations, without_dead_branches
from neurald.runtime.model.step_model import StepModel, step_model
from neurald.runtime.partitioning.groups import Group, StepGroup
from neurald.runtime.partitioning.limits import step_groups
from neurald.runtime.plan.plan import CompoundBody, ExecutionPlan, ExecutionStep
from neurald.runtime.plan.planning_result import PlanningResult, whole_plan
from neurald.runtime.plan.prepared_step import PreparationReport, PreparedStep
from neurald.runtime.plan.preparer import Preparer
from neurald.runtime.plan.report import CompilationReport

_LOGGER = logging.getLogger(__name__)


def make_plan(
    model: Model,
    groups: Sequence[Group],
    devices: Sequence[Device],
    preparer: Preparer,
    *,
    may_fall_back: bool,
) -> PlanningResult:
    """Prepares every group's step on its device.

    Args:
        model: a valid model.
        groups: the groups of the main graph, from
            `neurald.runtime.partitioning.partitioner.partition`.
        devices: the devices that the groups refer to by index.
        preparer: the preparer, which has devices prepare the models of the steps.
        may_fall_back: whether the CPU device may run the whole model after a failure.

    Raises:
        BadData, UnexpectedNull: a device rejects the model as invalid.
        Error: a device failed, and the CPU device may not or cannot take over.
    """
    planner = _Planner(model, devices, preparer)
    try:
        return planner.plan(groups)
    except (BadData, UnexpectedNull):
        raise
    except Error as error:
        cpu = cpu_device()
        was_cpu = len(groups) == 1 and isinstance(groups[0], StepGroup) and devices[groups[0].device] is cpu
        if not may_fall_back or was_cpu:
            raise
        unsupported = _unsupported_reason(cpu, model)
        if unsupported:
            raise error_for(error.code, f"{error}; {cpu.name} cannot take over: {unsupported}") from error
        reason = f"{planner.failing} could not prepare the model: {error}" if planner.failing else str(error)
        text = "the CPU runs the whole model: %s"
        note_event(CountedEvent.FALLBACK, planner.failing, _LOGGER.warning, text, reason)
        planner = _Planner(model, (cpu,), preparer)
        return planner.whole_plan(cpu, fallback=reason)


def _unsupported_reason(device: Device, model: Model) -> str:
    """Returns why a device cannot run the first operation that it does not support.

    Returns an empty string if it can run the whole model.
    """
    for position, verdict in enumerate(verdicts_in_execution_order(model, [device])[device.name]):
        if not verdict.ok:
            return f"{operation_name(model.main, position)}: {verdict.reason}"
    return ""


class _Planner:
    """Builds one plan.

    Attributes:
        failing: name of the device that is preparing a model, or that failed to prepare one;
            otherwise empty.
    """

    def __init__(self, model: Model, devices: Sequence[Device], preparer: Preparer) -> None:
        self._model = model
        self._devices = devices
        self._preparer = preparer
        self._boundaries: dict[StepGroup, Boundary] = {}
        self._made: dict[StepGroup, tuple[StepModel, PreparedStep]] = {}
        self._reports: list[PreparationReport] = []
        self.failing = ""

    def plan(self, groups: Sequence[Group]) -> PlanningResult:
        if len(groups) == 1 and isinstance(groups[0], StepGroup):
            everything = tuple(range(len(self._model.main.operations)))
            if groups[0].operations == everything:
                return self.whole_plan(self._devices[groups[0].device])
        self._find_boundaries(groups)
        self._prepare_steps(groups)
        # Plans of one step need none of this.
        from neurald.runtime.plan.program_builder import build_program
        from neurald.runtime.plan.shared_values import values_to_share

        program = build_program(self._model, groups, self._make_step)
        steps = [step for step in program.steps if isinstance(step, ExecutionStep)]
        body = CompoundBody(
            program=program.steps,
            values=program.values,
            arena=program.arena,
            shares_memory=any(step.device.is_remote for step in steps),
            shared=values_to_share(program.steps, program.values),
            waits_for=program.waits_for,
        )
        report = CompilationReport(steps=tuple(self._reports))
        return PlanningResult(plan=ExecutionPlan(self._model, body), report=report)

    def whole_plan(self, device: Device, fallback: str = "") -> PlanningResult:
        """Makes a device prepare the whole model; see `whole_plan`."""
        self.failing = device.name
        # The CPU device supports what others may refuse, and is looked for in the cache by the
        # model.
        given = self._model if device is cpu_device() else without_dead_branches(self._model)
        prepared = self._preparer.prepare(device, given)
        self.failing = ""
        return whole_plan(self._model, device, prepared, fallback, given=given)

    def _find_boundaries(self, groups: Sequence[Group]) -> None:
        dead = dead_operations(self._model)
        by_graph: dict[int, dict[StepGroup, None]] = {}
        for group in step_groups(groups):
            by_graph.setdefault(group.graph, {})[group] = None
        for number, found in by_graph.items():
            graph = graph_of(self._model, number)
            edges = boundaries(graph, [group.operations for group in found], dead.get(number, ()))
            self._boundaries.update(zip(found, edges, strict=True))

    def _prepare_steps(self, groups: Sequence[Group]) -> None:
        """Makes devices prepare the steps of all groups.

        A step that belongs to several IFs or WHILEs is prepared once.
        """
        wanted = list(dict.fromkeys(step_groups(groups)))
        parts = [
            step_model(self._model, group.graph, group.operations, self._boundaries[group])
            for group in wanted
        ]
        devices = [self._devices[group.device] for group in wanted]
        outcomes = self._preparer.prepare_all(
            [(device, part.model) for device, part in zip(devices, parts, strict=True)]
        )
        for device, outcome in zip(devices, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                self.failing = device.name
                try:
                    raise outcome
                finally:
                    # The frames to which the error refers refer to the list.
                    outcomes.clear()
                    del outcome
        self._made = {
            group: (part, outcome)
            for group, part, outcome in zip(wanted, parts, outcomes, strict=True)
            if isinstance(outcome, PreparedStep)
        }

    def _make_step(self, group: StepGroup) -> ExecutionStep:
        """Builds the step of a group."""
        device = self._devices[group.device]
        part, prepared = self._made[group]
        self._reports.append(prepared.report)
        return ExecutionStep(
            device=device,
            graph=group.graph,
            operations=part.model.main.operation_numbers,
            model=part.model,
            prepared_model=prepared.prepared_model,
            is_first_tier=prepared.is_first_tier,
            inputs=part.inputs,
            outputs=part.outputs,
        )
