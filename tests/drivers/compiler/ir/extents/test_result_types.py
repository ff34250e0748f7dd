"""The types of an operation's results are known if no length is open."""

import pytest
from support.models.control_flow import ADD, arithmetic

import neurald as nd
from neurald.drivers.compiler.ir.extents.result_types import result_types, total_bytes
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.hal.operations.machinery.call import Call, Shape
from neurald.hal.validation.shape_inference import bind_operations

pytestmark = pytest.mark.quick


def addition(shape: Shape) -> Call:
    """Returns an ADD of a number to an input of this shape."""
    main = arithmetic(ADD, 1.0, (3, 2)).main
    (binding,) = bind_operations(main)
    return Call(
        binding,
        main.operands,
        lambda index: shape if index in main.inputs else main.operands[index].dimensions,
        lambda index: None,
    )


def test_types_of_results() -> None:
    results = result_types(addition((3, 2)))
    assert results == [(nd.OperandType.TENSOR_FLOAT32, (3, 2))]
    assert total_bytes(results) == 24


def test_open_lengths_have_no_types() -> None:
    (length,) = ExtentScope((5,)).symbols
    assert result_types(addition((length, 2))) is None


def test_results_that_are_too_large_are_refused() -> None:
    with pytest.raises(nd.BadData, match="more than 2\\^32"):
        result_types(addition((1 << 20, 1 << 13)))
