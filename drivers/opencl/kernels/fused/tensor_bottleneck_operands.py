"""Operands of fused blocks on tensor cores: packed weights, and constants of epilogues."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neurald.drivers.compiler.ir.expression import Load
from neurald.drivers.compiler.ir.graph import DepthwiseConvolution, linearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.kernels.epilogue.epilogue import used_values
from neurald.drivers.opencl.kernels.fused.block import Block
from neurald.drivers.opencl.kernels.gemm import split_k
from neurald.drivers.opencl.kernels.gemm.correction import corrected
from neurald.drivers.opencl.kernels.gemm.gemm_view import GemmView
from neurald.drivers.opencl.kernels.gemm.packing import packed, padded
from neurald.drivers.opencl.kernels.gemm.tensor_core import PART_BYTES, by_column
from neurald.drivers.opencl.platform.device_facts import DeviceFacts


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedOperands:
    """Operands of a block in packed form, and its epilogues.

    Attributes:
        wide, narrow: weights with contiguous columns, see `by_column`.
        taps: the weights of the depthwise convolution.
        before: the kernels before the last one, for sums of stored values, by the names of their
            functions.
        project: the last kernel.
        of_channels, of_columns: constants with one element for each wide channel, or output column.
        adds: whether groups can add to the output.
    """

    wide: Value | None
    taps: Value
    narrow: Value
    before: Mapping[str, Kernel]
    project: Kernel
    of_channels: tuple[Value, ...]
    of_columns: tuple[Value, ...]
    adds: bool


def operands_of(block: Block, facts: DeviceFacts) -> PackedOperands | None:
    """Returns the operands of a block.

    Returns None if its types are unsupported, or weights are not constant.
    """
    convolution = block.convolution
    if block.types not in ({Scalar.INT8}, {Scalar.UINT8}, {Scalar.FLOAT16}, {Scalar.FLOAT32}):
        return None
    taps = _int8_taps(convolution) if block.narrow.is_integer else _float_taps(convolution)
    narrow = by_column(block.narrow)
    if taps is None or narrow is None:
        return None
    wide, before = None, {"middle": block.depthwise}
    if block.expand is not None and block.wide is not None:
        wide = by_column(block.wide)
        if wide is None:
            return None
        before["wide"] = _corrected(block.expand, block.wide, wide)
    project = _corrected(block.project, block.narrow, narrow)
    read = [set(used_values(each)) for each in (*before.values(), project)]
    shared = {value for one in read for value in one if sum(value in each for each in read) > 1}
    return PackedOperands(
        wide=wide,
        taps=taps,
        narrow=narrow,
        before=before,
        project=project,
        of_channels=tuple(each for kernel in before.values() for each in _of_columns(kernel, shared)),
        of_columns=_of_columns(project, shared),
        adds=split_k.is_supported(facts) and split_k.only_adds_terms(project),
    )


def _corrected(kernel: Kernel, product: GemmView, right: Value) -> Kernel:
    return corrected(kernel, product, right) if product.left_zero else kernel


def _of_columns(kernel: Kernel, others: set[Value]) -> tuple[Value, ...]:
    """Returns the constants, except `others`, that an epilogue reads only per column."""
    found = []
    for value in used_values(kernel):
        loads = [each for each in walk(*kernel.roots) if isinstance(each, Load) and each.value is value]
        is_plain = all(
            each.guard is None and linearize(each.index, value.shape) is kernel.axes[-1] for each in loads
        )
        if (
            is_plain
            and value.constant is not None
            and value.count == kernel.shape[-1]
            and value not in others
        ):
            found.append(value)
    return tuple(found)


def _float_taps(convolution: DepthwiseConvolution) -> Value | None:
    weights = convolution.weights
    is_known = weights.constant is not None and weights.type is convolution.input.type
    return weights if is_known else None


def _int8_taps(convolution: DepthwiseConvolution) -> Value | None:
    """Packs four taps of a channel into each word, in rows of words for all channels.

    An additional last row holds the initial accumulator of each channel.
    """
    weights, zero, input_zero = convolution.weights, convolution.weights_zero, convolution.input_zero
    if weights.constant is None or weights.type not in (Scalar.INT8, Scalar.UINT8):
        return None
    plain = weights.constant.astype(np.int64) - zero
    if plain.min() < -128 or plain.max() > 127:
        return None

    def pack(_: np.ndarray) -> np.ndarray:
        channels = plain.shape[-1]
        taps = padded(plain.astype(np.int8).reshape(-1, channels), 0, 4, 0)
        words = np.ascontiguousarray(taps.reshape(-1, 4, channels).transpose(0, 2, 1)).view(np.int32)
        start = -input_zero * plain.reshape(-1, channels).sum(axis=0)
        return np.concatenate([words[:, :, 0], start[None].astype(np.int32)])

    return packed(weights, ("words of taps", zero, input_zero), pack)


def weight_fragments(right: Value, columns: int, steps: int) -> Value:
    """Packs a matrix in the order in which tensor cores read it.

    For each 16 columns and 32 bytes of the depth, each work-item of a warp has 16 contiguous bytes.

    Two multiplications take eight columns each. The accumulators of columns 4 t and 4 t + 1 belong
    to the first one, those of the other two to the second one, and the same work-item gets all
    four.

    Args:
        right: the right operand, with contiguous columns.
        columns: at least as many as the matrix has, a multiple of 16.
        steps: the depth in multiples of 32 bytes.
    """
    size = right.type.size_bytes

    def pack(array: np.ndarray) -> np.ndarray:
        whole = np.zeros((columns, steps * PART_BYTES // size), array.dtype)
        _, given, depth = array.shape
        depth = min(depth, whole.shape[1])
        whole[:given, :depth] = array[0, :, :depth]
        # The columns are divided into blocks of 16, groups of four, two multiplications and pairs;
        # the depth into steps of 32 bytes, halves of these, and words of four bytes.
        cut = whole.reshape(columns // 16, 4, 2, 2, steps, 2, 4, 4 // size)
        return cut.transpose(0, 4, 1, 3, 6, 2, 5, 7).reshape(columns // 16, steps, -1)

    return packed(right, ("fragments", columns, steps), pack)
