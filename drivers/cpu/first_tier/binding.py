"""Binds operations to the kernels of the first tier: decides which can run, and with which data.

Nothing is compiled. Constants are arranged for the kernels, and tables describe windows.
"""

import math
import struct
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.cpu.first_tier.bound_call import (
    BoundCall,
    BoundConstant,
    BoundTemporary,
    NotBound,
)
from neurald.drivers.cpu.first_tier.layout import BLOCK, SCALES, Tiles
from neurald.drivers.cpu.first_tier.movement import Movements, copying_call, moving_call
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import Lifetime, Model, Operand, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.arithmetic.fixed_point import (
    Rounding,
    multiply,
    quantize_multiplier,
    quantize_multipliers,
    single_ratio,
)
from neurald.hal.operations.arithmetic.quantized import activate, quantized_limits
from neurald.hal.operations.convolution import convolution, depthwise_convolution, pooling
from neurald.hal.operations.convolution.windowing import Window
from neurald.hal.operations.elementwise.arithmetic import addend_shift
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.layout import is_nchw
from neurald.hal.operations.tflite.convolution import fully_connected
from neurald.hal.validation.shape_inference import bind_operations

FLOAT: Final = OperandType.TENSOR_FLOAT32
_BYTES: Final = frozenset((OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED))
#: Estimated products and elements per nanosecond.
_PRODUCTS_PER_NS: Final = 50
_ELEMENTS_PER_NS: Final = 1
_MAX_INT32: Final = (1 << 31) - 1
#: The largest magnitude of an 8-bit weight without its zero point, and of biases that are usual.
_MAX_WEIGHT: Final = 255
_MAX_BIAS: Final = 1 << 29
#: Maximum number of entries of a table, which is a part of the model's constants.
_MAX_TABLE: Final = 1 << 22


