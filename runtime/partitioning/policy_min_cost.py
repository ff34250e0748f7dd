"""Places and groups operations so that the whole plan takes least, or uses least energy.

What a plan takes is predicted from the costs of operations, launches and transfers
(`neurald.runtime.costs`): the end of its critical path, since steps on different devices overlap. The
plans of Android's rule and of Tengine, those of one device, and those that leave a device only its
largest steps are predicted as well, so that the result is never worse than any of them.

With preference LOW_POWER the costs are energies instead: the time on the CPU device, times the
energy that the driver declares relative to the CPU device. Energies of all steps add up.

An IF or WHILE is either run by a device as a whole, or interpreted, so that its graphs are placed
like the main one. Its steps then run one after another. A branch of an IF counts half; a loop
counts for eight turns.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Model, Operation, Preference, Subgraph
from neurald.runtime.costs.estimate import DeviceCosts, ModelWork, OperationCost, device_costs
from neurald.runtime.costs.table import CostSource, CostTable
from neurald.runtime.model.branches import MAIN, Nesting, graph_of, is_control_flow, referenced_graphs
from neurald.runtime.partitioning import grouping_android, placement, policy_tengine
from neurald.runtime.partitioning.groups import Group, IfGroup, StepGroup, WhileGroup
from neurald.runtime.partitioning.min_cost.problem import Choice, PlacementProblem
from neurald.runtime.partitioning.min_cost.search import FoundPlan, Steps, find_plan
from neurald.runtime.partitioning.placement import (
    INTERPRETER,
    Candidate,
    OperationId,
    Placement,
    PlacementConstraints,
    no_device_error,
    unsupported_reasons_of_graph,
)

#: The cost of an operation on a device that supports it, but lists no performance for its type.
_UNLISTED_S: Final = 1e5
_TURNS: Final = 8
#: How many of the largest steps of a device are tried.
_LARGEST: Final = (1, 2, 4)


def split_by_cost(
    model: Model, candidates: Sequence[Candidate], preference: Preference, constraints: PlacementConstraints
) -> tuple[Mapping[int, tuple[Placement, ...]], tuple[Group, ...], Mapping[str, float]]:
    """Places and groups the operations of the main graph and of the graphs of interpreted control flow.

    Returns:
        By graph number, a placement for each operation; the groups of the main graph; and what was
            predicted for the plan and for others, in seconds, by name.

    Raises:
        BadData: no device can run an operation. The message names the operation, the devices and
            their reasons.
    """
    return _CostChooser(model, candidates, preference, constraints).split()


def costs_of_candidate(candidate: Candidate) -> DeviceCosts:
    """Returns the costs of a candidate; of one without measurements, those that its driver declares."""
    return candidate.costs or device_costs(CostTable(), candidate.capabilities, is_cpu=candidate.is_cpu)


class _CostChooser:
    """Chooses the devices of one model's operations."""

    def __init__(
        self,
        model: Model,
        candidates: Sequence[Candidate],
        preference: Preference,
        constraints: PlacementConstraints,
    ) -> None:
        self._model = model
        self._candidates = candidates
        self._preference = preference
        self._is_energy = preference is Preference.LOW_POWER
        self._constraints = constraints
        self._nesting = Nesting(model)
        self._work = ModelWork(model)
        self._devices = [costs_of_candidate(candidate) for candidate in candidates]
        self._cpu = next((n for n, candidate in enumerate(candidates) if candidate.is_cpu), None)
        self._interpreter = len(candidates)
        self._row_of: dict[tuple[object, ...], tuple[OperationCost, ...]] = {}
        self._plans: dict[int, FoundPlan] = {}
        self._reasons_of: dict[int, list[tuple[str, ...]]] = {}
        #: By graph and candidate, what all of its operations cost there together.
        self._whole: dict[int, list[float]] = {}

    def split(self) -> tuple[Mapping[int, tuple[Placement, ...]], tuple[Group, ...], Mapping[str, float]]:
        placed = set(self._nesting.placed_graphs()) if self._cpu is not None else {MAIN}
        for number in self._nesting.order:
            graph = graph_of(self._model, number)
            if self._model.referenced:
                rows = [self._row(graph, each) for each in graph.operations]
                self._whole[number] = [
                    sum(self._figure(row[n]) for row in rows) for n in range(len(self._candidates))
                ]
            if number in placed:
                self._plans[number] = self._plan(number, graph)
        placements: dict[int, tuple[Placement, ...]] = {}
        pending = [MAIN]
        while pending:
            number = pending.pop()
            if number in placements:
                continue
            placements[number] = self._placements(number)
            graph = graph_of(self._model, number)
            for operation, each in zip(graph.operations, placements[number], strict=True):
                if each.device == INTERPRETER:
                    pending += referenced_graphs(graph, operation)
        main = self._plans[MAIN]
        predicted = {"the plan": main.seconds, **main.others}
        return placements, self._groups(MAIN, {}), {} if self._is_energy else predicted

    def _reasons(self, number: int) -> list[tuple[str, ...]]:
        """Returns for each operation of a graph why each candidate cannot run it; empty if it can."""
        found = self._reasons_of.get(number)
        if found is None:
            found = self._reasons_of[number] = unsupported_reasons_of_graph(
                self._model, self._nesting, self._candidates, number
            )
        return found

    def _row(self, graph: Subgraph, operation: Operation) -> tuple[OperationCost, ...]:
        """Returns the cost of an operation on each candidate, whether it can run it or not."""
        if is_control_flow(operation):
            return tuple(
                OperationCost(seconds=cost, source=CostSource.SCALED, energy=cost)
                for cost in self._whole_costs(graph, operation)
            )
        key = self._work.of(graph, operation)
        found = self._row_of.get(key)
        if found is None:
            relaxed = self._model.relaxed
            found = self._row_of[key] = tuple(costs.of(*key, relaxed=relaxed) for costs in self._devices)
        return found

    def _whole_costs(self, graph: Subgraph, operation: Operation) -> list[float]:
        branches = [self._whole[number] for number in referenced_graphs(graph, operation)]
        return [sum(costs[n] for costs in branches) * _share(operation) for n in range(len(self._candidates))]

    def _figure(self, cost: OperationCost) -> float:
        figure = cost.energy if self._is_energy else cost.seconds
        return figure if figure < math.inf else _UNLISTED_S

    def _plan(self, number: int, graph: Subgraph) -> FoundPlan:
        has_control_flow = any(is_control_flow(operation) for operation in graph.operations)
        is_sequential = self._is_energy or has_control_flow or number != MAIN
        rows: dict[tuple[object, ...], list[float]] = {}
        reasons = self._reasons(number)

        def cost_of(position: int) -> list[float]:
            operation = graph.operations[position]
            if is_control_flow(operation) or (number, position) in requested:
                return self._options(number, position)
            key = (*self._work.of(graph, operation), *[not reason for reason in reasons[position]])
            found = rows.get(key)
            if found is None:
                found = rows[key] = self._options(number, position)
            return found

        requested = self._constraints.preferred.keys() | self._constraints.demoted.keys()
        problem = PlacementProblem(self._model, number, self._devices, cost_of, is_sequential=is_sequential)
        names = [candidate.name for candidate in self._candidates]
        if not problem.count:
            return FoundPlan(choice=[], steps=[], seconds=0.0, is_optimal=True, others={})
        return find_plan(problem, names, self._others(number, problem))

    def _options(self, number: int, position: int) -> list[float]:
        """Returns the costs of an operation where it may run, and infinity elsewhere; the interpreter is last."""
        graph = graph_of(self._model, number)
        operation = graph.operations[position]
        operation_id = (number, position)
        reasons = self._reasons(number)[position]
        able = [n for n, reason in enumerate(reasons) if not reason]
        if not able:
            raise no_device_error(self._model, operation_id, self._candidates, reasons)
        wanted = self._requested(operation_id, able)
        able = able if wanted is None else [wanted]
        row = self._row(graph, operation)
        costs = [math.inf] * (len(self._candidates) + 1)
        for n in able:
            costs[n] = self._figure(row[n])
        if is_control_flow(operation) and self._cpu in able:
            if self._candidates[self._cpu].unsupported_reason(operation_id):
                costs[self._cpu] = math.inf
            branches = referenced_graphs(graph, operation)
            if self._nesting.is_interpretable(number, operation) and all(n in self._plans for n in branches):
                inside = sum(self._plans[n].seconds for n in branches)
                costs[self._interpreter] = inside * _share(operation)
        return costs

    def _requested(self, operation_id: OperationId, able: Sequence[int]) -> int | None:
        """Returns the device that a rule requests for an operation, if it can run it."""
        if operation_id in self._constraints.demoted:
            return self._cpu if self._cpu in able else None
        device, _ = self._constraints.preferred.get(operation_id, (None, ""))
        return device if device in able else None

    def _others(self, number: int, problem: PlacementProblem) -> Iterator[tuple[str, Choice, Steps | None]]:
        """Yields the plans of other policies, unless there is control flow."""
        if self._model.referenced or number != MAIN:
            return
        arguments = (self._model, self._candidates, self._preference, self._constraints)
        placed = placement.find_best_device_for_each_operation(*arguments)
        android = [each.device for each in placed[MAIN]]
        groups = grouping_android.group_into_steps(self._model, placed)
        yield "policy android", android, _steps(groups)
        for device in range(len(self._candidates)):
            if device == self._cpu or self._cpu is None:
                continue
            yield from self._largest(problem, device)
        placed = policy_tengine.place_operations(*arguments)
        groups = policy_tengine.group_consecutive_operations(self._model, placed)
        yield "policy tengine", [each.device for each in placed[MAIN]], _steps(groups)

    def _largest(self, problem: PlacementProblem, device: int) -> Iterator[tuple[str, Choice, Steps | None]]:
        """Yields plans in which a device runs its largest regions only, and the CPU device the rest."""
        cpu = self._cpu
        assert cpu is not None  # noqa: S101 - the caller has checked it
        choice = [device if costs[device] < math.inf else cpu for costs in problem.costs]
        if any(costs[found] == math.inf for costs, found in zip(problem.costs, choice, strict=True)):
            return
        regions = [operations for found, operations in problem.drained(choice) if found == device]
        regions.sort(key=len, reverse=True)
        for count in dict.fromkeys((*_LARGEST, len(regions))):
            if count > len(regions):
                continue
            kept = {position for operations in regions[:count] for position in operations}
            smaller = [
                found if position in kept or problem.costs[position][cpu] == math.inf else cpu
                for position, found in enumerate(choice)
            ]
            yield f"the {count} largest on {self._candidates[device].name}", smaller, None

    def _placements(self, number: int) -> tuple[Placement, ...]:
        graph = graph_of(self._model, number)
        known: dict[tuple[object, ...], Placement] = {}
        found = []
        reasons_of = self._reasons(number)
        has_rules = bool(self._constraints.preferred or self._constraints.demoted)
        for position, device in enumerate(self._plans[number].choice):
            operation = graph.operations[position]
            operation_id = (number, position)
            row = self._row(graph, operation)
            reasons = reasons_of[position]
            rule = self._rule(operation_id, device, reasons) if has_rules else ""
            key = (device, id(row), rule, *reasons)
            if key not in known or is_control_flow(operation):
                known[key] = self._placement(device, row, reasons, rule)
            found.append(known[key])
        return tuple(found)

    def _rule(self, operation_id: OperationId, device: int, reasons: Sequence[str]) -> str:
        """Returns the rule that requested the device of an operation; empty if none did."""
        able = [n for n, reason in enumerate(reasons) if not reason]
        wanted = self._requested(operation_id, able)
        is_wanted = wanted is not None and (device == wanted or device == self._interpreter)
        if not is_wanted:
            return ""
        demoted = self._constraints.demoted.get(operation_id)
        return demoted if demoted is not None else self._constraints.preferred[operation_id][1]

    def _placement(
        self, device: int, row: Sequence[OperationCost], reasons: Sequence[str], rule: str
    ) -> Placement:
        is_interpreted = device == self._interpreter
        own = (self._cpu or 0) if is_interpreted else device
        figures = [self._figure(cost) for cost in row]
        able = [n for n, reason in enumerate(reasons) if not reason]
        others = [f"{self._candidates[n].name} {self._shown(row[n])}" for n in able if n != own]
        reason = rule
        if not reason:
            against = f" against {', '.join(others)}" if others else ", the only device that can run it"
            if len(self._candidates) == 1:
                against = ", the only device"
            reason = f"{self._shown(row[own])}{against}"
            if any(figures[n] < figures[own] for n in able):
                reason += "; the whole plan costs least so, with launches and transfers"
            if is_interpreted:
                reason += "; interpreted, so that its branches can go to other devices"
        rejected = {}
        for n in range(len(self._candidates)):
            if n == own and not is_interpreted:
                continue
            if reasons[n] or rule:
                rejected[n] = reasons[n] or rule
            elif figures[n] < figures[own]:
                rejected[n] = (
                    f"{self._shown(row[n])} against {self._shown(row[own])}, but with launches and "
                    "transfers the whole plan would cost more"
                )
            else:
                rejected[n] = f"{self._shown(row[n])} against {self._shown(row[own])}"
        if is_interpreted:
            rejected.pop(own, None)
        costs = {n: row[n] for n in able}
        return Placement(
            device=INTERPRETER if is_interpreted else device, reason=reason, rejected=rejected, costs=costs
        )

    def _shown(self, cost: OperationCost) -> str:
        figure = self._figure(cost)
        if figure >= _UNLISTED_S:
            return "no figure for its type"
        if self._is_energy:
            return f"{figure * 1e3:.3g} mJ relative"
        return f"{figure * 1e3:.3g} ms ({cost.source.value})"

    def _groups(self, number: int, known: dict[int, tuple[Group, ...]]) -> tuple[Group, ...]:
        """Returns the groups of a graph; the recursion is as deep as control flow is nested."""
        if number in known:
            return known[number]
        graph = graph_of(self._model, number)
        groups: list[Group] = []
        for device, operations in self._plans[number].steps:
            if device != self._interpreter:
                groups.append(StepGroup(graph=number, device=device, operations=tuple(operations)))
                continue
            (position,) = operations
            operation = graph.operations[position]
            first, second = (self._groups(n, known) for n in referenced_graphs(graph, operation))
            if operation.type is OperationType.IF:
                groups.append(
                    IfGroup(graph=number, operation=position, then_groups=first, else_groups=second)
                )
            else:
                groups.append(
                    WhileGroup(graph=number, operation=position, condition_groups=first, body_groups=second)
                )
        known[number] = tuple(groups)
        return known[number]


def _share(operation: Operation) -> float:
    return 0.5 if operation.type is OperationType.IF else float(_TURNS)


def _steps(groups: Sequence[Group]) -> Steps:
    return [(group.device, group.operations) for group in groups if isinstance(group, StepGroup)]
