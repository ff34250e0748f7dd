"""Finds the rivals of a plan, and what earlier processes have decided between them."""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from neurald.hal.device import Device
from neurald.hal.model.model import Model
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.groups import StepGroup
from neurald.runtime.partitioning.limits import step_groups
from neurald.runtime.partitioning.min_cost.search import PLAN_NAME
from neurald.runtime.partitioning.partitioner import PartitionResult
from neurald.runtime.partitioning.placement import Candidate
from neurald.runtime.plan.kept_decisions import decision_key, load_decision

#: A device alone whose predicted time is more than so many times that of the plan is not a rival.
MAX_PREDICTED_RATIO: Final = 3.0


class Rival(Struct, frozen=True, kw_only=True, eq=False):
    """A device that can run the whole model in place of a plan.

    Attributes:
        device: the device that it is.
        index: the index of the device among the candidates.
        predicted_s: what it is predicted to take, if that is known.
    """

    device: Device
    index: int
    predicted_s: float | None

    @property
    def is_cpu(self) -> bool:
        """True if it is the CPU device."""
        return self.device is cpu_device()

    @property
    def name(self) -> str:
        """The device, as messages name it."""
        return "the CPU device" if self.is_cpu else self.device.name


class PlanGuard(Struct, frozen=True, kw_only=True):
    """A plan's rivals, and whether the fastest is known.

    Attributes:
        key: the key to keep a decision under; empty if none is kept.
        rivals: the rivals of the plan, one at least.
        is_open: whether nothing was decided yet.
        winner: the rival that was faster than the plan; None if the plan was.
        reason: the reason of the decision.
    """

    key: str
    rivals: tuple[Rival, ...]
    is_open: bool
    winner: Rival | None = None
    reason: str = ""


def find_guard(
    model: Model,
    result: PartitionResult,
    candidates: Sequence[Candidate],
    devices: Sequence[Device],
    threads: int | None,
    *,
    keeps: bool,
) -> PlanGuard | None:
    """Returns what is known about a plan; None if it has no rivals.

    Args:
        model: the whole model.
        result: the plan.
        candidates, devices: the candidates and devices that it refers to by index.
        threads: the threads of an execution.
        keeps: whether decisions are kept on disk.
    """
    rivals = _rivals(result, candidates, devices)
    if not rivals:
        return None
    steps = [(devices[step.device], step.operations) for step in step_groups(result.groups)]
    key = decision_key(model, steps, [rival.device for rival in rivals], threads) if keeps else ""
    found = load_decision(key) if key else None
    if found is None:
        return PlanGuard(key=key, rivals=rivals, is_open=True)
    winner = next((rival for rival in rivals if rival.device.name == found.winner), None)
    reason = f"decided earlier: {found.reason}"
    return PlanGuard(key=key, rivals=rivals, is_open=False, winner=winner, reason=reason)


def _rivals(
    result: PartitionResult, candidates: Sequence[Candidate], devices: Sequence[Device]
) -> tuple[Rival, ...]:
    """Returns the CPU device, and the other one that is predicted to be the best one alone."""
    used = {group.device if isinstance(group, StepGroup) else -1 for group in result.groups}
    operations = range(len(result.placements[MAIN]))
    able = [
        Rival(device=device, index=index, predicted_s=result.predicted_s.get(f"all on {candidate.name}"))
        for index, (candidate, device) in enumerate(zip(candidates, devices, strict=True))
        if used != {index} and not any(candidate.unsupported_reason((MAIN, n)) for n in operations)
    ]
    longest_s = MAX_PREDICTED_RATIO * result.predicted_s.get(PLAN_NAME, 0.0)
    others = [(rival.predicted_s or math.inf, rival.index, rival) for rival in able if not rival.is_cpu]
    best_s, _, best = min(others, default=(math.inf, 0, None))
    found = [rival for rival in able if rival.is_cpu]
    return (*found, best) if best is not None and best_s <= longest_s else tuple(found)
