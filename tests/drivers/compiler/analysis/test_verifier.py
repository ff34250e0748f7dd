"""Invalid graphs are detected, with a description of what is wrong."""

from typing import Any

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.verifier import InvalidGraph, verify
from neurald.drivers.compiler.ir.algorithm import (
    Algorithm,
    CombinedRows,
    HashSums,
    KeySearch,
    Sampling,
    SoftSelection,
)
from neurald.drivers.compiler.ir.expression import (
    accumulator,
    apply,
    axis,
    index,
    load,
    reduce,
)
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.operations.detection.boxes import BoxSelectionRule, SuppressionKernel
from neurald.hal.operations.tflite.movement.sparse_embedding import Combiner
from neurald.hal.records import replace

pytestmark = pytest.mark.quick


def whole_graph() -> Graph:
    """Returns a graph with a node of every kind."""
    b = GraphBuilder()
    image, mask = b.input(2, 5, 4, 4), b.input(2, type=Scalar.BOOL)
    sums = b.convolution(
        image, b.weights(6, 3, 3, 2), output=(2, 3, 2, 6), groups=2, stride=(2, 2), padding=((1, 1), (1, 0))
    )
    spread = b.depthwise_convolution(sums, b.weights(2, 2, 12), output=(2, 2, 1, 12))
    product = b.matrix_product(b.reshape(spread, (2, 2, 12)), b.weights(3, 12))
    along = axis(3)
    total = b.compute(
        (2, 2),
        lambda i, j: reduce(ReductionOp.SUM, (along,), load(product, (i, j, along))),
        requirements=lambda i, _: ((load(mask, (i,)), "the mask"),),
    )
    return b.finish(total, sums, mask)


def test_a_graph_with_every_kind_of_node_is_valid() -> None:
    verify(whole_graph())


def changed(position: int, **fields: Any) -> Graph:
    graph = whole_graph()
    graph.nodes[position] = replace(graph.nodes[position], **fields)
    return graph


@sweep(
    ("position", "fields", "text"),
    [
        (0, {"groups": 3}, "channels or images"),
        (0, {"stride": (3, 3)}, "windows exceed"),
        (0, {"stride": (0, 1)}, "stride"),
        (0, {"padding": ((0, 0), (1, 0))}, "windows exceed"),
        (0, {"padding": ((-1, 3), (1, 0))}, "padding"),
        (0, {"weights": Value((6, 3, 3), Scalar.FLOAT32, np.zeros((6, 3, 3), np.float32))}, "wrong ranks"),
        (0, {"output": Value((2, 3, 2, 6), Scalar.INT8)}, "sums must be FLOAT32"),
        (
            1,
            {"weights": Value((2, 2, 6), Scalar.FLOAT32, np.zeros((2, 2, 6), np.float32))},
            "channels or images",
        ),
        (3, {"right_transposed": True}, "its shape is not that of"),
        (3, {"right": Value((3, 12), Scalar.FLOAT32)}, "before it is computed"),
        (3, {"right": Value((3, 12), Scalar.FLOAT32, np.zeros((3, 12)))}, "has a constant of float64"),
        (3, {"right": Value((3, 12), Scalar.FLOAT32, np.zeros((12, 3), np.float32))}, "has a constant"),
        (3, {"right": Value((3,), Scalar.FLOAT32, np.zeros(3, np.float32))}, "wrong ranks"),
    ],
)
def test_contractions_with_wrong_attributes_are_invalid(
    position: int, fields: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidGraph, match=text):
        verify(changed(position, **fields))


def test_nodes_are_verified_once() -> None:
    graph, verified = whole_graph(), set[Node]()
    verify(graph, verified)
    assert verified == set(graph.nodes)
    wrong = changed(0, groups=3)
    verify(wrong, set(wrong.nodes))
    with pytest.raises(InvalidGraph, match="channels or images"):
        verify(wrong, verified)


def test_nodes_in_the_wrong_order_are_invalid() -> None:
    graph = whole_graph()
    graph.nodes.reverse()
    with pytest.raises(InvalidGraph, match="before it is computed"):
        verify(graph)


def test_values_that_are_computed_twice_or_are_inputs_are_invalid() -> None:
    graph = whole_graph()
    graph.nodes.append(graph.nodes[-1])
    with pytest.raises(InvalidGraph, match="already computed"):
        verify(graph)
    graph = whole_graph()
    graph.inputs.append(graph.nodes[0].output)
    with pytest.raises(InvalidGraph, match="already computed"):
        verify(graph)
    graph = whole_graph()
    graph.inputs[0].constant = np.zeros(graph.inputs[0].shape, np.float32)
    with pytest.raises(InvalidGraph, match="must not be a constant"):
        verify(graph)


def test_an_output_that_no_node_computes_is_invalid() -> None:
    graph = whole_graph()
    graph.outputs.append(Value((3,), Scalar.FLOAT32, name="lost"))
    with pytest.raises(
        InvalidGraph, match=r"the graph's output: reads lost FLOAT32 \[3\] before it is computed"
    ):
        verify(graph)


