"""Nests of loops have few loops, and visit every element once."""

import itertools
import math

import numpy as np
import pytest

from neurald.drivers.cpu.first_tier.binding.nest import nest, repeated_strides, strides_of
from neurald.drivers.cpu.first_tier.bound_call import NotBound
from neurald.drivers.cpu.first_tier.layout import BLOCK, NEST


def visited(words: tuple[int, ...], operands: int) -> list[list[int]]:
    """Returns the offsets of each operand, in order."""
    count, lengths = words[0], words[1 : 1 + NEST]
    found: list[list[int]] = [[] for _ in range(operands)]
    for number, at in enumerate(itertools.product(*map(range, lengths))):
        if number < count:
            for operand in range(operands):
                strides = words[1 + NEST * (1 + operand) : 1 + NEST * (2 + operand)]
                found[operand].append(sum(map(math.prod, zip(at, strides, strict=True))))
    return found


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ((), ()),
        ((1, 1), (1,)),
        ((2, 3, 4), (3, 1)),
        ((2, 3, 4), (2, 3, 4)),
        ((2, 1, 3, 1, 4, 5, 2), (1, 1, 3, 1, 1, 5, 1)),
        ((BLOCK + 5,), (BLOCK + 5,)),
        ((70, 130), (130,)),
        ((70, 130), (70, 1)),
    ],
)
def test_offsets_are_those_of_repeated_arrays(shape: tuple[int, ...], given: tuple[int, ...]) -> None:
    words, work_items = nest(shape, [strides_of(shape), repeated_strides(given, shape)])
    assert words[0] == math.prod(shape)
    assert work_items == math.prod(words[1 : NEST - 1])
    own, other = visited(words, 2)
    assert own == list(range(math.prod(shape)))
    expected = np.broadcast_to(np.arange(math.prod(given)).reshape(given), shape)
    assert other == expected.reshape(-1).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_movements_visit_every_element_in_some_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(
        rng.choice([1, 2, 3, 5, 17, 150], int(rng.integers(1, 5)), p=[0.1, 0.3, 0.3, 0.1, 0.1, 0.1])
    )
    order = rng.permutation(len(shape))
    given = strides_of(tuple(shape[axis] for axis in order))
    strides = [given[list(order).index(axis)] for axis in range(len(shape))]
    words, work_items = nest(shape, [strides_of(shape), strides], any_order=True)
    assert work_items == math.prod(words[1 : NEST - 1])
    own, other = visited(words, 2)
    numbers = np.arange(math.prod(shape)).reshape([shape[axis] for axis in order])
    expected = numbers.transpose(np.argsort(order)).reshape(-1)
    assert sorted(own) == list(range(math.prod(shape)))
    assert other == expected[own].tolist()


def test_short_loops_have_another_one_around_them() -> None:
    # Blocks of 3 × 3 pixels of one channel.
    shape, strides = (149, 149, 3, 3), (3 * 447, 3, 447, 1)
    words, work_items = nest(shape, [strides_of(shape), strides], any_order=True)
    assert words[NEST - 1 : NEST + 1] == (149, 3)
    assert work_items == 149 * 3
    # They would come back to what is far away.
    words, _ = nest((100_000, 3, 3), [(9, 3, 1), (9, 1, 3)], any_order=True)
    assert words[NEST - 1] == 3


def test_loops_that_are_one_are_merged() -> None:
    words, work_items = nest((2, 3, 4), [strides_of((2, 3, 4))])
    assert words[1 : 1 + NEST] == (1, 1, 1, 1, 1, 24)
    assert work_items == 1


def test_too_many_loops_are_refused() -> None:
    shape = (2,) * (NEST + 1)
    with pytest.raises(NotBound, match="too many dimensions"):
        nest(shape, [repeated_strides((2, 1) * 3 + (2,), shape)])
