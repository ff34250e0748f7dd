"""Chooses a device for every operation, by Android's rules: pure functions over immutable data.

Each operation is considered alone. Of the devices that can run it, the one with the lowest score
gets it; the CPU device wins a tie, otherwise the first device. An IF or WHILE with an operand of
unknown size can only go to the CPU device, which runs it as a whole. If the CPU device wins an IF
or WHILE whose operands have known sizes, the operations of its graphs are placed like those of the
main graph. If some of them go to other devices, the plan interprets the IF or WHILE; otherwise the
CPU device runs it as a whole.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field

from neurald.hal.device import Capabilities, Performance, Verdict
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operation_name
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType, Preference
from neurald.hal.records import replace
from neurald.runtime.model.branches import MAIN, Nesting, graph_of, is_control_flow, referenced_graphs

if TYPE_CHECKING:
    from neurald.runtime.costs.estimate import DeviceCosts, OperationCost  # slow to import

#: Pseudo-device of control flow that the plan itself interprets.
INTERPRETER = -1
#: Pseudo-device of operations that no step runs, since nobody needs their results.
NOT_RUN = -2

#: Identifies an operation: the number of its graph, and its position there.
OperationId = tuple[int, int]


class Candidate(Struct, frozen=True, kw_only=True):
    """A device that operations may be placed on.

    Attributes:
        name: the name of the device.
        verdicts: by graph number, one per operation; the device does not support missing graphs.
        capabilities: the capabilities of the device.
        is_cpu: whether it is the CPU device, to which operations fall back; at most one candidate
            is.
        excluded: operations that it may not run regardless of its verdict, with the reason.
        costs: the costs of operations, launches and transfers on the device; None if they do not
            matter, or if nothing is known but the capabilities.
    """

    name: str
    verdicts: Mapping[int, Sequence[Verdict]]
    capabilities: Capabilities
    is_cpu: bool = False
    excluded: Mapping[OperationId, str] = field(default_factory=lambda: MappingProxyType({}))
    costs: "DeviceCosts | None" = None

    def unsupported_reason(self, operation_id: OperationId) -> str:
        """Returns why the device cannot run an operation; empty if it can."""
        if operation_id in self.excluded:
            return self.excluded[operation_id]
        number, position = operation_id
        if number not in self.verdicts:
            return f"it was not asked about graph {number}"
        verdict = self.verdicts[number][position]
        return "" if verdict.ok else verdict.reason or "it gave no reason"

    def able(self, number: int, count: int) -> list[bool]:
        """Returns for each of the `count` operations of a graph whether the device can run it."""
        verdicts = self.verdicts.get(number)
        found = [False] * count if verdicts is None else [each.ok for each in verdicts]
        for graph, position in self.excluded:
            if graph == number:
                found[position] = False
        return found

    def unsupported_reasons(self, number: int, count: int) -> list[str]:
        """Returns `unsupported_reason` of each of the `count` operations of a graph."""
        verdicts = self.verdicts.get(number)
        if verdicts is None:
            found = [f"it was not asked about graph {number}"] * count
        else:
            found = ["" if each.ok else each.reason or "it gave no reason" for each in verdicts]
        for (graph, position), reason in self.excluded.items():
            if graph == number:
                found[position] = reason
        return found


class Placement(Struct, frozen=True, kw_only=True):
    """The device of one operation.

    Attributes:
        device: index of a candidate, `INTERPRETER` or `NOT_RUN`.
        reason: why the device was chosen.
        rejected: why each other candidate was not chosen, by index.
        costs: what it costs on each candidate that can run it, by index, if the policy knows costs.
    """

    device: int
    reason: str
    rejected: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    costs: "Mapping[int, OperationCost]" = field(default_factory=lambda: MappingProxyType({}))


class PlacementConstraints(Struct, frozen=True, kw_only=True):
    """Constraints on single operations, which take precedence over scores.

    Attributes:
        preferred: by operation, the candidate that gets it if it can run it, and the rule that says
            so.
        demoted: operations that the CPU device gets if it can run them, with the reason.
    """

    preferred: Mapping[OperationId, tuple[int, str]] = field(default_factory=lambda: MappingProxyType({}))
    demoted: Mapping[OperationId, str] = field(default_factory=lambda: MappingProxyType({}))


_UNCONSTRAINED = PlacementConstraints()


def find_best_device_for_each_operation(
    model: Model,
    candidates: Sequence[Candidate],
    preference: Preference,
    constraints: PlacementConstraints = _UNCONSTRAINED,
) -> Mapping[int, tuple[Placement, ...]]:
    """Places every operation of the main graph and of the graphs of interpreted control flow.

    Returns:
        By graph number, a placement for each operation.

    Raises:
        BadData: no device can run an operation. The message names the operation, the devices and
            their reasons.
    """
    chooser = _DeviceChooser(model, candidates, preference, constraints)
    placements: dict[int, tuple[Placement, ...]] = {}
    pending = [MAIN]
    while pending:
        number = pending.pop()
        if number in placements:
            continue
        graph = graph_of(model, number)
        placements[number] = chooser.place_all(number)
        for operation, placement in zip(graph.operations, placements[number], strict=True):
            if placement.device == INTERPRETER:
                pending += referenced_graphs(graph, operation)
    return _with_whole_control_flow(model, candidates, placements)


def _with_whole_control_flow(
    model: Model, candidates: Sequence[Candidate], placements: Mapping[int, tuple[Placement, ...]]
) -> Mapping[int, tuple[Placement, ...]]:
    """Gives interpreted control flow to the CPU device if all operations inside of it run there.

    Returns the placements of the graphs that are still placed on their own.
    """
    cpu = next((n for n, candidate in enumerate(candidates) if candidate.is_cpu), None)
    if cpu is None or not model.referenced:
        return placements
    merged: dict[int, tuple[Placement, ...]] = {}
    on_cpu: set[int] = set()
    for number in Nesting(model).order:
        if number not in placements:
            continue
        graph = graph_of(model, number)
        merged[number] = tuple(
            placement
            if placement.device != INTERPRETER
            else replace(placement, device=cpu, reason=f"{placement.reason}; everything in it runs there")
            if on_cpu.issuperset(referenced_graphs(graph, operation))
            and not candidates[cpu].unsupported_reason((number, position))
            else replace(
                placement,
                reason=f"{placement.reason}; interpreted, so that its branches can go to other devices",
            )
            for position, (operation, placement) in enumerate(
                zip(graph.operations, placements[number], strict=True)
            )
        )
        if all(placement.device == cpu for placement in merged[number]):
            on_cpu.add(number)
    return _reached(model, merged)


def _reached(
    model: Model, placements: Mapping[int, tuple[Placement, ...]]
) -> Mapping[int, tuple[Placement, ...]]:
    """Returns the placements of the main graph and of the graphs of interpreted control flow."""
    found: dict[int, tuple[Placement, ...]] = {}
    pending = [MAIN]
    while pending:
        number = pending.pop()
        if number in found:
            continue
        graph, found[number] = graph_of(model, number), placements[number]
        for operation, placement in zip(graph.operations, found[number], strict=True):
            if placement.device == INTERPRETER:
                pending += referenced_graphs(graph, operation)
    return found


def describe(model: Model, operation_id: OperationId) -> str:
    """Returns the name of an operation for messages."""
    number, position = operation_id
    return operation_name(graph_of(model, number), position)


def no_device_error(
    model: Model, operation_id: OperationId, candidates: Sequence[Candidate], reasons: Sequence[str]
) -> BadData:
    """Builds the error for an operation that no candidate can run."""
    listed = "; ".join(f"{c.name}: {reason}" for c, reason in zip(candidates, reasons, strict=True))
    has_cpu = any(candidate.is_cpu for candidate in candidates)
    remedy = "" if has_cpu else "; with cpu among the devices, that one runs what others cannot"
    return BadData(f"no device can run {describe(model, operation_id)} ({listed}){remedy}")


def unsupported_reasons(
    model: Model, nesting: Nesting, candidates: Sequence[Candidate], operation_id: OperationId
) -> tuple[str, ...]:
    """Returns for each candidate why it cannot run an operation by Android's rules.

    The reason of a candidate that can run it is empty.
    """
    number, position = operation_id
    operation = graph_of(model, number).operations[position]
    if not is_control_flow(operation):
        return tuple(candidate.unsupported_reason(operation_id) for candidate in candidates)
    not_interpretable = nesting.reason_not_interpretable(number, operation)
    if not_interpretable:
        only_cpu = f"{not_interpretable}, so only the CPU device may run it"
        return tuple(c.unsupported_reason(operation_id) or ("" if c.is_cpu else only_cpu) for c in candidates)
    # Control flow that the CPU device wins is interpreted, so it need not be supported as a whole.
    return tuple(
        c.excluded.get(operation_id, "") if c.is_cpu else c.unsupported_reason(operation_id)
        for c in candidates
    )


def unsupported_reasons_of_graph(
    model: Model, nesting: Nesting, candidates: Sequence[Candidate], number: int
) -> list[tuple[str, ...]]:
    """Returns `unsupported_reasons` of a graph's operations, much faster than one by one."""
    operations = graph_of(model, number).operations
    columns = [candidate.unsupported_reasons(number, len(operations)) for candidate in candidates]
    rows = list(zip(*columns, strict=True))
    # Only models with other graphs have control flow.
    for position, operation in enumerate(operations if model.referenced else ()):
        if is_control_flow(operation):
            rows[position] = unsupported_reasons(model, nesting, candidates, (number, position))
    return rows


