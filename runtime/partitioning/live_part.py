"""Partitions a model without operations that are not needed, so that they change no placement.

Android places them like others. If one gets a step of its own, this step has no outputs, so that
the CPU runs the whole model. neurald leaves them out, unless one device can run the whole model as
it is.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operation_number
from neurald.hal.records import replace
from neurald.runtime.model.branches import MAIN, graph_of
from neurald.runtime.partitioning.groups import Group, IfGroup, StepGroup
from neurald.runtime.partitioning.placement import NOT_RUN, Candidate, OperationId, Placement

_REASON: Final = "nobody needs its results"

_Value = TypeVar("_Value")


class LivePart:
    """The operations of a model that are needed.

    Operands and graphs keep their numbers, and operations those that the application gave them.

    Args:
        model: a valid model.
        dead: the positions of the other operations by graph number, as `dead_operations` returns
            them.

    Attributes:
        model: the model with the needed operations only.
    """

    def __init__(self, model: Model, dead: Mapping[int, frozenset[int]]) -> None:
        self._whole = model
        self._dead = dead
        #: The positions of live operations in the whole model, for each graph that has dead ones.
        self._kept = {
            number: [n for n in range(len(graph_of(model, number).operations)) if n not in positions]
            for number, positions in dead.items()
        }
        self._moved = {
            number: {before: now for now, before in enumerate(kept)} for number, kept in self._kept.items()
        }
        referenced = tuple(self._graph(number + 1) for number in range(len(model.referenced)))
        self.model = replace(model, main=self._graph(MAIN), referenced=referenced)

    def _graph(self, number: int) -> Subgraph:
        graph = graph_of(self._whole, number)
        kept = self._kept.get(number)
        if kept is None:
            return graph
        operations = tuple(replace(graph.operations[n], number=operation_number(graph, n)) for n in kept)
        return replace(graph, operations=operations)

    def candidate(self, candidate: Candidate) -> Candidate:
        """Returns a candidate for the needed operations."""
        verdicts = {
            number: tuple(found[n] for n in self._kept[number]) if number in self._kept else found
            for number, found in candidate.verdicts.items()
        }
        return replace(candidate, verdicts=verdicts, excluded=self.by_operation(candidate.excluded))

    def by_operation(self, values: Mapping[OperationId, _Value]) -> Mapping[OperationId, _Value]:
        """Returns the values of the needed operations, by their positions among these."""
        return {
            (number, position if number not in self._moved else self._moved[number][position]): value
            for (number, position), value in values.items()
            if position not in self._dead.get(number, ())
        }

    def groups(self, groups: Sequence[Group], candidates: Sequence[Candidate]) -> tuple[Group, ...]:
        """Returns groups of needed operations by positions in the whole model.

        If there is one step, and its device can run the whole model, the step is the whole model.

        Args:
            groups: the groups of the main graph.
            candidates: the candidates for the whole model.
        """
        if len(groups) == 1 and isinstance(only := groups[0], StepGroup):
            device = candidates[only.device]
            if not any(device.unsupported_reason((MAIN, n)) for n in self._dead.get(MAIN, ())):
                everything = tuple(range(len(self._whole.main.operations)))
                return (replace(only, operations=everything),)
        return self._restored(groups, {})

    def placements(
        self, placements: Mapping[int, Sequence[Placement]], groups: Sequence[Group], count: int
    ) -> Mapping[int, Sequence[Placement]]:
        """Returns placements of needed operations by positions in the whole model, with the others.

        Args:
            placements: by graph number.
            groups: the groups from `groups`.
            count: the count of candidates.
        """
        first = groups[0] if groups else None
        is_whole = isinstance(first, StepGroup) and len(first.operations) == len(self._whole.main.operations)
        whole = first.device if is_whole and isinstance(first, StepGroup) else NOT_RUN
        found = dict(placements)
        for number in self._dead.keys() & placements.keys():
            device = whole if number == MAIN else NOT_RUN
            left_out = placement_of_dead(count, device)
            every = [left_out] * len(graph_of(self._whole, number).operations)
            for position, placement in zip(self._kept[number], placements[number], strict=True):
                every[position] = placement
            found[number] = tuple(every)
        return found

    def _restored(self, groups: Sequence[Group], known: dict[int, tuple[Group, ...]]) -> tuple[Group, ...]:
        """Returns the groups of the whole model; recurses as deep as control flow is nested."""
        # Operations that refer to the same graph share its groups.
        if id(groups) not in known:
            known[id(groups)] = tuple(self._restored_group(group, known) for group in groups)
        return known[id(groups)]

    def _restored_group(self, group: Group, known: dict[int, tuple[Group, ...]]) -> Group:
        kept = self._kept.get(group.graph)
        if isinstance(group, StepGroup):
            return (
                group if kept is None else replace(group, operations=tuple(kept[n] for n in group.operations))
            )
        position = group.operation if kept is None else kept[group.operation]
        if isinstance(group, IfGroup):
            return replace(
                group,
                operation=position,
                then_groups=self._restored(group.then_groups, known),
                else_groups=self._restored(group.else_groups, known),
            )
        return replace(
            group,
            operation=position,
            condition_groups=self._restored(group.condition_groups, known),
            body_groups=self._restored(group.body_groups, known),
        )


def placement_of_dead(count: int, device: int = NOT_RUN) -> Placement:
    """Returns the placement of an operation that is not needed.

    Args:
        count: the count of candidates.
        device: the device that runs it as a part of the whole model.
    """
    if device == NOT_RUN:
        return Placement(device=device, reason=_REASON)
    rejected = {n: _REASON for n in range(count) if n != device}
    return Placement(device=device, reason=f"{_REASON}; the device runs the whole model", rejected=rejected)
