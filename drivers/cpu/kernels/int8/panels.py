"""Weights and what belongs to channels, as tiles read them: one constant for a kernel.

It begins with a head: a vector that stands for elements outside of the image, the factor of sums of inputs, and the words of a
residual. Panels follow:
what sums begin with, rows of words for the epilogue, and weights, word by word of the window all vectors of the panel.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.graph import Value
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.int8.plan import Plan
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES

HEAD_BYTES = 128
#: Where the head has the factor.
FACTOR_OFFSET = 64
#: Where it has words of a residual, one for all channels each.
RESIDUAL_OFFSET = 80
_WRAP = 1 << 32
#: Words in 128 bits.
_PIECE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights as they are multiplied: Σ (input - zero) × (weight - zero) is Σ input × factor + starts + Σ input × sums.

    Attributes:
        factors: (groups, channels, terms), within the range of the scheme's elements.
        starts: (groups, channels), what the sums of a channel begin with.
        sums: times the sum of a window's inputs is to be added to every channel; 0: no such sum is needed.
        outside: the element that stands for what is outside of the image.
        largest: (groups, channels), what no sum exceeds in magnitude.
    """

    factors: Array
    starts: Array
    sums: int
    outside: int
    largest: Array


def unsigned_shift(kind: Scalar) -> int:
    """What makes stored values unsigned bytes."""
    return 128 if kind is Scalar.INT8 else 0


def reach_of(kind: Scalar, zero: int) -> int:
    """The largest magnitude of stored values of a type less their zero point."""
    limits = np.iinfo(kind.dtype.name)
    return max(int(limits.max) - zero, zero - int(limits.min))


def weights_of(factors: Array, *, source: Scalar, zeros: tuple[int, int], is_bytes: bool) -> Weights:
    """Weights as a scheme multiplies them.

    Args:
        factors: (groups, channels, terms), as they are stored.
        source: the type of inputs.
        zeros: the zero points of inputs and of weights.
        is_bytes: see `Scheme`.
    """
    # Of 16 bits, which differences of bytes fit in; their sums have more.
    exact = factors.astype(np.int16) - np.int16(zeros[1])
    largest = reach_of(source, zeros[0]) * np.abs(exact).sum(axis=-1, dtype=np.int64)
    if not is_bytes:
        starts = np.zeros(exact.shape[:2], np.int64)
        return Weights(factors=exact, starts=starts, sums=0, outside=0, largest=largest)
    low, high = (int(exact.min(initial=0)), int(exact.max(initial=0)))
    # What fits in a signed byte needs no help.
    taken = 0 if low >= -128 and high <= 127 else low + 128
    outside = zeros[0] + unsigned_shift(source)
    bytes_ = exact - np.int16(taken)
    starts = -outside * exact.sum(axis=-1, dtype=np.int64)
    return Weights(factors=bytes_, starts=starts, sums=taken, outside=outside, largest=largest)


def panel_bytes(plan: Plan, rows: int) -> int:
    """Of a panel with so many rows of words for the epilogue."""
    return (1 + rows + plan.steps) * plan.vectors * plan.scheme.lanes * WORD_BYTES


def packed(
    plan: Plan,
    weights: Weights,
    starts: Array,
    rows: Array,
    name: str,
    *,
    residual: Sequence[int] = (),
    in_pairs: bool = False,
) -> Value:
    """The constant.

    Args:
        plan: of the kernel.
        weights: what is multiplied.
        starts: (groups, channels), what sums begin with; only the lower 32 bits count.
        rows: (rows, groups, channels), the same for the epilogue.
        name: for people.
        residual: words that belong to all channels, see `Residual.words`.
        in_pairs: whether two vectors take four channels by turns, as instructions do that narrow them together.
    """
    groups, channels, _ = weights.factors.shape
    scheme, product = plan.scheme, plan.product
    # Channels in lanes: (panels, vectors, lanes); what lies beyond the last channel is any of them.
    first = np.array([[plan.start(p, v) for v in range(plan.vectors)] for p in range(plan.panels)])
    lanes = first[:, :, None] + np.arange(scheme.lanes)
    if in_pairs:
        pieces = lanes.reshape(plan.panels, plan.vectors // 2, -1, 2, _PIECE)
        lanes = pieces.transpose(0, 1, 3, 2, 4).reshape(lanes.shape)
    is_real = lanes < channels
    lanes = np.minimum(lanes, channels - 1)
    words = np.concatenate((starts[None], rows)) % _WRAP
    rows_of_words = words[:, :, lanes].transpose(1, 2, 0, 3, 4)
    runs = product.rows.taps * plan.runs
    padded = np.zeros((groups, channels, runs, plan.run_steps * scheme.group), scheme.dtype)
    padded[..., : plan.run] = weights.factors.reshape(groups, channels, runs, plan.run)
    steps = padded.reshape(groups, channels, plan.steps, scheme.group)[:, lanes]
    if not is_real.all():
        steps = np.where(is_real[..., None, None], steps, 0)
    steps = steps.transpose(0, 1, 4, 2, 3, 5)
    parts = (np.ascontiguousarray(rows_of_words, np.uint32), np.ascontiguousarray(steps, scheme.dtype))
    bodies = np.concatenate([part.reshape(groups * plan.panels, -1).view(np.uint8) for part in parts], axis=1)
    array = np.concatenate((head_of(weights.outside, weights.sums, residual), bodies.reshape(-1)))
    return Value(array.shape, Scalar.UINT8, array, name)


def head_of(outside: int, factor: int, residual: Sequence[int] = ()) -> Array:
    """What a constant begins with.

    Args:
        outside: the element that stands for what is outside of the image. A zero point that its type does not hold, as a
            product of matrices may have, keeps its low byte: nothing is outside of a matrix.
        factor: what sums of inputs are multiplied with.
        residual: see `packed`.
    """
    head = np.zeros(HEAD_BYTES, np.uint8)
    head[:FACTOR_OFFSET] = np.uint8(outside & 0xFF)
    head[FACTOR_OFFSET : FACTOR_OFFSET + WORD_BYTES].view(np.int32)[:] = factor
    head[RESIDUAL_OFFSET : RESIDUAL_OFFSET + len(residual) * WORD_BYTES].view(np.int32)[:] = residual
    return head
