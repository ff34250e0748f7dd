"""Enforces the limits on the steps of devices by moving steps to the CPU device."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.wording import counted
from neurald.runtime.partitioning.groups import Group, StepGroup, branch_groups
from neurald.runtime.partitioning.options import Partitioning
from neurald.runtime.partitioning.placement import INTERPRETER, Candidate, OperationId, Placement, describe

Placements = Mapping[int, Sequence[Placement]]


class SplitModel(Protocol):
    """A model that is split: the part of a policy's decision that limits look at."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of the main graph."""
        ...


_Split = TypeVar("_Split", bound=SplitModel)

#: Returns True if the CPU device can run an operation.
CanFallBack = Callable[[OperationId], bool]


def step_groups(groups: Sequence[Group]) -> list[StepGroup]:
    """Returns the steps of groups and of their branches, in the order of the plan.

    A graph that several operations refer to contributes its steps several times.
    """
    steps: list[StepGroup] = []
    for group in groups:
        if isinstance(group, StepGroup):
            steps.append(group)
        else:
            for branch in branch_groups(group):
                steps += step_groups(branch)
    return steps


def split_within_limits(
    candidates: Sequence[Candidate],
    partitioning: Partitioning,
    split: Callable[[Mapping[OperationId, str]], _Split],
    can_fall_back: CanFallBack,
) -> _Split:
    """Splits a model so that every device except the CPU device respects the limits.

    Steps that are too small, and the smallest of too many steps, go to the CPU device. This changes
    how the other operations are grouped, so it is repeated until all limits hold. A step with an
    operation that the CPU device cannot run stays, and counts towards the limits.

    Args:
        candidates: the candidates of the partitioning.
        partitioning: the limits.
        split: places and groups the operations of a model. The argument maps operations that the
            CPU device must run, if it can, to the reason.
        can_fall_back: whether the CPU device can run an operation.

    Raises:
        BadData: the CPU device is needed but not among the candidates, or no device can run an
            operation.
    """
    if partitioning.max_partitions is None and partitioning.min_operations <= 1:
        return split({})
    has_cpu = any(candidate.is_cpu for candidate in candidates)
    demoted: dict[OperationId, str] = {}
    while True:
        found = split(demoted)
        steps = [
            step for step in dict.fromkeys(step_groups(found.groups)) if not candidates[step.device].is_cpu
        ]
        if not has_cpu:
            _refuse(candidates, _excess(candidates, partitioning, steps, frozenset()))
            return found
        fixed = frozenset(
            step for step in steps if not all(can_fall_back((step.graph, n)) for n in step.operations)
        )
        moved = {
            (step.graph, position): reason
            for step, reason in _excess(candidates, partitioning, steps, fixed)
            for position in step.operations
        }
        if not moved:
            return found
        demoted |= moved


def _refuse(candidates: Sequence[Candidate], excess: Sequence[tuple[StepGroup, str]]) -> None:
    if excess:
        reasons = "; ".join(dict.fromkeys(reason for _, reason in excess))
        names = ", ".join(candidate.name for candidate in candidates)
        raise BadData(
            f"{reasons}; the CPU device would have to run them, but it is not among the devices ({names})"
        )


def _excess(
    candidates: Sequence[Candidate],
    partitioning: Partitioning,
    steps: Sequence[StepGroup],
    fixed: frozenset[StepGroup],
) -> list[tuple[StepGroup, str]]:
    """Returns the steps that violate a limit, with the reason.

    Steps in `fixed` are never returned, but count towards the limits.
    """
    excess: list[tuple[StepGroup, str]] = []
    for device in dict.fromkeys(step.device for step in steps):
        name = candidates[device].name
        kept = []
        for step in steps:
            if step.device != device:
                continue
            if len(step.operations) < partitioning.min_operations and step not in fixed:
                limit = f"min_operations is {partitioning.min_operations}"
                excess.append(
                    (step, f"a step of {counted(len(step.operations), 'operation')} on {name}; {limit}")
                )
            else:
                kept.append(step)
        if partitioning.max_partitions is None:
            continue
        # The sort is stable: of steps of equal size the first are kept.
        kept.sort(key=lambda step: (step not in fixed, -len(step.operations)))
        limit = f"max_partitions is {partitioning.max_partitions}, and larger steps are kept"
        excess += (
            (step, f"a step of {counted(len(step.operations), 'operation')} on {name}; {limit}")
            for step in kept[partitioning.max_partitions :]
            if step not in fixed
        )
    return excess


def check_full_delegation(model: Model, candidates: Sequence[Candidate], placements: Placements) -> None:
    """Checks that the CPU device and the interpreter run nothing.

    Raises:
        BadData: they run an operation. The message lists all such operations, and why no other
            device runs them.
    """
    left = []
    for number, placed in placements.items():
        for position, placement in enumerate(placed):
            if placement.device == INTERPRETER or candidates[placement.device].is_cpu:
                others = "; ".join(
                    f"{candidates[n].name}: {r}" for n, r in sorted(placement.rejected.items())
                )
                left.append(f"{describe(model, (number, position))} ({others or 'there is no other device'})")
    if left:
        raise BadData(
            f"full delegation is required, but the CPU device runs {len(left)} operations: {', '.join(left)}"
        )
