"""Results of custom operators beside those of ai-edge-litert, where that is installed."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.custom import hadamard, mfcc, numeric_verify, pooled, spectrogram, transposed, unpooled

import neurald.litert

theirs = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")

Array = np.ndarray[Any, np.dtype[Any]]


def results(module: ModuleType, file: TfliteModel, inputs: Sequence[Array]) -> list[Array]:
    """Runs a file; positions in FLOAT32 tensors are returned as the integers that they are."""
    interpreter = module.Interpreter(model_content=file.build())
    interpreter.allocate_tensors()
    for details, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(details["index"], value)
    interpreter.invoke()
    found = [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]
    return [found[0], *(each.view(np.int32) for each in found[1:])]


def random(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


POSITIONS = np.random.default_rng(0).integers(0, 6, (2, 3, 2, 3)).astype(np.int32).view(np.float32)
CASES = {
    **{
        f"transposed {window} {strides} {padding}": (
            transposed((3, 4, 2), window, strides, padding),
            [random(1, 3, 4, 2)],
        )
        for window in ((2, 2), (3, 5))
        for strides in ((1, 1), (2, 2), (2, 1))
        for padding in (1, 2)
    },
    **{
        f"pooled {size} {window} {padding}": (pooled(size, window, padding), [random(2, *size, 3)])
        for size, window in (((4, 4), (2, 2)), ((5, 7), (2, 3)), ((3, 3), (3, 3)), ((2, 4), (1, 3)))
        for padding in (1, 2)
    },
    "unpooled": (unpooled((3, 2), (3, 2)), [random(2, 3, 2, 3), POSITIONS]),
    "spectrogram": (spectrogram(400, 2, 64, 25, magnitude_squared=True), [random(400, 2)]),
    "magnitudes": (spectrogram(300, 1, 50, 50, magnitude_squared=False), [random(300, 1)]),
    "mfcc": (mfcc((1, 5, 257), (20.0, 4000.0), 40, 13), [random(1, 5, 257) ** 2]),
    "mfcc of all": (mfcc((2, 3, 129), (0.0, 8000.0), 20, 20), [random(2, 3, 129) ** 2]),
    "hadamard": (hadamard((2, 3, 128), 128), [random(2, 3, 128)]),
    "hadamard in blocks": (hadamard((2, 12), 4), [random(2, 12)]),
    "verified as integers": (
        numeric_verify("INT8", 3, "INT8"),
        [np.arange(6, dtype=np.int8).reshape(2, 3), random(2, 3)],
    ),
    "verified": (numeric_verify("INT8", 3), [np.arange(6, dtype=np.int8).reshape(2, 3), random(2, 3)]),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_the_same(name: str) -> None:
    file, inputs = CASES[name]
    found, expected = (results(module, file, inputs) for module in (neurald.litert, theirs))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * float(np.abs(other).max()))


LARGEST = np.finfo(np.float32).max


@pytest.mark.parametrize(
    ("operator", "first", "second"),
    [("ADD", LARGEST, LARGEST), ("SUB", -LARGEST, LARGEST), ("MUL", LARGEST, -2), ("DIV", 1, 0)],
)
def test_results_that_are_too_large_are_infinite(operator: str, first: float, second: float) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, y, z = (graph.tensor((2, 3), "FLOAT32", name=name) for name in "xyz")
    graph.operator(operator, (x, y), (z,), f"{operator.title()}Options")
    graph.inputs, graph.outputs = (x, y), (z,)
    inputs = [np.full((2, 3), value, np.float32) for value in (first, second)]
    found, expected = (results(module, file, inputs)[0] for module in (neurald.litert, theirs))
    assert np.isinf(found).all()
    np.testing.assert_array_equal(found, expected)
