"""Arrays with masked elements are refused."""

import numpy as np
import pytest

from neurald.hal.errors import BadData
from neurald.hal.model.masked_elements import require_unmasked


def test_masked_elements_are_not_taken_for_values() -> None:
    array = np.ma.masked_equal(np.arange(6), 3)
    with pytest.raises(BadData, match="input 0 is an array with 1 masked elements"):
        require_unmasked(array, "input 0")
    for several in ([array], [[1, 2], (array[:3], array[3:])], [1, np.ma.masked]):
        with pytest.raises(BadData, match="input 0 is an array with 1 masked elements"):
            require_unmasked(several, "input 0")
    for value in (array.filled(0), array[:3], np.ma.masked_array(np.arange(6)), [1, 2], None, "mask"):
        require_unmasked(value, "input 0")


def test_lists_that_contain_themselves_have_an_end() -> None:
    endless: list[object] = [1]
    endless.append(endless)
    require_unmasked(endless, "input 0")
