"""The order in which partial sums are added."""

import pytest

from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.reduction_order import SUMS_VARIABLE, ReductionOrder, wanted_order
from neurald.drivers.settings import Settings
from neurald.hal.errors import UnavailableDevice
from neurald.hal.records import replace


def settings(text: str) -> Settings:
    return Settings(SUMS_VARIABLE, environment={SUMS_VARIABLE: text})


def test_the_variable_selects_the_order() -> None:
    assert wanted_order(settings("")) is ReductionOrder.FAST
    assert wanted_order(settings("ordered")) is ReductionOrder.ORDERED
    with pytest.raises(
        UnavailableDevice, match="NEURALD_OPENCL_SUMS is 'sorted'; fast or ordered is expected"
    ):
        wanted_order(settings("sorted"))


def test_the_order_is_part_of_cache_keys(opencl: DeviceContext) -> None:
    digests = {replace(opencl.facts, reduction_order=each).digest for each in ReductionOrder}
    assert len(digests) == len(ReductionOrder)
