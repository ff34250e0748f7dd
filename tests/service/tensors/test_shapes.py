from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep

import neurald as nd
from neurald.hal.errors import BadData
from neurald.service.tensors.arrays import Slot, input_slots, random_inputs
from neurald.service.tensors.shapes import default_shape_remarks, parse_shapes

pytestmark = pytest.mark.quick

Kind = nd.OperandType


def slots(*dimensions: tuple[int, ...]) -> tuple[Slot, ...]:
    builder = nd.ModelBuilder()
    pairs = [
        [builder.add_operand(Kind.TENSOR_FLOAT32, shape, name=f"{name}{n}") for name in "xy"]
        for n, shape in enumerate(dimensions)
    ]
    for source, target in pairs:
        builder.add_operation(nd.OperationType.RELU, [source], [target])
    builder.identify_inputs_and_outputs([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    return input_slots(builder.finish())


def shapes_of(arrays: list[Any]) -> list[tuple[int, ...]]:
    return [array.shape for array in arrays]


def test_open_dimensions_are_one_unless_given() -> None:
    found = slots((0, 3), (2, 2), (0, 0))
    assert shapes_of(random_inputs(found)) == [(1, 3), (2, 2), (1, 1)]
    shapes = parse_shapes(["x0=5x3", "input_2=4x7"], found)
    assert shapes_of(random_inputs(found, shapes)) == [(5, 3), (2, 2), (4, 7)]
    np.testing.assert_array_equal(random_inputs(found, shapes)[0], random_inputs(found, shapes)[0])


def test_open_dimensions_are_reported() -> None:
    found = slots((0, 3), (2, 2), (0, 0))
    (remark,) = default_shape_remarks(found, parse_shapes(["x2=4x7"], found))
    assert "'x0' (float32 [?, 3])" in remark
    assert "--shape x0=SIZEx3 sets" in remark


@sweep(
    ("setting", "words"),
    [
        ("", "cannot be read"),
        ("x0", "cannot be read"),
        ("x0=", "cannot be read"),
        ("=3", "cannot be read"),
        ("x0=1x", "cannot be read"),
        ("x0=-1x3", "cannot be read"),
        ("x0=ax3", "cannot be read"),
        ("x0=" + "9" * 40 + "x3", "cannot be read"),
        ("y=1x3", "names no input"),
        ("x0=4", "has the shape"),
        ("x0=1x3x1", "has the shape"),
        ("x0=2x4", "has the shape"),
        ("x0=9999999999x3", "bytes"),
    ],
)
def test_shapes_that_are_refused(setting: str, words: str) -> None:
    with pytest.raises(BadData, match=words):
        parse_shapes([setting], slots((0, 3)))


def test_a_shape_given_twice_is_refused() -> None:
    with pytest.raises(BadData, match="already has a shape"):
        parse_shapes(["x0=1x3", "input_0=2x3"], slots((0, 3)))
