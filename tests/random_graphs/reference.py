"""Evaluates a model with the references of its operations, with or without noise from rounding."""

import time
from collections.abc import Mapping, Sequence

import numpy as np

from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import Lifetime
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.validation.shape_inference import bind_operations, merge

#: Relative errors of one operation, by the size of its float in bytes.
_ERRORS = {2: 2.0**-10, 4: 2.0**-21, 8: 2.0**-50}
#: Operations that move, select or convert numbers without rounding on any device.
_EXACT_NAMES = """
    ABS ARGMAX ARGMIN BATCH_TO_SPACE_ND CAST CHANNEL_SHUFFLE CONCATENATION DENSIFY DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP EQUAL
    EXPAND_DIMS FILL FLOOR GATHER GREATER GREATER_EQUAL HASHTABLE_LOOKUP IF LESS LESS_EQUAL LOGICAL_AND LOGICAL_NOT LOGICAL_OR
    MAXIMUM MAX_POOL_2D MINIMUM MIRROR_PAD NEG NOT_EQUAL PACK PAD PAD_V2 QUANTIZE RANK REDUCE_MAX REDUCE_MIN RELU RELU1 RELU6
    RESHAPE REVERSE SELECT SLICE SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SQUEEZE STRIDED_SLICE TILE TOPK_V2 TRANSPOSE WHILE
"""
_EXACT = frozenset(_EXACT_NAMES.split())
#: Operations that round once, so that noise on their results suffices.
_ROUNDED_ONCE = frozenset(("ADD", "SUB", "MUL", "DIV", "SQRT"))
#: Operations on quantised values that compute with floats and round at the end, so that results may
#: be off by one.
_FLOATS_INSIDE = frozenset(("ROI_ALIGN",))
#: Time limit of a loop; those of random graphs have few iterations.
_LOOP_S = 20.0


class Noise:
    """Changes floats randomly by the relative rounding error of an operation.

    It also varies what devices may choose: the signs of NaNs and zeros, and the order of products.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def steps(self, array: Array) -> Array:
        """Returns quantised elements, each of which may be off by one."""
        limits = np.iinfo(array.dtype.name)
        changed = array.astype(np.int64) + self._generator.integers(-1, 2, array.shape)
        return np.asarray(np.clip(changed, limits.min, limits.max).astype(array.dtype))

    def on(self, array: Array) -> Array:
        """Adds noise to an array of floats; returns anything else unchanged."""
        if array.dtype.kind not in "fc" or not array.ndim:
            return array
        size = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
        parts = self._generator.uniform(-1, 1, array.shape) * _ERRORS[size]
        wide = np.complex128 if array.dtype.kind == "c" else np.float64
        noisy = (array.astype(wide) * (1 + parts)).astype(array.dtype)
        # The sign of a NaN is undefined, as is that of the zero that an activation makes of -0.0;
        # hashes of bytes depend on it.
        flipped = (np.isnan(noisy) | (noisy == 0)) & (self._generator.random(array.shape) < 0.5)
        return np.asarray(np.where(flipped, -noisy, noisy))

    def in_parts(self, factors: Array, axes: Array) -> Array:
        """Returns factors with the same product along some axes.

        Those of two random parts are multiplied in FLOAT32 first.

        Partial products overflow and underflow depending on the device's order of multiplication.
        """
        reduced = tuple(int(axis) for axis in axes.reshape(-1))
        is_first = np.asarray(self._generator.random(factors.shape) < 0.5)
        if self._generator.random() < 0.5:
            end = self._generator.integers(factors.size + 1)
            is_first = np.asarray(np.arange(factors.size).reshape(factors.shape) < end)
        parts = [
            np.prod(np.where(mask, factors, 1), axis=reduced, dtype=np.float32, keepdims=True)
            for mask in (is_first, ~is_first)
        ]
        found = np.ones(factors.shape, np.float32)
        found[tuple(slice(length) for length in parts[0].shape)] = parts[0] * parts[1]
        return found


class Evaluation:
    """Runs the graphs of a model; implements `GraphRunner`."""

    def __init__(self, model: Model, noise: Noise | None = None) -> None:
        self._model = model
        self._noise = noise

    def run(self, graph: int, inputs: Sequence[Array]) -> list[Array]:
        """See `GraphRunner.run`."""
        subgraph = self._model.referenced[graph]
        values = self.values(subgraph, inputs)
        return [values[index] for index in subgraph.outputs]

    def loop_deadline_s(self) -> float:
        """See `GraphRunner.loop_deadline_s`."""
        return time.monotonic() + _LOOP_S

    def values(self, graph: Subgraph, inputs: Sequence[Array]) -> dict[int, Array]:
        """Returns the values of all operands that are not scalars, by index."""
        values = dict(zip(graph.inputs, inputs, strict=True))
        for index, operand in enumerate(graph.operands):
            if operand.lifetime.is_constant and operand.lifetime is not Lifetime.NO_VALUE:
                array = self._model.constant(operand)
                if array is not None:
                    values[index] = array
        bindings = bind_operations(graph)
        for operation, binding in zip(graph.operations, bindings, strict=True):
            name = operation.type.name.removeprefix("TFLITE_")
            arguments = (
                values if name in _EXACT or name in _ROUNDED_ONCE else self._noisy(values, operation.inputs)
            )
            if (
                self._noise is not None
                and name == "REDUCE_PROD"
                and values[operation.inputs[0]].dtype.kind == "f"
            ):
                source, axes = operation.inputs[:2]
                arguments = {**values, source: self._noise.in_parts(arguments[source], values[axes])}
            call = call_of(binding, graph.operands, arguments, self._model.referenced, self)
            definition = DEFINITIONS[operation.type]
            if operation.type not in (OperationType.IF, OperationType.WHILE):
                definition.output_shapes(call)  # shapes may fit in one iteration of a loop only
            with np.errstate(all="ignore"):
                results = definition.reference(call)
            for index, result in zip(operation.outputs, results, strict=True):
                values[index] = np.asarray(result)
                # In a loop a shape may depend on the iteration: no device runs such a graph.
                merge(graph.operands[index].dimensions, values[index].shape, f"operand {index}")
            if name not in _EXACT:
                values.update(self._noisy(values, operation.outputs))
            if self._noise is not None and name in _FLOATS_INSIDE:
                for index in operation.outputs:
                    if graph.operands[index].type in QUANTIZED:
                        values[index] = self._noise.steps(values[index])
        return values

    def _noisy(self, values: Mapping[int, Array], indexes: Sequence[int]) -> Mapping[int, Array]:
        """Returns the values with these indices, with noise."""
        noise = self._noise
        if noise is None:
            return values
        return {index: noise.on(values[index]) for index in indexes if index in values}

    def outputs(self, inputs: Sequence[Array]) -> list[Array]:
        """Returns the model's outputs."""
        values = self.values(self._model.main, inputs)
        return [values[index] for index in self._model.outputs]


def call_of(
    binding: object,
    operands: Sequence[Operand],
    values: Mapping[int, Array],
    referenced: Sequence[Subgraph],
    runner: Evaluation,
) -> Call:
    """Creates a call whose values are all known."""

    def shape_of(index: int) -> tuple[int, ...] | None:
        value = values.get(index)
        return None if value is None else value.shape

    return Call(binding, operands, shape_of, values.get, referenced=referenced, runner=runner)  # type: ignore[arg-type]
