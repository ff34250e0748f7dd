"""Refuses arrays with masked elements."""

from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import np


def require_unmasked(value: object, what: str) -> None:
    """Raises an error if a value is a masked array with masked elements.

    NumPy's functions for arrays read the data behind a mask, as if it were valid.

    Args:
        value: any value.
        what: its name, for the message.

    Raises:
        BadData: elements are masked.
    """
    mask = getattr(value, "mask", None)
    if mask is not None and isinstance(value, np.ndarray) and np.any(mask):
        raise BadData(
            f"{what} is an array with {np.count_nonzero(mask)} masked elements; an array in which all are valid is "
            "expected, as its method filled makes one"
        )
