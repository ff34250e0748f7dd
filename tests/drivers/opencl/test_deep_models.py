"""Chains of operations beyond Python's recursion limit and C compilers' nesting limit."""

import pytest
from support.models.deep import CHAINS, deep_model
from support.opencl.models import expect_close, random_inputs, run

from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PrepareOptions


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.sampled(4)
def test_a_long_chain(chain: str, opencl: DeviceContext) -> None:
    model, options = deep_model(chain, 400), PrepareOptions()
    device = OpenClDevice(opencl.facts)
    assert all(device.supported_operations(model))
    inputs = random_inputs(model)
    found = run(device.prepare_model(model, options), model, inputs)
    expect_close(found, run(ReferenceDevice().prepare_model(model, options), model, inputs), 1e-4)
