"""Adds arithmetic on values of any lengths."""

from collections.abc import Sequence
from typing import Any

from random_graphs.data_lengths.graph import DataGraph, Length, Tensor


def combined(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Combines two values of equal shapes, or that may be broadcast."""
    fitting = [each for each in graph.values if each.shape == source.shape or not each.rank]
    other = (
        graph.constant(graph.rng.randint(-9, 60))
        if graph.rng.random() < 0.4
        else (graph.rng.choice(fitting).index if fitting else source.index)
    )
    code = graph.rng.choice(("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"))
    options = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}.get(code)
    return [graph.bounded(graph.add(code, [source.index, other], source.shape, options))]


def selected(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Selects elements of two values."""
    fitting = [each for each in graph.values if each.shape == source.shape]
    if not fitting:
        return []
    condition = graph.condition(graph.rng.choice(fitting))
    other = graph.rng.choice(fitting)
    return [graph.add("SELECT_V2", [condition.index, source.index, other.index], source.shape)]


def turned(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Turns a value round, or sums it up along an axis."""
    if not source.rank:
        return []
    axis = graph.rng.randrange(source.rank)
    if graph.rng.random() < 0.5:
        return [graph.add("REVERSE_V2", [source.index, graph.constant([axis])], source.shape)]
    options: Any = {"Exclusive": graph.rng.random() < 0.5, "Reverse": graph.rng.random() < 0.5}
    inputs = [source.index, graph.constant(axis)]
    return [graph.bounded(graph.add("CUMSUM", inputs, source.shape, "CumsumOptions", **options))]


def reduced(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Subtracts a reduction from a value."""
    if not source.rank:
        return []
    axes = graph.rng.sample(range(source.rank), graph.rng.randint(1, source.rank))
    keeps = graph.rng.random() < 0.6
    shape = [
        1 if axis in axes else length for axis, length in enumerate(source.shape) if keeps or axis not in axes
    ]
    inputs = [source.index, graph.constant(axes)]
    total = graph.add("SUM", inputs, shape, "ReducerOptions", KeepDims=keeps)
    total = graph.bounded(total)
    if not keeps:
        return [total]
    difference = graph.add("SUB", [source.index, total.index], source.shape, "SubOptions")
    return [graph.bounded(difference), total]


def multiplied(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Multiplies rows with a constant matrix, or with each other."""
    if source.rank < 2 or isinstance(source.shape[-1], Length) or source.most > 2000:
        return []
    numbers = graph.cast(source, "FLOAT32")
    columns = graph.rng.choice((1, 3, 4, 8, 17))
    if graph.rng.random() < 0.6:
        inputs = [numbers.index, graph.constant(graph.matrix(columns, source.shape[-1]), "FLOAT32"), -1]
        product = graph.add(
            "FULLY_CONNECTED",
            inputs,
            (*source.shape[:-1], columns),
            "FullyConnectedOptions",
            kind="FLOAT32",
            KeepNumDims=True,
        )
    else:
        shape = (*source.shape[:-1], source.shape[-2])
        product = graph.add(
            "BATCH_MATMUL",
            [numbers.index] * 2,
            shape,
            "BatchMatMulOptions",
            kind="FLOAT32",
            AdjX=False,
            AdjY=True,
        )
    return [graph.bounded(graph.cast(product, "INT32"))]


def changed(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Computes a function of each element."""
    code, options = graph.rng.choice(
        (
            ("ABS", None),
            ("NEG", "NegOptions"),
            ("SIGN", None),
            ("FLOOR_DIV", None),
            ("SQUARED_DIFFERENCE", None),
        )
    )
    inputs = [source.index]
    if code in ("FLOOR_DIV", "SQUARED_DIFFERENCE"):
        inputs.append(graph.constant(graph.rng.randint(1, 9)))
    return [graph.bounded(graph.add(code, inputs, source.shape, options))]


def floating(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Computes with float32, in which small integers and halves are exact."""
    value = graph.cast(source, "FLOAT32")
    known = bool(source.rank) and not isinstance(source.shape[-1], Length)
    for _ in range(graph.rng.randint(1, 4)):
        code = graph.rng.choice(("ADD", "SUB", "MUL", "MAXIMUM", "DIV", "RELU", "RELU6", "FLOOR", "ABS"))
        inputs, options = [value.index], None
        values: dict[str, Any] = {}
        if code in ("ADD", "SUB", "MUL", "DIV"):
            options = f"{code.capitalize()}Options"
            values["FusedActivationFunction"] = graph.rng.choice((0, 0, 1, 3))
        if code in ("ADD", "SUB", "MUL", "MAXIMUM"):
            numbers = graph.matrix(int(source.shape[-1])) if known else graph.rng.randint(-3, 3)  # type: ignore[arg-type]
            inputs.append(graph.constant(numbers, "FLOAT32"))
        elif code == "DIV":
            inputs.append(graph.constant(2, "FLOAT32"))
        value = graph.add(code, inputs, source.shape, options, kind="FLOAT32", **values)
    floor = graph.add("FLOOR", [value.index], source.shape, kind="FLOAT32")
    return [graph.bounded(graph.cast(floor, "INT32"))]


def tested(graph: DataGraph, source: Tensor) -> Sequence[Tensor]:
    """Tests whether any or all elements along axes hold."""
    if not source.rank:
        return []
    condition = graph.condition(source)
    if graph.rng.random() < 0.4:
        other = graph.condition(source)
        code = graph.rng.choice(("AND", "OR"))
        inputs = [condition.index, other.index]
        condition = graph.add(f"LOGICAL_{code}", inputs, source.shape, kind="BOOL")
    axes = graph.rng.sample(range(source.rank), graph.rng.randint(1, source.rank))
    shape = [length for axis, length in enumerate(source.shape) if axis not in axes]
    code = graph.rng.choice(("REDUCE_ANY", "REDUCE_ALL"))
    inputs = [condition.index, graph.constant(axes)]
    found = graph.add(code, inputs, shape, "ReducerOptions", kind="BOOL", KeepDims=False)
    return [graph.cast(found, "INT32")]
