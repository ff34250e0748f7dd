"""Operators like earlier ones are converted to what their rules emit."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.files.data import FRESH_MODELS, NO_FRESH_MODELS
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel

from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.records import replace
from neurald.runtime.tflite.conversion import importer
from neurald.runtime.tflite.conversion.file_conversion import convert
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph import repetition
from neurald.runtime.tflite.graph.repetition import RepeatingBuilder
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization import LEGALIZATIONS
from neurald.runtime.tflite.legalization.machinery.rule import Legalization

COUNT = 6
ALPHAS = 1.53125, 2.53125


def same_models(content: bytes) -> tuple[Model, int]:
    """Converts a file with and without repetition; returns the model and the repetitions."""
    repeat, repeated = RepeatingBuilder._repeat, 0

    def counted(self: RepeatingBuilder, *given: Any) -> None:
        nonlocal repeated
        repeated += 1
        repeat(self, *given)

    memory = HostMemory(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RepeatingBuilder, "_repeat", counted)
        found = convert(memory, None, {})
        patch.setattr(repetition, "REPEATABLE", frozenset())
        expected = convert(memory, None, {})
    assert found.referenced == expected.referenced
    assert found.main == expected.main
    names = [[operand.name for operand in model.main.operands] for model in (found, expected)]
    assert names[0] == names[1]
    return found, repeated


def is_made(graph: TfliteGraph, index: int) -> bool:
    """Returns whether a tensor is a constant, or an operator's output."""
    return graph.tensors[index].data is not None or any(index in each.outputs for each in graph.operators)


def layers(graph: TfliteGraph) -> int:
    last = graph.tensor((2, 4), name="x")
    for number in range(COUNT):
        weights = graph.tensor((4, 4), data=np.full((4, 4), number), name=f"w{number}")
        bias = graph.tensor((4,), data=np.arange(4))
        result = graph.tensor((2, 4), name=f"y{number}")
        graph.operator(
            "FULLY_CONNECTED",
            (last, weights, bias),
            (result,),
            "FullyConnectedOptions",
            FusedActivationFunction=1,
        )
        last = result
    return last


def biases_of_rank_two(graph: TfliteGraph) -> int:
    """Emitted operations refer to the bytes of each bias."""
    last = graph.tensor((2, 4))
    for number in range(COUNT):
        weights, result = graph.tensor((4, 4), data=np.eye(4)), graph.tensor((2, 4))
        bias = graph.tensor((1, 4), data=np.full((1, 4), number))
        graph.operator("FULLY_CONNECTED", (last, weights, bias), (result,), "FullyConnectedOptions")
        last = result
    return last


def half_weights(graph: TfliteGraph) -> int:
    last = graph.tensor((2, 5))
    for number in range(COUNT):
        half = graph.tensor((5, 5), "FLOAT16", data=np.full((5, 5), number))
        weights, result = graph.tensor((5, 5)), graph.tensor((2, 5))
        graph.operator("DEQUANTIZE", (half,), (weights,))
        graph.operator("FULLY_CONNECTED", (last, weights, -1), (result,), "FullyConnectedOptions")
        last = result
    return last


def axes_of_two_values(graph: TfliteGraph) -> int:
    """The values of constants decide about what is emitted."""
    last = graph.tensor((1, 1))
    for number in range(2 * COUNT):
        axis, source, result = (
            graph.tensor((), "INT32", data=number % 2),
            graph.tensor((1, 1)),
            graph.tensor((1, 1, 1)),
        )
        graph.operator("TANH", (last,), (source,))
        graph.operator("EXPAND_DIMS", (source, axis), (result,), "ExpandDimsOptions")
        last = graph.tensor((1, 1))
        graph.operator("SQUEEZE", (result,), (last,), "SqueezeOptions", SqueezeDims=(0,))
    return last


def sums_of_one_and_two(graph: TfliteGraph) -> int:
    """One tensor twice is not two tensors."""
    first = last = graph.tensor((3,))
    for number in range(2 * COUNT):
        result = graph.tensor((3,))
        graph.operator("ADD", (last, first if number % 2 else last), (result,), "AddOptions")
        first, last = last, result
    return last


def zeros_of_both_signs(graph: TfliteGraph) -> int:
    """The alphas stand for zeros, which the writer would omit."""
    last = graph.tensor((3,))
    for number in range(2 * COUNT):
        result = graph.tensor((3,))
        graph.operator("LEAKY_RELU", (last,), (result,), "LeakyReluOptions", Alpha=ALPHAS[number % 2])
        last = result
    return last


def parts(graph: TfliteGraph) -> int:
    last = graph.tensor((2, 4))
    for _ in range(COUNT):
        axis = graph.tensor((), "INT32", data=1)
        halves = [graph.tensor((2, 2)) for _ in range(2)]
        graph.operator("SPLIT", (axis, last), halves, "SplitOptions", NumSplits=2)
        result = graph.tensor((2, 4))
        graph.operator("CONCATENATION", halves, (result,), "ConcatenationOptions", Axis=-1)
        last = result
    return last


