"""Splits a model over devices; the entry point to placement, grouping, limits and overrides."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field

from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.types import Preference
from neurald.hal.records import replace
from neurald.runtime.model.branches import MAIN, Nesting, graph_of
from neurald.runtime.model.dead_operations import dead_operations
from neurald.runtime.partitioning.group_order import check_groups
from neurald.runtime.partitioning.grouping_android import group_into_steps
from neurald.runtime.partitioning.groups import Group
from neurald.runtime.partitioning.limits import Placements, check_full_delegation, split_within_limits
from neurald.runtime.partitioning.live_part import LivePart
from neurald.runtime.partitioning.options import (
    ANDROID,
    MIN_COST,
    TENGINE,
    Partitioning,
    PartitioningMode,
    default_policy,
)
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


class PolicySplit(Struct, frozen=True, kw_only=True):
    """The decision of a policy.

    Attributes:
        placements: by graph number, one for each operation.
        groups: the groups of the main graph.
        predicted_s: what it predicts for the plan and for others, in seconds, by name.
    """

    placements: Placements
    groups: tuple[Group, ...]
    predicted_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


class Policy(Struct, frozen=True, kw_only=True):
    """A strategy for choosing devices and grouping operations.

    Attributes:
        split: chooses a device for every operation, and groups the operations into steps.
        interprets: whether control flow on the CPU device may be interpreted.
    """

    split: Callable[[Model, Sequence[Candidate], Preference, PlacementConstraints], PolicySplit]
    interprets: bool


def _split_by_android(
    model: Model, candidates: Sequence[Candidate], preference: Preference, constraints: PlacementConstraints
) -> PolicySplit:
    placements = find_best_device_for_each_operation(model, candidates, preference, constraints)
    return PolicySplit(placements=placements, groups=group_into_steps(model, placements))


def _split_by_tengine(
    model: Model, candidates: Sequence[Candidate], preference: Preference, constraints: PlacementConstraints
) -> PolicySplit:
    placements = place_operations(model, candidates, preference, constraints)
    return PolicySplit(placements=placements, groups=group_consecutive_operations(model, placements))


def _split_by_cost(
    model: Model, candidates: Sequence[Candidate], preference: Preference, constraints: PlacementConstraints
) -> PolicySplit:
    from neurald.runtime.partitioning.policy_min_cost import split_by_cost  # slow to import

    placements, groups, predicted_s = split_by_cost(model, candidates, preference, constraints)
    return PolicySplit(placements=placements, groups=groups, predicted_s=predicted_s)


POLICIES: Mapping[str, Policy] = {
    MIN_COST: Policy(split=_split_by_cost, interprets=True),
    ANDROID: Policy(split=_split_by_android, interprets=True),
    TENGINE: Policy(split=_split_by_tengine, interprets=False),
}


class PartitionResult(Struct, frozen=True, kw_only=True):
    """A partitioned model.

    Attributes:
        groups: the groups of the main graph, in execution order. A group of interpreted control
            flow contains the groups of its branches.
        placements: by graph number, one placement per operation, for the main graph and every graph
            of an interpreted IF or WHILE.
        predicted_s: what the policy predicts for the plan and for others, in seconds, by name.
    """

    groups: tuple[Group, ...]
    placements: Mapping[int, Sequence[Placement]]
    predicted_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

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
    interpreted. Operations that are not needed change no placement; see
    `neurald.runtime.partitioning.live_part`.

    Args:
        model: a valid model.
        candidates: the candidates from `neurald.runtime.partitioning.candidates.find_candidates`;
            candidate n describes the n-th device.
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
        policy = Policy(split=_split_on_cpu, interprets=False)
    else:
        policy = POLICIES[partitioning.policy or default_policy()]
        if partitioning.policy == MIN_COST and len(candidates) == 1:
            policy = POLICIES[ANDROID]  # there is nothing to choose
    overridden = apply_overrides(model, candidates, partitioning.overrides, interpret=policy.interprets)
    candidates, preferred = overridden.candidates, overridden.preferred
    dead = dead_operations(model)
    if not dead:
        return _partition(model, candidates, preferred, preference, partitioning, policy)
    live = LivePart(model, dead)
    needed = [live.candidate(candidate) for candidate in candidates]
    preferred = live.by_operation(preferred)
    result = _partition(live.model, needed, preferred, preference, partitioning, policy)
    groups = live.groups(result.groups, candidates)
    placements = live.placements(result.placements, groups, len(candidates))
    return replace(result, groups=groups, placements=placements)


def _partition(
    model: Model,
    candidates: Sequence[Candidate],
    preferred: Mapping[OperationId, tuple[int, str]],
    preference: Preference,
    partitioning: Partitioning,
    policy: Policy,
) -> PartitionResult:
    """Partitions a model without operations that nobody needs; see `partition`.

    Args:
        model, candidates, preference, partitioning: as there; rules are applied to the candidates.
        preferred: see `PlacementConstraints`.
        policy: places and groups the operations.
    """
    if partitioning.require_full_delegation and partitioning.policy == MIN_COST:
        candidates = _with_idle_cpu(model, candidates)
    nesting = Nesting(model)
    cpu = next((n for n, candidate in enumerate(candidates) if candidate.is_cpu), None)

    def split(demoted: Mapping[OperationId, str]) -> PolicySplit:
        constraints = PlacementConstraints(preferred=preferred, demoted=demoted)
        return policy.split(model, candidates, preference, constraints)

    def can_fall_back(operation_id: OperationId) -> bool:
        if cpu is None:
            return False
        if policy.interprets:
            return not unsupported_reasons(model, nesting, candidates, operation_id)[cpu]
        return not candidates[cpu].unsupported_reason(operation_id)

    found = split_within_limits(candidates, partitioning, split, can_fall_back)
    check_groups(model, found.groups)
    if partitioning.require_full_delegation:
        check_full_delegation(model, candidates, found.placements)
    return PartitionResult(groups=found.groups, placements=found.placements, predicted_s=found.predicted_s)


def _with_idle_cpu(model: Model, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Returns the candidates, of which the CPU device may only run what no other one can."""
    others = [candidate for candidate in candidates if not candidate.is_cpu]
    excluded = {
        (number, position): "full delegation is required"
        for number in Nesting(model).placed_graphs()
        for position in range(len(graph_of(model, number).operations))
        if any(not candidate.unsupported_reason((number, position)) for candidate in others)
    }
    return tuple(
        replace(candidate, excluded={**candidate.excluded, **excluded}) if candidate.is_cpu else candidate
        for candidate in candidates
    )


def _split_on_cpu(
    model: Model, candidates: Sequence[Candidate], preference: Preference, constraints: PlacementConstraints
) -> PolicySplit:
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
    by_graph = {MAIN: tuple(placements)}
    return PolicySplit(placements=by_graph, groups=group_into_steps(model, by_graph))
