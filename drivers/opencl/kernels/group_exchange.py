"""Statements that combine a number of each work-item of a group, and give the result to all.

NVIDIA's work-items combine those of their warp first, without local memory.
"""

from dataclasses import dataclass
from typing import Final

from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.dialect import combine_text
from neurald.drivers.opencl.codegen.template import fill, templates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

_TEMPLATES = templates(__name__, "group_exchange.cl")
#: Work-items of a warp.
WARP: Final = 32
#: Function `KERNEL_other` for texts of NVIDIA's warps, which gives what another work-item has.
OTHER: Final = _TEMPLATES["other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupExchange:
    """The way in which work-items combine numbers.

    Attributes:
        helpers: functions that its statements call.
        template: the template of its statements.
        items: work-items of a group.
    """

    helpers: str
    template: str
    items: int

    def combined(self, name: str, reduction: ReductionOp) -> str:
        """Returns the statements that replace a variable by what those of all work-items give.

        Unless it is that of a warp, they need four bytes of local memory at `scratch` for each
        work-item.

        Args:
            name: the name of the variable, a float.
            reduction: how two of them are combined.
        """
        return fill(
            _TEMPLATES[self.template],
            IN_WARP=_TEMPLATES["in_warp"],
            NAME=name,
            COMBINE=combine_text(reduction, name, "other", Scalar.FLOAT32),
            ITEMS=self.items,
        )


def group_exchange(items: int, facts: DeviceFacts) -> GroupExchange:
    """Returns how the work-items of a group combine their numbers.

    Args:
        items: work-items of a group, a multiple of 32.
        facts: the device.
    """
    if facts.has_nvidia_capability((7, 0)):
        return GroupExchange(helpers=OTHER, template="by_warps", items=items)
    return GroupExchange(helpers="", template="through_memory", items=items)


def warp_exchange() -> GroupExchange:
    """Returns how the work-items of a warp combine their numbers."""
    return GroupExchange(helpers=OTHER, template="in_warp", items=WARP)
