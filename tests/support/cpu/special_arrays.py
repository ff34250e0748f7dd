"""Arrays of few different elements, among them the largest and the smallest."""

import numpy as np
from hypothesis import strategies as st

from neurald.hal.model.types import OperandType


def special_arrays(kind: OperandType, shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    """Returns what draws arrays of a type and shape; floats may be infinite or not a number."""
    elements: st.SearchStrategy[float]
    if kind is OperandType.TENSOR_FLOAT32:
        elements = st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38])
    else:
        low, high = int(np.iinfo(kind.dtype.name).min), int(np.iinfo(kind.dtype.name).max)
        elements = st.sampled_from([low, low + 1, 0, 1, high - 1, high])
    size = int(np.prod(shape))
    drawn = st.lists(elements, min_size=size, max_size=size)
    return drawn.map(lambda found: np.array(found, kind.dtype).reshape(shape))
