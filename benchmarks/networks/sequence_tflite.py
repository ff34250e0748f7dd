"""Writes networks of sequences as `.tflite` files, with the operators that converters choose."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.tflite.builder import TfliteGraph, TfliteModel

from .sequence import SequenceNetwork, Step, Value

_NAMES = {np.dtype(np.float32): "FLOAT32", np.dtype(np.int32): "INT32", np.dtype(bool): "BOOL"}
_PADDINGS = {"SAME": 0, "VALID": 1}
_RELU = 1


def sequence_tflite_file(network: SequenceNetwork) -> bytes:
    """Returns the file."""
    model = TfliteModel()
    main = _Subgraph(model)
    for value in network.inputs:
        main.tensors[value] = main.tensor(value.shape, value.dtype)
    for step in network.steps:
        write: Callable[[Step], int] = getattr(main, f"write_{step.kind}")
        main.tensors[step.result] = write(step)
    main.graph.inputs = tuple(main.tensors[value] for value in network.inputs)
    main.graph.outputs = tuple(main.tensors[value] for value in network.outputs)
    return model.build()


class _Subgraph:
    """Writes the operators of a subgraph."""

    def __init__(self, model: TfliteModel) -> None:
        self._model = model
        self._number = len(model.graphs)
        self.graph: TfliteGraph = model.subgraph()
        self.tensors: dict[Value, int] = {}
        self._count = 0

    def tensor(self, shape: Sequence[int], dtype: Any = np.float32, data: Any = None) -> int:
        """Adds a tensor with a unique name: some readers identify tensors by name."""
        self._count += 1
        name = f"t{self._number}_{self._count}"
        return self.graph.tensor(tuple(shape), _NAMES[np.dtype(dtype)], name=name, data=data)

    def constant(self, array: Any) -> int:
        """Adds a constant."""
        return self.tensor(array.shape, array.dtype, array)

    def operator(
        self,
        kind: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        options: str | None = None,
        dtype: Any = np.float32,
        **values: Any,
    ) -> int:
        """Adds an operator with one result."""
        result = self.tensor(shape, dtype)
        self.graph.operator(kind, inputs, (result,), options, **values)
        return result

    def of(self, value: Value) -> int:
        """Returns the tensor of a value."""
        if value not in self.tensors:
            if value.data is None:
                raise ValueError(f"a value of shape {value.shape} is neither computed nor a constant")
            self.tensors[value] = self.constant(value.data)
        return self.tensors[value]

    def _simple(self, kind: str, step: Step, options: str | None = None, **values: Any) -> int:
        return self.operator(
            kind, [self.of(each) for each in step.sources], step.result.shape, options, **values
        )

    def write_dense(self, step: Step) -> int:
        values = {"FusedActivationFunction": 0, "KeepNumDims": True}
        return self._simple("FULLY_CONNECTED", step, "FullyConnectedOptions", **values)

    def write_add(self, step: Step) -> int:
        return self._simple("ADD", step, "AddOptions", FusedActivationFunction=0)

    def write_multiply(self, step: Step) -> int:
        return self._simple("MUL", step, "MulOptions", FusedActivationFunction=0)

    def write_gelu(self, step: Step) -> int:
        return self._simple("GELU", step, "GeluOptions", Approximate=False)

    def write_softmax(self, step: Step) -> int:
        return self._simple("SOFTMAX", step, "SoftmaxOptions", Beta=1.0)

    def write_layer_norm(self, step: Step) -> int:
        x, scale, offset = (self.of(each) for each in step.sources)
        shape = step.result.shape
        row = (*shape[:-1], 1)
        axis = self.constant(np.array([len(shape) - 1], np.int32))
        none = {"FusedActivationFunction": 0}
        mean = self.operator("MEAN", (x, axis), row, "ReducerOptions", KeepDims=True)
        squares = self.operator("SQUARED_DIFFERENCE", (x, mean), shape, "SquaredDifferenceOptions")
        variance = self.operator("MEAN", (squares, axis), row, "ReducerOptions", KeepDims=True)
        epsilon = self.constant(np.array([step.attributes["epsilon"]], np.float32))
        sum_ = self.operator("ADD", (variance, epsilon), row, "AddOptions", **none)
        factor = self.operator("RSQRT", (sum_,), row)
        centred = self.operator("SUB", (x, mean), shape, "SubOptions", **none)
        normal = self.operator("MUL", (centred, factor), shape, "MulOptions", **none)
        scaled = self.operator("MUL", (normal, scale), shape, "MulOptions", **none)
        return self.operator("ADD", (scaled, offset), shape, "AddOptions", **none)

    def write_matmul(self, step: Step) -> int:
        values = {"AdjX": False, "AdjY": step.attributes["transposes"]}
        return self._simple("BATCH_MATMUL", step, "BatchMatMulOptions", **values)

    def write_transpose(self, step: Step) -> int:
        axes = self.constant(np.array(step.attributes["axes"], np.int32))
        return self.operator(
            "TRANSPOSE", (self.of(step.sources[0]), axes), step.result.shape, "TransposeOptions"
        )

    def write_reshape(self, step: Step) -> int:
        return self._reshaped(self.of(step.sources[0]), step.result.shape)

    write_as_sequence = write_reshape

    def _reshaped(self, x: int, shape: Sequence[int], dtype: Any = np.float32) -> int:
        new = self.constant(np.array(shape, np.int32))
        return self.operator("RESHAPE", (x, new), shape, "ReshapeOptions", dtype, NewShape=list(shape))

    def write_concatenate(self, step: Step) -> int:
        values = {"Axis": step.attributes["axis"], "FusedActivationFunction": 0}
        return self._simple("CONCATENATION", step, "ConcatenationOptions", **values)

    def write_gather(self, step: Step) -> int:
        return self._simple("GATHER", step, "GatherOptions", Axis=0)

    def write_convolution(self, step: Step) -> int:
        height, width = step.attributes["stride"]
        return self._simple(
            "CONV_2D",
            step,
            "Conv2DOptions",
            Padding=_PADDINGS[step.attributes["padding"]],
            StrideH=height,
            StrideW=width,
            DilationHFactor=1,
            DilationWFactor=1,
            FusedActivationFunction=_RELU if step.attributes["has_relu"] else 0,
        )

    def write_maximum_pool(self, step: Step) -> int:
        height, width = step.attributes["window"]
        return self._simple(
            "MAX_POOL_2D",
            step,
            "Pool2DOptions",
            Padding=_PADDINGS["VALID"],
            StrideH=height,
            StrideW=width,
            FilterHeight=height,
            FilterWidth=width,
            FusedActivationFunction=0,
        )

    def write_gru(self, step: Step) -> int:
        """Writes a loop for each direction, like Keras; the batch has one sequence."""
        x, *weights = step.sources
        time, width = x.shape[1:]
        sequence = self._reshaped(self.of(x), (time, width))
        axis = self.constant(np.array([0], np.int32))
        results = []
        for direction in range(weights[0].shape[0]):
            parts = [each.data[direction] for each in weights if each.data is not None]
            turned = sequence
            if direction:
                turned = self.operator("REVERSE_V2", (sequence, axis), (time, width), "ReverseV2Options")
            states = self._loop(turned, time, parts)
            if direction:
                states = self.operator(
                    "REVERSE_V2", (states, axis), (time, parts[1].shape[1]), "ReverseV2Options"
                )
            results.append(states)
        both = results[0]
        if len(results) > 1:
            values = {"Axis": 1, "FusedActivationFunction": 0}
            both = self.operator(
                "CONCATENATION", results, (time, step.result.shape[2]), "ConcatenationOptions", **values
            )
        return self._reshaped(both, step.result.shape)

    def _loop(self, sequence: int, time: int, weights: Sequence[Any]) -> int:
        """Returns the states after each step of the time."""
        units, width = weights[1].shape[1], weights[0].shape[1]
        shapes = [
            ((), np.int32),
            ((time, units), np.float32),
            ((1, units), np.float32),
            ((time, width), np.float32),
        ]
        start = [self.constant(np.zeros(*each)) for each in shapes[:3]]
        graphs = [_Subgraph(self._model) for _ in range(2)]
        for graph in graphs:
            graph.graph.inputs = tuple(graph.tensor(*each) for each in shapes)
        condition, body = graphs
        limit = condition.constant(np.array(time, np.int32))
        turn = condition.graph.inputs[0]
        condition.graph.outputs = (condition.operator("LESS", (turn, limit), (), "LessOptions", bool),)
        body.write_turn(weights)
        results = [self.tensor(*each) for each in shapes]
        numbers = {"CondSubgraphIndex": condition._number, "BodySubgraphIndex": body._number}
        self.graph.operator("WHILE", (*start, sequence), results, "WhileOptions", **numbers)
        return results[1]

    def write_turn(self, weights: Sequence[Any]) -> None:
        """Writes the body of the loop of a GRU: one step of the time."""
        turn, states, state, sequence = self.graph.inputs
        units, width = weights[1].shape[1], weights[0].shape[1]
        none = {"FusedActivationFunction": 0}
        row = (1, units)

        def binary(kind: str, a: int, b: int) -> int:
            return self.operator(kind, (a, b), row, f"{kind.capitalize()}Options", **none)

        def gates(x: int, matrix: Any, bias: Any) -> list[int]:
            inputs = (x, self.constant(matrix), self.constant(bias))
            sums = self.operator("FULLY_CONNECTED", inputs, (1, 3 * units), "FullyConnectedOptions", **none)
            parts = [self.tensor(row) for _ in range(3)]
            axis = self.constant(np.array(1, np.int32))
            self.graph.operator("SPLIT", (axis, sums), parts, "SplitOptions", NumSplits=3)
            return parts

        place = self._reshaped(turn, (1,), np.int32)
        now = self.operator("GATHER", (sequence, place), (1, width), "GatherOptions", Axis=0)
        inner, outer, bias = weights
        update, reset, new = gates(now, inner, bias[: 3 * units])
        old_update, old_reset, old_new = gates(state, outer, bias[3 * units :])
        kept = self.operator("LOGISTIC", (binary("ADD", update, old_update),), row)
        opened = self.operator("LOGISTIC", (binary("ADD", reset, old_reset),), row)
        proposed = self.operator("TANH", (binary("ADD", new, binary("MUL", opened, old_new)),), row)
        following = binary("ADD", proposed, binary("MUL", kept, binary("SUB", state, proposed)))
        zero = self.constant(np.zeros(1, np.int32))
        values = {"Axis": 0, **none}
        corner = self.operator(
            "CONCATENATION", (place, zero), (2,), "ConcatenationOptions", np.int32, **values
        )
        shape = self.graph.tensors[states].shape
        written = self.operator("DYNAMIC_UPDATE_SLICE", (states, following, corner), shape)
        one = self.constant(np.array(1, np.int32))
        after = self.operator("ADD", (turn, one), (), "AddOptions", np.int32, **none)
        self.graph.outputs = (after, written, following, sequence)
