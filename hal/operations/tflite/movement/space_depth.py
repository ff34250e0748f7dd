"""Space and depth operations with TFLite's types; batch variants also along one axis."""

import math

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.arguments import integers
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import same_scale
from neurald.hal.operations.machinery.signature import Form, tensor
from neurald.hal.operations.movement import space_depth
from neurald.hal.operations.movement.padding import pad, paddings
from neurald.hal.operations.tflite.machinery.elements import element_rows
from neurald.hal.records import replace

_RANKS = (3, 4)

_BLOCK_SHAPE = tensor("block_shape", OperandType.TENSOR_INT32, rank=1)
_TYPES = {
    OperationType.DEPTH_TO_SPACE: OperationType.TFLITE_DEPTH_TO_SPACE,
    OperationType.SPACE_TO_DEPTH: OperationType.TFLITE_SPACE_TO_DEPTH,
}


def _form(*names: str) -> Form:
    """Returns a form with lists of pairs of these names."""
    pairs = (tensor(name, OperandType.TENSOR_INT32, rank=2) for name in names)
    return Form(
        inputs=(tensor("input", rank=_RANKS), _BLOCK_SHAPE, *pairs),
        outputs=(tensor("output", rank=_RANKS),),
    )


def block_lengths(call: Call) -> Shape:
    """Returns the length of a block along each axis between batches and channels."""
    count = len(call.shape("input")) - 2
    lengths = tuple(int(length) for length in integers(call, "block_shape", (count,)))
    if any(each < 1 for each in lengths):
        raise BadData(f"{call.name('block_shape')} is {list(lengths)}; lengths of at least 1 are expected")
    return lengths


def _batch_to_space_shape(call: Call) -> tuple[Shape, ...]:
    batches, *image, channels = call.shape("input")
    block = block_lengths(call)
    if batches % math.prod(block):
        raise BadData(
            f"{call.name('block_shape')} is {list(block)}; its product does not divide the number of "
            f"batches, {batches}"
        )
    lengths = []
    for size, length, (before, after) in zip(image, block, crop_pairs(call), strict=True):
        if size * length < before + after:
            raise BadData(f"{call.name('crops')} takes {before} and {after} off a length of {size * length}")
        lengths.append(size * length - before - after)
    return ((batches // math.prod(block), *lengths, channels),)


def crop_pairs(call: Call) -> tuple[tuple[int, int], ...]:
    """Returns the numbers of elements cropped at both ends of each axis."""
    count = len(call.shape("input")) - 2
    if not call.has("crops"):
        return ((0, 0),) * count
    pairs = tuple((int(before), int(after)) for before, after in integers(call, "crops", (count, 2)))
    if any(each < 0 for pair in pairs for each in pair):
        raise BadData(f"{call.name('crops')} is {[*map(list, pairs)]}; no number may be negative")
    return pairs


def _batch_to_space(call: Call) -> tuple[Array, ...]:
    (shape,) = _batch_to_space_shape(call)
    values, block = call.array("input"), block_lengths(call)
    image, count = values.shape[1:-1], len(block)
    apart = values.reshape(*block, shape[0], *image, values.shape[-1])
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    whole = apart.transpose(*order, 2 * count + 1).reshape(
        shape[0],
        *(size * length for size, length in zip(image, block, strict=True)),
        values.shape[-1],
    )
    kept = (slice(crop[0], crop[0] + size) for crop, size in zip(crop_pairs(call), shape[1:-1], strict=True))
    return (whole[:, *kept].copy(),)


def _space_to_batch_shape(call: Call) -> tuple[Shape, ...]:
    batches, *image, channels = call.shape("input")
    block = block_lengths(call)
    lengths = []
    for size, length, (before, after) in zip(image, block, paddings(call, len(image)), strict=True):
        whole = before + size + after
        if whole % length:
            raise BadData(
                f"{call.name('block_shape')} is {list(block)}; it does not divide a padded length of {whole}"
            )
        lengths.append(whole // length)
    return ((batches * math.prod(block), *lengths, channels),)


def _space_to_batch(call: Call) -> tuple[Array, ...]:
    (shape,) = _space_to_batch_shape(call)
    values, block = call.array("input"), block_lengths(call)
    count = len(block)
    around = ((0, 0), *paddings(call, count), (0, 0))
    padded = pad(values, around, call.operand("output").zero_point)
    apart = padded.reshape(
        len(values),
        *(part for pair in zip(shape[1:-1], block, strict=True) for part in pair),
        shape[-1],
    )
    blocks = (2 + 2 * axis for axis in range(count))
    images = (1 + 2 * axis for axis in range(count))
    return (apart.transpose(*blocks, 0, *images, 2 * count + 1).reshape(shape),)


DEFINITIONS: tuple[Definition, ...] = (
    *(
        replace(
            definition,
            type=_TYPES[definition.type],
            rows=element_rows(),
            # LiteRT ignores these operators' scales.
            checks=(),
            level=None,
            widens=definition.type,
        )
        for definition in space_depth.DEFINITIONS
        if definition.type in _TYPES
    ),
    Definition(
        type=OperationType.TFLITE_BATCH_TO_SPACE_ND,
        forms=(_form("crops"), _form()),
        rows=element_rows(),
        checks=(same_scale("input"),),
        shape=_batch_to_space_shape,
        reference=_batch_to_space,
        widens=OperationType.BATCH_TO_SPACE_ND,
        arithmetic=frozenset({"input"}),
    ),
    Definition(
        type=OperationType.TFLITE_SPACE_TO_BATCH_ND,
        forms=(_form("paddings"),),
        rows=element_rows(),
        checks=(same_scale("input"),),
        shape=_space_to_batch_shape,
        reference=_space_to_batch,
        widens=OperationType.SPACE_TO_BATCH_ND,
        arithmetic=frozenset({"input"}),
    ),
)
