"""Gives the tensors of a `.tflite` file's subgraph other shapes than those in the file."""

from collections.abc import Mapping, Sequence

from neurald.hal.records import replace
from neurald.runtime.tflite.file.schema import TfliteSubgraph


def with_input_shapes(source: TfliteSubgraph, shapes: Mapping[int, Sequence[int]]) -> TfliteSubgraph:
    """Returns a subgraph whose inputs have other shapes. A length of 0 leaves a dimension open.

    Args:
        source: the subgraph.
        shapes: the shapes by tensor.
    """
    tensors = list(source.tensors)
    for index, shape in shapes.items():
        signature = tuple(length or -1 for length in shape) if 0 in shape else ()
        tensors[index] = replace(tensors[index], shape=tuple(shape), shape_signature=signature, has_rank=True)
    return replace(source, tensors=tuple(tensors))


def without_result_shapes(source: TfliteSubgraph) -> TfliteSubgraph:
    """Returns a subgraph that says nothing of the shapes of its operators' results.

    Files may state shapes that the results do not have: LiteRT ignores them.
    """
    tensors = list(source.tensors)
    for operator in source.operators:
        for index in operator.outputs:
            tensors[index] = replace(tensors[index], shape=(), shape_signature=(), has_rank=False)
    return replace(source, tensors=tuple(tensors))
