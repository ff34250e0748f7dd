"""Finds the decisions of earlier processes between a plan and the CPU device."""

from collections.abc import Sequence

from msgspec import Struct

from neurald.hal.device import Device
from neurald.hal.model.model import Model
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.partitioning.groups import Group
from neurald.runtime.partitioning.limits import step_groups
from neurald.runtime.plan.kept_decisions import decision_key, load_decision


class CpuGuard(Struct, frozen=True, kw_only=True):
    """The known times of a plan and of the CPU device.

    Attributes:
        key: to keep a decision under; empty if none is kept.
        is_open: whether nothing was decided yet.
        is_cpu: whether the CPU device was faster.
        reason: of the decision.
    """

    key: str
    is_open: bool
    is_cpu: bool = False
    reason: str = ""


def find_guard(
    model: Model, groups: Sequence[Group], devices: Sequence[Device], threads: int | None, *, keeps: bool
) -> CpuGuard:
    """Returns what is known about a plan.

    Args:
        model: the whole model.
        groups: of the plan.
        devices: that the groups refer to by index.
        threads: of an execution.
        keeps: whether decisions are kept on disk.
    """
    steps = [(devices[step.device], step.operations) for step in step_groups(groups)]
    key = decision_key(model, steps, cpu_device(), threads) if keeps else ""
    found = load_decision(key) if key else None
    if found is None:
        return CpuGuard(key=key, is_open=True)
    return CpuGuard(key=key, is_open=False, is_cpu=found.is_cpu, reason=f"decided earlier: {found.reason}")
