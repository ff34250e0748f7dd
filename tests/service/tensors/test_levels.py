import numpy as np
import pytest

from neurald.service.tensors.levels import find_levels

pytestmark = pytest.mark.quick

SIZE = (64, 96)


def test_heads_of_the_same_grid_belong_together() -> None:
    shapes = [(1, 4, 6, 5), (1, 8, 12, 5), (1, 4, 6, 7), (1, 8, 12, 7)]
    levels = find_levels([np.zeros(shape, np.float32) for shape in shapes], SIZE)
    assert [level.stride for level in levels] == [8, 16]
    assert [[head.shape for head in level.heads] for level in levels] == [
        [(96, 5), (96, 7)],
        [(24, 5), (24, 7)],
    ]


def test_numbers_of_a_cell_are_together_in_all_orders_of_dimensions() -> None:
    """A number names row, column, anchor and position."""
    row, column, anchor, position = np.indices((8, 12, 3, 7))
    value = (1000 * row + 50 * column + 10 * anchor + position).astype(np.float32)
    coarse = value[:4, :6]
    for order in ((0, 1, 2, 3), (2, 0, 1, 3), (2, 3, 0, 1)):
        levels = find_levels([each.transpose(order)[None] for each in (coarse, value)], SIZE)
        np.testing.assert_array_equal(levels[0].heads[0], value.reshape(96, 21))
        np.testing.assert_array_equal(levels[1].heads[0], coarse.reshape(24, 21))
    flat = [each.reshape(*each.shape[:2], 21).transpose(2, 0, 1)[None] for each in (value, coarse)]
    np.testing.assert_array_equal(find_levels(flat, SIZE)[0].heads[0], value.reshape(96, 21))


def test_other_outputs_are_no_heads() -> None:
    for shapes in (
        [(1, 8, 12, 5)],
        [(1, 8, 12, 5), (1, 4, 6, 6)],
        [(1, 8, 12, 5), (1, 7, 7, 5)],
        [(1, 8, 12, 5), (1, 4, 6, 5), (1, 10)],
        [(2, 8, 12, 5), (2, 4, 6, 5)],
        [(1, 8, 12, 5)] * 4 + [(1, 4, 6, 5)] * 4,
    ):
        assert find_levels([np.zeros(shape, np.float32) for shape in shapes], SIZE) == []
