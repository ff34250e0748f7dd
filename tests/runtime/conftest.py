"""The runtime's tests compare devices bit for bit: the CPU device computes with references only, like the sample devices."""

from collections.abc import Iterator

import pytest

from neurald.drivers.cpu.device import COMPILER_VARIABLE
from neurald.runtime.devices import cpu_device


@pytest.fixture(scope="module", autouse=True)
def references() -> Iterator[None]:
    """Also in the daemons that tests start."""
    device = cpu_device()  # made before the variable says how, for the tests that come later in this process
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(COMPILER_VARIABLE, "off")
        patch.setattr(device, "compiles", False)
        yield
