"""Operands have the scalar types that kernels compute with."""

import pytest

import neurald as nd
from neurald.drivers.compiler.frontend.operand_values import scalar_of
from neurald.drivers.compiler.ir.builder import Unsupported
from neurald.drivers.compiler.ir.scalar import Scalar


def test_types_that_kernels_support() -> None:
    assert scalar_of(nd.OperandType.TENSOR_QUANT8_ASYMM) is Scalar.UINT8
    assert scalar_of(nd.OperandType.BOOL) is Scalar.BOOL
    assert scalar_of(nd.OperandType.TENSOR_FLOAT16) is Scalar.FLOAT16
    with pytest.raises(Unsupported, match="graph operands"):
        scalar_of(nd.OperandType.MODEL)
