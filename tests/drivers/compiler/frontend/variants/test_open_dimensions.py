"""Unspecified dimensions are assumed to be short, or opened, where they are equal as one."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from support.opencl.models import FLOAT, Models
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.compiler.frontend.variants import open_dimensions
from neurald.drivers.compiler.frontend.variants.open_dimensions import (
    is_specified,
    open_shapes,
    usual_examples,
    usual_shapes,
    with_assumed_shapes,
    with_shorter,
)
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.model.model import Model
from neurald.runtime.tflite import load_tflite

pytestmark = pytest.mark.quick

_Op = nd.OperationType


def open_model(rows: int = 0) -> Model:
    models = Models()
    source = models.input(FLOAT, (rows, 3))
    middle = models.add(_Op.ABS, [source], shape=(rows, 3))
    total = models.add(_Op.REDUCE_SUM, [middle, models.constant([0]), models.number(False)], shape=(0,))
    return models.finish(total)


def test_unspecified_dimensions_are_assumed_to_be_1() -> None:
    assert is_specified(open_model(2))
    model = open_model()
    assert not is_specified(model)
    found = with_assumed_shapes(model)
    assert found.main.operands[model.main.inputs[0]].dimensions == (1, 3)
    assert found.main.operands[model.main.outputs[0]].dimensions == (3,)
    assert is_specified(found)


def windowed_model(size: int) -> Model:
    """Returns a model of the largest elements in windows of this size, without padding."""
    models = Models()
    source = models.input(FLOAT, (1, 0, 0, 3))
    numbers = [models.number(number) for number in (2, size, size, size, size, 0)]
    return models.finish(models.add(_Op.MAX_POOL_2D, [source, *numbers], shape=(1, 0, 0, 3)))


@pytest.mark.parametrize(("size", "assumed"), [(1, 1), (2, 8), (8, 8), (9, 64), (200, 256)])
def test_lengths_suffice_for_windows(size: int, assumed: int) -> None:
    model = windowed_model(size)
    found = with_assumed_shapes(model)
    assert found.main.operands[model.main.inputs[0]].dimensions == (1, assumed, assumed, 3)
    assert found.main.operands[model.main.outputs[0]].dimensions == (1, *2 * (assumed // size,), 3)


def test_empty_constants_need_no_other_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignores constants such as the shape of a scalar."""
    file = TfliteModel()
    graph = file.subgraph()
    source = graph.tensor((1, 1, 4), shape_signature=(1, -1, 4))
    number, shape = graph.tensor((1,)), graph.tensor((0,), "INT32", data=np.zeros(0, np.int32))
    scalar, product = graph.tensor((), has_rank=True), graph.tensor((1, 1, 4), shape_signature=(1, -1, 4))
    graph.operator("RESHAPE", (number, shape), (scalar,), "ReshapeOptions")
    graph.operator("MUL", (source, scalar), (product,), "MulOptions")
    graph.inputs, graph.outputs = (source, number), (product,)
    model = load_tflite(file.write(tmp_path / "model.tflite"))
    assert any(each.lifetime.is_constant and each.dimensions == (0,) for each in model.main.operands)
    lengths: list[int] = []
    inferred = open_dimensions._inferred

    def counted(model: Model, shapes: Mapping[int, Shape]) -> dict[int, Shape]:
        lengths.extend(shape[1] for shape in shapes.values())
        return inferred(model, shapes)

    monkeypatch.setattr(open_dimensions, "_inferred", counted)
    assert is_specified(with_assumed_shapes(model))
    assert lengths == [1]


def test_lengths_suffice_for_slices() -> None:
    """A step may begin behind the operation that computes a shape."""
    models = Models()
    source = models.input(FLOAT, (0,))
    begin, end, strides = (models.constant([number]) for number in (2, 3, 1))
    masks = [models.number(number) for number in (0, 0, 1)]
    model = models.finish(models.add(_Op.STRIDED_SLICE, [source, begin, end, strides, *masks], shape=()))
    found = with_assumed_shapes(model)
    assert found.main.operands[model.main.inputs[0]].dimensions == (8,)


