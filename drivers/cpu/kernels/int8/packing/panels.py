"""Packing of weights and per-channel constants to panels: one constant for a kernel.

It begins with a head: a vector of padding elements, the factor for sums of inputs, and the words of
a residual. For each panel follow initial sums, rows of epilogue constants, perhaps a row that
begins with the numbers of the first window row and column to multiply, and weights: word by word of
the window, all vectors of the panel. There may be rows of other initial sums before the weights,
see `TapSets`.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.int8.plan import ProductPlan
from neurald.drivers.cpu.kernels.int8.scheme import MATRIX_WORD_BYTES, WORD_BYTES, Scheme

HEAD_BYTES = 128
#: Offset of the factor in the head.
FACTOR_OFFSET = 64
#: Offset of the residual's words in the head; each applies to all channels.
RESIDUAL_OFFSET = 80
_WRAP = 1 << 32
_NIBBLE_BITS, _NIBBLE = 4, 15
#: Share of taps that are multiplied at most where others are skipped.
MAX_SHARE_LEFT = 0.9
#: Number of channels that alternate between the vectors of a pair: words in 128 bits.
PIECE = 4


class QuantizedWeights(Struct, frozen=True, kw_only=True):
    """Weights in multiplied form.

    Σ (input - zero) × (weight - zero) = Σ input × factor + starts + Σ input × sums.

    Attributes:
        factors: (groups, channels, terms), within the range of the scheme's elements.
        starts: (groups, channels), initial sums.
        sums: factor for the sum of a window's inputs, added to every channel; 0 if not needed.
        padding: the padding element.
        largest: (groups, channels), bound on the magnitude of sums.
    """

    factors: Array
    starts: Array
    sums: int
    padding: int
    largest: Array


def reach_of(kind: Scalar, zero: int) -> int:
    """Returns the largest magnitude of a type's values less their zero point."""
    limits = np.iinfo(kind.dtype.name)
    return max(int(limits.max) - zero, zero - int(limits.min))


def weights_of(factors: Array, *, source: Scalar, zeros: tuple[int, int], scheme: Scheme) -> QuantizedWeights:
    """Converts weights to a scheme's form.

    Args:
        factors: (groups, channels, terms), as stored.
        source: type of inputs.
        zeros: zero points of inputs and weights.
        scheme: the scheme.
    """
    # Differences of bytes fit in 16 bits; their sums do not.
    exact = factors.astype(np.int16) - np.int16(zeros[1])
    largest = reach_of(source, zeros[0]) * np.abs(exact).sum(axis=-1, dtype=np.int64)
    if not scheme.is_bytes:
        starts = np.zeros(exact.shape[:2], np.int64)
        return QuantizedWeights(factors=exact, starts=starts, sums=0, padding=0, largest=largest)
    low, high = (int(exact.min(initial=0)), int(exact.max(initial=0)))
    # Weights that fit in a signed byte need no offset.
    taken = 0 if low >= -128 and high <= 127 else low + 128
    padding = zeros[0] + scheme.shift_of(source)
    bytes_ = exact - np.int16(taken)
    starts = -padding * exact.sum(axis=-1, dtype=np.int64)
    return QuantizedWeights(factors=bytes_, starts=starts, sums=taken, padding=padding, largest=largest)


def are_nibbles(weights: QuantizedWeights) -> bool:
    """Returns True if multiplied weights fit in 4 bits."""
    return bool(weights.factors.size) and weights.factors.min() >= -8 and weights.factors.max() <= 7


def weights_row(plan: ProductPlan, rows: int) -> int:
    """Returns the number of rows before the weights, given that of epilogue constants."""
    others = 0 if plan.taps is None else plan.taps.start_rows
    return 1 + rows + plan.skips_taps + others


def first_taps(plan: ProductPlan, weights: QuantizedWeights) -> Array:
    """Returns each panel's first window row and column with weights, (groups, panels, 2)."""
    groups, channels, _ = weights.factors.shape
    window = plan.product.rows.taps, plan.product.columns.taps
    taps = weights.factors.reshape(groups, channels, *window, plan.product.depth)
    is_used: Array = np.any(taps, axis=-1)
    lanes = np.minimum(_channels_of_lanes(plan, in_pairs=False), channels - 1)
    of_panels: Array = np.any(is_used[:, lanes.reshape(plan.panels, -1)], axis=2)
    return np.stack([np.any(of_panels, axis=other).argmax(axis=-1) for other in (3, 2)], axis=-1)


def may_skip(plan: ProductPlan, weights: QuantizedWeights) -> bool:
    """Returns True if the windows of some channels do not begin with weights."""
    return plan.may_skip_taps and not weights.factors[..., : plan.product.depth].any(axis=-1).all()


def share_left(plan: ProductPlan, weights: QuantizedWeights) -> float:
    """Returns the share of taps that are left if panels skip the first ones without weights."""
    window = np.array((plan.product.rows.taps, plan.product.columns.taps))
    left = (window - first_taps(plan, weights)).prod(axis=-1)
    return float(left.mean() / window.prod())


