"""In which order the work-groups of a kernel that share out a sum add their parts."""

from enum import Enum

from neurald.drivers.settings import Settings
from neurald.hal.errors import UnavailableDevice

#: Says in which order: fast or ordered.
SUMS_VARIABLE = "NEURALD_OPENCL_SUMS"


class Sums(Enum):
    """How parts of sums of floats are added up."""

    #: In any order, where that is faster: results of two runs may differ as far as sums are rounded.
    FAST = "fast"
    #: Always in the same order: all runs give the same bits.
    ORDERED = "ordered"


def sums_wanted(settings: Settings) -> Sums:
    """What NEURALD_OPENCL_SUMS says.

    Raises:
        UnavailableDevice: it says something else.
    """
    return settings.choice(SUMS_VARIABLE, Sums, UnavailableDevice) or Sums.FAST