def test_models_that_allow_no_assumed_length_stay_as_they_are() -> None:
    models = Models()
    source = models.input(FLOAT, (0, 2))
    model = models.finish(models.add(_Op.RESHAPE, [source, models.constant([7, 3])], shape=(7, 3)))
    assert with_assumed_shapes(model) is model


def test_open_shapes_share_a_symbol_where_lengths_are_equal() -> None:
    builder = nd.ModelBuilder()
    inputs = [builder.add_operand(FLOAT, dimensions) for dimensions in ((0, 0), (0, 4), (0, 0))]
    outputs = [builder.add_operand(FLOAT, dimensions) for dimensions in ((0, 0), (0, 4), (0, 0))]
    for source, result in zip(inputs, outputs, strict=True):
        builder.add_operation(_Op.ABS, [source], [result])
    builder.identify_inputs_and_outputs(inputs, outputs)
    model = builder.finish()
    first, second, third = model.main.inputs
    shapes: dict[int, Shape] = {first: (5, 6), second: (5, 4), third: (7, 1)}
    scope, opened = open_shapes(model, shapes)
    assert scope.hints == (5, 6, 7)
    five, six, seven = scope.symbols
    assert opened == {first: (five, six), second: (five, 4), third: (seven, 1)}
    usual = usual_shapes(model, shapes)
    assert usual[first][0] == usual[second][0] != usual[third][0]
    assert usual[third][1] == 1


def _examples(*given: tuple[int, int]) -> list[list[tuple[int, ...]]]:
    builder = nd.ModelBuilder()
    inputs, outputs = ([builder.add_operand(FLOAT, (0, 0)) for _ in given] for _ in range(2))
    for source, result in zip(inputs, outputs, strict=True):
        builder.add_operation(_Op.ABS, [source], [result])
    builder.identify_inputs_and_outputs(inputs, outputs)
    model = builder.finish()
    shapes: dict[int, Shape] = dict(zip(model.main.inputs, given, strict=True))
    return [list(each.values()) for each in usual_examples(model, shapes)]


def test_usual_examples_keep_what_lengths_have_in_common() -> None:
    """First nothing, then that they are equal, or multiples of a number, or both."""
    assert _examples((5, 6)) == [[(67, 71)]]
    assert _examples((7, 7), (7, 1))[:2] == [[(67, 71), (67, 1)], [(67, 67), (67, 1)]]
    assert _examples((8, 12)) == [[(67, 71)], [(68, 76)]]
    assert _examples((6, 6)) == [[(67, 71)], [(67, 67)], [(74, 82)], [(74, 74)], [(66, 78)], [(66, 66)]]
    assert _examples((36, 24)) == [[(67, 71)], [(68, 76)], [(132, 156)]]
    assert _examples((1, 1)) == [[(1, 1)]]


def test_shorter_examples() -> None:
    """Lengths that are equal, or known, stay so."""
    builder = nd.ModelBuilder()
    inputs = [builder.add_operand(FLOAT, dimensions) for dimensions in ((0, 4), (0, 0))]
    outputs = [builder.add_operand(FLOAT, dimensions) for dimensions in ((0, 4), (0, 0))]
    for source, result in zip(inputs, outputs, strict=True):
        builder.add_operation(_Op.ABS, [source], [result])
    builder.identify_inputs_and_outputs(inputs, outputs)
    model = builder.finish()
    first, second = model.main.inputs
    shapes: dict[int, Shape] = {first: (67, 4), second: (67, 71)}
    assert list(with_shorter(model, shapes)) == [
        shapes,
        {first: (29, 4), second: (29, 31)},
        {first: (11, 4), second: (11, 13)},
    ]
    short: dict[int, Shape] = {first: (20, 4), second: (20, 71)}
    assert list(with_shorter(model, short)) == [short, {first: (11, 4), second: (11, 13)}]
