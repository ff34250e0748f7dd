"""Places and groups operations so that the whole plan takes least, or uses least energy.

The time of a plan is predicted from the costs of operations, launches and transfers
(`neurald.runtime.costs`): the end of its critical path, since steps on different devices overlap.
The plans of Android's rule and of Tengine, those of one device, and those that leave a device only
its largest steps are predicted as well, so that the result is never worse than any of them.

With preference LOW_POWER the costs are energies instead: the time on the CPU device, times the
energy that the driver declares relative to the CPU device. Energies of all steps add up.

An IF or WHILE is either run by a device as a whole, or interpreted, so that its graphs are placed
like the main one. Its steps then run one after another. A branch of an IF counts half; a loop
counts for eight turns.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final, overload

from msgspec import Struct

from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.graph import Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Preference
from neurald.hal.wording import milliseconds, three_digits
from neurald.runtime.costs.estimate import DeviceCosts, OperationCost, device_costs
from neurald.runtime.costs.graph_arrays import GraphArrays
from neurald.runtime.costs.graph_work import GraphWork, OperationCosts
from neurald.runtime.costs.table import CostSource, CostTable
from neurald.runtime.model.branches import MAIN, Nesting, graph_of, is_control_flow, referenced_graphs
from neurald.runtime.partitioning.groups import Group, IfGroup, StepGroup, WhileGroup
from neurald.runtime.partitioning.min_cost.other_policies import OtherPolicies
from neurald.runtime.partitioning.min_cost.problem import PlacementProblem, Steps
from neurald.runtime.partitioning.min_cost.search import PLAN_NAME, FoundPlan, find_plan
from neurald.runtime.partitioning.min_cost.value_graph import ValueGraph
from neurald.runtime.partitioning.placement import (
    INTERPRETER,
    Candidate,
    DeviceScores,
    OperationId,
    Placement,
    PlacementConstraints,
    no_device_error,
    unsupported_reasons,
    unsupported_reasons_of_graph,
)

#: The cost of an operation on a device that supports it, but lists no performance for its type.
_UNLISTED_S: Final = 1e5
_TURNS: Final = 8
#: How many of the largest steps of a device are tried.
_LARGEST: Final = (1, 2, 4)


def split_by_cost(
    model: Model, candidates: Sequence[Candidate], preference: Preference, constraints: PlacementConstraints
) -> tuple[Mapping[int, Sequence[Placement]], tuple[Group, ...], Mapping[str, float]]:
    """Places and groups the operations of the main graph and of interpreted control flow.

    Returns:
        By graph number, a placement for each operation; the groups of the main graph; and what was
            predicted for the plan and for others, in seconds, by name.

    Raises:
        BadData: no device can run an operation. The message names the operation, the devices and
            their reasons.
    """
    return _CostChooser(model, candidates, preference, constraints).split()


def costs_of_candidate(candidate: Candidate) -> DeviceCosts:
    """Returns a candidate's measured costs, or those that its driver declares."""
    return candidate.costs or device_costs(CostTable(), candidate.capabilities, is_cpu=candidate.is_cpu)


