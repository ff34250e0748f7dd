"""Binds fully connected layers, and products of pairs of matrices."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.convolution import factors
from neurald.drivers.cpu.first_tier.binding.convolution.factors import FirstFactor, kind_of, source
from neurald.drivers.cpu.first_tier.binding.convolution.products import (
    MAX_WEIGHT,
    Batches,
    BoundEpilogue,
    SumsOfProducts,
    bind_sums,
    epilogue_of,
    width_of,
)
from neurald.drivers.cpu.first_tier.binding.convolution.requantization import requantization
from neurald.drivers.cpu.first_tier.binding.convolution.windows import WindowAxis, rows_table, window_table
from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import StridedMove, moving_call
from neurald.drivers.cpu.first_tier.binding.nest import strides_of
from neurald.drivers.cpu.first_tier.binding.scope import (
    MAX_INT32,
    UNLIMITED,
    Bind,
    BindingScope,
    count_of,
    limits,
    output_shape,
    scales_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.layout import SCALES
from neurald.drivers.cpu.first_tier.product_kind import Products
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.convolution.matrix_product import product_scale
from neurald.hal.operations.machinery.call import Array, Call, Shape


def _is_asymmetric(call: Call) -> bool:
    """Returns True if quantised rows have zero points."""
    return "asymmetric" in call.binding.inputs and bool(call.scalar("asymmetric"))


def bind_fully_connected(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds FULLY_CONNECTED."""
    channels, depth = call.shape("filter")
    rows, kind = count_of(call, "input") // depth, kind_of(call)
    width = width_of(scope, rows, channels)
    given = source(call, kind, depth, row_length=depth, asymmetric=_is_asymmetric(call))
    filter_ = scope.value(call.index("filter"))
    if filter_ is not None and call.has("block_scales"):
        return _in_blocks(scope, call, filter_, given, rows)
    calls: list[BoundCall] = []
    weights: BoundConstant | BoundTemporary
    if filter_ is None:
        if not kind.is_float:
            raise NotBound("the weights are quantised variables")
        calls, weights = factors.packed_matrix(
            call, "filter", kind, (1, depth, channels), width, are_rows_terms=False
        )
        padded = -(-channels // width) * width
        added = np.zeros(padded, np.float32)
        if call.has("bias"):
            added[:channels] = scope.constant(call, "bias")
        epilogue = BoundEpilogue(constants=(BoundConstant.of(added),), words=(*limits(call), padded))
    else:
        weights = factors.packed(kind, filter_.reshape(1, channels, 1, depth), call, width)
        epilogue = epilogue_of(scope, call, kind, filter_.shape, filter_, width)
    sums = SumsOfProducts.of_rows(
        scope,
        kind,
        rows=rows,
        channels=channels,
        depth=depth,
        given=given,
        weights=weights,
        epilogue=epilogue,
    )
    return [*calls, *bind_sums(scope, sums, call.index("output"))]


def _in_blocks(
    scope: BindingScope, call: Call, filter_: Array, given: FirstFactor, rows: int
) -> list[BoundCall]:
    """Binds FULLY_CONNECTED whose weights have a scale for each block of a row, which is a tap."""
    scales = scope.constant(call, "block_scales")
    (channels, blocks), depth = scales.shape, filter_.shape[1]
    length, kind = depth // blocks, Products.BLOCKS
    if length % 2 or given.rows is None:
        raise NotBound("blocks have an odd number of weights")
    width = width_of(scope, rows, channels)
    padded = -(-channels // width) * width
    added, each = np.zeros(padded, np.float32), np.zeros((blocks, padded), np.float32)
    each[:, :channels] = scales.T
    if call.has("bias"):
        added[:channels] = scope.constant(call, "bias")
    epilogue = BoundEpilogue(
        constants=(BoundConstant.of(added), BoundConstant.of(each)), words=(*limits(call), padded)
    )
    axes = WindowAxis(rows * blocks, rows, blocks, blocks, 1, 0)
    sums = SumsOfProducts(
        kind=kind,
        positions=rows,
        channels=channels,
        taps=blocks,
        depth=length,
        given=given,
        weights=factors.packed(kind, filter_.reshape(1, channels, blocks, length), call, width),
        epilogue=epilogue,
        table=window_table(scope, 1, (axes,), length),
        batches=Batches.single(channels),
    )
    return bind_sums(scope, sums, call.index("output"))


def bind_matrix_product(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds BATCH_MATMUL, whose second matrix may be quantised."""
    kind = kind_of(call, "input1", "input2")
    first, second, shape = call.shape("input1"), call.shape("input2"), output_shape(call)
    *outer, rows, channels = shape
    depth = first[-2] if call.scalar("adjoint1") else first[-1]
    count, counts = math.prod(outer), [math.prod(each[:-2]) for each in (first, second)]
    if not count or not rows or not channels or not depth:
        raise NotBound("there are no elements")
    width = width_of(scope, rows, channels)
    calls: list[BoundCall] = []
    moved = None
    if call.scalar("adjoint1"):
        moved, transposition = _transposed_first(call, (counts[0], rows, depth))
        calls.append(transposition)
    given = source(
        call,
        kind,
        depth,
        name="input1",
        row_length=depth,
        asymmetric=_is_asymmetric(call),
        moved=moved,
    )
    packing, matrix = factors.packed_matrix(
        call,
        "input2",
        kind,
        (counts[1], depth, channels),
        width,
        are_rows_terms=not call.scalar("adjoint2"),
    )
    calls += packing
    panels, terms = -(-channels // width), depth if kind.is_float else -(-depth // 2)
    ones, others = (_numbers_of_batches(each[:-2], outer) for each in (first, second))
    offsets = tuple(
        (
            one * rows * given.padded,
            other * panels * terms * width,
            number * rows * channels,
            0,
            one * rows,
        )
        for number, (one, other) in enumerate(zip(ones, others, strict=True))
    )
    sums = SumsOfProducts(
        kind=kind,
        positions=rows,
        channels=channels,
        depth=depth,
        given=given,
        weights=matrix,
        epilogue=_epilogue_of_matrices(call, kind, depth, panels * width),
        table=rows_table(scope, rows, given.padded),
        batches=Batches(offsets=offsets, stride=channels),
    )
    return [*calls, *bind_sums(scope, sums, call.index("output"))]


def _transposed_first(call: Call, lengths: tuple[int, int, int]) -> tuple[BoundTemporary, BoundCall]:
    """Returns memory for the first matrices with exchanged axes, and the call that writes it.

    Args:
        call: the operation.
        lengths: the number of matrices, and their rows and columns afterwards.
    """
    _, rows, depth = lengths
    itemsize = call.operand("input1").type.dtype.itemsize
    moved = BoundTemporary(size_bytes=itemsize * math.prod(lengths))
    move = StridedMove(
        output=moved,
        given=call.index("input1"),
        itemsize=itemsize,
        shape=lengths,
        output_strides=strides_of(lengths),
        strides=(rows * depth, 1, rows),
    )
    return moved, moving_call(move)


def _numbers_of_batches(shape: Shape, outer: Sequence[int]) -> list[int]:
    """Returns the number of the matrix that each batch of a product reads.

    Args:
        shape: the outer axes of the matrices, which may be broadcast.
        outer: those of the product.
    """
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return np.broadcast_to(numbers, tuple(outer)).reshape(-1).tolist()


def _epilogue_of_matrices(call: Call, kind: Products, depth: int, padded: int) -> BoundEpilogue:
    """Returns the parameters of the epilogue of two matrices."""
    zeros = np.zeros(padded, np.float32)
    if kind is Products.FLOAT:
        return BoundEpilogue(constants=(BoundConstant.of(zeros),), words=(*UNLIMITED, padded))
    if kind is Products.SHORT:
        raise NotBound("products of matrices of 16 bits have no kernel")
    if depth * MAX_WEIGHT * MAX_WEIGHT > MAX_INT32:
        raise NotBound("sums may exceed 32 bits")
    second, output = call.operand("input2"), call.operand("output")
    if kind is Products.HYBRID:
        scales = zeros.copy()
        scales[: output_shape(call)[-1]] = scales_of(second, np.float32)
        both = np.stack((zeros, scales))
        return BoundEpilogue(constants=(BoundConstant.of(both),), words=(*UNLIMITED, padded))
    multiplier = product_scale(call) / output.scale
    (mantissa,), parameters = requantization(np.array([multiplier]))
    both = np.zeros((2, padded), np.int32)
    both[1] = mantissa
    scales = np.zeros((SCALES, padded), np.int64)
    scales[:] = parameters
    return BoundEpilogue(
        constants=(BoundConstant.of(both), BoundConstant.of(scales)),
        words=(output.zero_point, *quantized_limits(output), padded),
    )


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.FULLY_CONNECTED: bind_fully_connected,
    OperationType.TFLITE_FULLY_CONNECTED: bind_fully_connected,
    OperationType.BATCH_MATMUL: bind_matrix_product,
    OperationType.TFLITE_BATCH_MATMUL: bind_matrix_product,
}
