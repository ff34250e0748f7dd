"""Restricts the kinds of kernels, to compare them or to exclude one."""

from enum import Enum

#: Selects the set of kernels that models are compiled to, whatever would be fastest.
KERNELS_VARIABLE = "NEURALD_OPENCL_KERNELS"


class KernelSet(Enum):
    """Kinds of kernels."""

    #: Every kernel whose conditions hold.
    ALL = "all"
    #: Fast kernels of one contraction each: no kernel computes several layers.
    SINGLE = "single"
    #: Only the kernel that evaluates the expression of each element.
    GENERIC = "generic"
