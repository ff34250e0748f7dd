"""Describes the tensors of a file as LiteRT's API does: as dictionaries."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from neurald.runtime.litert.subgraphs.element_types import element_type
from neurald.runtime.tflite.file.flatbuffer import INT8, INT32, Table
from neurald.runtime.tflite.file.schema import BlockQuantization, Tensor, TfliteSubgraph
from neurald.runtime.tflite.file.schema_enums import DimensionType

Details = dict[str, Any]


class DetailTable:
    """The descriptions of the tensors of a subgraph. Each is read from the file once.

    Args:
        source: the subgraph.
        data: all bytes of the file.
    """

    def __init__(self, source: TfliteSubgraph, data: memoryview) -> None:
        self._source = source
        self._data = data
        self._fixed: dict[int, Details] = {}

    def details(self, index: int, shape: Sequence[int]) -> Details:
        """Returns the description of a tensor.

        Args:
            index: the index of the tensor.
            shape: its present shape.

        Raises:
            BadData: its quantisation in the file is damaged.
        """
        if index not in self._fixed:
            self._fixed[index] = self._read(index)
        fixed = self._fixed[index]
        return {
            "name": fixed["name"],
            "index": index,
            "shape": np.array(shape, np.int32),
            "shape_signature": fixed["shape_signature"].copy(),
            "dtype": fixed["dtype"],
            "quantization": fixed["quantization"],
            "quantization_parameters": {
                key: value.copy() if isinstance(value, np.ndarray) else value
                for key, value in fixed["quantization_parameters"].items()
            },
            "sparsity_parameters": _copied(fixed["sparsity_parameters"]),
        }

    def _read(self, index: int) -> Details:
        tensor = self._source.tensors[index]
        scales, zero_points, dimension, block_size = self._quantization(tensor)
        is_single = scales.size == 1 and zero_points.size == 1
        return {
            "name": tensor.name,
            "shape_signature": np.array(tensor.shape_signature or tensor.shape, np.int32),
            "dtype": element_type(tensor.type).scalar,
            "quantization": (float(scales[0]), int(zero_points[0])) if is_single else (0.0, 0),
            "quantization_parameters": {
                "scales": scales,
                "zero_points": zero_points,
                "quantized_dimension": dimension,
                "block_size": block_size,
            },
            "sparsity_parameters": {} if tensor.sparsity is None else _sparsity(tensor.sparsity),
        }

    def _quantization(self, tensor: Tensor) -> tuple[Any, Any, int, int]:
        """Returns scales, zero points, the quantised dimension and the length of blocks."""
        blocks = tensor.blocks()
        if blocks is not None:
            return self._scales_of_blocks(blocks), _numbers(()), 0, blocks.length
        found = tensor.quantization()
        if found is None:
            return np.zeros(0, np.float32), _numbers(()), 0, 0
        return (
            np.array(found.scales, np.float32),
            np.array(found.zero_points, np.int64).astype(np.int32),
            found.dimension,
            0,
        )

    def _scales_of_blocks(self, blocks: BlockQuantization) -> Any:
        tensors = self._source.tensors
        scales = tensors[blocks.scales].data if 0 <= blocks.scales < len(tensors) else None
        if scales is None:
            return np.zeros(0, np.float16)
        offset, length = scales
        return np.frombuffer(self._data[offset : offset + length // 2 * 2], np.float16)


def _sparsity(table: Table) -> Details:
    block_map = table.integers(1)
    return {
        "traversal_order": _numbers(table.integers(0)),
        **({"block_map": _numbers(block_map)} if block_map else {}),
        "dim_metadata": [_dimension(each) for each in table.tables(2)],
    }


def _dimension(table: Table) -> Details:
    from neurald.runtime.tflite.conversion.unpacking import index_vector  # slow to import

    kind = table.integer(0, INT8)
    if kind == DimensionType.DENSE:
        return {"format": kind, "dense_size": table.integer(1, INT32)}
    return {
        "format": kind,
        "array_segments": _numbers(index_vector(table, 2)),
        "array_indices": _numbers(index_vector(table, 4)),
    }


def _numbers(values: Sequence[int]) -> Any:
    return np.array(values, np.int32)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copied(each) for each in value]
    return value.copy() if isinstance(value, np.ndarray) else value
