"""Refuses arrays with masked elements."""

import sys
from typing import Final

from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import np

#: NumPy's maximum number of dimensions; lists that contain themselves have more.
_MAX_DEPTH: Final = 64


def require_unmasked(value: object, what: str, depth: int = 0) -> None:
    """Raises an error if a value is a masked array with masked elements, or a list of such.

    NumPy's functions for arrays read the data behind a mask, as if it were valid.

    Args:
        value: any value.
        what: its name, for the message.
        depth: how many lists it is in.

    Raises:
        BadData: elements are masked.
    """
    if isinstance(value, list | tuple):
        # Without this module there are no masked arrays.
        if "numpy.ma" in sys.modules and depth < _MAX_DEPTH:
            for each in value:
                if isinstance(each, list | tuple | np.ndarray):
                    require_unmasked(each, what, depth + 1)
        return
    mask = getattr(value, "mask", None) if isinstance(value, np.ndarray) else None
    if mask is not None and np.any(mask):
        raise BadData(
            f"{what} is an array with {np.count_nonzero(mask)} masked elements; an array in which all are valid is "
            "expected, as its method filled makes one"
        )
