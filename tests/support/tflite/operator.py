"""Loads `.tflite` files of one operator, and inspects the resulting model."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from support.tflite.builder import TfliteModel

from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array
from neurald.hal.validation.model_rules import validate_model
from neurald.runtime.tflite import load_tflite

#: Numbers of fused activations and paddings in the schema.
NONE, RELU, RELU_N1_TO_1, RELU6, TANH, SIGN_BIT = range(6)
SAME, VALID = 0, 1

ACTIVATIONS: dict[int, Callable[[Array], Array]] = {
    NONE: lambda x: x,
    RELU: lambda x: np.maximum(x, 0),
    RELU_N1_TO_1: lambda x: np.clip(x, -1, 1),
    RELU6: lambda x: np.clip(x, 0, 6),
    TANH: np.tanh,
}

#: `load_operator` without the folder.
Load = Callable[..., Model]


def load_operator(
    folder: Path,
    code: str,
    inputs: Sequence[dict[str, Any] | None],
    output: dict[str, Any],
    options: str | None = None,
    **values: Any,
) -> Model:
    """Loads a model of one operator.

    Args:
        folder: for the file.
        code: name of the operator.
        inputs: from `shaped` (an input of the model) or `fixed` (a constant); None is omitted.
        output: from `shaped`.
        options: name of the kind of options.
        values: fields of the options.
    """
    file = TfliteModel()
    graph = file.subgraph()
    indexes = [-1 if fields is None else graph.tensor(**fields) for fields in inputs]
    result = graph.tensor(**output)
    graph.operator(code, indexes, (result,), options, **values)
    graph.inputs = [
        index
        for index, fields in zip(indexes, inputs, strict=True)
        if fields is not None and "data" not in fields
    ]
    graph.outputs = (result,)
    model = load_tflite(file.write(folder / "model.tflite"))
    # Loading checks the rules of operations when it adds them, not for the whole model.
    validate_model(model)
    return model


def shaped(*shape: int, **fields: Any) -> dict[str, Any]:
    """Describes an input or output of the model."""
    return {"shape": shape, **fields}


def fixed(value: Any, type_: str = "FLOAT32", **fields: Any) -> dict[str, Any]:
    """Describes a constant."""
    return {"shape": np.shape(value), "data": value, "type_": type_, **fields}


def types(model: Model) -> list[OperationType]:
    """Returns the types of all operations."""
    return [operation.type for operation in model.main.operations]


def inputs_of(model: Model, position: int = 0) -> list[Operand]:
    """Returns the operands that an operation reads."""
    return [model.main.operands[index] for index in model.main.operations[position].inputs]


def numbers(model: Model, position: int = 0, start: int = 1) -> list[Any]:
    """Returns the values of an operation's constant inputs from `start` on."""
    values = [model.constant(operand) for operand in inputs_of(model, position)[start:]]
    return [value.tolist() for value in values if value is not None]


def random(*shape: int, seed: int = 0) -> Array:
    """Returns random numbers on both sides of the limits of all activations."""
    return np.random.default_rng(seed).uniform(-4, 9, shape).astype(np.float32)
