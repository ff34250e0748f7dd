"""Splits a model over devices: the one entry to choosing, grouping, limits and overrides."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from neurald.hal.errors import BadData
from neurald.hal.model.types import Model, Preference
from neurald.runtime.model.branches import MAIN, Nesting
from neurald.runtime.partitioning.convexity import check_groups
from neurald.runtime.partitioning.grouping_android import group_into_steps
from neurald.runtime.partitioning.groups import Group
from neurald.runtime.partitioning.limits import Placements, check_full_delegation, split_within_limits
from neurald.runtime.partitioning.options import ANDROID, TENGINE, Partitioning, PartitioningMode
from neurald.runtime.partitioning.overrides import apply_overrides
from neurald.runtime.partitioning.placement import (
    Candidate,
    Place,
    Placement,
    Wishes,
    find_best_device_for_each_operation,
    nobody_can,
    obstacles,
)
from neurald.runtime.partitioning.policy_tengine import group_neighbours, place_by_cuts

_OFF = "partitioning is off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A way to choose devices and to group operations.

    Attributes:
        place: chooses a device for every operation.
        group: makes steps of that.
        interprets: whether control flow that goes to the CPU device may be interpreted.
    """

    place: Callable[[Model, Sequence[Candidate], Preference, Wishes], Placements]
    group: Callable[[Model, Placements], tuple[Group, ...]]
    interprets: bool


POLICIES: Mapping[str, Policy] = {
    ANDROID: Policy(
        place=find_best_device_for_each_operation,
        group=group_into_steps,
        interprets=True,
    ),
    TENGINE: Policy(place=place_by_cuts, group=group_neighbours, interprets=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """How a model is split.

    Attributes:
        groups: of the main graph, in the order in which they run; those of interpreted branches are inside.
        placements: by the number of a graph, one for each of its operations: of the main graph, and of every graph that an
            interpreted IF or WHILE refers to. `Placement.device` is an index into the candidates, or `INTERPRETER`.
    """

    groups: tuple[Group, ...]
    placements: Mapping[int, tuple[Placement, ...]]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why each operation of the main graph runs where it does."""
        return tuple(placement.reason for placement in self.placements[MAIN])


def partition(
    model: Model, candidates: Sequence[Candidate], preference: Preference, partitioning: Partitioning
) -> PartitionResult:
    """Chooses a device for every operation and groups the operations into steps. A pure function.

    A model that one device runs whole gives exactly one `StepGroup` of all operations in their own order. With mode NONE
    that is the CPU device, and control flow is not interpreted.

    Args:
        model: a valid model.
        candidates: from `neurald.runtime.partitioning.candidates.find_candidates`; candidate n is device n of the devices that it was given.
        preference: what decides between devices.
        partitioning: policy, mode, limits and overrides.

    Raises:
        BadData: no device can run an operation; overrides contradict each other or the devices; the CPU device is needed
            and not among the candidates; or full delegation is required and not possible. Names every cause.
    """
    if not candidates:
        raise BadData("there is no device to partition for")
    if partitioning.mode is PartitioningMode.NONE:
        policy = Policy(place=_place_on_cpu, group=group_into_steps, interprets=False)
    else:
        policy = POLICIES[partitioning.policy]
    overridden = apply_overrides(model, candidates, partitioning.overrides, interpret=policy.interprets)
    candidates = overridden.candidates
    nesting = Nesting(model)
    cpu = next((n for n, candidate in enumerate(candidates) if candidate.is_cpu), None)

    def split(demoted: Mapping[Place, str]) -> tuple[Placements, tuple[Group, ...]]:
        wishes = Wishes(preferred=overridden.preferred, demoted=demoted)
        placements = policy.place(model, candidates, preference, wishes)
        return placements, policy.group(model, placements)

    def can_move(place: Place) -> bool:
        if cpu is None:
            return False
        if policy.interprets:
            return not obstacles(model, nesting, candidates, place)[cpu]
        return not candidates[cpu].why_not(place)

    placements, groups = split_within_limits(candidates, partitioning, split, can_move)
    check_groups(model, groups)
    if partitioning.require_full_delegation:
        check_full_delegation(model, candidates, placements)
    return PartitionResult(groups=groups, placements=placements)


def _place_on_cpu(
    model: Model, candidates: Sequence[Candidate], preference: Preference, wishes: Wishes
) -> Placements:
    """Everything on the CPU device; see `PartitioningMode.NONE`."""
    cpu = next((n for n, candidate in enumerate(candidates) if candidate.is_cpu), None)
    if cpu is None:
        names = ", ".join(candidate.name for candidate in candidates)
        raise BadData(f"without partitioning the CPU device runs everything; it is not among {names}")
    placements = []
    for position in range(len(model.main.operations)):
        place = (MAIN, position)
        if candidates[cpu].why_not(place):
            raise nobody_can(model, place, candidates, [c.why_not(place) for c in candidates])
        rejected = {n: c.why_not(place) or _OFF for n, c in enumerate(candidates) if n != cpu}
        placements.append(Placement(device=cpu, reason=_OFF, rejected=rejected))
    return {MAIN: tuple(placements)}
