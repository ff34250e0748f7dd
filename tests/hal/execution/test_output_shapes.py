"""Shapes of outputs that a prepared model may know without an execution."""

from collections.abc import Sequence
from typing import Any

from neurald.hal.execution.output_shapes import inferred_output_shapes


class Doubling:
    """Knows its output's shape if it knows that of its input, which it doubles."""

    def output_shapes(self, shapes: Sequence[tuple[int, ...] | None]) -> Sequence[tuple[int, ...]] | None:
        (shape,) = shapes
        return None if shape is None else [(2 * shape[0], *shape[1:])]


def test_a_prepared_model_that_knows_its_shapes_is_asked() -> None:
    model: Any = Doubling()
    assert inferred_output_shapes(model, [(2, 3)]) == [(4, 3)]
    assert inferred_output_shapes(model, [None]) is None


def test_others_know_none() -> None:
    other: Any = object()
    assert inferred_output_shapes(other, [(2, 3)]) is None
    assert inferred_output_shapes(None, [(2, 3)]) is None