class DeviceScores:
    """Computes the scores of a model's operations on one device.

    Scores of nested graphs are computed once.
    """

    def __init__(
        self, model: Model, nesting: Nesting, capabilities: Capabilities, preference: Preference
    ) -> None:
        self._relaxed = model.relaxed
        self._capabilities = capabilities
        self._low_power = preference is Preference.LOW_POWER
        self._graphs: dict[int, float] = {}
        self._known: dict[OperandType, float] = {}
        # Only the operations that run other graphs ask for the scores of graphs.
        for number in nesting.order if model.referenced else ():
            graph = graph_of(model, number)
            self._graphs[number] = sum(self.operation(graph, operation) for operation in graph.operations)

    def operation(self, graph: Subgraph, operation: Operation) -> float:
        """Returns the score of an operation; a lower score is better.

        The score is the time of the operation relative to the CPU device, or its power with
        preference LOW_POWER. It depends only on the type of the first input (of the first output if
        there are no inputs), and is infinite for a type that the device did not list. The score of
        control flow is the sum of the scores of its graphs plus a score of its own; each branch of
        an IF counts half.
        """
        if not is_control_flow(operation):
            first = _first_operand(operation)
            if first is None:
                return math.inf
            kind = graph.operands[first].type
            known = self._known.get(kind)
            if known is None:
                known = self._known[kind] = self.of_type(kind)
            return known
        inner = sum(self._graphs[number] for number in referenced_graphs(graph, operation))
        if operation.type is OperationType.IF:
            score = self._figure(self._capabilities.if_performance) + 0.5 * inner
        else:
            score = self._figure(self._capabilities.while_performance) + inner
        # A driver's figures are external data. NaN must not win.
        return math.inf if math.isnan(score) else score

    def of_type(self, operand_type: OperandType) -> float:
        """Returns the score of operations by their first operand's type; infinite if missing."""
        score = self._of_type(operand_type)
        return math.inf if math.isnan(score) else score

    def _of_type(self, operand_type: OperandType) -> float:
        if self._relaxed and operand_type is OperandType.FLOAT32:
            return self._figure(self._capabilities.relaxed_float32_scalar)
        if self._relaxed and operand_type is OperandType.TENSOR_FLOAT32:
            return self._figure(self._capabilities.relaxed_float32_tensor)
        performance = self._capabilities.operand_performance.get(operand_type)
        return math.inf if performance is None else self._figure(performance)

    def _figure(self, performance: Performance) -> float:
        return performance.power_usage if self._low_power else performance.exec_time