ALONG, OTHER = axis(3), axis(4)
SOURCE = Value((3,), Scalar.FLOAT32)
ELEMENT = load(SOURCE, (ALONG,))
NODE = Compute(output=Value((3,), Scalar.FLOAT32), axes=(ALONG,), body=ELEMENT)


@sweep(
    ("node", "text"),
    [
        (replace(NODE, axes=(OTHER,)), r"axes have extents \[4\]; expected"),
        (replace(NODE, axes=(axis(3),)), "an axis that is neither"),
        (replace(NODE, body=ELEMENT.to(Scalar.FLOAT16)), "the body has type FLOAT16"),
        (replace(NODE, requirements=((ELEMENT, ""),)), "requirement is not a BOOL"),
        (replace(NODE, body=accumulator(Scalar.FLOAT32)), "without a contraction"),
        (replace(NODE, body=load(SOURCE, (ALONG, ALONG))), "with 2 indices"),
        (replace(NODE, body=load(SOURCE, (ELEMENT,))), "1 indices of type FLOAT32"),
        (replace(NODE, body=load(SOURCE, (ALONG,), ELEMENT)), "guard is not a BOOL"),
        (replace(NODE, body=load(SOURCE, (ALONG,), ALONG < 2, index(0))), "falls back to INDEX"),
        (
            replace(NODE, body=apply(Op.ADD, ELEMENT.to(Scalar.FLOAT16), ELEMENT)),
            "ADD of FLOAT16, FLOAT32 gives FLOAT32",
        ),
        (
            replace(NODE, body=apply(Op.SELECT, ELEMENT, ELEMENT, ELEMENT)),
            "SELECT of FLOAT32, FLOAT32, FLOAT32",
        ),
        (
            replace(NODE, body=ELEMENT.equals(ALONG.to(Scalar.INT32)).to(Scalar.FLOAT32)),
            "EQUAL of FLOAT32, INT32",
        ),
        (
            replace(NODE, body=load(SOURCE, (ALONG + ALONG.to(Scalar.INT32),))),
            "a term that is not an INDEX",
        ),
        (
            replace(NODE, body=apply(Op.REINTERPRET, ALONG.to(Scalar.INT64), type=Scalar.FLOAT32)),
            "REINTERPRET of INT64",
        ),
        (
            replace(NODE, body=reduce(ReductionOp.SUM, (OTHER,), ELEMENT) + OTHER.to(Scalar.FLOAT32)),
            "an axis that is neither",
        ),
    ],
)
def test_inconsistent_bodies_are_invalid(node: Compute, text: str) -> None:
    with pytest.raises(InvalidGraph, match=text):
        verify(Graph(inputs=[SOURCE], outputs=[node.output], nodes=[node]))


_RULE = BoxSelectionRule(
    kernel=SuppressionKernel.HARD, limit=None, score_limit=0, least=0, iou_limit=0.5, sigma=1
)
#: A procedure with valid inputs, each with its shape and type, and its output.
_PROCEDURES: tuple[tuple[Algorithm, tuple[tuple[tuple[int, ...], Scalar], ...]], ...] = (
    (
        CombinedRows(combiner=Combiner.SUM),
        (
            ((5,), Scalar.INT32),
            ((5,), Scalar.INT32),
            ((5,), Scalar.FLOAT32),
            ((7, 3), Scalar.FLOAT32),
            ((4, 3), Scalar.FLOAT32),
        ),
    ),
    (
        HashSums(),
        (
            ((5,), Scalar.UINT32),
            ((2, 9), Scalar.UINT8),
            ((2,), Scalar.FLOAT64),
            ((5,), Scalar.FLOAT64),
        ),
    ),
    (
        Sampling(),
        (((2, 9), Scalar.FLOAT64), ((2, 3), Scalar.FLOAT64), ((2, 3), Scalar.INT32)),
    ),
    (
        KeySearch(),
        (((9,), Scalar.INT64), ((5,), Scalar.INT64), ((5,), Scalar.INT32)),
    ),
    (
        SoftSelection(rule=_RULE),
        (
            ((5, 3, 4), Scalar.FLOAT32),
            ((5, 3), Scalar.FLOAT32),
            ((5,), Scalar.INT32),
            ((31,), Scalar.INT32),
        ),
    ),
)


@sweep("number", range(len(_PROCEDURES)))
def test_procedures_have_inputs_and_outputs_that_fit(number: int) -> None:
    algorithm, values = _PROCEDURES[number]

    def verify_with(place: int, shape: tuple[int, ...], kind: Scalar) -> None:
        b = GraphBuilder()
        given = list(values)
        given[place] = shape, kind
        *inputs, (length, output) = given
        operands = [b.input(*each, type=scalar) for each, scalar in inputs]
        verify(b.finish(b.procedure(algorithm, *operands, output=length, type=output)))

    for place, (shape, kind) in enumerate(values):
        verify_with(place, shape, kind)
        with pytest.raises(InvalidGraph):
            verify_with(place, shape, Scalar.INT8)
        with pytest.raises(InvalidGraph):
            verify_with(place, (*shape, 1), kind)
