"""Inputs of requests are those of the model, or refused; raw bytes get a shape."""

import pytest

from neurald.hal.lanes.opening import TensorDescription
from neurald.hal.lanes.packets import BYTES
from neurald.service.inference.models.requests.request_inputs import checked_inputs, raw_input
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.protocol.tensors import Bytes, InputTensor

PAIR = (
    TensorDescription(name="x", kind="float32", shape=(-1, 4)),
    TensorDescription(name="y", kind="int8", shape=(-1,)),
)


def given(name: str, datatype: str, *shape: int, size: int) -> InputTensor:
    return InputTensor(name=name, datatype=datatype, shape=shape, source=Bytes(memoryview(bytes(size))))


X = given("x", "FP32", 2, 4, size=32)
Y = given("y", "INT8", 2, size=2)


def test_inputs_come_in_the_order_of_the_model() -> None:
    for inputs in ((X, Y), (Y, X)):
        found = checked_inputs(inputs, PAIR, "pair", 8)
        assert [(each.kind, each.shape) for each in found] == [("float32", (2, 4)), ("int8", (2,))]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((X,), r"expected 2 inputs but got 1 inputs.*missing required input\(s\) \['y'\]"),
        ((X, X), "'x' already exists"),
        ((X, X, Y), "'x' already exists"),
        ((X, given("z", "INT8", 2, size=2)), "unexpected inference input 'z'"),
        ((X, given("y", "UINT8", 2, size=2)), "data-type is 'UINT8', but model 'pair' expects 'INT8'"),
        ((given("x", "FP32", 2, 5, size=40), Y), r"Expected \[-1,4\], got \[2,5\]. NOTE: "),
        ((given("x", "FP32", 8, size=32), Y), r"Expected \[-1,4\], got \[8\]"),
        ((given("x", "FP32", 2, 4, size=31), Y), "Expected 32, got 31"),
        ((given("x", "FP32", 9, 4, size=144), Y), "batch-size must be <= 8 .* it is 9"),
        ((given("x", "FP32", 0, 4, size=0), Y), "batch-size must be <= 8 .* it is 0"),
        ((X, given("y", "INT8", 3, size=3)), "'y' batch size does not match .*: it is 3, and theirs is 2"),
    ],
)
def test_others_are_refused(inputs: tuple[InputTensor, ...], message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        checked_inputs(inputs, PAIR, "pair", 8)


def test_a_batch_may_be_as_large_as_the_model_takes() -> None:
    for rows in (1, 8):
        inputs = (given("x", "FP32", rows, 4, size=rows * 16), given("y", "INT8", rows, size=rows))
        assert [each.shape for each in checked_inputs(inputs, PAIR, "pair", 8)] == [(rows, 4), (rows,)]


def test_an_input_of_unknown_rank_takes_any_shape() -> None:
    described = TensorDescription(name="x", kind="int8", shape=None)
    for shape, size in (((), 1), ((2, 3), 6)):
        inputs = (given("x", "INT8", *shape, size=size),)
        assert [each.shape for each in checked_inputs(inputs, (described,), "any", 0)] == [shape]
    with pytest.raises(ServiceError, match="Expected 6, got 5"):
        checked_inputs((given("x", "INT8", 2, 3, size=5),), (described,), "any", 0)


def test_without_batches_first_dimensions_may_differ() -> None:
    found = checked_inputs((X, given("y", "INT8", 30, size=30)), PAIR, "pair", 0)
    assert [each.shape for each in found] == [(2, 4), (30,)]
    with pytest.raises(ServiceError) as caught:
        checked_inputs((X, given("y", "INT8", 2, 1, size=2)), PAIR, "pair", 0)
    assert "NOTE" not in str(caught.value)


def test_optional_inputs_are_zeros() -> None:
    names = TensorDescription(name="z", kind=BYTES, shape=(-1, 3))
    for inputs, rows in (((X,), 2), ((), 1)):
        found = checked_inputs(inputs, (*PAIR, names), "pair", 8, ("x", "y", "z"))
        assert [each.shape for each in found] == [(rows, 4), (rows,), (rows, 3)]
        assert [each.is_given for each in found] == [bool(inputs), False, False]
        # An empty string is the four bytes of its length.
        assert [each.source.size for each in found] == [rows * 16, rows, rows * 12]
        content = bytearray(b"\xff" * (rows * 12))
        found[2].source.copy_into(memoryview(content))
        assert not any(content)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((), r"expected number of inputs between 1 and 2 but got 0 .*input\(s\) \[\], .*\['x'\]"),
        ((Y,), r"expected number of inputs between 1 and 2 but got 1 .*\['y'\], .* \['x'\]"),
        ((X, Y, given("z", "INT8", 2, size=2)), "expected number of inputs between 1 and 2 but got 3"),
        ((X, X), "'x' already exists"),
        ((X, given("z", "INT8", 2, size=2)), "unexpected inference input 'z'"),
    ],
)
def test_requests_without_inputs_that_are_not_optional(inputs: tuple[InputTensor, ...], message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        checked_inputs(inputs, PAIR, "pair", 8, ("y",))


@pytest.mark.parametrize(
    ("kind", "shape", "batch", "size", "expected"),
    [
        ("float32", (1, 4), 0, 16, (1, 4)),
        ("float32", (-1, 4), 0, 48, (3, 4)),
        ("float32", (-1, 4), 8, 16, (1, 4)),
        ("float32", (-1, 0), 0, 16, (0, 0)),
        (BYTES, (-1, 1), 8, 7, (1, 1)),
        (BYTES, (1,), 0, 7, (1,)),
    ],
)
def test_the_shape_of_raw_bytes(
    kind: str, shape: tuple[int, ...], batch: int, size: int, expected: tuple[int, ...]
) -> None:
    described = TensorDescription(name="x", kind=kind, shape=shape)
    found = raw_input(memoryview(bytes(size)), (described,), "same", batch)
    assert found.shape == expected
    assert found.source.size == size + (4 if kind == BYTES else 0)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (PAIR, "got 2 inputs in 'same'"),
        ((TensorDescription(name="x", kind="float32", shape=(-1, -1)),), "more than one variable-sized"),
        ((TensorDescription(name="x", kind="float32", shape=None),), "can not be deduced"),
        ((TensorDescription(name="x", kind=BYTES, shape=(-1,)),), r"must have input shape \[1\]"),
        ((TensorDescription(name="x", kind=BYTES, shape=(2,)),), r"must have input shape \[1\]"),
    ],
)
def test_raw_bytes_that_fit_no_input(inputs: tuple[TensorDescription, ...], message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        raw_input(memoryview(b"12345678"), inputs, "same", 0)
