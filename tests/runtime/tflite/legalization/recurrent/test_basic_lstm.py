"""The basic integer LSTM cell, against LiteRT's results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteModel

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite

UNITS, ELEMENTS, BATCH = 3, 5, 2


def cell(zero_point: int, bias_scale: float, *, cell_scale: float = 2.0**-11) -> TfliteModel:
    """Builds a cell with weights of a fixed seed, whose outputs are output and cell state."""
    generator = np.random.default_rng(5)
    file = TfliteModel()
    graph = file.subgraph()
    bytes_: dict[str, Any] = {"type_": "UINT8", "scale": 2.0**-7, "zero_point": 128}
    x = graph.tensor((BATCH, ELEMENTS), **bytes_)
    last = graph.tensor((BATCH, UNITS), **bytes_, is_variable=True)
    weights = generator.integers(0, 256, (4 * UNITS, ELEMENTS + UNITS))
    matrix = graph.tensor(weights.shape, "UINT8", data=weights, scale=bias_scale, zero_point=zero_point)
    biases = generator.integers(-2000, 2000, 4 * UNITS)
    bias = graph.tensor(biases.shape, "INT32", data=biases, scale=bias_scale)
    state = graph.tensor((BATCH, UNITS), "INT16", scale=cell_scale, is_variable=True)
    outputs = [
        graph.tensor((BATCH, UNITS), **bytes_),
        graph.tensor((BATCH, UNITS), "INT16", scale=cell_scale),
        graph.tensor((BATCH, ELEMENTS + UNITS), **bytes_),
        graph.tensor((BATCH, 4 * UNITS), "INT16", scale=2.0**-12),
    ]
    graph.operator("LSTM", (x, last, matrix, bias, state), outputs, "LSTMOptions", KernelType=1)
    graph.inputs, graph.outputs = (x,), outputs[:2]
    return file


def inputs(zero_point: int, bias_scale: float) -> list[Array]:
    generator = np.random.default_rng(zero_point)
    return [generator.integers(0, 256, (BATCH, ELEMENTS)).astype(np.uint8) for _ in range(3)]


CASES = ((100, 2.0**-14), (128, 2.0**-16), (90, 0.0001))
EXPECTED = (
    ([64, 95, 136, 124, 116, 134], [-1602, -1267, 232, -219, -310, 308]),
    ([130, 132, 121, 128, 122, 137], [69, 149, -180, 6, -221, 298]),
    ([125, 140, 80, 71, 78, 135], [-190, 356, -2457, -1464, -1011, 168]),
)


@sweep(("case", "expected"), list(zip(CASES, EXPECTED, strict=True)))
def test_numbers(tmp_path: Path, case: tuple[int, float], expected: tuple[list[int], list[int]]) -> None:
    model = load_tflite(cell(*case).write(tmp_path / "model.tflite"))
    assert model.main.operations[0].type is OperationType.TFLITE_LSTM
    assert len(model.state) == 2
    compilation = CompilationBuilder(model).finish()
    for values in inputs(*case):
        output, state = compilation.run(values)
    assert (output.ravel().tolist(), state.ravel().tolist()) == expected


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    with pytest.raises(BadData, match=r"cell_state_out.* has scale 0\.000976562; 0\.000488281 is"):
        load_tflite(cell(128, 0.001, cell_scale=2.0**-10).write(path))
    file = cell(128, 0.001)
    file.graphs[0].tensors[2].shape = (UNITS + ELEMENTS, 4 * UNITS)
    with pytest.raises(BadData, match=r"weights.* has shape \[8, 12\]; \[12, 8\] is expected"):
        load_tflite(file.write(path))
    file = cell(128, 0.001)
    file.graphs[0].tensors[3].scale = file.graphs[0].tensors[3].zero_point = ()
    with pytest.raises(BadData, match="does not have exactly one scale"):
        load_tflite(file.write(path))
    file = cell(128, 0.001)
    file.graphs[0].tensors[0].type = "INT8"
    with pytest.raises(BadData, match="TENSOR_QUANT8_ASYMM_SIGNED"):
        load_tflite(file.write(path))
