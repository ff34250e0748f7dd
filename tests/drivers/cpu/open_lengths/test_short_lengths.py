"""Lengths that do not fill a vector share their code, whatever fraction of it they fill."""

import logging

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice

_COLUMNS = 8


def attention() -> bytes:
    """Returns a model of an open number of rows that attend to each other."""
    file = TfliteModel()
    graph = file.subgraph()
    value, result = (graph.tensor((9, _COLUMNS), shape_signature=(-1, _COLUMNS)) for _ in range(2))
    scores, weights = (graph.tensor((9, 9), shape_signature=(-1, -1)) for _ in range(2))
    graph.operator("BATCH_MATMUL", [value, value], [scores], "BatchMatMulOptions", AdjY=True)
    graph.operator("SOFTMAX", [scores], [weights], "SoftmaxOptions", Beta=1.0)
    graph.operator("BATCH_MATMUL", [weights, value], [result], "BatchMatMulOptions")
    graph.inputs, graph.outputs = [value], [result]
    return file.build()


def product() -> bytes:
    """Returns a model of the products of an open number of rows with each other."""
    file = TfliteModel()
    graph = file.subgraph()
    value = graph.tensor((9, _COLUMNS), shape_signature=(-1, _COLUMNS))
    scores = graph.tensor((9, 9), shape_signature=(-1, -1))
    graph.operator("BATCH_MATMUL", [value, value], [scores], "BatchMatMulOptions", AdjY=True)
    graph.inputs, graph.outputs = [value], [scores]
    return file.build()


@sweep("content", [attention(), product()])
@sweep("first", [70, 9])
def test_short_lengths(
    content: bytes, first: int, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """No length is compiled for on its own, whether the first one is short or not."""
    builder = nd.CompilationBuilder(nd.load_tflite(content), [CpuDevice()])
    builder.set_caching(None)
    compilation = builder.finish()
    generator = np.random.default_rng(3)
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        for rows in (first, 12, 3, 16, 31, 7, 2, 20):
            value = generator.random((rows, _COLUMNS), np.float32)
            (found,) = compilation.run(value)
            expected = value @ value.T
            if content == attention():
                weights = np.exp(expected - expected.max(-1, keepdims=True))
                expected = weights / weights.sum(-1, keepdims=True) @ value
            np.testing.assert_allclose(found, expected, rtol=1e-5)
    # The first one is for lengths that are usual.
    assert caplog.text.count("operations for lengths") <= 2
    assert "operations as" not in caplog.text
