"""STABLEHLO_CASE, against LiteRT's results."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.resources import assign, constant, initialise, plus, read, variable

from neurald.hal.errors import BadData
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite

#: The schema's numbers of the operator and its options, which the schema package lacks.
CASE, OPTIONS = 209, 23


def cases(count: int, shape: Sequence[int] = (), type_: str = "INT32") -> TfliteModel:
    """Builds a model whose subgraph k adds 10 × k."""
    file = TfliteModel()
    main = file.subgraph()
    index, x, y = main.tensor(shape, type_), main.tensor((2,)), main.tensor((2,))
    main.operator(CASE, (index, x), (y,), new_options=(OPTIONS, range(1, count + 1)))
    main.inputs, main.outputs = (index, x), (y,)
    for number in range(count):
        graph = file.subgraph()
        given = graph.tensor((2,))
        graph.inputs = (given,)
        graph.outputs = (plus(graph, given, constant(graph, [10.0 * number]), 2),)
    return file


@sweep("shape", [(), (1,), (1, 1)])
@sweep("count", [1, 2, 3, 5, 8])
def test_which_branch_runs(tmp_path: Path, count: int, shape: tuple[int, ...]) -> None:
    path = cases(count, shape).write(tmp_path / "model.tflite")
    compilation = CompilationBuilder(load_tflite(path)).finish()
    x = np.array([1, 2], np.float32)
    for number in (-(2**31), -1, *range(count + 2), 2**31 - 1):
        chosen = number if 0 <= number < count else count - 1
        (result,) = compilation.run(np.full(shape, number, np.int32), x)
        assert result.tolist() == [1 + 10 * chosen, 2 + 10 * chosen]


def test_branches_that_assign(tmp_path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    index, x, y = main.tensor((), "INT32"), main.tensor((2,)), main.tensor((2,))
    initialise(file, main, v=[1, 1])
    main.operator(CASE, (index, x), (y,), new_options=(OPTIONS, (2, 3)))
    main.inputs, main.outputs = (index, x), (y,)
    for keeps in (True, False):
        graph = file.subgraph()
        given, handle = graph.tensor((2,)), variable(graph, "v")
        total = plus(graph, read(graph, handle, 2), given, 2)
        graph.inputs, graph.outputs = (given,), (total,)
        if keeps:
            assign(graph, handle, total)
    compilation = CompilationBuilder(load_tflite(file.write(tmp_path / "model.tflite"))).finish()
    x_value = np.ones(2, np.float32)
    found = [compilation.run(np.int32(number), x_value)[0].tolist() for number in (0, 1, 0, 1)]
    assert found == [[2, 2], [3, 3], [3, 3], [4, 4]]


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    with pytest.raises(BadData, match="STABLEHLO_CASE: it names no subgraphs"):
        load_tflite(cases(0).write(path))
    with pytest.raises(BadData, match="input 0 has type TENSOR_INT64; TENSOR_INT32 is expected"):
        load_tflite(cases(2, type_="INT64").write(path))
    with pytest.raises(BadData, match="operator 0 STABLEHLO_CASE: "):
        load_tflite(cases(2, (2,)).write(path))
    file = cases(2)
    file.graphs[2].outputs = (*file.graphs[2].outputs, *file.graphs[2].outputs)
    with pytest.raises(BadData, match=r"its subgraphs have [\d, and]+ outputs; the same"):
        load_tflite(file.write(path))
    file = cases(2)
    file.graphs[1].operators[0].code = CASE
    file.graphs[1].operators[0].new_options = OPTIONS, (1,)
    file.graphs[1].operators[0].options = None
    with pytest.raises(BadData, match="subgraph 1 calls itself"):
        load_tflite(file.write(path))
