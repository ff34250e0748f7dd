"""The OpenCL device that the tests of this folder run on; where there is none they are skipped, with the reason."""

import pytest

from neurald.drivers.opencl.platform.discovery import DeviceContext, choose, discover
from neurald.hal.errors import UnavailableDevice


@pytest.fixture(scope="session")
def opencl() -> DeviceContext:
    """An open device: the best one of this machine, or the one that NEURALD_OPENCL_DEVICE names."""
    try:
        return DeviceContext(choose(discover()))
    except UnavailableDevice as error:
        pytest.skip(str(error))
