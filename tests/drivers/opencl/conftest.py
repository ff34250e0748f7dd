"""The OpenCL device on which the tests of this folder run; without one they are skipped."""

import pytest

from neurald.drivers.opencl.platform.discovery import DeviceContext, choose, discover
from neurald.hal.errors import UnavailableDevice


@pytest.fixture(scope="session")
def opencl() -> DeviceContext:
    """Returns an open device: the best one of this machine, or the one that NEURALD_OPENCL_DEVICE
    selects.
    """
    try:
        return DeviceContext(choose(discover()))
    except UnavailableDevice as error:
        pytest.skip(str(error))
