"""Explains which device runs each operation and why, and which data moves between devices.

Steps are numbered in the order of the plan. The steps of an interpreted operation's branches are
listed at the position of that operation.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol, runtime_checkable

import msgspec
from msgspec import Struct, field

from neurald.hal.api_arguments import instance, items, shown
from neurald.hal.device import KernelTime
from neurald.hal.errors import WrongType
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_number, positions_by_number
from neurald.hal.model.types import OperandType, byte_size
from neurald.hal.records import replace
from neurald.hal.wording import counted, milliseconds
from neurald.runtime.explain.graph_description import describe_graphs
from neurald.runtime.explain.graph_records import GraphDescription, KernelDescription
from neurald.runtime.explain.records import (
    INTERPRETER_NAME,
    NOT_RUN_NAME,
    BoundaryOperand,
    DeviceCost,
    DeviceShare,
    DeviceTransfer,
    OperationExplanation,
    PlacementChange,
    Refusal,
    Rejection,
    StepExplanation,
)
from neurald.runtime.model.boundary import boundaries, writer_by_operand, written_inputs
from neurald.runtime.model.branches import MAIN, graph_of, referenced_graphs
from neurald.runtime.model.dead_operations import dead_operations
from neurald.runtime.partitioning.groups import StepGroup
from neurald.runtime.partitioning.limits import step_groups
from neurald.runtime.partitioning.partitioner import PartitionResult
from neurald.runtime.partitioning.placement import INTERPRETER, NOT_RUN, Candidate
from neurald.runtime.plan.report import Move

#: The name of the chosen plan in `predicted_s`.
PLAN_NAME = "the plan"
_PSEUDO_DEVICES: Final = MappingProxyType({INTERPRETER: INTERPRETER_NAME, NOT_RUN: NOT_RUN_NAME})


@runtime_checkable
class ProfiledStep(Protocol):
    """The parts of a `StepProfile` (`runtime/execution/measurement`) that an explanation shows."""

    @property
    def step(self) -> int:
        """Number of the step."""
        ...

    @property
    def device(self) -> str:
        """Name of the device that runs it."""
        ...

    @property
    def graph(self) -> int:
        """Number of the graph that contains its operations."""
        ...

    @property
    def kernels(self) -> tuple[KernelTime, ...]:
        """The kernels, with operations of that graph."""
        ...


class Explanation(Struct, frozen=True, kw_only=True):
    """The device choice for each operation. `str()` returns `text()`.

    Attributes:
        shares: the share of every device, in their order, of the interpreter if it runs any
            operation, and of `NOT_RUN_NAME` if any is not run.
        operations: those of the main graph, then those of the graphs of interpreted control flow.
        steps: the steps in the order of the plan.
        transfers: between devices. The CPU device and the interpreter both work in host memory.
        notes: events since compilation, such as what verification has found.
        moves: when steps moved to the CPU device at run time, and back.
        predicted_s: what the policy predicts for the plan and for others, in seconds, by name;
            empty if it knows no costs.
        changes: the changes of a what-if: the operations that would run elsewhere.
        predicted_before_s: what is predicted for the plan as it is, if this explains a what-if;
            None if unknown.
        graphs: the model: its operations with their arguments, and its values.
        kernels: what computes the operations, with times; empty unless it was measured.
    """

    shares: tuple[DeviceShare, ...]
    operations: tuple[OperationExplanation, ...]
    steps: tuple[StepExplanation, ...]
    transfers: tuple[DeviceTransfer, ...]
    notes: tuple[str, ...] = ()
    predicted_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    changes: tuple[PlacementChange, ...] = ()
    predicted_before_s: float | None = None
    graphs: tuple[GraphDescription, ...] = ()
    kernels: tuple[KernelDescription, ...] = ()
    moves: tuple[Move, ...] = ()

    def __repr__(self) -> str:
        where = ", ".join(f"{share.operations} on {share.device}" for share in self.shares)
        return f"<Explanation of {counted(len(self.operations), 'operation')}: {where}>"

    @property
    def transferred_bytes(self) -> int:
        """Total bytes of all transfers whose size is known."""
        return sum(transfer.value.bytes or 0 for transfer in self.transfers)

    def refusals(self) -> list[Refusal]:
        """Returns what each device rejects, grouped by type and reason, most frequent first."""
        found: dict[tuple[str, str, str], list[str]] = {}
        for o in self.operations:
            where = str(o.operation) if o.graph == MAIN else f"{o.graph}:{o.operation}"
            for rejection in o.rejected:
                found.setdefault((rejection.device, o.type, rejection.reason), []).append(where)
        order = [share.device for share in self.shares]
        groups = sorted(found.items(), key=lambda item: (order.index(item[0][0]), -len(item[1])))
        return [
            Refusal(device=device, type=kind, reason=reason, operations=tuple(places))
            for (device, kind, reason), places in groups
        ]

    def text(self) -> str:
        """Formats one line per operation, move and note, and one for predictions, if any.

        The line of an operation is `operation 12 CONV_2D -> opencl:0: REASON`.
        """
        lines = [f"{o.label} -> {o.device}: {o.reason}" for o in self.operations]
        if self.predicted_s:
            lines.append(f"note: predicted: {self.predictions()}")
        lines += (f"note: {note}" for note in (*map(str, self.moves), *self.notes, *map(str, self.changes)))
        return "\n".join(" ".join(line.split()) for line in lines)

    def predictions(self) -> str:
        """Formats what was predicted for the plan and for others."""
        return ", ".join(f"{name} {milliseconds(seconds)}" for name, seconds in self.predicted_s.items())

    def __str__(self) -> str:
        return self.text()

    def to_json(self) -> dict[str, Any]:
        """Converts the explanation to dictionaries, lists, strings and numbers."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        document["transferred_bytes"] = self.transferred_bytes
        return document

    def to_html(self, title: str = "Placement", what_ifs: "Sequence[Explanation]" = ()) -> str:
        """Renders a self-contained page: the graphs, coloured by device, with all that is known.

        Args:
            title: the title of the page.
            what_ifs: explanations of the same model with other rules, as
                `Compilation.explain(pin=…)` returns them; the page can show each in place of this
                plan.

        Raises:
            WrongType: an argument has the wrong type.
        """
        from neurald.runtime.explain.html import render_html  # rarely needed

        others = items(what_ifs, "what_ifs", "a sequence of explanations")
        for each in others:
            instance(each, Explanation, "a what-if")
        return render_html(self, instance(title, str, "the title"), others)

    def with_kernels(self, profiles: Iterable[ProfiledStep]) -> "Explanation":
        """Returns this explanation with what `Compilation.profile` measured.

        Raises:
            WrongType: the argument is not a sequence of profiles.
        """
        measured = items(profiles, "profiles", "a sequence of profiles of steps")
        for each in measured:
            if not isinstance(each, ProfiledStep):
                raise WrongType(
                    f"{shown(each)} is not a profile of a step; `Compilation.profile` returns them"
                )
        kernels = tuple(
            KernelDescription(
                step=profile.step,
                graph=profile.graph,
                device=profile.device,
                name=kernel.name,
                label=kernel.label,
                operations=kernel.operations,
                duration_ns=kernel.duration_ns,
                is_reference=kernel.is_reference,
            )
            for profile in measured
            for kernel in profile.kernels
            if not kernel.is_copy
        )
        return replace(self, kernels=kernels)


