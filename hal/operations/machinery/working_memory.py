"""How much memory references take besides their arguments and results."""

import math
from collections.abc import Sequence

from neurald.hal.operations.machinery.call import Array, Shape

#: References compute with numbers of 8 bytes, and have a few arrays of them at a time. What grows faster than arguments and results,
#: windows of convolutions for one, is computed in blocks of a fixed size.
_BYTES_OF_AN_ELEMENT = 8
_ARRAYS = 3


def reference_working_bytes(inputs: Sequence[Array], outputs: Sequence[Shape | None]) -> int:
    """Returns about how many bytes a reference takes while it computes, apart from its inputs and outputs.

    Args:
        inputs: its arguments.
        outputs: the shapes of its results, as far as they are known.
    """
    elements = sum(each.size for each in inputs) + sum(
        math.prod(each) for each in outputs if each is not None
    )
    return _BYTES_OF_AN_ELEMENT * _ARRAYS * elements
