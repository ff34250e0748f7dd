import itertools
from typing import Any

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.operator import Load, shaped
from support.tflite.results import FIRST_VALUES, INT16_FIRST, INT16_SECOND, SECOND_VALUES, run_on_cpu

from neurald.runtime.compilation_builder import CompilationBuilder


def test_logic(load: Load) -> None:
    truth = shaped(2, type_="BOOL")
    x, y = [True, True], [True, False]
    assert run_references(load("LOGICAL_AND", (truth, truth), truth), x, y)[0].tolist() == [True, False]
    assert run_references(load("LOGICAL_OR", (truth, truth), truth), x, y)[0].tolist() == [True, True]
    assert run_references(load("LOGICAL_NOT", (truth,), truth), y)[0].tolist() == [False, True]


@pytest.mark.parametrize("code", ["MAXIMUM", "MINIMUM"])
@pytest.mark.parametrize("type_", ["BOOL", "COMPLEX64"])
@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_extremes_of_nothing(load: Load, code: str, type_: str, shape: tuple[int, ...]) -> None:
    operand = shaped(*shape, type_=type_, shape_signature=shape)
    kind = np.dtype(type_.lower())
    nothing: Any = np.zeros(shape, kind)
    (result,) = CompilationBuilder(load(code, (operand, operand), operand)).finish().run(nothing, nothing)
    assert result.dtype == kind
    assert result.shape == shape


def test_select(load: Load) -> None:
    selected = load("SELECT", (shaped(type_="BOOL"), shaped(2), shaped(2)), shaped(2))
    assert run_references(selected, False, [1, 2], [3, 4])[0].tolist() == [3, 4]
    selected = load("SELECT_V2", (shaped(2, type_="BOOL"), shaped(3, 1), shaped()), shaped(3, 2))
    assert run_references(selected, [True, False], [[1], [2], [3]], 0)[0].tolist() == [[1, 0], [2, 0], [3, 0]]


@sweep("code", ["SELECT", "SELECT_V2"])
@sweep("shapes", list(itertools.product(((), (1,), (1, 1)), repeat=4)))
def test_a_selected_element_has_the_shape_in_the_file(
    load: Load, code: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    condition, first, second, result = (shaped(*shape) for shape in shapes)
    selected = load(code, ({**condition, "type_": "BOOL"}, first, second), result)
    found = run_references(selected, *(np.full(s, n) for s, n in zip(shapes, (True, 3, 4), strict=False)))[0]
    assert found == 3
    assert found.shape == shapes[3]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("EQUAL", [False] * 6),
        ("NOT_EQUAL", [True] * 6),
        ("LESS", [True, True, True, True, False, False]),
        ("GREATER_EQUAL", [False, False, False, False, True, True]),
    ],
)
def test_int16_comparisons(load: Load, code: str, expected: list[bool]) -> None:
    inputs = [shaped(2, 3, **INT16_FIRST), shaped(2, 3, **INT16_SECOND)]
    assert run_on_cpu(load(code, inputs, shaped(2, 3, type_="BOOL")), FIRST_VALUES, SECOND_VALUES) == expected
