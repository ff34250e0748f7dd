"""Custom operators of MediaPipe that crop images around landmarks, and Resampler.

Landmarks2TransformMatrix returns the matrix that takes positions in a crop to positions in an
image, TransformTensorBilinear the crop, and TransformLandmarks moves landmarks by such a matrix.
Matrices have shape (1, 4, 4), of which the first two rows are read; the third coordinate is taken
as 0. Each of the three has a second version with other options and shapes. Resampler takes the
positions themselves.
"""

import math
from collections.abc import Sequence

import numpy as np

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.runtime.tflite.file.flexbuffer import FlexMap
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.machinery.steps import constant, known_shape, reshaped, step

#: Maximum number of elements of a crop along an axis.
_MAX_SIZE = 1 << 15
#: Maximum number of elements of a channel of all images, whose numbers FLOAT32 represents.
_MAX_ELEMENTS = 1 << 24
_BOOL = OperandType.TENSOR_BOOL8
_INT32 = OperandType.TENSOR_INT32


class _Numbers:
    """Emits arithmetic of small FLOAT32 tensors that broadcast.

    Args:
        graph: receives the operations.
    """

    def __init__(self, graph: SubgraphBuilder) -> None:
        self._graph = graph
        self._none = graph.int32(FusedActivation.NONE)

    def constant(self, value: float) -> int:
        return constant(self._graph, np.full(1, value))

    def add(self, *terms: int) -> int:
        total, *rest = terms
        for term in rest:
            total = step(self._graph, OperationType.ADD, total, term, self._none)
        return total

    def subtract(self, one: int, other: int) -> int:
        return step(self._graph, OperationType.SUB, one, other, self._none)

    def multiply(self, *factors: int) -> int:
        product, *rest = factors
        for factor in rest:
            product = step(self._graph, OperationType.MUL, product, factor, self._none)
        return product

    def scale(self, value: int, factor: float) -> int:
        return self.multiply(value, self.constant(factor))

    def divide(self, one: int, other: int) -> int:
        return step(self._graph, OperationType.DIV, one, other, self._none)

    def apply(self, operation_type: OperationType, *inputs: int) -> int:
        return step(self._graph, operation_type, *inputs)

    def extremes(self, values: int) -> tuple[int, int]:
        """Returns the least and the largest of the elements of a vector."""
        inputs = values, self._graph.vector((0,)), self._graph.boolean(value=True)
        return self.apply(OperationType.REDUCE_MIN, *inputs), self.apply(OperationType.REDUCE_MAX, *inputs)

    def rotated(self, x: int, y: int, cosine: int, sine: int) -> tuple[int, int]:
        """Returns a position after a rotation."""
        return (
            self.subtract(self.multiply(x, cosine), self.multiply(y, sine)),
            self.add(self.multiply(x, sine), self.multiply(y, cosine)),
        )

    def rotated_back(self, x: int, y: int, cosine: int, sine: int) -> tuple[int, int]:
        """Returns a position after the inverse of a rotation."""
        return (
            self.add(self.multiply(x, cosine), self.multiply(y, sine)),
            self.subtract(self.multiply(y, cosine), self.multiply(x, sine)),
        )

    def picked(self, source: int, places: Sequence[int]) -> int:
        """Returns elements of a vector."""
        return step(
            self._graph, OperationType.GATHER, source, self._graph.int32(0), self._graph.vector(places)
        )


def _matrix(graph: SubgraphBuilder, operator: Operator) -> int:
    """Returns the elements of the second input, a matrix, as a vector.

    Raises:
        UnsupportedFeature: it is not one 4 x 4 matrix.
    """
    operand = graph.operand(graph.input(operator, 1))
    shape = operand.dimensions
    if operand.type is not OperandType.TENSOR_FLOAT32 or shape is None or math.prod(shape) != 16:
        shown = "unknown" if shape is None else list(shape)
        raise UnsupportedFeature(
            f"input 1 has type {operand.type.name} and shape {shown}; FLOAT32 and 4 x 4 numbers are expected"
        )
    return reshaped(graph, graph.input(operator, 1), (16,))


