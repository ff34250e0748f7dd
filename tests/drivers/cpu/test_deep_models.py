"""Chains longer than Python's recursion limit are compiled, not run on references."""

import numpy as np
import pytest
from support.models.deep import CHAINS, deep_model
from support.opencl.models import expect_close, random_inputs, run

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PrepareOptions
from neurald.hal.model.model import Model

_STORED = (
    nd.OperandType.TENSOR_QUANT8_ASYMM,
    nd.OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    nd.OperandType.TENSOR_QUANT16_SYMM,
)


def _expect_compiled(model: Model, caplog: pytest.LogCaptureFixture, tolerance: float) -> None:
    inputs, options = random_inputs(model), PrepareOptions()
    found = run(CpuDevice().prepare_model(model, options), model, inputs)
    assert not caplog.records
    expect_close(found, run(ReferenceDevice().prepare_model(model, options), model, inputs), tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.sampled(4)
def test_a_long_chain(chain: str, caplog: pytest.LogCaptureFixture) -> None:
    _expect_compiled(deep_model(chain, 400), caplog, 1e-4)


@pytest.mark.parametrize("kind", _STORED)
def test_a_product_of_many_stored_values(kind: nd.OperandType, caplog: pytest.LogCaptureFixture) -> None:
    """Each factor is rescaled, clamped and rounded, which takes about seven operations."""
    builder = nd.ModelBuilder()
    value = builder.add_operand(kind, (64, 3), scale=0.25)
    axes, keeps = (
        builder.add_operand(nd.OperandType.TENSOR_INT32, (1,)),
        builder.add_operand(nd.OperandType.BOOL),
    )
    builder.set_operand_value(axes, np.zeros(1, np.int32))
    builder.set_operand_value(keeps, False)
    product = builder.add_operand(kind, (3,), scale=2**-7)
    builder.add_operation(nd.OperationType.TFLITE_REDUCE_PROD, [value, axes, keeps], [product])
    builder.identify_inputs_and_outputs([value], [product])
    _expect_compiled(builder.finish(), caplog, 0)
