"""Complex numbers are moved in pairs."""

import pytest
from support.models.control_flow import Graph, T
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.ir.expression import Load
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.compiler.passes.pair_joining import join_pairs

pytestmark = pytest.mark.quick

Op = nd.OperationType


def _ints(graph: Graph, *values: int) -> int:
    index = graph.builder.add_operand(T.TENSOR_INT32, (len(values),))
    graph.builder.set_operand_value(index, list(values))
    return index


@sweep("operation", [Op.TFLITE_TRANSPOSE, Op.TFLITE_SLICE, Op.TFLITE_TILE])
def test_movements_load_pairs(operation: nd.OperationType) -> None:
    graph = Graph()
    arguments = {
        Op.TFLITE_TRANSPOSE: ([_ints(graph, 1, 0)], (7, 5)),
        Op.TFLITE_SLICE: ([_ints(graph, 1, 2), _ints(graph, 3, 4)], (3, 4)),
        Op.TFLITE_TILE: ([_ints(graph, 2, 1)], (10, 7)),
    }[operation]
    source = graph.value(T.TENSOR_COMPLEX64, (5, 7))
    result = graph.value(T.TENSOR_COMPLEX64, arguments[1])
    graph.builder.add_operation(operation, [source, *arguments[0]], [result])
    lowered = build_graph(graph.finish([source], [result]))
    transform(lowered)
    fused = fuse(lowered)
    assert not all(isinstance(kernel.body, Load) for kernel in fused.kernels)
    assert all(isinstance(kernel.body, Load) for kernel in join_pairs(fused).kernels)


def test_parts_that_are_not_moved_alike() -> None:
    graph = Graph()
    source, other = graph.value(T.TENSOR_COMPLEX64, (5, 7)), graph.value(T.TENSOR_COMPLEX64, (5, 7))
    result = graph.value(T.TENSOR_COMPLEX64, (5, 7))
    graph.binary(Op.TFLITE_MUL, source, other, result)
    lowered = build_graph(graph.finish([source, other], [result]))
    transform(lowered)
    fused = fuse(lowered)
    joined = join_pairs(fused)
    assert [kernel.body for kernel in joined.kernels] == [kernel.body for kernel in fused.kernels]