class _CostedGraph(Struct, frozen=True, kw_only=True):
    """Facts about the operations of one graph before they are placed.

    Attributes:
        arrays: the arrays of the graph.
        work: the work of its operations.
        costs: the costs of its operations; without control flow.
        figures: by operation and device, seconds or energies; finite.
        able: by operation and device, whether it can run there.
    """

    arrays: GraphArrays
    work: GraphWork
    costs: OperationCosts
    figures: Array
    able: Array


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
        self._devices = [costs_of_candidate(candidate) for candidate in candidates]
        self._cpu = next((n for n, candidate in enumerate(candidates) if candidate.is_cpu), None)
        self._interpreter = len(candidates)
        self._graphs: dict[int, _CostedGraph] = {}
        self._plans: dict[int, FoundPlan] = {}
        #: The cost of all operations of a graph together, on each candidate.
        self._whole: dict[int, list[float]] = {}

    def split(self) -> tuple[Mapping[int, Sequence[Placement]], tuple[Group, ...], Mapping[str, float]]:
        placed = set(self._nesting.placed_graphs()) if self._cpu is not None else {MAIN}
        for number in self._nesting.order:
            costed = self._graphs[number] = self._costed(number)
            if self._model.referenced:
                self._whole[number] = costed.figures.sum(axis=0).tolist()
            if number in placed:
                self._plans[number] = self._plan(number, costed)
        placements: dict[int, Sequence[Placement]] = {}
        pending = [MAIN]
        while pending:
            number = pending.pop()
            if number in placements:
                continue
            placements[number] = _Placements(self, number)
            graph = graph_of(self._model, number)
            for operation, device in zip(graph.operations, self._plans[number].choice, strict=True):
                if device == self._interpreter:
                    pending += referenced_graphs(graph, operation)
        return placements, self._groups(MAIN, {}), {} if self._is_energy else self._plans[MAIN].predicted

    def _costed(self, number: int) -> _CostedGraph:
        graph = graph_of(self._model, number)
        operations = graph.operations
        arrays = GraphArrays.of(graph)
        work = GraphWork(arrays)
        costs = work.costs_on(self._devices, relaxed=self._model.relaxed)
        figures = np.minimum(costs.energies if self._is_energy else costs.seconds, _UNLISTED_S)
        if self._model.referenced:
            for position, operation in enumerate(operations):
                if is_control_flow(operation):
                    figures[position] = self._whole_costs(graph, operation)
        count = len(operations)
        able = np.array([np.fromiter(c.able(number, count), bool, count) for c in self._candidates]).T
        for position, operation in enumerate(operations if self._model.referenced else ()):
            if is_control_flow(operation):
                able[position] = [not reason for reason in self._reasons(number, position)]
        return _CostedGraph(
            arrays=arrays,
            work=work,
            costs=costs,
            figures=figures,
            able=able,
        )

    def _reasons(self, number: int, position: int) -> tuple[str, ...]:
        """Returns why each candidate cannot run an operation; empty if it can."""
        return unsupported_reasons(self._model, self._nesting, self._candidates, (number, position))

    def _row(self, number: int, position: int) -> tuple[OperationCost, ...]:
        """Returns the cost of an operation on each candidate, whether it can run it or not."""
        costed = self._graphs[number]
        if is_control_flow(costed.arrays.graph.operations[position]):
            return tuple(
                OperationCost(seconds=cost, source=CostSource.SCALED, energy=cost)
                for cost in costed.figures[position].tolist()
            )
        return costed.costs.of(position)

    def _whole_costs(self, graph: Subgraph, operation: Operation) -> list[float]:
        branches = [self._whole[number] for number in referenced_graphs(graph, operation)]
        return [sum(costs[n] for costs in branches) * _share(operation) for n in range(len(self._candidates))]

    def _figure(self, cost: OperationCost) -> float:
        figure = cost.energy if self._is_energy else cost.seconds
        return figure if figure < math.inf else _UNLISTED_S

    def _plan(self, number: int, costed: _CostedGraph) -> FoundPlan:
        operations = costed.arrays.graph.operations
        if not operations:
            return FoundPlan(choice=[], steps=[], seconds=0.0, is_optimal=True, predicted={PLAN_NAME: 0.0})
        if not costed.able.any(axis=1).all():
            position = int(costed.able.any(axis=1).argmin())
            reasons = self._reasons(number, position)
            raise no_device_error(self._model, (number, position), self._candidates, reasons)
        control_flow = []
        if self._model.referenced:
            control_flow = [n for n, operation in enumerate(operations) if is_control_flow(operation)]
        costs = np.full((len(operations), len(self._candidates) + 1), math.inf)
        costs[:, :-1] = np.where(costed.able, costed.figures, math.inf)
        requested = self._constraints.preferred.keys() | self._constraints.demoted.keys()
        for position in {*control_flow, *(position for graph, position in requested if graph == number)}:
            costs[position] = self._options(number, position)
        problem = PlacementProblem(
            ValueGraph.of(costed.arrays),
            costs,
            self._devices,
            is_sequential=self._is_energy or bool(control_flow) or number != MAIN,
        )
        names = [candidate.name for candidate in self._candidates]
        return find_plan(problem, names, self._others(number, problem))

    def _options(self, number: int, position: int) -> list[float]:
        """Returns an operation's costs where it may run, else infinity; the interpreter is last."""
        costed = self._graphs[number]
        operation = costed.arrays.graph.operations[position]
        operation_id = (number, position)
        able = np.flatnonzero(costed.able[position]).tolist()
        wanted = self._requested(operation_id, able)
        able = able if wanted is None else [wanted]
        costs = [math.inf] * (len(self._candidates) + 1)
        for n in able:
            costs[n] = float(costed.figures[position, n])
        if is_control_flow(operation) and self._cpu in able:
            branches = referenced_graphs(costed.arrays.graph, operation)
            if self._candidates[self._cpu].unsupported_reason(
                operation_id
            ) or not self._not_whole_on_cpu.isdisjoint(branches):
                costs[self._cpu] = math.inf
            if self._nesting.is_interpretable(number, operation) and all(n in self._plans for n in branches):
                inside = sum(self._plans[n].seconds for n in branches)
                costs[self._interpreter] = inside * _share(operation)
        return costs

    @cached_property
    def _not_whole_on_cpu(self) -> frozenset[int]:
        """The graphs with an operation, also nested, that rules exclude from the CPU device."""
        if self._cpu is None or not self._candidates[self._cpu].excluded:
            return frozenset()
        found = {number for number, _ in self._candidates[self._cpu].excluded}
        for number in self._nesting.order:
            graph = graph_of(self._model, number)
            if any(not found.isdisjoint(referenced_graphs(graph, each)) for each in graph.operations):
                found.add(number)
        return frozenset(found)

    def _requested(self, operation_id: OperationId, able: Sequence[int]) -> int | None:
        """Returns the device that a rule requests for an operation, if it can run it."""
        if operation_id in self._constraints.demoted:
            return self._cpu if self._cpu in able else None
        device, _ = self._constraints.preferred.get(operation_id, (None, ""))
        return device if device in able else None

    def _others(self, number: int, problem: PlacementProblem) -> Iterator[tuple[str, Array, Steps | None]]:
        """Yields the plans of other policies, unless there is control flow."""
        if self._model.referenced or number != MAIN:
            return
        costed = self._graphs[MAIN]
        preferred, demoted = self._constraints.preferred, self._constraints.demoted
        others = OtherPolicies(
            costed.arrays.graph.operations,
            self._scores(costed),
            costed.able,
            {n: device for (_, n), (device, _) in preferred.items() if costed.able[n, device]},
            {position for _, position in demoted},
            self._cpu,
        )
        yield "policy android", others.android(), None
        for device in range(len(self._candidates)):
            if device == self._cpu or self._cpu is None:
                continue
            yield from self._largest(problem, device)
        yield "policy tengine", *others.tengine()

    def _scores(self, costed: _CostedGraph) -> Array:
        """Returns by operation and device what Android's rule compares."""
        kinds = costed.work.kinds
        scores = [
            DeviceScores(self._model, self._nesting, candidate.capabilities, self._preference)
            for candidate in self._candidates
        ]
        table = np.array([[each.of_type(operand) for each in scores] for _, operand in kinds], np.float64)
        found: Array = table[costed.work.kind_numbers]
        return found

    def _largest(self, problem: PlacementProblem, device: int) -> Iterator[tuple[str, Array, Steps | None]]:
        """Yields plans with a device for its largest regions, and the CPU device the rest."""
        cpu = self._cpu
        assert cpu is not None  # noqa: S101 - the caller has checked it
        is_able = np.isfinite(problem.cost_array)
        if not (is_able[:, device] | is_able[:, cpu]).all():
            return
        largest = np.where(is_able[:, device], device, cpu)
        regions = [operations for found, operations in problem.drained(largest.tolist()) if found == device]
        regions.sort(key=len, reverse=True)
        kept, taken = ~is_able[:, cpu], 0
        for count in dict.fromkeys((*_LARGEST, len(regions))):
            if not taken < count <= len(regions):
                continue
            kept[list(chain.from_iterable(regions[taken:count]))] = True
            taken = count
            smaller = np.where(kept, largest, cpu)
            yield f"the {count} largest on {self._candidates[device].name}", smaller, None

    def placements(self, number: int) -> tuple[Placement, ...]:
        """Returns the placements of the operations of a graph, with reasons."""
        reasons_of = unsupported_reasons_of_graph(self._model, self._nesting, self._candidates, number)
        known: dict[tuple[object, ...], Placement] = {}
        found = []
        has_rules = bool(self._constraints.preferred or self._constraints.demoted)
        for position, device in enumerate(self._plans[number].choice):
            reasons = reasons_of[position]
            row = self._row(number, position)
            rule = self._rule((number, position), device, reasons) if has_rules else ""
            key = (device, row, rule, *reasons)
            if key not in known:
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
            is_alone = len(self._candidates) == 1
            reason = "the only device" if is_alone else f"{self._shown(row[own])}{against}"
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
            return f"{three_digits(figure * 1e3)} mJ relative"
        return f"{milliseconds(figure)} ({cost.source.value})"

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


class _Placements(Sequence[Placement]):
    """The placements of a graph, with reasons that are only written when they are asked for."""

    def __init__(self, chooser: _CostChooser, number: int) -> None:
        self._chooser = chooser
        self._number = number
        self._count = len(graph_of(chooser._model, number).operations)

    @cached_property
    def _found(self) -> tuple[Placement, ...]:
        return self._chooser.placements(self._number)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Placement: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Placement, ...]: ...

    def __getitem__(self, index: int | slice) -> Placement | tuple[Placement, ...]:
        return self._found[index]

    def __eq__(self, other: object) -> bool:
        return self._found == (other._found if isinstance(other, _Placements) else other)

    __hash__ = None  # type: ignore[assignment]


def _share(operation: Operation) -> float:
    return 0.5 if operation.type is OperationType.IF else float(_TURNS)