class Binder:
    """Binds the operations of a model.

    Attributes:
        known: values that operations compute from constants, by operand.
        folded: the positions of these operations.

    Args:
        model: the model.
        tiles: of the target.
    """

    def __init__(self, model: Model, tiles: Tiles) -> None:
        self._model = model
        self._graph = model.main
        self._tiles = tiles
        self._bindings = bind_operations(model.main)
        self._tables: dict[object, BoundConstant] = {}
        self._lookups: dict[object, BoundConstant] = {}
        self._movements = Movements(model.main.operands, self._value)
        self.known: dict[int, Array] = {}
        self.folded: list[int] = []

    def bound(self) -> list[list[BoundCall] | None]:
        """Returns the kernels of each operation of the main graph; None for one that has none."""
        for position, operation in enumerate(self._graph.operations):
            if operation.type in _FOLDED:
                self._fold(position)
        return [self._operation(position) for position in range(len(self._graph.operations))]

    def _operation(self, position: int) -> list[BoundCall] | None:
        operation, operands = self._graph.operations[position], self._graph.operands
        write = _WRITERS.get(operation.type)
        if write is None:
            return None
        if any(
            not operands[index].is_fully_specified
            for index in (*operation.inputs, *operation.outputs)
            if operands[index].type.is_tensor and operands[index].lifetime is not Lifetime.NO_VALUE
        ):
            return None
        call = Call(
            self._bindings[position],
            operands,
            lambda index: operands[index].dimensions,
            self._value,
        )
        try:
            DEFINITIONS[operation.type].check(call)
            return write(self, call)
        except Exception:
            # References report what is wrong with it, if anything.
            return None

    def _fold(self, position: int) -> None:
        """Computes an operation on constants."""
        binding, operands = self._bindings[position], self._graph.operands
        call = Call(binding, operands, lambda index: operands[index].dimensions, self._value)
        try:
            results = DEFINITIONS[binding.type].reference(call)
        except Exception:
            return
        self.known.update(zip(self._graph.operations[position].outputs, results, strict=True))
        self.folded.append(position)

    def _value(self, index: int) -> Array | None:
        """Returns the value of an operand that is known."""
        known = self.known.get(index)
        return self._model.constant(self._graph.operands[index]) if known is None else known

    def constant(self, call: Call, name: str) -> Array:
        """Returns the value of a constant input.

        Raises:
            NotBound: it is no constant.
        """
        value = self._value(call.index(name))
        if value is None:
            raise NotBound(f"{name} is not constant")
        return value

    # Convolutions.

    def convolution(self, call: Call) -> list[BoundCall]:
        """Binds CONV_2D."""
        if is_nchw(call):
            raise NotBound("the layout is NCHW")
        window, shape = convolution.geometry(call)
        filter_ = self.constant(call, "filter")
        channels, *kernel, depth = filter_.shape
        padded = self._padded(call, depth)
        table = self._table(window, call.shape("input"), padded)
        return self._product(
            call, filter_.reshape(channels, math.prod(kernel), depth), table, math.prod(shape[:3])
        )

    def fully_connected(self, call: Call) -> list[BoundCall]:
        """Binds FULLY_CONNECTED."""
        filter_ = self.constant(call, "filter")
        channels, depth = filter_.shape
        rows = math.prod(call.shape("input")) // depth
        table = BoundConstant.of(np.arange(rows, dtype=np.int32) * np.int32(self._padded(call, depth)))
        return self._product(call, filter_.reshape(channels, 1, depth), table, rows)

    def depthwise(self, call: Call) -> list[BoundCall]:
        """Binds DEPTHWISE_CONV_2D with as many outputs as inputs."""
        if is_nchw(call) or call.scalar_in("depth_multiplier", 1) != 1:
            raise NotBound("the layout is NCHW, or there is a depth multiplier")
        window, shape = depthwise_convolution.geometry(call)
        filter_ = self.constant(call, "filter")
        channels, taps = filter_.shape[3], math.prod(filter_.shape[1:3])
        lanes = self._tiles.lanes
        padded = -(-channels // lanes) * lanes
        positions = math.prod(shape[:3])
        table = self._table(window, call.shape("input"), self._padded(call, channels))
        weights = _centred(call, filter_).reshape(taps, channels)
        is_float = call.operand("input").type is FLOAT
        calls, source = self._source(call, channels)
        epilogue = self._epilogue(call, weights.T, padded)
        packed = BoundConstant(
            dtype=np.dtype(np.float32 if is_float else np.int32),
            shape=(taps, padded),
            fill=_into(weights, (slice(None), slice(channels))),
        )
        zeros = BoundConstant(
            dtype=np.dtype(np.float32 if is_float else np.int16),
            shape=(self._padded(call, channels),),
            fill=None,
        )
        calls.append(
            BoundCall(
                function="first_depthwise_float" if is_float else "first_depthwise_int",
                arguments=(call.index("output"), source, packed, *epilogue.constants, table, zeros),
                words=(positions, channels, taps, padded, *epilogue.words),
                work_items=positions,
                cost_ns=positions * channels * taps / _PRODUCTS_PER_NS * 4,
            )
        )
        return calls

    def maximum(self, call: Call) -> list[BoundCall]:
        """Binds MAX_POOL_2D."""
        output, kind = call.operand("output"), call.operand("input").type
        if is_nchw(call) or output.type is not kind or kind not in (FLOAT, *_BYTES):
            raise NotBound("the layout is NCHW, or the types have no kernel")
        window, (batches, _, _, channels) = pooling.geometry(call)
        positions, taps = batches * math.prod(window.output), math.prod(window.kernel)
        if kind is FLOAT:
            function, lowest, limits = "first_max_float", -np.inf, _limits(call)
        else:
            is_signed = kind is OperandType.TENSOR_QUANT8_ASYMM_SIGNED
            function = "first_max_signed" if is_signed else "first_max_unsigned"
            lowest, limits = -128 if is_signed else 0, quantized_limits(output, call.activation)
        return [
            BoundCall(
                function=function,
                arguments=(
                    call.index("output"),
                    call.index("input"),
                    self._table(window, call.shape("input"), channels),
                    BoundConstant.of(np.full(channels, lowest, kind.dtype)),
                ),
                words=(channels, taps, *limits),
                work_items=positions,
                cost_ns=positions * channels * taps / _PRODUCTS_PER_NS * 4,
            )
        ]

    def _product(self, call: Call, filter_: Array, table: BoundConstant, positions: int) -> list[BoundCall]:
        """Binds sums of products over taps and channels.

        Args:
            call: the operation.
            filter_: of shape (channels, taps, depth).
            table: see `neurald.drivers.cpu.first_tier.kernels`.
            positions: of the output.
        """
        channels, taps, depth = filter_.shape
        tiles = self._tiles
        is_float = call.operand("input").type is FLOAT
        is_panel = positions < tiles.rows // 2
        width = tiles.panel_width if is_panel else tiles.width
        panels = -(-channels // width)
        group = 1 if is_float else 2
        terms = -(-depth // group)
        weights = _centred(call, filter_)
        calls, source = self._source(call, depth)
        epilogue = self._epilogue(call, weights.reshape(channels, -1), panels * width)

        def fill(target: Array) -> None:
            given = weights
            if depth < terms * group:
                given = np.zeros((channels, taps, terms * group), weights.dtype)
                given[:, :, :depth] = weights
            # Terms are moved as a whole.
            given = np.ascontiguousarray(given).view(np.uint32).reshape(channels, taps, terms)
            for panel in range(panels):
                part = given[panel * width : (panel + 1) * width]
                target[panel, :, :, : len(part)] = part.transpose(1, 2, 0)

        packed = BoundConstant(dtype=np.dtype(np.uint32), shape=(panels, taps, terms, width), fill=fill)
        zeros = BoundConstant(dtype=packed.dtype, shape=(terms,), fill=None)
        kind = "float" if is_float else "int"
        calls.append(
            BoundCall(
                function=f"first_panels_{kind}" if is_panel else f"first_tiles_{kind}",
                arguments=(call.index("output"), source, packed, *epilogue.constants, table, zeros),
                words=(positions, channels, taps, terms, panels, *epilogue.words),
                work_items=panels if is_panel else -(-positions // tiles.rows),
                cost_ns=positions * channels * taps * depth / _PRODUCTS_PER_NS,
            )
        )
        return calls

    def _padded(self, call: Call, depth: int) -> int:
        """Returns the number of elements of a pixel that a kernel reads."""
        return depth if call.operand("input").type is FLOAT else -(-depth // 2) * 2

    def _source(self, call: Call, depth: int) -> tuple[list[BoundCall], int | BoundTemporary]:
        """Returns what a kernel reads as its input, and the calls that compute it."""
        operand, index = call.operand("input"), call.index("input")
        if operand.type is FLOAT:
            return [], index
        elements = math.prod(call.shape("input"))
        padded = self._padded(call, depth)
        length, stride = (BLOCK, BLOCK) if padded == depth else (depth, padded)
        rows = -(-elements // length)
        temporary = BoundTemporary(size_bytes=2 * rows * stride)
        is_signed = operand.type is OperandType.TENSOR_QUANT8_ASYMM_SIGNED
        widen = BoundCall(
            function="first_widen_signed" if is_signed else "first_widen_unsigned",
            arguments=(temporary, index),
            words=(elements, length, stride, operand.zero_point),
            work_items=rows,
            cost_ns=elements / _ELEMENTS_PER_NS / 8,
        )
        return [widen], temporary

    def _table(self, window: Window, shape: tuple[int, ...], depth: int) -> BoundConstant:
        """Returns the table of a window on an image; see `neurald.drivers.cpu.first_tier.kernels`."""
        key = window, shape, depth
        known = self._tables.get(key)
        if known is None:
            known = self._tables[key] = BoundConstant.of(_window_table(window, shape, depth))
        return known

    def _epilogue(self, call: Call, weights: Array, padded: int) -> "_Epilogue":
        """Returns the parameters of the epilogue.

        Args:
            call: the operation.
            weights: without their zero point; the first dimension are the channels.
            padded: number of channels that have parameters.
        """
        channels = len(weights)
        bias = self.constant(call, "bias") if call.has("bias") else np.zeros(channels, np.int32)
        output = call.operand("output")
        added = np.zeros(padded, np.float32 if output.type is FLOAT else np.int32)
        added[:channels] = bias
        if output.type is FLOAT:
            return _Epilogue(constants=(BoundConstant.of(added),), words=_limits(call))
        if not _fits(call, weights, bias):
            raise NotBound("sums may exceed 32 bits")
        filter_, given = call.operand("filter"), call.operand("input")
        scales = (filter_.scale,) if filter_.channel_quant is None else filter_.channel_quant.scales
        multipliers = np.array(scales, np.float64) * given.scale / output.scale
        parameters = np.zeros((SCALES, padded), np.int64)
        parameters[-1] = 31
        mantissas, parameters[:, :channels] = _requantization(multipliers, is_twice=_is_twice(call))
        both = np.zeros((2, padded), np.int32)
        both[0], both[1, :channels] = added, mantissas
        low, high = quantized_limits(output, call.activation)
        return _Epilogue(
            constants=(BoundConstant.of(both), BoundConstant.of(parameters)),
            words=(output.zero_point, low, high, padded),
        )

    # Operations on elements.

    def binary(self, call: Call) -> list[BoundCall]:
        """Binds ADD, SUB and MUL."""
        output = call.operand("output")
        shape = output.dimensions
        assert shape is not None  # noqa: S101 - checked
        elements = math.prod(shape)
        moved: list[BoundCall] = []
        names = tuple(call.binding.inputs)[:2]
        operands = [self._operand(call, name, shape, moved) for name in names]
        if output.type is FLOAT and call.operand(names[0]).type is FLOAT:
            return [
                *moved,
                BoundCall(
                    function=_BINARY[call.binding.type],
                    arguments=(call.index("output"), *operands),
                    words=(elements, *(_limits(call) if "activation" in call.binding.inputs else _UNLIMITED)),
                    work_items=-(-elements // BLOCK),
                    cost_ns=elements / _ELEMENTS_PER_NS / 4,
                ),
            ]
        first, second = (call.operand(name) for name in ("input1", "input2"))
        if not {first.type, second.type, output.type} <= _BYTES or call.binding.type not in _ROUNDED_TWICE:
            raise NotBound("the types have no kernel")
        if call.binding.type is OperationType.MUL:
            function, tables = "first_byte_product", [_byte_values(each) for each in (first, second)]
            rescale = single_ratio(first.scale, second.scale, output.scale)
        else:
            function, shift = "first_byte_sum", addend_shift(output)
            largest = 2.0 * max(first.scale, second.scale)
            tables = [
                multiply(_byte_values(each) << shift, *quantize_multiplier(each.scale / largest))
                for each in (first, second)
            ]
            if call.binding.type is OperationType.SUB:
                tables[1] = -tables[1]
            rescale = largest / ((1 << shift) * output.scale)
        (mantissa,), parameters = _requantization(np.array([rescale]))
        return [
            *moved,
            BoundCall(
                function=function,
                arguments=(
                    call.index("output"),
                    *operands,
                    *(BoundConstant.of(table.astype(np.int32)) for table in tables),
                ),
                words=(
                    elements,
                    mantissa,
                    *parameters[:, 0],
                    output.zero_point,
                    *quantized_limits(output, call.activation),
                ),
                work_items=-(-elements // BLOCK),
                cost_ns=elements / _ELEMENTS_PER_NS,
            ),
        ]

    def _operand(
        self, call: Call, name: str, shape: tuple[int, ...], moved: list[BoundCall]
    ) -> int | BoundConstant | BoundTemporary:
        """Returns an operand of a shape, to which it is repeated if necessary.

        Args:
            call: the operation.
            name: of its input.
            shape: the shape.
            moved: takes the call that repeats a variable.
        """
        given = call.shape(name)
        if given == shape:
            return call.index(name)
        value = self._value(call.index(name))
        if value is not None:
            return BoundConstant.of(np.broadcast_to(value, shape))
        itemsize = call.operand(name).type.dtype.itemsize
        temporary = BoundTemporary(size_bytes=math.prod(shape) * itemsize)
        numbers = np.broadcast_to(np.arange(math.prod(given)).reshape(given), shape).reshape(-1)
        moved.append(moving_call(temporary, call.index(name), itemsize, numbers))
        return temporary

    def unary(self, call: Call) -> list[BoundCall]:
        """Binds functions of one element."""
        (name,) = (each for each in call.binding.inputs if call.operand(each).type.is_tensor)
        output = call.operand("output")
        if call.operand(name).type is output.type is FLOAT and call.binding.type in _UNARY:
            function, limits = _UNARY[call.binding.type]
            elements = math.prod(call.shape(name))
            return [
                BoundCall(
                    function=function,
                    arguments=(call.index("output"), call.index(name)),
                    words=(elements, *map(_bits, limits)),
                    work_items=-(-elements // BLOCK),
                    cost_ns=elements / _ELEMENTS_PER_NS,
                )
            ]
        if not {call.operand(name).type, output.type} <= _BYTES:
            raise NotBound("the types have no kernel")
        elements = math.prod(call.shape(name))
        given = {call.index(name): np.arange(256, dtype=np.uint8).view(call.operand(name).type.dtype)}
        return [
            BoundCall(
                function="first_lookup",
                arguments=(call.index("output"), call.index(name), self._lookup(call, given)),
                words=(elements,),
                work_items=-(-elements // BLOCK),
                cost_ns=elements / _ELEMENTS_PER_NS / 2,
            )
        ]

    def _lookup(self, call: Call, given: Mapping[int, Array]) -> BoundConstant:
        """Returns the results of the operation's reference for all values of its inputs."""
        operands = self._graph.operands

        def value_of(index: int) -> Array | None:
            return given[index] if index in given else self._model.constant(operands[index])

        def shape_of(index: int) -> tuple[int, ...] | None:
            value = value_of(index)
            return None if value is None else value.shape

        known = Call(call.binding, operands, shape_of, value_of)
        key = (
            call.binding.type,
            tuple(
                (operands[index].type, operands[index].scale, operands[index].zero_point) for index in given
            ),
            (call.operand("output").type, call.operand("output").scale, call.operand("output").zero_point),
            call.activation if "activation" in call.binding.inputs else None,
        )
        found = self._lookups.get(key)
        if found is None:
            (results,) = DEFINITIONS[call.binding.type].reference(known)
            found = self._lookups[key] = BoundConstant.of(results.reshape(-1).view(np.uint8))
        return found

    def softmax(self, call: Call) -> list[BoundCall]:
        """Binds SOFTMAX of floats along the last axis."""
        shape = call.shape("input")
        if call.operand("input").type is not FLOAT or call.scalar("axis") not in (-1, len(shape) - 1):
            raise NotBound("the type or the axis has no kernel")
        return self._rows(call, "first_softmax", shape[-1], _bits(call.scalar("beta")))

    def mean(self, call: Call) -> list[BoundCall]:
        """Binds MEAN of floats over the last axes."""
        shape, axes = call.shape("input"), self.constant(call, "axes")
        rank = len(shape)
        reduced = {int(axis) % rank for axis in axes.reshape(-1)}
        if call.operand("input").type is not FLOAT or reduced != set(range(rank - len(reduced), rank)):
            raise NotBound("the type or the axes have no kernel")
        return self._rows(call, "first_mean", math.prod(shape[rank - len(reduced) :]))

    def _rows(self, call: Call, function: str, length: int, *words: int) -> list[BoundCall]:
        """Binds a kernel whose work items are rows of the input."""
        elements = math.prod(call.shape("input"))
        if not elements:
            raise NotBound("there are no elements")
        return [
            BoundCall(
                function=function,
                arguments=(call.index("output"), call.index("input")),
                words=(length, *words),
                work_items=elements // length,
                cost_ns=elements / _ELEMENTS_PER_NS,
            )
        ]

    def movement(self, call: Call) -> list[BoundCall]:
        """Binds operations that only move elements."""
        return self._movements.calls(call)

    def copy(self, call: Call) -> list[BoundCall]:
        """Binds RESHAPE, whose elements keep their order."""
        operand = call.operand("output")
        assert operand.dimensions is not None  # noqa: S101 - checked
        size = math.prod(operand.dimensions) * operand.type.dtype.itemsize
        if operand.type is OperandType.TENSOR_STRING or call.operand("input").type is not operand.type:
            raise NotBound("the types have no kernel")
        return [copying_call(call.index("output"), call.index("input"), size)]


def _is_twice(call: Call) -> bool:
    """Returns True if sums are rounded twice."""
    if call.binding.type is not OperationType.TFLITE_FULLY_CONNECTED:
        return True
    return fully_connected.rounding(call) is Rounding.TWICE


def _requantization(multipliers: Array, *, is_twice: bool = True) -> tuple[Array, Array]:
    """Returns the mantissas and the `SCALES` other parameters of multipliers.

    Args:
        multipliers: of the channels.
        is_twice: True for `Rounding.TWICE`, else `Rounding.ONCE`.

    Raises:
        NotBound: a multiplier is not below 1.
    """
    mantissas, exponents = quantize_multipliers(multipliers)
    if (exponents > 0).any():
        raise NotBound("a multiplier is not below 1")
    right = -exponents
    if not is_twice:
        return mantissas, np.stack((np.int64(1 << 30) << right, np.zeros_like(right), 31 + right))
    addends = np.where(right, (1 << 30) + (np.int64(1 << 30) << right), 1 << 30)
    return mantissas, np.stack((addends, np.where(right, -1 << 31, 0), 31 + right))


class _Epilogue(Struct, frozen=True, kw_only=True):
    """The constants and words of an epilogue."""

    constants: tuple[BoundConstant, ...]
    words: tuple[int, ...]


def _byte_values(operand: Operand) -> Array:
    """Returns the integers that the 256 bytes of an operand stand for, without its zero point."""
    values = np.arange(256, dtype=np.uint8).view(operand.type.dtype)
    return values.astype(np.int64) - operand.zero_point


def _limits(call: Call) -> tuple[int, int]:
    """Returns the limits of a fused activation on floats, as bits."""
    low, high = activate(np.array([-np.inf, np.inf], np.float32), call.activation).tolist()
    return _bits(low), _bits(high)


def _bits(value: float) -> int:
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return int(bits)


def _centred(call: Call, filter_: Array) -> Array:
    """Returns weights without their zero point, in the type in which they are multiplied.

    Raises:
        NotBound: the types have no kernel.
    """
    given, weights, output = call.operand("input"), call.operand("filter"), call.operand("output")
    if given.type is weights.type is output.type is FLOAT:
        return filter_
    if given.type not in _BYTES or output.type not in _BYTES or not is_quantized(weights):
        raise NotBound("the types have no kernel")
    return filter_.astype(np.int16) - np.int16(weights.zero_point)


def _fits(call: Call, weights: Array, bias: Array) -> bool:
    """Returns True if no sum of products exceeds 32 bits."""
    largest = depthwise_convolution.largest(call)
    if largest * _MAX_WEIGHT * (weights.size // len(weights)) + _MAX_BIAS <= _MAX_INT32 and (
        int(bias.max(initial=0)) <= _MAX_BIAS and int(bias.min(initial=0)) >= -_MAX_BIAS
    ):
        return True
    sums = np.abs(weights).reshape(len(weights), -1).sum(axis=1, dtype=np.int64)
    return bool((largest * sums + np.abs(bias.astype(np.int64)) <= _MAX_INT32).all())


def _into(source: Array, where: tuple[slice, ...]) -> Callable[[Array], None]:
    """Returns a function that copies an array to a part of another one."""

    def fill(target: Array) -> None:
        target[where] = source

    return fill


def _window_table(window: Window, shape: tuple[int, ...], depth: int) -> Array:
    """Returns the offsets of all taps of all positions.

    Raises:
        NotBound: there are too many.
    """
    batch, height, width, _ = shape
    taps = math.prod(window.kernel)
    if batch * math.prod(window.output) * taps > _MAX_TABLE or math.prod(shape[:3]) * depth > _MAX_INT32:
        raise NotBound("the table of the window is too large")
    lines, columns = (
        np.arange(window.output[axis])[:, None] * window.stride[axis]
        + np.arange(window.kernel[axis])[None, :] * window.dilation[axis]
        - window.padding[axis][0]
        for axis in (0, 1)
    )
    row = np.where((lines >= 0) & (lines < height), lines * width, -1)
    column = np.where((columns >= 0) & (columns < width), columns, -1)
    # Positions first, then taps.
    rows, column = row[:, None, :, None], column[None, :, None, :]
    pixels = np.where((rows >= 0) & (column >= 0), rows + column, -1).astype(np.int64)
    images = (np.arange(batch) * height * width)[:, None]
    pixels = pixels.reshape(1, -1)
    table = np.where(pixels >= 0, (pixels + images) * depth, -1)
    return table.astype(np.int32).reshape(-1)


_INFINITY: Final = (-math.inf, math.inf)
_UNLIMITED: Final = tuple(_bits(each) for each in _INFINITY)
#: Kernels of functions of floats, and the limits of their results.
_UNARY: Final = {
    OperationType.RELU: ("first_clamp", (0.0, math.inf)),
    OperationType.RELU1: ("first_clamp", (-1.0, 1.0)),
    OperationType.RELU6: ("first_clamp", (0.0, 6.0)),
    OperationType.LOGISTIC: ("first_logistic", _INFINITY),
    OperationType.TANH: ("first_tanh", _INFINITY),
    OperationType.HARD_SWISH: ("first_hard_swish", _INFINITY),
    OperationType.EXP: ("first_exp", _INFINITY),
    OperationType.RSQRT: ("first_rsqrt", _INFINITY),
    OperationType.TFLITE_RSQRT: ("first_rsqrt", _INFINITY),
}
#: Operations that models have between constants and their readers.
_FOLDED: Final = (
    OperationType.DEQUANTIZE,
    OperationType.TFLITE_DEQUANTIZE,
    OperationType.DENSIFY,
    OperationType.CAST,
    OperationType.TFLITE_CAST,
)
#: Operations on bytes whose references round as the kernels do.
_ROUNDED_TWICE: Final = (OperationType.ADD, OperationType.SUB, OperationType.MUL)
_BINARY: Final = {
    OperationType.ADD: "first_add",
    OperationType.SUB: "first_subtract",
    OperationType.MUL: "first_multiply",
    OperationType.TFLITE_ADD: "first_add",
    OperationType.TFLITE_SUB: "first_subtract",
    OperationType.TFLITE_MUL: "first_multiply",
    OperationType.DIV: "first_divide",
    OperationType.TFLITE_SQUARED_DIFFERENCE: "first_squared_difference",
    OperationType.PRELU: "first_prelu",
}

_MOVEMENTS: Final = (
    "CONCATENATION",
    "TRANSPOSE",
    "SLICE",
    "STRIDED_SLICE",
    "SPLIT",
    "TILE",
    "SPACE_TO_DEPTH",
    "DEPTH_TO_SPACE",
    "CHANNEL_SHUFFLE",
    "PAD",
    "PAD_V2",
    "TFLITE_PAD",
    "TFLITE_PADV2",
    "TFLITE_CONCATENATION",
    "TFLITE_TRANSPOSE",
    "TFLITE_SLICE",
    "TFLITE_STRIDED_SLICE",
    "TFLITE_SPLIT",
    "TFLITE_SPLIT_V",
    "TFLITE_TILE",
    "TFLITE_PACK",
    "TFLITE_UNPACK",
    "TFLITE_SPACE_TO_DEPTH",
    "TFLITE_DEPTH_TO_SPACE",
    "TFLITE_REVERSE_V2",
    "TFLITE_BROADCAST_TO",
)

_WRITERS: Final[Mapping[OperationType, Callable[[Binder, Call], list[BoundCall]]]] = {
    OperationType.CONV_2D: Binder.convolution,
    OperationType.DEPTHWISE_CONV_2D: Binder.depthwise,
    OperationType.FULLY_CONNECTED: Binder.fully_connected,
    OperationType.ADD: Binder.binary,
    OperationType.SUB: Binder.binary,
    OperationType.MUL: Binder.binary,
    OperationType.RELU: Binder.unary,
    OperationType.RELU1: Binder.unary,
    OperationType.RELU6: Binder.unary,
    OperationType.LOGISTIC: Binder.unary,
    OperationType.TANH: Binder.unary,
    OperationType.HARD_SWISH: Binder.unary,
    OperationType.TFLITE_QUANTIZE: Binder.unary,
    OperationType.EXP: Binder.unary,
    OperationType.RSQRT: Binder.unary,
    OperationType.TFLITE_RSQRT: Binder.unary,
    OperationType.DIV: Binder.binary,
    OperationType.PRELU: Binder.binary,
    OperationType.SOFTMAX: Binder.softmax,
    OperationType.MEAN: Binder.mean,
    OperationType.TFLITE_MEAN: Binder.mean,
    OperationType.MAX_POOL_2D: Binder.maximum,
    OperationType.TFLITE_SQUARED_DIFFERENCE: Binder.binary,
    OperationType.TFLITE_ADD: Binder.binary,
    OperationType.TFLITE_SUB: Binder.binary,
    OperationType.TFLITE_MUL: Binder.binary,
    OperationType.TFLITE_FULLY_CONNECTED: Binder.fully_connected,
    OperationType.RESHAPE: Binder.copy,
    OperationType.SQUEEZE: Binder.copy,
    OperationType.EXPAND_DIMS: Binder.copy,
    OperationType.TFLITE_RESHAPE: Binder.copy,
    OperationType.TFLITE_EXPAND_DIMS: Binder.copy,
    **{OperationType[name]: Binder.movement for name in _MOVEMENTS},
}
