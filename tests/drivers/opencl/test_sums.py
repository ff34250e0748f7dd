"""In which order sums are added up."""

from dataclasses import replace

import pytest

from neurald.drivers.opencl.platform import DeviceContext
from neurald.drivers.opencl.sums import SUMS_VARIABLE, Sums, sums_wanted
from neurald.hal.errors import UnavailableDevice


def test_the_variable_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUMS_VARIABLE, raising=False)
    assert sums_wanted() is Sums.FAST
    monkeypatch.setenv(SUMS_VARIABLE, "ordered")
    assert sums_wanted() is Sums.ORDERED
    monkeypatch.setenv(SUMS_VARIABLE, "sorted")
    with pytest.raises(
        UnavailableDevice, match="NEURALD_OPENCL_SUMS is 'sorted'; fast or ordered is expected"
    ):
        sums_wanted()


def test_what_was_compiled_for_one_is_not_found_for_the_other(opencl: DeviceContext) -> None:
    digests = {replace(opencl.facts, sums=each).digest for each in Sums}
    assert len(digests) == len(Sums)