def _first_operand(operation: Operation) -> int | None:
    """Returns the operand whose type decides about the score of an operation."""
    return next(iter(operation.inputs or operation.outputs), None)


class _DeviceChooser:
    """Chooses the devices of a model's operations by score, verdict and constraints."""

    def __init__(
        self,
        model: Model,
        candidates: Sequence[Candidate],
        preference: Preference,
        constraints: PlacementConstraints,
    ) -> None:
        self._model = model
        self._candidates = candidates
        self._constraints = constraints
        self._nesting = Nesting(model)
        self._scores = [DeviceScores(model, self._nesting, c.capabilities, preference) for c in candidates]
        self._requested = frozenset((*constraints.demoted, *constraints.preferred))
        self._placements: dict[tuple[object, ...], Placement] = {}

    def place_all(self, number: int) -> tuple[Placement, ...]:
        """Returns the placement of each operation of a graph.

        It is the same for all operations with the same score and verdicts, unless a device is
        requested for one of them.
        """
        graph = graph_of(self._model, number)
        operands, known, has_flow = graph.operands, self._placements, bool(self._model.referenced)
        columns = [each.unsupported_reasons(number, len(graph.operations)) for each in self._candidates]
        found = []
        for position, (operation, reasons) in enumerate(
            zip(graph.operations, zip(*columns, strict=True), strict=True)
        ):
            if (has_flow and is_control_flow(operation)) or (
                self._requested and (number, position) in self._requested
            ):
                found.append(self._place((number, position)))
                continue
            first = _first_operand(operation)
            key = None if first is None else operands[first].type, reasons
            placement = known.get(key)
            if placement is None:
                placement = known[key] = self._place((number, position))
            found.append(placement)
        return tuple(found)

    def _place(self, operation_id: OperationId) -> Placement:
        number, position = operation_id
        graph = graph_of(self._model, number)
        operation = graph.operations[position]
        is_interpretable = self._nesting.is_interpretable(number, operation)
        reasons = unsupported_reasons(self._model, self._nesting, self._candidates, operation_id)
        able = [n for n, reason in enumerate(reasons) if not reason]
        if not able:
            raise no_device_error(self._model, operation_id, self._candidates, reasons)
        scores = {n: self._scores[n].operation(graph, operation) for n in able}
        best = min(able, key=lambda n: (scores[n], not self._candidates[n].is_cpu, n))
        reason = self._score_reason(best, scores)
        winner, rule = self._requested_device(operation_id, able)
        if winner is not None:
            best, reason = winner, rule
        rejected = {
            n: reasons[n] or (rule if winner is not None else self._rejection_reason(n, best, scores))
            for n in range(len(self._candidates))
            if n != best
        }
        if is_interpretable and self._candidates[best].is_cpu:
            return Placement(
                device=INTERPRETER,
                reason=reason,
                rejected=rejected,
            )
        return Placement(device=best, reason=reason, rejected=rejected)

    def _requested_device(self, operation_id: OperationId, able: Sequence[int]) -> tuple[int | None, str]:
        """Returns the requested device, if it can run the operation, and the reason."""
        if operation_id in self._constraints.demoted:
            cpu = next((n for n in able if self._candidates[n].is_cpu), None)
            return cpu, self._constraints.demoted[operation_id]
        if operation_id in self._constraints.preferred:
            device, rule = self._constraints.preferred[operation_id]
            return (device if device in able else None), rule
        return None, ""

    def _score_reason(self, best: int, scores: Mapping[int, float]) -> str:
        others = [f"{self._candidates[n].name} {scores[n]:g}" for n in scores if n != best]
        if others:
            return f"score {scores[best]:g} against {', '.join(others)}"
        if len(self._candidates) == 1:
            return "the only device"
        return f"score {scores[best]:g}, the only device that can run it"

    def _rejection_reason(self, loser: int, best: int, scores: Mapping[int, float]) -> str:
        if scores[loser] > scores[best]:
            return f"score {scores[loser]:g} against {scores[best]:g}"
        rule = "the CPU device" if self._candidates[best].is_cpu else "the device that is listed first"
        return f"the same score, {scores[loser]:g}; a tie goes to {rule}"