def explain(
    model: Model, candidates: Sequence[Candidate], result: PartitionResult, notes: Iterable[str] = ()
) -> Explanation:
    """Explains a partitioning. Takes linear time.

    Args:
        model: the partitioned model.
        candidates: the devices that were considered.
        result: the result of `partition`.
        notes: one line for each later event.
    """
    names = [candidate.name for candidate in candidates]
    steps = step_groups(result.groups)
    operations = _operations(model, names, result, steps)
    return Explanation(
        shares=_shares(names, operations, steps),
        operations=operations,
        steps=_steps(model, names, steps),
        transfers=_transfers(model, candidates, result),
        notes=tuple(notes),
        predicted_s=dict(result.predicted_s),
        graphs=describe_graphs(model),
    )


def compare(before: Explanation, after: Explanation, rules: str) -> Explanation:
    """Returns the explanation of a what-if, with what it would change.

    Args:
        before: the explanation of the compilation as it is.
        after: the explanation of the partitioning with further rules.
        rules: the further rules, for the notes.
    """
    devices = {(each.graph, each.operation): each.device for each in before.operations}
    changes = tuple(
        PlacementChange(
            graph=each.graph,
            operation=each.operation,
            type=each.type,
            before=devices.get((each.graph, each.operation), INTERPRETER_NAME),
            after=each.device,
        )
        for each in after.operations
        if devices.get((each.graph, each.operation)) != each.device
    )
    plan_s, before_s = after.predicted_s.get(PLAN_NAME), before.predicted_s.get(PLAN_NAME)
    note = f"what if {rules}: {counted(len(changes), 'operation')} would move"
    if plan_s is not None and before_s is not None:
        note += (
            f", and the plan is predicted to take {milliseconds(plan_s)} instead of {milliseconds(before_s)}"
        )
    return replace(after, changes=changes, predicted_before_s=before_s, notes=(note,))


