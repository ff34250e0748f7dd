"""The layout of packed weights."""

import numpy as np
from support.sweeps import sweep

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.common.packing import as_floats, channels_of, packed, packed_groups
from neurald.drivers.cpu.kernels.common.product import WeightOperand
from neurald.drivers.cpu.kernels.common.tile import Tile


def tile(lanes: int, vectors: int, channels: int) -> Tile:
    panels = -(-channels // (lanes * vectors))
    return Tile(lanes=lanes, vectors=vectors, positions=1, panels=panels, cycles=1.0)


@sweep("channels", [4, 5, 7, 8, 9, 15, 16, 17, 40])
def test_every_channel_is_in_a_panel_and_none_beyond(channels: int) -> None:
    for vectors in range(1, -(-channels // 4) + 1):
        found = channels_of(tile(4, vectors, channels), channels)
        assert set(found.reshape(-1).tolist()) == set(range(channels))
        lanes = found.reshape(-1, 4)
        assert (lanes == lanes[:, :1] + np.arange(4)).all()


@sweep("is_transposed", [False, True])
@sweep("kind", [Scalar.FLOAT32, Scalar.FLOAT16])
def test_panels_hold_the_weights_of_their_channels_term_by_term(kind: Scalar, is_transposed: bool) -> None:
    channels, terms = 11, 3
    array = np.random.default_rng(0).standard_normal((2, channels, terms)).astype(kind.dtype)
    stored = np.ascontiguousarray(array.transpose(0, 2, 1)) if is_transposed else array
    operand = WeightOperand(
        value=Value(stored.shape, kind, stored),
        sets=2,
        channel_step=1 if is_transposed else terms,
        term_step=channels if is_transposed else 1,
    )
    shape = tile(4, 2, channels)
    value = packed(operand, stored, shape, channels, terms)
    assert value.type is Scalar.FLOAT32
    assert value.constant is not None
    found = channels_of(shape, channels)
    for number in range(2):
        for panel in range(2):
            expected = array[number, found[panel]].T.astype(np.float32)
            np.testing.assert_array_equal(value.constant[number, panel], expected)


def test_groups_have_four_terms_of_a_channel_after_another() -> None:
    channels, terms = 11, 8
    random = np.random.default_rng(0)
    values = random.integers(-127, 127, (2, channels, terms), np.int8, endpoint=True)
    scales = random.random((2, channels, 1), np.float32)
    shape = tile(4, 2, channels)
    value = packed_groups(values, scales, shape, "weights")
    assert value.constant is not None
    assert value.shape == (2, 2, 4 * shape.width + terms * shape.width)
    found = channels_of(shape, channels)
    for number in range(2):
        for panel in range(2):
            stored, own = value.constant[number, panel], found[panel]
            np.testing.assert_array_equal(stored[: 4 * shape.width].view(np.float32), scales[number, own, 0])
            groups = stored[4 * shape.width :].reshape(terms // 4, shape.width, 4).astype(int) - 128
            np.testing.assert_array_equal(
                groups, values[number, own].reshape(-1, terms // 4, 4).swapaxes(0, 1)
            )


def test_constants_become_floats() -> None:
    half = Value((2,), Scalar.FLOAT16, np.array([1, 2], np.float16))
    assert as_floats(half).type is Scalar.FLOAT32
    unknown = Value((2,), Scalar.FLOAT16)
    assert as_floats(unknown) is unknown
