"""Normalisations by neighbours of the first tier are those of references."""

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared, results
from support.cpu.layers import FLOAT, LayerBuilder, check, values

import neurald as nd
from neurald.hal.execution.reference_model import ReferenceModel


def normalized(
    shape: tuple[int, ...], radius: int, axis: int = -1, factors: tuple[float, ...] = (1.5, 0.3, 0.75)
) -> nd.Model:
    build = LayerBuilder(0)
    given, output = build.operand(FLOAT, shape), build.operand(FLOAT, shape)
    numbers = [build.scalar(each, nd.OperandType.FLOAT32) for each in factors]
    inputs = [given, build.scalar(radius), *numbers, build.scalar(axis)]
    return build.model(nd.OperationType.LOCAL_RESPONSE_NORMALIZATION, inputs, output, [given])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("radius", [0, 2, 90])
def test_neighbours_of_the_last_axis(target: str, radius: int) -> None:
    for shape in ((1, 1, 1, 1), (2, 3, 5, 7), (1, 2, 2, 67)):
        check(normalized(shape, radius), target, threads=2)
        check(normalized(shape, radius, factors=(1.5, 0.3, 0.5)), target, threads=2)


@pytest.mark.parametrize(
    "factors", [(1.5, 0.3, 0.75), (1.5, 0.3, 0.5), (0.0, 1.0, 0.5), (-1.0, 0.1, 0.5), (1.0, -0.1, 0.5)]
)
def test_special_numbers(factors: tuple[float, ...]) -> None:
    model = normalized((1, 2, 3, 70), 3, factors=factors)
    array = values(np.random.default_rng(0), FLOAT, (1, 2, 3, 70))
    array[0, 0, 0, :9:2] = [np.nan, np.inf, -np.inf, 1e30, 1e-40]
    (expected,) = results(ReferenceModel(model), model, [array])
    np.testing.assert_allclose(results(prepared(model), model, [array])[0], expected, rtol=1e-5, atol=1e-6)


def test_other_axes_run_on_references() -> None:
    assert isinstance(prepared(normalized((1, 2, 3, 4), 1, axis=1)), ReferenceModel)
