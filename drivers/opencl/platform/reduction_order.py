"""The order in which work-groups of a split-K kernel add their partial sums."""

from enum import Enum

from neurald.drivers.settings import Settings
from neurald.hal.errors import UnavailableDevice

#: Selects the order: fast or ordered.
SUMS_VARIABLE = "NEURALD_OPENCL_SUMS"


class ReductionOrder(Enum):
    """Order in which partial sums of floats are added."""

    #: Any order, where that is faster: the rounding of results may differ between runs.
    FAST = "fast"
    #: Always the same order: all runs produce identical bits.
    ORDERED = "ordered"


def wanted_order(settings: Settings) -> ReductionOrder:
    """Returns the order that NEURALD_OPENCL_SUMS selects.

    Raises:
        UnavailableDevice: its value is invalid.
    """
    return settings.choice(SUMS_VARIABLE, ReductionOrder, UnavailableDevice) or ReductionOrder.FAST
