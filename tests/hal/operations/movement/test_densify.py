from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.operations.single_operation import (
    Given,
    call_of,
    evaluate,
    given,
    ints,
    level_of,
    omitted,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, UnknownValue

DENSIFY = OperationType.DENSIFY
FLOAT32, INT32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
#: Type, scale and zero point.
TYPES = [
    (FLOAT32, 0.0, 0),
    (OperandType.TENSOR_FLOAT16, 0.0, 0),
    (INT32, 0.0, 0),
    (OperandType.TENSOR_BOOL8, 0.0, 0),
    (OperandType.TENSOR_QUANT8_ASYMM, 0.5, 7),
    (OperandType.TENSOR_QUANT8_ASYMM_SIGNED, 0.5, -7),
    (OperandType.TENSOR_QUANT8_SYMM, 0.5, 0),
    (OperandType.TENSOR_QUANT16_ASYMM, 0.5, 700),
    (OperandType.TENSOR_QUANT16_SYMM, 0.5, 0),
]
#: Lengths of the dimensions outside of and inside blocks (0: no blocks), traversal order, formats.
TREES: list[tuple[list[int], list[int], list[int], list[int]]] = [
    ([4], [0], [0], [0]),
    ([4], [0], [0], [1]),
    ([3, 4], [0, 0], [0, 1], [0, 1]),
    ([3, 4], [0, 0], [1, 0], [1, 1]),
    ([2, 3, 4], [0, 0, 0], [2, 0, 1], [1, 0, 1]),
    ([2, 3], [2, 2], [0, 1, 2, 3], [0, 1, 0, 0]),
    ([2, 3], [3, 2], [1, 0, 3, 2], [0, 1, 0, 1]),
    ([2, 2, 3], [0, 4, 2], [2, 1, 0, 4, 3], [1, 1, 1, 0, 1]),
    ([2, 1, 2], [2, 3, 2], [0, 1, 2, 4, 5, 3], [0, 0, 1, 1, 0, 0]),
]


@dataclass
class Sparse:
    """The inputs of DENSIFY for a sparse tensor; unneeded lists of a level are None."""

    values: list[Any]
    order: list[int]
    block_map: list[int]
    formats: list[int]
    lengths: list[int]
    lists: list[list[int] | None]

    def inputs(self, operand_type: OperandType, scale: float = 0.0, zero_point: int = 0) -> list[Given]:
        return [
            given(operand_type, self.values, scale, zero_point),
            ints(*self.order),
            ints(*self.block_map) if self.block_map else omitted(INT32),
            ints(*self.formats),
            ints(*self.lengths),
            *(omitted(INT32) if each is None else given(INT32, np.array(each, int)) for each in self.lists),
        ]


def sparsified(dense: Array, blocks: list[int], order: list[int], formats: list[int], zero: Any) -> Sparse:
    """Walks the levels from the top; a sparse level has children only for parts that are not 0."""
    block_map = [dimension for dimension, length in enumerate(blocks) if length]
    rank = dense.ndim
    lengths = []
    for position in order:
        dimension = position if position < rank else block_map[position - rank]
        outer = dense.shape[dimension] // (blocks[dimension] or 1)
        lengths.append(outer if position < rank else blocks[dimension])
    sparse = Sparse([], order, block_map, formats, lengths, [])
    for format_ in formats:
        sparse.lists += [[0], []] if format_ else [None, None]

    def elements(path: list[int]) -> Array:
        """Returns the part of the dense tensor below a node."""
        index: list[Any] = [np.arange(length) for length in dense.shape]
        for level, step in enumerate(path):
            position = order[level]
            dimension = position if position < rank else block_map[position - rank]
            block = blocks[dimension] or 1
            index[dimension] = [
                i for i in index[dimension] if (i // block if position < rank else i % block) == step
            ]
        return dense[np.ix_(*index)]

    def walk(path: list[int]) -> None:
        level = len(path)
        if level == len(order):
            sparse.values.append(elements(path).item())
            return
        for step in range(lengths[level]):
            if not formats[level]:
                walk([*path, step])
            elif (elements([*path, step]) != zero).any():
                sparse.lists[2 * level + 1].append(step)  # type: ignore[union-attr]
                walk([*path, step])
        if formats[level]:
            sparse.lists[2 * level].append(len(sparse.lists[2 * level + 1]))  # type: ignore[union-attr, arg-type]

    walk([])
    return sparse


@sweep("density", [0.0, 0.2, 1.0])
@sweep("tree", TREES)
@sweep(("operand_type", "scale", "zero_point"), TYPES)
def test_round_trip(
    operand_type: OperandType, scale: float, zero_point: int, tree: Any, density: float
) -> None:
    outer, blocks, order, formats = tree
    generator = np.random.default_rng(len(order))
    shape = tuple(length * (block or 1) for length, block in zip(outer, blocks, strict=True))
    dense = np.full(shape, zero_point, operand_type.dtype)
    chosen = generator.random(shape) < density
    dense[chosen] = generator.integers(1, 100, shape).astype(operand_type.dtype)[chosen]
    sparse = sparsified(dense, blocks, order, formats, zero_point)
    result = evaluate(
        DENSIFY, sparse.inputs(operand_type, scale, zero_point), wanted(operand_type, scale, zero_point)
    )
    np.testing.assert_array_equal(result, dense)


def small() -> Sparse:
    """Returns [[0, 5, 0], [6, 0, 7]] in compressed sparse rows."""
    return Sparse([5, 6, 7], [0, 1], [], [0, 1], [2, 3], [None, None, [0, 1, 3], [1, 0, 2]])


def test_compressed_sparse_rows() -> None:
    result = evaluate(DENSIFY, small().inputs(FLOAT32), wanted(FLOAT32))
    assert result.tolist() == [[0, 5, 0], [6, 0, 7]]


@sweep(
    ("changes", "message"),
    [
        ({"order": [0, 0]}, r"order .* is \[0, 0\]; a permutation of the 2 dimensions"),
        ({"order": [0, 2]}, r"order .* is \[0, 2\]"),
        ({"order": [0]}, "order .* has 1 elements; 2, one for each level"),
        ({"order": [0, 1, 2]}, "order .* has 3 elements; 2, one for each level"),
        (
            {"block_map": [0, 1]},
            "block_map .* has 2 of the 2 dimensions; 1 to 16 dimensions that are not blocks",
        ),
        ({"block_map": [1]}, r"block_map .* is \[1\]; ascending dimensions below 1"),
        ({"block_map": [-1]}, r"block_map .* is \[-1\]"),
        ({"formats": [0, 2]}, r"formats .* is \[0, 2\]; 2 numbers, 0 \(dense\) or 1 \(sparse\)"),
        ({"formats": [0]}, r"formats .* is \[0\]"),
        ({"lengths": [2]}, r"lengths .* is \[2\]; 2 lengths from 1"),
        ({"lengths": [2, 0]}, r"lengths .* is \[2, 0\]"),
        ({"lengths": [2**31 - 1, 2**31 - 1]}, r"more than 2\^32 - 1 bytes"),
        ({"lists": [None, None, None, [1, 0, 2]]}, "segments_1 .* is omitted; level 1 is sparse"),
        ({"lists": [None, None, [0, 1, 3], None]}, "indices_1 .* is omitted"),
        (
            {"lists": [None, None, [0, 3], [1, 0, 2]]},
            "segments_1 .* has 2 elements; 3 that ascend from 0 to 3",
        ),
        ({"lists": [None, None, [0, 4, 3], [1, 0, 2]]}, "segments_1 .* 3 that ascend"),
        ({"lists": [None, None, [1, 1, 3], [1, 0, 2]]}, "segments_1 .* 3 that ascend"),
        ({"lists": [None, None, [0, 1, 4], [1, 0, 2]]}, "segments_1 .* 3 that ascend"),
        ({"lists": [None, None, [0, 1, 3], [1, 0, 3]]}, "indices_1 .*: element 2 is 3; from 0 to 2"),
        ({"lists": [None, None, [0, 1, 3], [-1, 0, 2]]}, "indices_1 .*: element 0 is -1"),
        ({"values": [5, 6]}, "input .* has 2 elements; 3, as many as the levels have leaves"),
        ({"formats": [0, 0]}, "input .* has 3 elements; 6"),
        ({"formats": [0, 0], "lengths": [2**15, 2**16]}, r"more than 2\^32 - 1 bytes"),
    ],
)
def test_refuses(changes: dict[str, Any], message: str) -> None:
    sparse = small()
    for name, value in changes.items():
        setattr(sparse, name, value)
    call = call_of(DENSIFY, sparse.inputs(FLOAT32), wanted(FLOAT32))
    definition = DEFINITIONS[DENSIFY]
    with pytest.raises(BadData, match=message):  # noqa: PT012
        definition.output_shapes(call)
        definition.reference(call)


def test_refuses_scales() -> None:
    inputs = small().inputs(OperandType.TENSOR_QUANT8_ASYMM, 0.5, 3)
    with pytest.raises(BadData, match=r"those of input, 0.5 and 3, are expected"):
        evaluate(DENSIFY, inputs, wanted(OperandType.TENSOR_QUANT8_ASYMM, 0.5, 4))


def test_the_shape_depends_on_the_lengths_only() -> None:
    inputs = small().inputs(FLOAT32)
    inputs[0], inputs[8] = unknown(inputs[0]), unknown(inputs[8])
    call = call_of(DENSIFY, inputs, wanted(FLOAT32))
    assert DEFINITIONS[DENSIFY].shape(call) == ((2, 3),)
    inputs[1] = unknown(inputs[1])
    with pytest.raises(UnknownValue):
        DEFINITIONS[DENSIFY].shape(call_of(DENSIFY, inputs, wanted(FLOAT32)))


def test_level_and_counts() -> None:
    inputs = small().inputs(FLOAT32)
    assert level_of(DENSIFY, inputs, wanted(FLOAT32)) == FeatureLevel.EXPERIMENTAL > FeatureLevel.LEVEL_8
    with pytest.raises(BadData, match=r"DENSIFY has 8 inputs and 1 output"):
        level_of(DENSIFY, inputs[:-1], wanted(FLOAT32))
