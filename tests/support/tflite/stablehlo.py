"""Loads models of StableHLO operators with a body."""

from pathlib import Path
from typing import Any

import numpy as np
from support.tflite.builder import TfliteModel

from neurald.hal.model.model import Model
from neurald.runtime.tflite import load_tflite


def long(*values: int) -> Any:
    """Returns a list of int64, the type of lists in the options of StableHLO operators."""
    return np.array(values, np.int64)


#: Options of STABLEHLO_REDUCE_WINDOW with windows of two rows, whose body is subgraph 1.
WINDOW = {
    "WindowDimensions": long(2, 1),
    "WindowStrides": long(1, 1),
    "WindowDilations": long(1, 1),
    "BodySubgraphIndex": 1,
}

#: Operator in a body → what the body computes of numbers.
NUMBER_BODIES: dict[str, np.ufunc] = {
    "STABLEHLO_ADD": np.add,
    "ADD": np.add,
    "STABLEHLO_MULTIPLY": np.multiply,
    "MUL": np.multiply,
    "STABLEHLO_MINIMUM": np.minimum,
    "MINIMUM": np.minimum,
    "STABLEHLO_MAXIMUM": np.maximum,
    "MAXIMUM": np.maximum,
}
#: Operator in a body → what the body computes of booleans.
BOOLEAN_BODIES = {
    "STABLEHLO_AND": np.logical_and,
    "LOGICAL_AND": np.logical_and,
    "STABLEHLO_OR": np.logical_or,
    "LOGICAL_OR": np.logical_or,
}


def load_with_body(
    folder: Path,
    code: str,
    shapes: list[tuple[int, ...]],
    kinds: list[str],
    body: list[str],
    options: str,
    *,
    output: str = "FLOAT32",
    inner_options: tuple[str | None, dict[str, Any]] = (None, {}),
    **values: Any,
) -> Model:
    """Loads a model of an operator with a body: a subgraph of two scalars with these operators."""
    file = TfliteModel()
    graph, inner = file.subgraph(), file.subgraph()
    graph.inputs = [
        graph.tensor(shape, kind, has_rank=True) for shape, kind in zip(shapes, kinds, strict=True)
    ]
    graph.outputs = (graph.tensor((1,) * len(shapes[0]), output),)
    graph.operator(code, graph.inputs, graph.outputs, options, **values)
    inner.inputs = [inner.tensor((), has_rank=True) for _ in range(2)]
    last = inner.inputs[1]
    for name in body:
        result = inner.tensor((), has_rank=True)
        inner.operator(name, (inner.inputs[0], last), (result,), inner_options[0], **inner_options[1])
        last = result
    inner.outputs = (last,)
    return load_tflite(file.write(folder / "body.tflite"))