def wrong_lengths(graph: TfliteGraph) -> int:
    """The second half has twice the length that the file states, as has all that is made of it."""
    x = graph.tensor((2, 4))
    ends = [x, graph.tensor((2, 4))]
    graph.operator("CONCATENATION", (x, x), (ends[1],), "ConcatenationOptions", Axis=1)
    for _ in range(COUNT):
        for place in range(2):
            result = graph.tensor((2, 4))
            graph.operator("TANH", (ends[place],), (result,))
            ends[place] = result
    last = graph.tensor((2, 4))
    graph.operator("CONCATENATION", ends, (last,), "ConcatenationOptions", Axis=1)
    return last


def shapes_at_run_time(graph: TfliteGraph) -> int:
    """Results have the shapes that the file states, until it turns out to be wrong."""
    x, parts = graph.tensor((2, 3)), []
    lengths = graph.tensor((2,), "INT32")
    graph.operator("ADD", (graph.tensor((2,), "INT32"),) * 2, (lengths,), "AddOptions")
    for number in range(4 * COUNT):
        parts.append(graph.tensor((3, 2), shape_signature=((3, 2), (3, -1))[number % 2]))
        graph.operator("RESHAPE", (x, lengths), parts[-1:], "ReshapeOptions")
        if number == 2 * COUNT:
            graph.operator("TANH", (x,), (graph.tensor((2, 5), shape_signature=(2, 5)),))
    last = graph.tensor((3, 2))
    graph.operator("ADD_N", parts, (last,))
    return last


def open_batch(graph: TfliteGraph) -> int:
    last = graph.tensor((1, 4), shape_signature=(-1, 4))
    for _ in range(COUNT):
        result = graph.tensor((1, 4), shape_signature=(-1, 4))
        graph.operator("MUL", (last, last), (result,), "MulOptions", FusedActivationFunction=4)
        last = result
    return last


@sweep(
    "build,least",
    [
        (layers, COUNT - 3),
        (biases_of_rank_two, 0),
        (half_weights, COUNT - 3),
        (axes_of_two_values, 6 * COUNT - 6),
        (sums_of_one_and_two, 2 * COUNT - 6),
        (zeros_of_both_signs, 2 * COUNT - 4),
        (parts, COUNT),
        (wrong_lengths, 2 * COUNT - 4),
        (shapes_at_run_time, 4 * COUNT - 4),
        (open_batch, COUNT - 3),
    ],
)
def test_repeated_operators_are_converted_as_by_their_rules(
    build: Callable[[TfliteGraph], int], least: int
) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    last = build(graph)
    fed = [index for index in range(last) if not is_made(graph, index)]
    graph.inputs, graph.outputs = fed, (last,)
    content = file.build()
    for alpha, zero in zip(ALPHAS, (0.0, -0.0), strict=True):
        content = content.replace(struct.pack("<f", alpha), struct.pack("<f", zero))
    _, repeated = same_models(content)
    assert repeated >= least


def test_results_that_are_fetched_differ_from_others() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    last = layers(graph)
    graph.inputs, graph.outputs = (0,), (6, last)  # the second layer's, which is recorded
    model, _ = same_models(file.build())
    assert len(model.outputs) == 2


def test_rules_that_change_their_inputs_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operand that was replaced twice may be at the address of the first one."""

    def rule(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
        index, result = graph.input(operator), graph.output(operator)
        for name in "some", "other":
            graph._operands[index] = replace(graph._operands[index], name=name)
        graph.emit(OperationType.TANH, (index,), (result,))

    changed = {**LEGALIZATIONS, BuiltinOperator.TANH: Legalization(rule=rule)}
    monkeypatch.setattr(importer, "LEGALIZATIONS", changed)
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs = [graph.tensor((2,)) for _ in range(COUNT)]
    graph.outputs = [graph.tensor((2,)) for _ in range(COUNT)]
    for given, result in zip(graph.inputs, graph.outputs, strict=True):
        graph.operator("TANH", (given,), (result,))
    _, repeated = same_models(file.build())
    assert not repeated


@pytest.mark.skipif(FRESH_MODELS is None, reason=NO_FRESH_MODELS)
@sweep("name,least", [("x_bert_tiny", 20), ("x_lstm2", 500), ("q_x_gpt_kv_step_w8", 100), ("g_gru_t4", 0)])
def test_models_are_converted_as_by_rules(name: str, least: int) -> None:
    assert FRESH_MODELS is not None
    content = Path(FRESH_MODELS / "tflite" / f"{name}.tflite").read_bytes()
    _, repeated = same_models(content)
    assert repeated >= least
