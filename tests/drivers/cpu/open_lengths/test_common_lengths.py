"""Models that are only valid for lengths with something in common are compiled once for all."""

import logging
from pathlib import Path

import numpy as np
import pytest
from support.models.control_flow import ADD, FLOAT, INT, Graph

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice

Op = nd.OperationType


def _compilation(model: nd.Model, cache: Path | None = None) -> nd.Compilation:
    builder = nd.CompilationBuilder(model, [CpuDevice()])
    builder.set_caching(cache, bytes(32))
    return builder.finish()


@pytest.mark.parametrize("is_cached", [False, True])
def test_square_matrices(
    is_cached: bool, tmp_path: Path, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    graph = Graph()
    source, turned, total = (graph.value(FLOAT, (0, 0)) for _ in range(3))
    graph.builder.add_operation(Op.TRANSPOSE, [source, graph.constant([1, 0], INT)], [turned])
    graph.binary(ADD, source, turned, total)
    compilation = _compilation(graph.finish([source], [total]), tmp_path if is_cached else None)
    random = np.random.default_rng(3)
    for length in (80, 96, 70, 123):
        array = random.random((length, length), np.float32)
        np.testing.assert_array_equal(compilation.run(array)[0], array + array.T)
    assert caplog.text.count("operations for lengths") == 1
    assert " kernels for " not in caplog.text
    array = random.random((1, 7), np.float32)
    np.testing.assert_array_equal(compilation.run(array)[0], array + array.T)


def test_images_divided_into_blocks(compiles_here: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    graph = Graph()
    source, divided = graph.value(FLOAT, (1, 0, 0, 3)), graph.value(FLOAT, (1, 0, 0, 12))
    size = graph.builder.add_operand(nd.OperandType.INT32)
    graph.builder.set_operand_value(size, 2)
    graph.builder.add_operation(Op.SPACE_TO_DEPTH, [source, size], [divided])
    compilation, random = _compilation(graph.finish([source], [divided])), np.random.default_rng(3)
    for height, width in ((80, 96), (128, 66), (92, 92)):
        array = random.random((1, height, width, 3), np.float32)
        blocks = array.reshape(1, height // 2, 2, width // 2, 2, 3).transpose(0, 1, 3, 2, 4, 5)
        wanted = blocks.reshape(1, height // 2, width // 2, 12)
        np.testing.assert_array_equal(compilation.run(array)[0], wanted)
    assert caplog.text.count("operations for lengths") == 1
    assert " kernels for " not in caplog.text