def panel_bytes(plan: ProductPlan, rows: int) -> int:
    """Returns the size of a panel with this many rows of epilogue constants."""
    lines = weights_row(plan, rows) * plan.vectors * plan.scheme.target.vector_bytes
    return lines + plan.steps // plan.weights_per_byte * plan.step_bytes


def packed(
    plan: ProductPlan,
    weights: QuantizedWeights,
    starts: Array,
    rows: Array,
    name: str,
    *,
    residual: Sequence[int] = (),
    in_pairs: bool = False,
) -> Value:
    """Packs the constant.

    Args:
        plan: the plan of the kernel.
        weights: the weights.
        starts: (groups, channels), initial sums; only the lower 32 bits count.
        rows: (rows, groups, channels), epilogue constants and other initial sums; only the lower 32
            bits count.
        name: name of the value, for diagnostics.
        residual: words for all channels, see `Residual.words`.
        in_pairs: True if pairs of vectors alternate every four channels, as instructions that
            narrow them expect.
    """
    groups, channels, _ = weights.factors.shape
    scheme, product = plan.scheme, plan.product
    lanes = _channels_of_lanes(plan, in_pairs=in_pairs)
    is_real = lanes < channels
    lanes = np.minimum(lanes, channels - 1)
    rows_of_words = _rows_of_words(starts, rows, lanes)
    runs = product.rows.taps * plan.runs
    padded = np.zeros((groups, channels, runs, plan.run_steps * scheme.group), scheme.dtype)
    padded[..., : plan.run] = weights.factors.reshape(groups, channels, runs, plan.run)
    steps = padded.reshape(groups, channels, plan.steps, scheme.group)[:, lanes]
    if not is_real.all():
        steps = np.where(is_real[..., None, None], steps, 0)
    steps = steps.transpose(0, 1, 4, 2, 3, 5)
    if scheme.has_matrices:
        # Words of all lanes that are multiplied together follow each other.
        parts_of_words = (*steps.shape[:-1], scheme.matrix_words, MATRIX_WORD_BYTES)
        steps = steps.reshape(parts_of_words).swapaxes(-2, -3)
    if plan.has_nibbles:
        steps = (steps[:, :, ::2] & _NIBBLE) | (steps[:, :, 1::2] << _NIBBLE_BITS)
    parts = [rows_of_words, np.ascontiguousarray(steps, scheme.dtype)]
    if plan.skips_taps:
        firsts = np.zeros((groups, plan.panels, plan.vectors * scheme.lanes), np.uint32)
        firsts[..., :2] = first_taps(plan, weights)
        parts.insert(1, firsts)
    bodies = np.concatenate([part.reshape(groups * plan.panels, -1).view(np.uint8) for part in parts], axis=1)
    array = np.concatenate((head_of(weights.padding, weights.sums, residual), bodies.reshape(-1)))
    return Value(array.shape, Scalar.UINT8, array, name)


def packed_heads(
    plan: ProductPlan,
    head: Array,
    starts: Array,
    rows: Array,
    name: str,
    *,
    in_pairs: bool,
) -> Value:
    """Packs the constant of a product whose weights are packed at run time: all but the weights.

    Args:
        plan: the plan of the kernel.
        head: see `head_of`.
        starts, rows, name, in_pairs: see `packed`.
    """
    lanes = np.minimum(_channels_of_lanes(plan, in_pairs=in_pairs), plan.product.channels - 1)
    words = _rows_of_words(starts, rows, lanes)
    array = np.concatenate((head, words.reshape(-1).view(np.uint8)))
    return Value(array.shape, Scalar.UINT8, array, name)


def _channels_of_lanes(plan: ProductPlan, *, in_pairs: bool) -> Array:
    """Returns the channel of each lane, (panels, vectors, lanes); there may be fewer channels."""
    first = np.array([[plan.start(p, v) for v in range(plan.vectors)] for p in range(plan.panels)])
    lanes = first[:, :, None] + np.arange(plan.scheme.lanes)
    if not in_pairs:
        return lanes
    pieces = lanes.reshape(plan.panels, plan.vectors // 2, -1, 2, PIECE)
    return pieces.transpose(0, 1, 3, 2, 4).reshape(lanes.shape)


def _rows_of_words(starts: Array, rows: Array, lanes: Array) -> Array:
    """Returns the words before the weights of panels, (groups, panels, rows, vectors, lanes)."""
    words = np.concatenate((starts[None], rows)) % _WRAP
    return np.ascontiguousarray(words[:, :, lanes].transpose(1, 2, 0, 3, 4), np.uint32)


def head_of(padding: int, factor: int, residual: Sequence[int] = ()) -> Array:
    """Returns the head of a constant.

    Args:
        padding: the padding element. A zero point outside its type's range, as in a matrix product,
            keeps its low byte, since a matrix has no padding.
        factor: factor for the sums of inputs.
        residual: see `packed`.
    """
    head = np.zeros(HEAD_BYTES, np.uint8)
    head[:FACTOR_OFFSET] = np.uint8(padding & 0xFF)
    head[FACTOR_OFFSET : FACTOR_OFFSET + WORD_BYTES].view(np.int32)[:] = factor
    head[RESIDUAL_OFFSET : RESIDUAL_OFFSET + len(residual) * WORD_BYTES].view(np.int32)[:] = residual
    return head
