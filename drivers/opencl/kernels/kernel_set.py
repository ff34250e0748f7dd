"""Which kinds of kernels may be used: a switch for comparing them, and for ruling one out."""

from enum import Enum

#: Names the set of kernels that models are compiled to, whatever would be fastest.
KERNELS_VARIABLE = "NEURALD_OPENCL_KERNELS"


class KernelSet(Enum):
    """Kinds of kernels."""

    #: Every kernel, where its conditions hold.
    ALL = "all"
    #: Fast kernels of one contraction each: no kernel computes several layers.
    SINGLE = "single"
    #: Only the kernel that computes each element by its expression.
    GENERIC = "generic"
