"""Medians are those of Python's module `statistics`."""

import random
import statistics

import pytest

from neurald.runtime.execution.medians import low_median, median


@pytest.mark.parametrize("count", range(1, 9))
def test_medians_of_values_in_any_order(count: int) -> None:
    values = [random.Random(count).uniform(-1, 1) for _ in range(count)]
    assert median(iter(values)) == statistics.median(values)
    assert low_median(iter(values)) == statistics.median_low(values)
