"""Arrays with masked elements are refused."""

import numpy as np
import pytest

from neurald.hal.errors import BadData
from neurald.hal.model.masked_elements import require_unmasked


def test_masked_elements_are_not_taken_for_values() -> None:
    array = np.ma.masked_equal(np.arange(6), 3)
    with pytest.raises(BadData, match="input 0 is an array with 1 masked elements"):
        require_unmasked(array, "input 0")
    for value in (array.filled(0), array[:3], np.ma.masked_array(np.arange(6)), [1, 2], None, "mask"):
        require_unmasked(value, "input 0")
