"""Factors of products: constant weights, and factors that kernels compute from inputs."""

import math
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import StridedMove, moving_call
from neurald.drivers.cpu.first_tier.binding.scope import (
    BYTES,
    ELEMENTS_PER_NS,
    FLOAT,
    SHORT,
    SIGNED,
    count_of,
    sign_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.layout import BLOCK
from neurald.drivers.cpu.first_tier.product_kind import Products
from neurald.hal.model.graph import Operand
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array, Call


class FirstFactor(Struct, frozen=True, kw_only=True):
    """The input of a product, as its kernel reads it.

    Attributes:
        calls: they compute it.
        argument: its place.
        padded: elements of a pixel.
        rows: the scales of rows of quantised floats.
    """

    calls: tuple[BoundCall, ...]
    argument: "int | BoundConstant | BoundTemporary"
    padded: int
    rows: BoundTemporary | None = None


def kind_of(call: Call, values: str = "input", weights: str = "filter") -> Products:
    """Returns what is multiplied.

    Raises:
        NotBound: the types have no kernel.
    """
    given, matrix, output = call.operand(values), call.operand(weights), call.operand("output")
    if given.type is matrix.type is output.type is FLOAT:
        return Products.FLOAT
    if given.type is output.type is FLOAT and matrix.type in SIGNED_WEIGHTS:
        return Products.HYBRID
    if given.type in BYTES and output.type in BYTES and is_quantized(matrix):
        return Products.INT
    zero_points = (given.zero_point, matrix.zero_point)
    if given.type is output.type is SHORT and matrix.type in SIGNED_WEIGHTS and not any(zero_points):
        return Products.SHORT
    raise NotBound("the types have no kernel")


SIGNED_WEIGHTS: Final = (SIGNED, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL)


def padded_depth(kind: Products, depth: int) -> int:
    """Returns the number of elements of a pixel that a kernel reads."""
    return depth if kind.is_float else -(-depth // 2) * 2


def source(
    call: Call,
    kind: Products,
    depth: int,
    *,
    name: str = "input",
    row_length: int = 0,
    repeats: int = 1,
    asymmetric: bool = False,
    moved: int | BoundTemporary | None = None,
) -> FirstFactor:
    """Returns what a kernel reads as its input.

    Args:
        call: the operation.
        kind: the kind of the product.
        depth: elements of a pixel.
        name: the name of the input.
        row_length: elements of rows that are quantised together.
        repeats: how often the scale of each is needed.
        asymmetric: True if they have zero points.
        moved: what is read in the place of the input, if its elements were moved.

    Raises:
        NotBound: there is no kernel.
    """
    index = call.index(name) if moved is None else moved
    elements, padded = count_of(call, name), padded_depth(kind, depth)
    if kind.is_float:
        return FirstFactor(calls=(), argument=index, padded=padded)
    if kind is Products.SHORT:
        if padded == depth:
            return FirstFactor(calls=(), argument=index, padded=padded)
        pixels = elements // depth
        temporary = BoundTemporary(size_bytes=2 * pixels * padded)
        copy = moving_call(
            StridedMove(
                output=temporary,
                given=index,
                itemsize=2,
                shape=(pixels, depth),
                output_strides=(padded, 1),
                strides=(depth, 1),
            )
        )
        return FirstFactor(calls=(copy,), argument=temporary, padded=padded)
    if kind is Products.INT:
        rows = BLOCK if padded == depth else depth
        temporary = BoundTemporary(size_bytes=2 * -(-elements // rows) * (rows + padded - depth))
        operand = call.operand(name)
        widen = _widening(operand, temporary, index, elements, depth, operand.zero_point)
        return FirstFactor(calls=(widen,), argument=temporary, padded=padded)
    rows = elements // row_length
    temporary = BoundTemporary(size_bytes=2 * elements // depth * padded)
    scales = BoundTemporary(size_bytes=4 * rows * repeats)
    quantize = BoundCall(
        function="first_quantize_rows",
        arguments=(temporary, scales, index),
        words=(
            row_length,
            *((row_length,) * 2 if padded == depth else (depth, padded)),
            repeats,
            int(asymmetric),
        ),
        work_items=rows,
        cost_ns=elements / ELEMENTS_PER_NS / 4,
    )
    return FirstFactor(calls=(quantize,), argument=temporary, padded=padded, rows=scales)


def centred(call: Call, kind: Products, weights: Array, name: str = "filter") -> Array:
    """Returns weights without their zero point, in the type in which they are multiplied."""
    return weights if kind.is_float else _wide(weights, _zero_point(call, kind, name))


def _zero_point(call: Call, kind: Products, name: str) -> int:
    return call.operand(name).zero_point if kind is Products.INT else 0


def _wide(weights: Array, zero_point: int) -> Array:
    """Returns integers without their zero point, in 16 bits."""
    wide = weights.astype(np.int16)
    if zero_point:
        wide -= np.int16(zero_point)
    return wide


def packed(kind: Products, weights: Array, call: Call, width: int) -> BoundConstant:
    """Returns weights in panels.

    Args:
        kind: the kind of the product.
        weights: as they are stored, (groups, channels, taps, depth).
        call: the operation.
        width: channels of a panel.
    """
    groups, channels, taps, depth = weights.shape
    group = 1 if kind.is_float else 2
    terms, panels = -(-depth // group), -(-channels // width)

    def fill(target: Array) -> None:
        rows = target.reshape(groups, panels, taps * terms, width)
        is_float, zero_point = kind.is_float, _zero_point(call, kind, "filter")
        for number in range(groups):
            for panel in range(panels):
                part = weights[number, panel * width : (panel + 1) * width]
                if not is_float:
                    # A panel at a time, which stays in a cache. New pages for all weights would
                    # take longer than the conversion.
                    part = _wide(part, zero_point)
                if depth < terms * group:
                    longer = np.zeros((*part.shape[:-1], terms * group), part.dtype)
                    longer[..., :depth] = part
                    part = longer
                # Terms are moved as a whole.
                part = np.ascontiguousarray(part).view(np.uint32).reshape(len(part), taps * terms)
                rows[number, panel, :, : len(part)] = part.T

    shape = (groups, panels, taps, terms, width)
    return BoundConstant(dtype=np.dtype(np.uint32), shape=shape, fill=fill)


def _byte_sign(operand: Operand) -> str:
    return "signed" if operand.type in SIGNED_WEIGHTS else sign_of(operand)


def _widening(
    operand: Operand,
    result: BoundTemporary,
    given: int | BoundTemporary,
    elements: int,
    depth: int,
    zero_point: int,
) -> BoundCall:
    """Returns the call that converts bytes to 16-bit values without zero point, in pairs.

    Args:
        operand: the type of bytes.
        result, given: where to, and from where.
        elements: their number.
        depth: elements after which a pair begins.
        zero_point: is subtracted.
    """
    length, stride = (depth, depth + 1) if depth % 2 else (BLOCK, BLOCK)
    rows = -(-elements // length)
    return BoundCall(
        function=f"first_widen_{_byte_sign(operand)}",
        arguments=(result, given),
        words=(elements, length, stride, zero_point),
        work_items=rows,
        cost_ns=elements / ELEMENTS_PER_NS / 8,
    )


def packed_matrix(
    call: Call,
    name: str,
    kind: Products,
    shape: tuple[int, int, int],
    width: int,
    *,
    are_rows_terms: bool,
) -> tuple[list[BoundCall], BoundTemporary]:
    """Returns a variable matrix in panels, and the calls that arrange it.

    Args:
        call: the operation.
        name: the name of the input.
        kind: the kind of the product.
        shape: matrices, elements that are summed, channels.
        width: channels of a panel.
        are_rows_terms: True if channels are neighbours in memory, else elements that are summed.
    """
    if not are_rows_terms:
        count, depth, channels = shape
        return packed_filter(call, name, kind, (count, channels, 1, depth), width)
    count, depth, channels = shape
    panels, operand, index = -(-channels // width), call.operand(name), call.index(name)
    terms = depth if kind.is_float else -(-depth // 2)
    result = BoundTemporary(size_bytes=4 * count * panels * terms * width)
    cost = count * terms * channels / ELEMENTS_PER_NS
    if kind.is_float:
        return [_packing(result, index, (count, terms, channels), (channels, 1), width)], result
    zero_point = _zero_point(call, kind, name)
    packing = BoundCall(
        function=f"first_pack_{_byte_sign(operand)}",
        arguments=(result, index),
        words=(depth, channels, depth * channels, panels, width, zero_point),
        work_items=count * panels,
        cost_ns=cost,
    )
    return [packing], result


def packed_filter(
    call: Call,
    name: str,
    kind: Products,
    shape: tuple[int, int, int, int],
    width: int,
    *,
    moved: BoundTemporary | None = None,
) -> tuple[list[BoundCall], BoundTemporary]:
    """Returns variable weights in panels, and the calls that arrange them.

    Args:
        call: the operation.
        name: the name of the input.
        kind: the kind of the product.
        shape: groups, channels of a group, taps, depth, in the order in which they are stored.
        width: channels of a panel.
        moved: what is read in the place of the input, if its elements were moved.
    """
    groups, channels, taps, depth = shape
    terms = taps * padded_depth(kind, depth) // (1 if kind.is_float else 2)
    result = BoundTemporary(size_bytes=4 * groups * -(-channels // width) * terms * width)
    given: int | BoundTemporary = call.index(name) if moved is None else moved
    calls: list[BoundCall] = []
    if not kind.is_float:
        wide = BoundTemporary(size_bytes=4 * groups * channels * terms)
        zero_point = _zero_point(call, kind, name)
        calls.append(_widening(call.operand(name), wide, given, math.prod(shape), depth, zero_point))
        given = wide
    calls.append(_packing(result, given, (groups, terms, channels), (1, terms), width))
    return calls, result


def _packing(
    result: BoundTemporary,
    given: int | BoundTemporary,
    shape: tuple[int, int, int],
    steps: tuple[int, int],
    width: int,
) -> BoundCall:
    """Returns the call that arranges matrices of 32-bit words in panels.

    Args:
        result, given: where to, and from where.
        shape: matrices, terms, channels.
        steps: words between terms and between channels.
        width: channels of a panel.
    """
    count, terms, channels = shape
    panels = -(-channels // width)
    return BoundCall(
        function=f"first_pack_{'rows' if steps[1] == 1 else 'columns'}",
        arguments=(result, given),
        words=(terms, channels, *steps, panels, width, terms * channels),
        work_items=count * panels,
        cost_ns=count * terms * channels / ELEMENTS_PER_NS,
    )
