"""Chains of any length are compiled, in time proportional to their length."""

import logging
import sys
from collections.abc import Callable

import numpy as np
import pytest

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import Device

_Op, _Type = nd.OperationType, nd.OperandType
_SHAPE = (4, 8)
#: Stack frames that suffice for chains of any length; applications use some frames themselves.
FRAMES = 700


class Chain:
    """Builds a model of many links, each of which reads the result of the one before."""

    def __init__(self) -> None:
        self.builder = nd.ModelBuilder()
        self.first = self.value()
        self.ends = [self.first]
        self.activation = self.number(0)

    def value(self, shape: tuple[int, ...] = _SHAPE) -> int:
        return self.builder.add_operand(_Type.TENSOR_FLOAT32, shape)

    def number(self, value: int) -> int:
        index = self.builder.add_operand(_Type.INT32, ())
        self.builder.set_operand_value(index, value)
        return index

    def vector(self, *values: int) -> int:
        index = self.builder.add_operand(_Type.TENSOR_INT32, (len(values),))
        self.builder.set_operand_value(index, np.array(values, np.int32))
        return index

    def add(self, kind: nd.OperationType, *inputs: int, shape: tuple[int, ...] = _SHAPE) -> int:
        output = self.value(shape)
        self.builder.add_operation(kind, list(inputs), [output])
        return output

    def model(self, link: "Link", length: int) -> nd.Model:
        for number in range(length):
            self.ends.append(link(self, number))
        self.builder.identify_inputs_and_outputs([self.first], [self.ends[-1]])
        return self.builder.finish()


Link = Callable[[Chain, int], int]


def _unary(chain: Chain, number: int) -> int:
    return chain.add((_Op.TANH, _Op.RELU, _Op.ABS)[number % 3], chain.ends[-1])


def _binary(chain: Chain, number: int) -> int:
    return chain.add((_Op.ADD, _Op.MUL)[number % 2], chain.ends[-1], chain.first, chain.activation)


def _doubled(chain: Chain, number: int) -> int:
    return chain.add(_Op.MUL, chain.ends[-1], chain.ends[-1], chain.activation)


def _residual(chain: Chain, number: int) -> int:
    far = chain.ends[max(0, len(chain.ends) - 5)]
    return chain.add(_Op.ADD, chain.add(_Op.TANH, chain.ends[-1]), far, chain.activation)


def _reshaped(chain: Chain, number: int) -> int:
    there = chain.add(_Op.RESHAPE, chain.ends[-1], chain.vector(8, 4), shape=(8, 4))
    return chain.add(_Op.RESHAPE, chain.add(_Op.TANH, there, shape=(8, 4)), chain.vector(4, 8))


def _transposed(chain: Chain, number: int) -> int:
    there = chain.add(_Op.TRANSPOSE, chain.ends[-1], chain.vector(1, 0), shape=(8, 4))
    return chain.add(_Op.TRANSPOSE, chain.add(_Op.TANH, there, shape=(8, 4)), chain.vector(1, 0))


def _concatenated(chain: Chain, number: int) -> int:
    twice = chain.add(_Op.CONCATENATION, chain.ends[-1], chain.first, chain.number(0), shape=(8, 8))
    return chain.add(
        _Op.SLICE, chain.add(_Op.TANH, twice, shape=(8, 8)), chain.vector(2, 0), chain.vector(4, 8)
    )


def _unread(chain: Chain, number: int) -> int:
    """Adds an operation without readers."""
    chain.add(_Op.TANH, chain.ends[-1])
    return chain.add(_Op.ADD, chain.ends[-1], chain.first, chain.activation)


LINKS = [_unary, _binary, _doubled, _residual, _reshaped, _transposed, _concatenated, _unread]


def outputs(device: Device, model: nd.Model) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    builder = nd.CompilationBuilder(model, [device])
    builder.set_caching(None)
    values = np.linspace(-0.9, 0.9, 32, dtype=np.float32).reshape(_SHAPE)
    found: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = builder.finish().run(values)[0]
    return found


@pytest.mark.parametrize("link", LINKS, ids=lambda link: str(link.__name__).strip("_"))
@pytest.mark.sampled(4)
def test_chains_of_any_length_are_compiled(link: Link, caplog: pytest.LogCaptureFixture) -> None:
    model = Chain().model(link, 350)
    frame, frames = sys._getframe(), 0
    while frame.f_back is not None:
        frame, frames = frame.f_back, frames + 1
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(frames + FRAMES)
    try:
        with caplog.at_level(logging.INFO, "neurald.drivers"):
            found = outputs(CpuDevice(), model)
    finally:
        sys.setrecursionlimit(before)
    np.testing.assert_allclose(found, outputs(ReferenceDevice(), model), rtol=1e-4, atol=1e-5)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert any(
        f"{len(model.main.operations)} operations as" in record.getMessage() for record in caplog.records
    )
    assert max(len(record.getMessage()) for record in caplog.records) < 1000


@pytest.mark.full
def test_five_thousand_operations_are_compiled(caplog: pytest.LogCaptureFixture) -> None:
    model = Chain().model(_binary, 5000)
    with caplog.at_level(logging.INFO, "neurald.drivers"):
        found = outputs(CpuDevice(), model)
    np.testing.assert_allclose(found, outputs(ReferenceDevice(), model), rtol=1e-4, atol=1e-5)
    assert any("5000 operations as" in record.getMessage() for record in caplog.records)
