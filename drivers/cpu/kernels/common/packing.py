"""Packing of constant weights to panels, in the order in which tiles read them."""

import numpy as np

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.common.product import WeightOperand
from neurald.drivers.cpu.kernels.common.tile import Tile


def channels_of(tile: Tile, channels: int) -> np.ndarray:
    """Returns the channel of each lane: (panels, vectors × lanes)."""
    starts = np.array([tile.start(panel, channels) for panel in range(tile.panels)])
    inner = np.array(tile.offsets(channels))[:, None] + np.arange(tile.lanes)
    return np.asarray(starts[:, None] + inner.reshape(-1))


def packed(operand: WeightOperand, constant: np.ndarray, tile: Tile, channels: int, terms: int) -> Value:
    """Packs a constant operand to FLOAT32 panels: (sets, panels, terms, vectors × lanes)."""
    size = constant.itemsize
    view = np.lib.stride_tricks.as_strided(
        np.ascontiguousarray(constant),
        (operand.sets, channels, terms),
        (channels * terms * size, operand.channel_step * size, operand.term_step * size),
    )
    panels = view[:, channels_of(tile, channels)].transpose(0, 1, 3, 2)
    array = np.ascontiguousarray(panels, dtype=np.float32)
    return Value(array.shape, Scalar.FLOAT32, array, operand.value.name)


def as_floats(value: Value) -> Value:
    """Converts a constant to FLOAT32; returns other values unchanged."""
    if value.constant is None or value.type is Scalar.FLOAT32:
        return value
    return Value(value.shape, Scalar.FLOAT32, value.constant.astype(np.float32), value.name)
