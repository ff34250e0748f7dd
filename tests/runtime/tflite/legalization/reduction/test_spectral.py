from pathlib import Path

import numpy as np
from support.tflite.builder import TfliteModel
from support.tflite.resources import constant

from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite


def test_a_fourier_transform(path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x, y = graph.tensor((3, 4, 8)), graph.tensor((3, 4, 5), "COMPLEX64")
    graph.operator("RFFT2D", (x, constant(graph, [4, 8], "INT32")), (y,), "Rfft2dOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    value = np.random.default_rng(0).random((3, 4, 8), np.float32)
    (result,) = CompilationBuilder(load_tflite(file.write(path))).finish().run(value)
    np.testing.assert_allclose(result, np.fft.rfft2(value), atol=1e-4)
