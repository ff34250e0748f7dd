"""Recurrent operators step by step, against cells in NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteGraph, TfliteModel
from support.tflite.resources import constant
from support.tflite.results import compile_file

from neurald.hal.errors import BadData
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite import load_tflite

BATCH, TIME, SIZE, UNITS = 2, 3, 4, 5
GATES = 4


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def state(graph: TfliteGraph, units: int = UNITS) -> int:
    return graph.tensor((BATCH, units), is_variable=True)


class Lstm:
    """A full LSTM cell without options."""

    def __init__(self, seed: int) -> None:
        self.inputs = random(GATES, UNITS, SIZE, seed=seed)
        self.recurrent = random(GATES, UNITS, UNITS, seed=seed + 100)
        self.bias = random(GATES, UNITS, seed=seed + 200)
        self.output = self.cell = np.zeros((BATCH, UNITS))

    def tensors(self, graph: TfliteGraph) -> list[int]:
        weights = [constant(graph, value) for kind in (self.inputs, self.recurrent) for value in kind]
        return [*weights, -1, -1, -1, *(constant(graph, value) for value in self.bias), -1, -1]

    def step(self, x: Array) -> Array:
        sums = [
            x @ w.T + self.output @ r.T + b
            for w, r, b in zip(self.inputs, self.recurrent, self.bias, strict=True)
        ]
        admit, forget, _, emit = (1 / (1 + np.exp(-total)) for total in sums)
        self.cell = forget * self.cell + admit * np.tanh(sums[2])
        self.output = emit * np.tanh(self.cell)
        return self.output


def sequence(*, time_major: bool) -> tuple[int, int, int]:
    return (TIME, BATCH, SIZE) if time_major else (BATCH, TIME, SIZE)


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("norms", [0, 4])
def test_unidirectional_sequence_lstm(path: Path, *, time_major: bool, norms: int) -> None:
    file, cell = TfliteModel(), Lstm(0)
    graph = file.subgraph()
    x, y = graph.tensor(sequence(time_major=time_major)), graph.tensor((1,))
    inputs = (x, *cell.tensors(graph), state(graph), state(graph), *[-1] * norms)
    graph.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        (y,),
        "UnidirectionalSequenceLSTMOptions",
        FusedActivationFunction=4,
        TimeMajor=time_major,
    )
    graph.inputs, graph.outputs = (x,), (y,)
    compilation = compile_file(file, path)
    assert len(compilation.model.state) == 2
    for run in range(3):
        value = random(TIME, BATCH, SIZE, seed=run)
        expected = np.stack([cell.step(step) for step in value])
        given = value if time_major else value.swapaxes(0, 1)
        (result,) = compilation.run(given)
        np.testing.assert_allclose(result if time_major else result.swapaxes(0, 1), expected, atol=1e-5)


@pytest.mark.parametrize("merge", [False, True])
def test_bidirectional_sequence_lstm(path: Path, *, merge: bool) -> None:
    file, forward, backward = TfliteModel(), Lstm(0), Lstm(1)
    graph = file.subgraph()
    x = graph.tensor((TIME, BATCH, SIZE))
    outputs = [graph.tensor((1,)) for _ in range(1 if merge else 2)]
    states = [state(graph) for _ in range(4)]
    inputs = (x, *forward.tensors(graph), *backward.tensors(graph), *states, *[-1] * 9)
    options: dict[str, Any] = {"FusedActivationFunction": 4, "TimeMajor": True, "MergeOutputs": merge}
    graph.operator(
        "BIDIRECTIONAL_SEQUENCE_LSTM", inputs, outputs, "BidirectionalSequenceLSTMOptions", **options
    )
    graph.inputs, graph.outputs = (x,), outputs
    compilation = compile_file(file, path)
    for run in range(2):
        value = random(TIME, BATCH, SIZE, seed=run)
        both = [
            np.stack([forward.step(step) for step in value]),
            np.stack([backward.step(step) for step in value[::-1]])[::-1],
        ]
        expected = [np.concatenate(both, axis=2)] if merge else both
        for result, wanted in zip(compilation.run(value), expected, strict=True):
            np.testing.assert_allclose(result, wanted, atol=1e-5)


def test_the_full_cell(path: Path) -> None:
    file, cell = TfliteModel(), Lstm(0)
    graph = file.subgraph()
    x, y = graph.tensor((BATCH, SIZE)), graph.tensor((1,))
    inputs = (x, *cell.tensors(graph), state(graph), state(graph))
    graph.operator("LSTM", inputs, (y,), "LSTMOptions", FusedActivationFunction=4)
    graph.inputs, graph.outputs = (x,), (y,)
    compilation = compile_file(file, path)
    for run in range(3):
        value = random(BATCH, SIZE, seed=run)
        np.testing.assert_allclose(compilation.run(value)[0], cell.step(value), atol=1e-5)


@pytest.mark.parametrize("is_variable", [False, True])
def test_the_basic_cell(path: Path, *, is_variable: bool) -> None:
    """The order of the gates is input gate, candidate, forget gate, output gate."""
    file, cell = TfliteModel(), Lstm(0)
    graph = file.subgraph()
    order = (0, 2, 1, 3)
    weights = np.concatenate([np.concatenate((cell.inputs[k], cell.recurrent[k]), axis=1) for k in order])
    x = graph.tensor((BATCH, SIZE))
    last, memory = (graph.tensor((BATCH, UNITS), is_variable=is_variable) for _ in range(2))
    inputs = (x, last, constant(graph, weights), constant(graph, cell.bias[list(order)].reshape(-1)), memory)
    outputs = tuple(graph.tensor((1,)) for _ in range(4))
    graph.operator("LSTM", inputs, outputs, "LSTMOptions", FusedActivationFunction=4, KernelType=1)
    graph.inputs = (x,) if is_variable else (x, last, memory)
    graph.outputs = outputs[:2]
    compilation = compile_file(file, path)
    states = [np.zeros((BATCH, UNITS), np.float32)] * 2
    for run in range(3):
        value = random(BATCH, SIZE, seed=run)
        states = compilation.run(value) if is_variable else compilation.run(value, *states)
        np.testing.assert_allclose(states[0], cell.step(value), atol=1e-5)
        np.testing.assert_allclose(states[1], cell.cell, atol=1e-5)


class Rnn:
    """A basic cell with RELU."""

    def __init__(self, seed: int) -> None:
        self.values = [random(UNITS, SIZE, seed=seed), random(UNITS, UNITS, seed=seed + 1) / 4]
        self.bias = random(UNITS, seed=seed + 2)
        self.state = np.zeros((BATCH, UNITS))

    def tensors(self, graph: TfliteGraph) -> list[int]:
        return [*(constant(graph, value) for value in (*self.values, self.bias)), state(graph)]

    def step(self, x: Array) -> Array:
        weights, recurrent = self.values
        self.state = np.maximum(x @ weights.T + self.state @ recurrent.T + self.bias, 0)
        return self.state


@pytest.mark.parametrize("code", ["RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN"])
@pytest.mark.parametrize("time_major", [False, True])
def test_basic_cells(path: Path, code: str, *, time_major: bool) -> None:
    file, cells = TfliteModel(), [Rnn(0), Rnn(10)]
    graph = file.subgraph()
    x = graph.tensor((BATCH, SIZE) if code == "RNN" else sequence(time_major=time_major))
    options: dict[str, Any] = {"FusedActivationFunction": 1}
    kind, outputs, inputs = "RNNOptions", [graph.tensor((1,))], [x, *cells[0].tensors(graph)]
    if code != "RNN":
        options["TimeMajor"], kind = time_major, "SequenceRNNOptions"
    if code == "BIDIRECTIONAL_SEQUENCE_RNN":
        inputs += [*cells[1].tensors(graph), -1, -1, -1]
        outputs.append(graph.tensor((1,)))
        kind = "BidirectionalSequenceRNNOptions"
    graph.operator(code, inputs, outputs, kind, **options)
    graph.inputs, graph.outputs = (x,), outputs
    compilation = compile_file(file, path)
    for run in range(2):
        value = random(TIME, BATCH, SIZE, seed=run)[: 1 if code == "RNN" else TIME]
        expected = [np.stack([cells[0].step(step) for step in value])]
        expected.append(np.stack([cells[1].step(step) for step in value[::-1]])[::-1])
        fed_sequence = value if time_major else value.swapaxes(0, 1)
        for result, wanted in zip(
            compilation.run(value[0] if code == "RNN" else fed_sequence), expected, strict=False
        ):
            if code == "RNN":
                np.testing.assert_allclose(result, wanted[0], atol=1e-5)
            else:
                np.testing.assert_allclose(result if time_major else result.swapaxes(0, 1), wanted, atol=1e-5)


def test_svdf(path: Path) -> None:
    """Each filter weights the features of the last inputs; the filters of a unit are summed."""
    rank, length = 2, 3
    file, filters = TfliteModel(), UNITS * rank
    graph = file.subgraph()
    x, y = graph.tensor((BATCH, SIZE)), graph.tensor((1,))
    features, times, bias = random(filters, SIZE), random(filters, length, seed=1), random(UNITS, seed=2)
    inputs = (
        x,
        *(constant(graph, value) for value in (features, times, bias)),
        graph.tensor((BATCH, filters * length), is_variable=True),
    )
    graph.operator("SVDF", inputs, (y,), "SVDFOptions", Rank=rank)
    graph.inputs, graph.outputs = (x,), (y,)
    compilation = compile_file(file, path)
    seen = [np.zeros((BATCH, filters))] * length
    for run in range(5):
        value = random(BATCH, SIZE, seed=run)
        seen = [*seen[1:], value @ features.T]
        sums = sum(past * times[:, age] for age, past in enumerate(seen))
        expected = np.asarray(sums).reshape(BATCH, UNITS, rank).sum(axis=2) + bias
        np.testing.assert_allclose(compilation.run(value)[0], expected, atol=1e-4)


def test_refusals(path: Path) -> None:
    file, cell = TfliteModel(), Lstm(0)
    graph = file.subgraph()
    x = graph.tensor((BATCH, TIME, SIZE))
    inputs = (x, *cell.tensors(graph), state(graph), state(graph))
    options = "UnidirectionalSequenceLSTMOptions"
    for values in ({"DiagonalRecurrentTensors": True}, {"FusedActivationFunction": 5}, {"CellClip": -1.0}):
        output = graph.tensor((1,))
        graph.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (output,), options, **values)
        graph.outputs = (output,)
    graph.operator("LSTM", inputs, (graph.tensor((1,)),), "LSTMOptions", KernelType=1)
    graph.operator("LSTM", inputs[:7], (graph.tensor((1,)),), "LSTMOptions")
    graph.inputs = (x,)
    with pytest.raises(BadData, match=r"unsupported parts \(5\)") as caught:
        load_tflite(file.write(path))
    assert "diagonals" in str(caught.value)
    assert "the basic cell has 5 and 4" in str(caught.value)
    assert "operator 4 LSTM: input 18 is not a variable" in str(caught.value)
