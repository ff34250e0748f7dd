"""Fixtures of tests of kernels."""

import pytest
from support.opencl.sources import Bench, opencl_facts


@pytest.fixture(scope="module")
def bench() -> Bench:
    """Returns what runs kernels on the device; without a device the test is skipped."""
    facts = opencl_facts()
    if facts is None:
        pytest.skip("no OpenCL device")
    return Bench(facts.handle)
