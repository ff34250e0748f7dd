"""Splits a model over devices; the entry point to placement, grouping, limits and overrides."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.model.types import Model, Preference
from neurald.runtime.model.branches import MAIN, Nesting
from neurald.runtime.partitioning.convexity import check_groups
from neurald.runtime.partitioning.grouping_android import group_into_steps
from neurald.runtime.partitioning.groups import Group, StepGroup
from neurald.runtime.partitioning.limits import Placements, check_full_delegation, split_within_limits
from neurald.runtime.partitioning.options import ANDROID, TENGINE, Partitioning, PartitioningMode
from neurald.runtime.partitioning.overrides import apply_overrides
from neurald.runtime.partitioning.placement import (
    Candidate,
    OperationId,
    Placement,
    PlacementConstraints,
    find_best_device_for_each_operation,
    no_device_error,
    unsupported_reasons,
)
from neurald.runtime.partitioning.policy_tengine import group_consecutive_operations, place_operations

_OFF = "partitioning is off"


class Policy(Struct, frozen=True, kw_only=True):
    """A strategy for choosing devices and grouping operations.

    Attributes:
        place: chooses a device for every operation.
        group: groups placed operations into steps.
        interprets: whether control flow on the CPU device may be interpreted.
    """

    place: Callable[[Model, Sequence[Candidate], Preference, PlacementConstraints], Placements]
    group: Callable[[Model, Placements], tuple[Group, ...]]
    interprets: bool


POLICIES: Mapping[str, Policy] = {
    ANDROID: Policy(
        place=find_best_device_for_each_operation,
        group=group_into_steps,
        interprets=True,
    ),
    TENGINE: Policy(place=place_operations, group=group_consecutive_operations, interprets=False),
}


class PartitionResult(Struct, frozen=True, kw_only=True):
    """A partitioned model.

    Attributes:
        groups: the groups of the main graph, in execution order. A group of interpreted control
            flow contains the groups of its branches.
        placements: by graph number, one placement per operation, for the main graph and every graph
            of an interpreted IF or WHILE.
    """

    groups: tuple[Group, ...]
    placements: Mapping[int, tuple[Placement, ...]]

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reason for the placement of each operation of the main graph."""
        return tuple(placement.reason for placement in self.placements[MAIN])


def partition(
    model: Model, candidates: Sequence[Candidate], preference: Preference, partitioning: Partitioning
) -> PartitionResult:
    """Chooses a device for every operation and groups the operations into steps. A pure function.

    If one device runs the whole model, the result is a single `StepGroup` of all operations in
    their original order. With mode NONE that is the CPU device, and control flow is not
    interpreted.

    Args:
        model: a valid model.
        candidates: from `neurald.runtime.partitioning.candidates.find_candidates`; candidate n
            describes the n-th device.
        preference: whether scores are times or power.
        partitioning: policy, mode, limits and overrides.

    Raises:
        BadData: no device can run an operation; overrides contradict each other or the devices; the
            CPU device is needed but not among the candidates; or full delegation is required but
            not possible. The message lists all causes.
    """
    if not candidates:
        raise BadData("there are no candidates; partitioning needs at least one device")
    if partitioning.mode is PartitioningMode.NONE:
        policy = Policy(place=_place_on_cpu, group=group_into_steps, interprets=False)
    else:
        policy = POLICIES[partitioning.policy]
    overridden = apply_overrides(model, candidates, partitioning.overrides, interpret=policy.interprets)
    candidates = overridden.candidates
    nesting = Nesting(model)
    cpu = next((n for n, candidate in enumerate(candidates) if candidate.is_cpu), None)

    def split(demoted: Mapping[OperationId, str]) -> tuple[Placements, tuple[Group, ...]]:
        constraints = PlacementConstraints(preferred=overridden.preferred, demoted=demoted)
        placements = policy.place(model, candidates, preference, constraints)
        return placements, policy.group(model, placements)

    def can_fall_back(operation_id: OperationId) -> bool:
        if cpu is None:
            return False
        if policy.interprets:
            return not unsupported_reasons(model, nesting, candidates, operation_id)[cpu]
        return not candidates[cpu].unsupported_reason(operation_id)

    has_links = any(candidate.link is not None for candidate in candidates)
    excess_cost: Callable[[StepGroup], str] = _no_cost
    if has_links:
        from neurald.runtime.partitioning.links import LinkCosts

        excess_cost = LinkCosts(model, candidates).excess
    placements, groups = split_within_limits(candidates, partitioning, split, can_fall_back, excess_cost)
    check_groups(model, groups)
    if partitioning.require_full_delegation:
        check_full_delegation(model, candidates, placements)
    return PartitionResult(groups=groups, placements=placements)


def _no_cost(_: StepGroup) -> str:
    return ""


def _place_on_cpu(
    model: Model, candidates: Sequence[Candidate], preference: Preference, constraints: PlacementConstraints
) -> Placements:
    """Places everything on the CPU device; see `PartitioningMode.NONE`."""
    cpu = next((n for n, candidate in enumerate(candidates) if candidate.is_cpu), None)
    if cpu is None:
        names = ", ".join(candidate.name for candidate in candidates)
        raise BadData(
            f"without partitioning the CPU device runs everything, but it is not among the devices ({names})"
        )
    placements = []
    for position in range(len(model.main.operations)):
        operation_id = (MAIN, position)
        if candidates[cpu].unsupported_reason(operation_id):
            raise no_device_error(
                model, operation_id, candidates, [c.unsupported_reason(operation_id) for c in candidates]
            )
        rejected = {
            n: c.unsupported_reason(operation_id) or _OFF for n, c in enumerate(candidates) if n != cpu
        }
        placements.append(Placement(device=cpu, reason=_OFF, rejected=rejected))
    return {MAIN: tuple(placements)}
