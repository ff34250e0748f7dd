"""Packing of constant weights to panels, in the order in which tiles read them."""

import numpy as np

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.common.narrow_weights import NarrowWeights
from neurald.drivers.cpu.kernels.common.product import WeightOperand
from neurald.drivers.cpu.kernels.common.tile import Tile


def channels_of(tile: Tile, channels: int) -> np.ndarray:
    """Returns the channel of each lane: (panels, vectors × lanes).

    Lanes beyond the channels repeat the last one.
    """
    starts = np.array([tile.start(panel, channels) for panel in range(tile.panels)])
    inner = np.array(tile.offsets(channels))[:, None] + np.arange(tile.lanes)
    return np.minimum(starts[:, None] + inner.reshape(-1), channels - 1)


def by_channel(operand: WeightOperand, constant: np.ndarray, channels: int, terms: int) -> np.ndarray:
    """Returns a view of a constant operand: (sets, channels, terms)."""
    size = constant.itemsize
    return np.lib.stride_tricks.as_strided(
        np.ascontiguousarray(constant),
        (operand.sets, channels, terms),
        (channels * terms * size, operand.channel_step * size, operand.term_step * size),
    )


def packed(operand: WeightOperand, constant: np.ndarray, tile: Tile, channels: int, terms: int) -> Value:
    """Packs a constant operand to panels of FLOAT32, or of FLOAT16 if sums are.

    Returns:
        (sets, panels, terms, vectors × lanes)
    """
    kind = Scalar.FLOAT16 if tile.is_half else Scalar.FLOAT32
    view = by_channel(operand, constant, channels, terms)
    array = _panels(view, tile, channels).astype(kind.dtype.name, order="C")
    return Value(array.shape, kind, array, operand.value.name)


def packed_narrow(weights: NarrowWeights, tile: Tile, name: str) -> Value:
    """Packs weights (sets, channels, terms) in fewer bytes to panels.

    Returns:
        FLOAT16, (sets, panels, terms, vectors × lanes); or for INT8 weights UINT8, (sets, panels,
        bytes), where a panel has the FLOAT32 scale of each lane before its weights.
    """
    panels = np.ascontiguousarray(_panels(weights.values, tile, weights.values.shape[1]))
    if weights.scales is None:
        return Value(panels.shape, Scalar.FLOAT16, panels, name)
    return _with_scales(panels, weights.scales, tile, name)


def packed_groups(values: np.ndarray, scales: np.ndarray, tile: Tile, name: str) -> Value:
    """Packs INT8 weights for products by digits.

    A panel is as large as that of `packed_narrow`. Of each lane, four terms are adjacent, with a
    bias of 128.

    Args:
        values, scales: see `NarrowWeights`; the number of terms is a multiple of 4.
        tile: size of panels.
        name: name of the result.
    """
    panels = _panels(values, tile, values.shape[1])
    sets, count, terms, width = panels.shape
    groups = panels.reshape(sets, count, terms // 4, 4, width).transpose(0, 1, 2, 4, 3)
    biased = np.ascontiguousarray(groups).view(np.uint8) ^ np.uint8(0x80)
    return _with_scales(biased, scales, tile, name)


def _with_scales(panels: np.ndarray, scales: np.ndarray, tile: Tile, name: str) -> Value:
    """Returns panels of bytes behind the scales of their lanes."""
    scales = np.ascontiguousarray(scales[:, channels_of(tile, scales.shape[1]), 0])
    parts = [each.view(np.uint8).reshape(*each.shape[:2], -1) for each in (scales, panels)]
    array = np.ascontiguousarray(np.concatenate(parts, axis=2))
    return Value(array.shape, Scalar.UINT8, array, name)


def _panels(weights: np.ndarray, tile: Tile, channels: int) -> np.ndarray:
    """Returns the weights (sets, channels, terms) as (sets, panels, terms, vectors × lanes)."""
    return weights[:, channels_of(tile, channels)].transpose(0, 1, 3, 2)


def as_floats(value: Value) -> Value:
    """Converts a constant to FLOAT32; returns other values unchanged."""
    if value.constant is None or value.type is Scalar.FLOAT32:
        return value
    return Value(value.shape, Scalar.FLOAT32, value.constant.astype(np.float32), value.name)
