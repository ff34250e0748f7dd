"""Fourier transforms of the first tier are those of references."""

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared, results
from support.cpu.layers import FLOAT, INT32, LayerBuilder, check, values

import neurald as nd
from neurald.hal.execution.reference_model import ReferenceModel

COMPLEX = nd.OperandType.TENSOR_COMPLEX64


def transform(shape: tuple[int, ...], rows: int, columns: int) -> nd.Model:
    build = LayerBuilder(0)
    given, output = build.operand(FLOAT, shape), build.operand(COMPLEX, (*shape[:-2], rows, columns // 2 + 1))
    inputs = [given, build.constant(INT32, np.array([rows, columns], np.int32))]
    return build.model(nd.OperationType.TFLITE_RFFT2D, inputs, output, [given])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("columns", [4, 8, 16, 512, 2048])
def test_transforms_of_rows(target: str, columns: int) -> None:
    for shape in ((1, columns), (5, 1, columns), (2, 3, 2, columns + 3)):
        model, array = (
            transform(shape, 1, columns),
            values(np.random.default_rng(columns), FLOAT, shape),
        )
        (expected,) = results(ReferenceModel(model), model, [array])
        (found,) = results(prepared(model, target, threads=2), model, [array])
        # Errors are in proportion to the largest numbers.
        limit = 4e-7 * float(np.abs(expected).max())
        np.testing.assert_allclose(found.view(np.float32), expected.view(np.float32), rtol=0, atol=limit)
        ends = found.imag[..., [0, -1]]
        assert not ends.any()
        assert np.signbit(ends).all()


@pytest.mark.parametrize(("shape", "rows", "columns"), [((2, 8), 2, 8), ((1, 5), 1, 8), ((1, 8), 1, 2)])
def test_other_transforms_run_on_references(shape: tuple[int, ...], rows: int, columns: int) -> None:
    assert isinstance(prepared(transform(shape, rows, columns)), ReferenceModel)


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_lengths_of_complex_numbers(target: str) -> None:
    for count in (1, 3, 3000):
        build = LayerBuilder(0)
        given, output = build.operand(COMPLEX, (count,)), build.operand(FLOAT, (count,))
        model = build.model(nd.OperationType.TFLITE_COMPLEX_ABS, [given], output, [given])
        rng = np.random.default_rng(count)
        array = (rng.normal(size=count) + 1j * rng.normal(size=count)).astype(np.complex64)
        array[:3] = np.array([3e30 + 4e30j, complex(np.inf, 1), 0], np.complex64)[:count]
        check(model, target, rtol=1e-6, inputs=[array])
