"""DENSIFY: expands a sparse tensor, in the format of TACO and TFLite.

A tensor of n dimensions, k of which may be divided into blocks, is stored as a tree of n + k
levels: first those of the block positions, then those inside of the blocks. The traversal order
gives the dimension of each level; n + i is the i-th block dimension, and the block map gives the
dimension that it belongs to. A dense level has a child for each index. A sparse one has children
for some indexes only, in compressed sparse row format: the indexes of the children of node p are
`indices[segments[p]:segments[p + 1]]`. The stored elements are the leaves, in order.
"""

import math

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import same_scale
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, row, tensor

_DENSE, _SPARSE = 0, 1

_TYPES = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT16,
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_BOOL8,
    OperandType.TENSOR_QUANT8_ASYMM,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    OperandType.TENSOR_QUANT8_SYMM,
    OperandType.TENSOR_QUANT16_ASYMM,
    OperandType.TENSOR_QUANT16_SYMM,
)


def _form(levels: int) -> Form:
    """Returns the form for a tree with that many levels."""
    numbers = [tensor(name, OperandType.TENSOR_INT32, rank=1) for name in ("order", "formats", "lengths")]
    lists = [
        tensor(f"{name}_{level}", OperandType.TENSOR_INT32, rank=1, optional=True)
        for level in range(levels)
        for name in ("segments", "indices")
    ]
    block_map = tensor("block_map", OperandType.TENSOR_INT32, rank=1, optional=True)
    return Form(
        inputs=(tensor("input", rank=1), numbers[0], block_map, *numbers[1:], *lists),
        outputs=(tensor("output"),),
        level=FeatureLevel.EXPERIMENTAL,
    )


def _numbers(call: Call, name: str) -> list[int]:
    return [int(number) for number in call.array(name)]


def _levels(call: Call) -> list[tuple[int, int]]:
    """Returns for each level its dimension in the dense tensor, and its length.

    Raises:
        BadData: traversal order, block map or lengths are invalid.
    """
    order, lengths = _numbers(call, "order"), _numbers(call, "lengths")
    block_map = _numbers(call, "block_map") if call.has("block_map") else []
    rank = len(order) - len(block_map)
    if (
        f"indices_{len(order) - 1}" not in call.binding.inputs
        or f"indices_{len(order)}" in call.binding.inputs
    ):
        given = (len(call.binding.inputs) - 5) // 2
        raise BadData(
            f"{call.name('order')} has {len(order)} elements; {given}, one for each level, are expected"
        )
    if not 1 <= rank <= MAX_RANK:
        raise BadData(
            f"{call.name('block_map')} has {len(block_map)} of the {len(order)} dimensions; 1 to {MAX_RANK} "
            "dimensions that are not blocks are expected"
        )
    if sorted(order[:rank]) != list(range(rank)) or sorted(order[rank:]) != list(range(rank, len(order))):
        raise BadData(
            f"{call.name('order')} is {order}; a permutation of the {rank} dimensions and then one of the "
            f"{len(block_map)} block dimensions are expected"
        )
    if any(not 0 <= dimension < rank for dimension in block_map) or sorted(set(block_map)) != block_map:
        raise BadData(
            f"{call.name('block_map')} is {block_map}; ascending dimensions below {rank} are expected"
        )
    if len(lengths) != len(order) or min(lengths) < 1:
        raise BadData(f"{call.name('lengths')} is {lengths}; {len(order)} lengths from 1 are expected")
    dimensions = [dimension if dimension < rank else block_map[dimension - rank] for dimension in order]
    return list(zip(dimensions, lengths, strict=True))


def _shape(call: Call) -> tuple[Shape, ...]:
    levels = _levels(call)
    rank = 1 + max(dimension for dimension, _ in levels)
    return (
        tuple(math.prod(length for part, length in levels if part == dimension) for dimension in range(rank)),
    )


def _formats(call: Call, levels: list[tuple[int, int]]) -> list[int]:
    """Returns the format of each level, after checking all lists.

    Raises:
        BadData: a list is missing or does not fit its level, or the numbers of elements and leaves
            differ.
    """
    formats = _numbers(call, "formats")
    if len(formats) != len(levels) or not set(formats) <= {_DENSE, _SPARSE}:
        raise BadData(
            f"{call.name('formats')} is {formats}; {len(levels)} numbers, 0 (dense) or 1 (sparse), are "
            "expected"
        )
    nodes = 1
    for level, (_, length) in enumerate(levels):
        if formats[level] == _DENSE:
            nodes *= length
        else:
            nodes = _expect_lists(call, level, nodes, length)
    if call.shape("input") != (nodes,):
        raise BadData(
            f"{call.name('input')} has {call.shape('input')[0]} elements; {nodes}, as many as the levels "
            "have "
            "leaves, are expected"
        )
    return formats


def _expect_lists(call: Call, level: int, parents: int, length: int) -> int:
    """Checks the lists of a sparse level; returns its number of nodes."""
    names = f"segments_{level}", f"indices_{level}"
    for name in names:
        if not call.has(name):
            raise BadData(f"{call.name(name)} is omitted; level {level} is sparse and needs it")
    segments, indices = (call.array(name) for name in names)
    is_ascending = len(segments) == parents + 1 and bool((segments[1:] >= segments[:-1]).all())
    if not is_ascending or segments[0] != 0 or segments[-1] != len(indices):
        raise BadData(
            f"{call.name(names[0])} has {len(segments)} elements; {parents + 1} that ascend from 0 to "
            f"{len(indices)}, the number of indices, are expected"
        )
    wrong = np.flatnonzero((indices < 0) | (indices >= length))
    if wrong.size:
        raise BadData(
            f"{call.name(names[1])}: element {wrong[0]} is {indices[wrong[0]]}; from 0 to {length - 1} is "
            "expected"
        )
    return len(indices)


def leaf_positions(call: Call) -> tuple[Array, ...]:
    """Returns the positions of the stored elements in the dense tensor, one array per dimension.

    Raises:
        BadData: the tree is invalid, or does not fit the elements.
        UnknownValue: a part of it is not known yet.
    """
    (shape,) = _shape(call)
    levels = _levels(call)
    formats = _formats(call, levels)
    # The position of each node in the dense tensor. Levels inside of a block refine the block
    # position.
    positions = [np.zeros(1, np.int64) for _ in shape]
    for level, (dimension, length) in enumerate(levels):
        parents = len(positions[0])
        if formats[level] == _DENSE:
            children = np.full(parents, length)
            indices = np.tile(np.arange(length), parents)
        else:
            children = np.diff(call.array(f"segments_{level}"))
            indices = call.array(f"indices_{level}")
        positions = [np.repeat(axis_positions, children) for axis_positions in positions]
        positions[dimension] = positions[dimension] * length + indices
    return tuple(positions)


def _reference(call: Call) -> tuple[Array, ...]:
    output = call.operand("output")
    dense = np.full(_shape(call)[0], output.zero_point, output.type.dtype)
    dense[leaf_positions(call)] = call.array("input")
    return (dense,)


DEFINITIONS = (
    Definition(
        type=OperationType.DENSIFY,
        forms=tuple(_form(levels) for levels in range(1, 2 * MAX_RANK + 1)),
        rows=tuple(row(FeatureLevel.EXPERIMENTAL, T=operand_type) for operand_type in _TYPES),
        checks=(same_scale("input"),),
        shape=_shape,
        reference=_reference,
    ),
)