def _shares(
    names: Sequence[str], operations: Sequence[OperationExplanation], steps: Sequence[StepGroup]
) -> tuple[DeviceShare, ...]:
    run = Counter(operation.device for operation in operations)
    count = Counter(names[step.device] for step in steps)
    # A device may be called like the interpreter.
    shown = dict.fromkeys([*names, *(each for each in _PSEUDO_DEVICES.values() if run[each])])
    return tuple(DeviceShare(device=n, operations=run[n], steps=count[n]) for n in shown)


def _operations(
    model: Model, names: Sequence[str], result: PartitionResult, steps: Sequence[StepGroup]
) -> tuple[OperationExplanation, ...]:
    member: dict[tuple[int, int], list[int]] = {}
    for number, step in enumerate(steps):
        for position in step.operations:
            member.setdefault((step.graph, position), []).append(number)
    found = []
    for number in sorted(result.placements):
        graph = graph_of(model, number)
        written_by = writer_by_operand(graph)
        numbers = graph.operation_numbers
        for position in positions_by_number(graph).values():
            placement = result.placements[number][position]
            operation = graph.operations[position]
            is_interpreted = placement.device == INTERPRETER
            found.append(
                OperationExplanation(
                    graph=number,
                    operation=numbers[position],
                    type=operation.type.name,
                    steps=tuple(member.get((number, position), ())),
                    device=_PSEUDO_DEVICES.get(placement.device) or names[placement.device],
                    reason=placement.reason,
                    rejected=tuple(
                        Rejection(device=names[n], reason=reason)
                        for n, reason in sorted(placement.rejected.items())
                    ),
                    after=tuple(
                        sorted({numbers[written_by[index]] for index in written_inputs(graph, position)})
                    ),
                    branches=referenced_graphs(graph, operation) if is_interpreted else (),
                    costs=tuple(
                        DeviceCost(
                            device=names[n],
                            seconds=cost.seconds if math.isfinite(cost.seconds) else None,
                            source=cost.source.value,
                        )
                        for n, cost in sorted(placement.costs.items())
                    ),
                )
            )
    return tuple(found)


def _steps(model: Model, names: Sequence[str], steps: Sequence[StepGroup]) -> tuple[StepExplanation, ...]:
    by_graph: dict[int, list[int]] = {}
    for number, step in enumerate(steps):
        by_graph.setdefault(step.graph, []).append(number)
    dead = dead_operations(model)
    found: dict[int, StepExplanation] = {}
    for graph_number, numbers in by_graph.items():
        graph = graph_of(model, graph_number)
        shown = graph.operation_numbers
        edges = boundaries(
            graph, [steps[number].operations for number in numbers], dead.get(graph_number, ())
        )
        for number, edge in zip(numbers, edges, strict=True):
            found[number] = StepExplanation(
                step=number,
                graph=graph_number,
                device=names[steps[number].device],
                operations=tuple(shown[position] for position in steps[number].operations),
                inputs=tuple(_value(graph, index) for index in edge.inputs),
                outputs=tuple(_value(graph, index) for index in edge.outputs),
            )
    return tuple(found[number] for number in range(len(steps)))


def _value(graph: Subgraph, index: int) -> BoundaryOperand:
    operand = graph.operands[index]
    return BoundaryOperand(
        operand=operand_number(graph.operands, index),
        name=operand.name,
        type=operand.type.name,
        dimensions=operand.dimensions,
        bytes=_size(operand),
    )


def _size(operand: Operand) -> int | None:
    is_known = operand.is_fully_specified and operand.type is not OperandType.TENSOR_STRING
    return byte_size(operand.type, operand.dimensions or ()) if is_known else None


def _transfers(
    model: Model, candidates: Sequence[Candidate], result: PartitionResult
) -> tuple[DeviceTransfer, ...]:
    cpu = next((candidate.name for candidate in candidates if candidate.is_cpu), INTERPRETER_NAME)

    def where(device: int) -> str:
        return cpu if device == INTERPRETER else candidates[device].name

    found: dict[tuple[int, int, str], DeviceTransfer] = {}
    for number in sorted(result.placements):
        graph = graph_of(model, number)
        placed = result.placements[number]
        written_by = writer_by_operand(graph)
        for position, placement in enumerate(placed):
            if placement.device == NOT_RUN:
                continue
            target = where(placement.device)
            for index in sorted(written_inputs(graph, position)):
                source = where(placed[written_by[index]].device)
                if source != target:
                    value = _value(graph, index)
                    transfer = DeviceTransfer(graph=number, source=source, target=target, value=value)
                    found.setdefault((number, index, target), transfer)
    return tuple(found.values())