def transform_landmarks(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes TransformLandmarks.

    The first version has an input of rank 4 whose last axis holds any number of landmarks, and a
    factor for the offset. The second has one landmark in each row.
    """
    source = graph.input(operator)
    rank = len(graph.operand(source).dimensions or ())
    shape = known_shape(graph, operator, 0, 3 if rank == 3 else 4)
    dimensions, factor = shape[-1], 1.0
    if rank == 4:
        options = FlexMap(operator.custom_options)
        dimensions, factor = options.integer("dimensions"), options.real("scale")
    if dimensions not in (2, 3) or shape[-1] % dimensions:
        raise UnsupportedFeature(
            f"landmarks of {dimensions} coordinates in rows of {shape[-1]} numbers; 2 or 3 are expected"
        )
    if factor == 0 or not math.isfinite(factor):
        raise UnsupportedFeature(f"the factor is {factor:g}; a finite number other than 0 is expected")
    numbers, matrix = _Numbers(graph), _matrix(graph, operator)
    count = math.prod(shape) // dimensions
    points = reshaped(graph, source, (count, dimensions))

    def coordinates(first: int, number: int) -> int:
        begin, size = graph.vector((0, first)), graph.vector((count, number))
        return step(graph, OperationType.SLICE, points, begin, size)

    moved = numbers.add(
        numbers.multiply(coordinates(0, 1), numbers.picked(matrix, (0, 4))),
        numbers.multiply(coordinates(1, 1), numbers.picked(matrix, (1, 5))),
        numbers.scale(numbers.picked(matrix, (3, 7)), factor),
    )
    if dimensions == 3:
        moved = step(graph, OperationType.CONCATENATION, moved, coordinates(2, 1), graph.int32(1))
    reshaped(graph, moved, shape, graph.output(operator))


def transform_tensor_bilinear(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes TransformTensorBilinear: interpolates an image at positions that a matrix computes.

    Positions outside of the image give 0. In the second version, the matrix takes positions at
    which elements have their centres at halves.
    """
    options = FlexMap(operator.custom_options)
    is_centred = "output_height" in options
    if is_centred:
        size = options.integer("output_height"), options.integer("output_width")
    else:
        height_width = options.integers("output_size")
        if len(height_width) != 2:
            raise UnsupportedFeature(f"output_size is {list(height_width)}; two lengths are expected")
        size = height_width[0], height_width[1]
    batches, height, width, channels = known_shape(graph, operator, 0, 4)
    if height * width > _MAX_ELEMENTS:
        raise UnsupportedFeature(f"an image of {height} x {width}; {_MAX_ELEMENTS} elements are the most")
    if batches != 1 or not all(1 <= each <= _MAX_SIZE for each in size):
        raise UnsupportedFeature(
            f"{batches} images and crops of {size[0]} x {size[1]}; one image is expected, and lengths from 1 "
            f"to {_MAX_SIZE}"
        )
    numbers, matrix = _Numbers(graph), _matrix(graph, operator)
    across = constant(graph, np.arange(size[1]).reshape(1, -1))
    down = constant(graph, np.arange(size[0]).reshape(-1, 1))
    axes = []
    for first, length in ((0, width), (4, height)):
        along_x, along_y, offset = (numbers.picked(matrix, (first + place,)) for place in (0, 1, 3))
        if is_centred:
            half = numbers.scale(numbers.add(along_x, along_y), 0.5)
            offset = numbers.add(offset, half, numbers.constant(-0.5))
        products = numbers.multiply(along_x, across), numbers.multiply(along_y, down)
        axes.append(_Axis(graph, numbers, numbers.add(*products, offset), length))
    x, y = axes
    rows = reshaped(graph, graph.input(operator), (height * width, channels))
    total = _interpolated(graph, rows, x, y, size)
    is_inside = step(graph, OperationType.LOGICAL_AND, x.is_inside(), y.is_inside(), kind=_BOOL)
    mask = step(graph, OperationType.RESHAPE, is_inside, graph.vector((*size, 1)), kind=_BOOL)
    zero = constant(graph, np.zeros((1, 1, 1)))
    crop = step(graph, OperationType.TFLITE_SELECT_V2, mask, total, zero)
    reshaped(graph, crop, (1, *size, channels), graph.output(operator))


def resampler(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes Resampler: interpolates images at positions (x, y), with 0 around the images."""
    batches, height, width, channels = known_shape(graph, operator, 0, 4)
    expected = (batches, height, width, 2)
    if known_shape(graph, operator, 1, 4) != expected:
        raise UnsupportedFeature(
            f"positions have shape {list(known_shape(graph, operator, 1, 4))}; {list(expected)} is expected"
        )
    area = (height + 2) * (width + 2)
    if batches * area > _MAX_ELEMENTS:
        raise UnsupportedFeature(
            f"{batches} images of {height} x {width}; {_MAX_ELEMENTS} elements are the most"
        )
    numbers = _Numbers(graph)
    around = graph.constant_like(
        Operand(type=_INT32, dimensions=(4, 2)), np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    )
    framed = step(graph, OperationType.PAD, graph.input(operator), around)
    rows = reshaped(graph, framed, (batches * area, channels))
    shape = (batches, height, width)
    axes = []
    for place, length in ((0, width), (1, height)):
        begin, size = graph.vector((0, 0, 0, place)), graph.vector((*shape, 1))
        position = step(graph, OperationType.SLICE, graph.input(operator, 1), begin, size)
        shifted = numbers.add(reshaped(graph, position, shape), numbers.constant(1))
        axes.append(_Axis(graph, numbers, shifted, length + 2))
    first = constant(graph, np.arange(batches).reshape(-1, 1, 1) * area)
    total = _interpolated(graph, rows, axes[0], axes[1], shape, first)
    reshaped(graph, total, (*shape, channels), graph.output(operator))


class _Axis:
    """Positions on an axis of an image, their neighbours and the weights of these.

    Args:
        graph, numbers: receive the operations.
        position: the positions.
        length: the length of the axis.
    """

    def __init__(self, graph: SubgraphBuilder, numbers: _Numbers, position: int, length: int) -> None:
        self.length = length
        self._graph, self._numbers, self._position = graph, numbers, position
        zero, last = numbers.constant(0), numbers.constant(length - 1)
        # With a position that is not a number, TFLite's operations take the limit.
        limited = numbers.apply(OperationType.TFLITE_MAXIMUM, position, zero)
        limited = numbers.apply(OperationType.TFLITE_MINIMUM, limited, last)
        self._lower = numbers.apply(OperationType.FLOOR, limited)
        following = numbers.add(self._lower, numbers.constant(1))
        self._upper = numbers.apply(OperationType.TFLITE_MINIMUM, following, last)
        self._after = numbers.subtract(limited, self._lower)

    def is_inside(self) -> int:
        """Returns whether positions are on the image."""
        limits = (
            (OperationType.GREATER_EQUAL, self._numbers.constant(0)),
            (OperationType.LESS_EQUAL, self._numbers.constant(self.length - 1)),
        )
        return step(
            self._graph,
            OperationType.LOGICAL_AND,
            *(step(self._graph, compare, self._position, limit, kind=_BOOL) for compare, limit in limits),
            kind=_BOOL,
        )

    def corner(self, *, upper: bool) -> int:
        """Returns the index of a neighbour, as FLOAT32."""
        return self._upper if upper else self._lower

    def weight(self, *, upper: bool) -> int:
        """Returns the weight of a neighbour."""
        return self._after if upper else self._numbers.subtract(self._numbers.constant(1), self._after)


def _interpolated(
    graph: SubgraphBuilder, rows: int, x: _Axis, y: _Axis, shape: tuple[int, ...], first: int | None = None
) -> int:
    """Returns what is between four neighbours, of that shape and followed by the channels.

    Args:
        graph: receives the operations.
        rows: the channels of each element of the images.
        x, y: the positions.
        shape: the shape of the positions.
        first: the numbers of the images' first rows; None for one image.
    """
    numbers = _Numbers(graph)

    def corner(below: bool, right: bool) -> int:
        place = numbers.add(numbers.scale(y.corner(upper=below), x.length), x.corner(upper=right))
        if first is not None:
            place = numbers.add(place, first)
        index = step(graph, OperationType.CAST, place, kind=_INT32)
        values = step(graph, OperationType.GATHER, rows, graph.int32(0), index)
        weight = numbers.multiply(y.weight(upper=below), x.weight(upper=right))
        return numbers.multiply(values, reshaped(graph, weight, (*shape, 1)))

    return numbers.add(*(corner(below, right) for below in (False, True) for right in (False, True)))


def landmarks_to_transform_matrix(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes Landmarks2TransformMatrix.

    The crop encloses some landmarks, rotated so that two landmarks have the same height, or are at
    a given angle in the second version.
    """
    options = FlexMap(operator.custom_options)
    is_first = "input_hw" in options
    count = math.prod(known_shape(graph, operator, 0, 4 if is_first else 3)) // 3
    chosen = options.integers("subset" if is_first else "subset_idxs")
    ends = options.integer("left_rotation_idx"), options.integer("right_rotation_idx")
    if not chosen or not all(0 <= each < count for each in (*chosen, *ends)):
        raise UnsupportedFeature(
            f"landmarks {list(chosen)}, and {ends[0]} and {ends[1]} for the rotation; numbers from 0 to "
            f"{count - 1} are expected"
        )
    numbers = _Numbers(graph)
    flat = reshaped(graph, graph.input(operator), (-1,))
    differences = []
    for axis in (0, 1):
        left, right = (numbers.picked(flat, (3 * end + axis,)) for end in ends)
        differences.append(numbers.subtract(right, left))
    if is_first:
        slope = numbers.divide(differences[1], differences[0])
        angle = numbers.apply(OperationType.TFLITE_ATAN2, slope, numbers.constant(1))
        rotation = numbers.scale(angle, -1)
    else:
        angle = numbers.apply(OperationType.TFLITE_ATAN2, differences[1], differences[0])
        rotation = numbers.subtract(numbers.constant(options.real("target_rotation_radians")), angle)
    turn = numbers.apply(OperationType.TFLITE_COS, rotation), numbers.apply(OperationType.SIN, rotation)
    points = [numbers.picked(flat, [3 * each + axis for each in chosen]) for axis in (0, 1)]
    limits = [numbers.extremes(values) for values in numbers.rotated(points[0], points[1], *turn)]
    extent = [numbers.subtract(high, low) for low, high in limits]
    middle = [numbers.scale(numbers.add(low, high), 0.5) for low, high in limits]
    centre = numbers.rotated_back(middle[0], middle[1], *turn)
    rows = (_first_rows if is_first else _second_rows)(numbers, options, turn, extent, centre)
    zero, one = numbers.constant(0), numbers.constant(1)
    elements: list[int] = []
    for x, y, offset in rows:
        elements += (x, y, zero, offset)
    elements += (zero, zero, one, zero, zero, zero, zero, one)
    vector = step(graph, OperationType.CONCATENATION, *elements, graph.int32(0))
    reshaped(graph, vector, (1, 4, 4), graph.output(operator))


#: Factors of x and y, and the offset, for x and for y of the image.
_Rows = tuple[tuple[int, int, int], tuple[int, int, int]]


def _size(name: str, height: int, width: int, least: int) -> tuple[int, int]:
    """Returns (width, height) after checking them."""
    if min(height, width) < least:
        raise UnsupportedFeature(f"{name} is {height} x {width}; lengths of at least {least} are expected")
    return width, height


def _pair(options: FlexMap, name: str, least: int) -> tuple[int, int]:
    lengths = options.integers(name)
    if len(lengths) != 2:
        raise UnsupportedFeature(f"{name} is {list(lengths)}; two lengths are expected")
    return _size(name, lengths[0], lengths[1], least)


def _positive(options: FlexMap, name: str) -> float:
    value = options.real(name)
    if not 0 < value < math.inf:
        raise UnsupportedFeature(f"{name} is {value:g}; a positive number is expected")
    return value


def _first_rows(
    numbers: _Numbers, options: FlexMap, turn: Sequence[int], extent: Sequence[int], centre: Sequence[int]
) -> _Rows:
    """Returns the first two rows of the matrix of the first version.

    The landmarks count from 0 to a range, whereas positions are those of elements.
    """
    if options.integer("dimensions") != 3:
        raise UnsupportedFeature(
            f"landmarks have {options.integer('dimensions')} coordinates; 3 are expected"
        )
    image, crop = _pair(options, "input_hw", 1), _pair(options, "output_hw", 2)
    reach, factor = _positive(options, "landmarks_range"), options.real("bbox_size_multiplier")
    if factor == 0 or not math.isfinite(factor):
        raise UnsupportedFeature(f"bbox_size_multiplier is {factor:g}; a number other than 0 is expected")
    cosine, sine = turn
    # Half of the crop, in units in which half of the image is 1.
    width, height = (numbers.scale(each, factor / reach) for each in extent)
    turned = (
        (numbers.multiply(cosine, width), numbers.multiply(sine, height)),
        (numbers.scale(numbers.multiply(sine, width), -1), numbers.multiply(cosine, height)),
    )
    rows = []
    for (along_x, along_y), place, length in zip(turned, centre, image, strict=True):
        half = (length - 1) / 2
        middle = numbers.scale(place, 2 / reach)
        start = numbers.subtract(middle, numbers.add(along_x, along_y))
        rows.append(
            (
                numbers.scale(along_x, 2 / (crop[0] - 1) * half),
                numbers.scale(along_y, 2 / (crop[1] - 1) * half),
                numbers.scale(start, half),
            )
        )
    return rows[0], rows[1]


def _second_rows(
    numbers: _Numbers, options: FlexMap, turn: Sequence[int], extent: Sequence[int], centre: Sequence[int]
) -> _Rows:
    """Returns the first two rows of the matrix of the second version."""
    crop = _size("the crop", options.integer("output_height"), options.integer("output_width"), 1)
    factors = _positive(options, "scale_x"), _positive(options, "scale_y")
    cosine, sine = turn
    width, height = (
        numbers.scale(each, factor / length)
        for each, factor, length in zip(extent, factors, crop, strict=True)
    )
    turned = (
        (numbers.multiply(cosine, width), numbers.multiply(sine, height)),
        (numbers.scale(numbers.multiply(sine, width), -1), numbers.multiply(cosine, height)),
    )
    rows = []
    for (along_x, along_y), place in zip(turned, centre, strict=True):
        shift = numbers.add(numbers.scale(along_x, -crop[0] / 2), numbers.scale(along_y, -crop[1] / 2))
        rows.append((along_x, along_y, numbers.add(shift, place)))
    return rows[0], rows[1]


_CROP = Legalization(rule=transform_tensor_bilinear, inputs=(2, 2))

#: Custom operators by name.
CUSTOM: dict[str, Legalization] = {
    "Landmarks2TransformMatrix": Legalization(rule=landmarks_to_transform_matrix),
    "Resampler": Legalization(rule=resampler, inputs=(2, 2)),
    "TransformLandmarks": Legalization(rule=transform_landmarks, inputs=(2, 2)),
    # The first version has either name.
    "TransformTensor": _CROP,
    "TransformTensorBilinear": _CROP,
}
