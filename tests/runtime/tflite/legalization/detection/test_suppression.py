from pathlib import Path

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.resources import constant

from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite


@pytest.mark.parametrize("limit", ["fixed", "fed"])
@pytest.mark.parametrize("version", [4, 5])
def test_non_max_suppression(path: Path, version: int, limit: str) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    boxes, scores = graph.tensor((3, 4)), graph.tensor((3,))
    most = constant(graph, 2, "INT32") if limit == "fixed" else graph.tensor((), "INT32")
    inputs = [boxes, scores, most, constant(graph, 0.5), constant(graph, 0.0)]
    outputs = [graph.tensor((2,), "INT32"), graph.tensor((), "INT32")]
    if version == 5:
        inputs.append(constant(graph, 0.0))
        outputs.insert(1, graph.tensor((2,)))
    kind = f"NON_MAX_SUPPRESSION_V{version}"
    graph.operator(kind, inputs, outputs, f"NonMaxSuppressionV{version}Options")
    graph.inputs, graph.outputs = (boxes, scores, *([most] if limit == "fed" else [])), outputs
    values = (
        np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [3, 3, 2, 2]], np.float32),
        np.array([0.9, 0.8, 0.7], np.float32),
    )
    fed = (np.int32(2),) if limit == "fed" else ()
    results = CompilationBuilder(load_tflite(file.write(path))).finish().run(*values, *fed)
    assert results[0].tolist() == [0, 2]
    assert results[-1] == 2
