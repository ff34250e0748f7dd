"""Weights in fewer bytes are exactly the given ones."""

import numpy as np
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.cpu.kernels.common.narrow_weights import NarrowWeights, narrowed


def restored(narrow: NarrowWeights) -> Array:
    values = narrow.values.astype(np.float32)
    return values if narrow.scales is None else values * narrow.scales


def same_bits(one: Array, other: Array) -> bool:
    return np.array_equal(one.view(np.uint32), other.view(np.uint32))


@sweep("per_channel", [False, True])
@sweep("largest", [1, 7, 127])
def test_integers_with_scales_are_found(largest: int, *, per_channel: bool) -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        values = random.integers(-largest, largest, (2, 9, 70), np.int8, endpoint=True)
        values[..., 0] = largest
        if per_channel:
            values[0, 3] = 0
        shape = (2, 9, 1) if per_channel else (1, 1, 1)
        scales = (random.uniform(0.1, 1, shape) * 10.0 ** random.integers(-8, 3)).astype(np.float32)
        weights = (values.astype(np.float32) * scales).astype(np.float32)
        found = narrowed(weights, with_half=False)
        assert found is not None
        assert found.values.dtype == np.int8
        assert same_bits(restored(found), weights)


def test_halves_are_found_if_they_are_possible() -> None:
    weights = np.random.default_rng(0).standard_normal((1, 5, 33)).astype(np.float16).astype(np.float32)
    weights[0, 0, :4] = (-0.0, np.inf, -np.inf, 2.0**-24)
    found = narrowed(weights, with_half=True)
    assert found is not None
    assert found.scales is None
    assert same_bits(restored(found), weights)
    assert narrowed(weights, with_half=False) is None


@sweep("place", [(0, 0, 0), (0, 6, 0), (0, 0, 90), (0, 6, 99)])
@sweep("value", [1.0000001, np.nan, np.inf, -0.0, 1e-42])
def test_a_single_other_weight_is_noticed(value: float, place: tuple[int, int, int]) -> None:
    values = np.random.default_rng(1).integers(-127, 127, (1, 7, 100), np.int8, endpoint=True)
    values[..., 1] = 127
    weights = values.astype(np.float32) * np.float32(0.3)
    assert narrowed(weights, with_half=False) is not None
    weights[place] = value
    assert narrowed(weights, with_half=False) is None


def test_ordinary_weights_stay() -> None:
    weights = np.random.default_rng(2).standard_normal((1, 8, 64)).astype(np.float32)
    assert narrowed(weights, with_half=True) is None
    assert narrowed(weights[:, :, :0], with_half=True) is None
