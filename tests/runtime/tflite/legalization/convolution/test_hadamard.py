from pathlib import Path

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.custom import hadamard, results_of

from neurald.hal.errors import BadData
from neurald.runtime.tflite import load_tflite


@sweep("shape, size", [((2, 4), 4), ((3, 8), 2), ((2, 3, 128), 128), ((1, 4096), 2048), ((2, 6), 1)])
def test_blocks_are_rotated(tmp_path: Path, shape: tuple[int, ...], size: int) -> None:
    rows = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (found,) = results_of(hadamard(shape, size), tmp_path, rows)
    expected = rows.astype(np.float64).reshape(-1, size)
    step = 1
    while step < size:
        pairs = expected.reshape(-1, size // (2 * step), 2, step)
        expected = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2)
        step *= 2
    np.testing.assert_allclose(found, expected.reshape(shape) / np.sqrt(size), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("signature", [(-1, 2, 8), (-1, -1, 8)])
def test_open_lengths(tmp_path: Path, signature: tuple[int, ...]) -> None:
    file = hadamard((1, 2, 8), 8)
    (graph,) = file.graphs
    rows = np.random.default_rng(0).standard_normal((3, 2, 8)).astype(np.float32)
    (expected,) = results_of(hadamard((3, 2, 8), 8), tmp_path, rows)
    for tensor in (*graph.inputs, *graph.outputs):
        graph.tensors[tensor].shape_signature = signature
    (found,) = results_of(file, tmp_path, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("shape", "size"), [((2, 4), 3), ((2, 4), 8), ((2, 4), 0), ((2, 4), -4)])
def test_wrong_sizes(shape: tuple[int, ...], size: int) -> None:
    with pytest.raises(BadData, match="a power of 2 that divides the length is expected"):
        load_tflite(hadamard(shape, size).build())
