"""Padding before a convolution is folded into it."""

from support.compiler.graphs import GraphBuilder, changes, kinds, node_of
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.graph import Convolution, DepthwiseConvolution, Pair, inside
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.contraction.pad_folding import fold_padding


def padded(b: GraphBuilder, value: Value, pads: tuple[Pair, ...], number: float = 0) -> Value:
    shape = tuple(n + before + after for n, (before, after) in zip(value.shape, pads, strict=True))
    befores = [before for before, _ in pads]

    def element(*at):  # type: ignore[no-untyped-def]
        indices = tuple(i - before for i, before in zip(at, befores, strict=True))
        return load(value, indices, inside(indices, value.shape), number)

    return b.compute(shape, element)


SPATIAL = ((0, 0), (1, 2), (0, 3), (0, 0))


@sweep(("kind", "zero"), [(Scalar.FLOAT32, 0), (Scalar.UINT8, 7), (Scalar.INT8, -3)])
def test_padding_of_height_and_width_is_folded(kind: Scalar, zero: int) -> None:
    b = GraphBuilder()
    source = b.input(2, 5, 4, 3, type=kind)
    image = padded(b, source, SPATIAL, zero)
    sums = b.convolution(
        image,
        b.weights(4, 3, 3, 3, type=kind),
        output=(2, 8, 7, 4),
        type=Scalar.FLOAT32 if kind.is_float else Scalar.INT32,
        padding=((1, 1), (1, 1)),
        input_zero=zero,
    )
    graph = b.finish(sums)
    assert changes(graph, fold_padding)
    assert kinds(graph) == ["Convolution"]
    node = node_of(graph, Convolution)
    assert node.input is source
    assert node.padding == ((2, 3), (1, 4))
    assert not changes(graph, fold_padding)


def test_depthwise_convolutions_and_other_readers() -> None:
    b = GraphBuilder()
    source = b.input(1, 5, 4, 3)
    image = padded(b, source, SPATIAL)
    sums = b.depthwise_convolution(
        image, b.weights(3, 3, 6), output=(1, 3, 3, 6), stride=(2, 2), dilation=(1, 1)
    )
    graph = b.finish(sums, image)
    assert changes(graph, fold_padding)
    assert kinds(graph) == ["Compute", "DepthwiseConvolution"]
    assert node_of(graph, DepthwiseConvolution).padding == SPATIAL[1:3]
    assert graph.outputs == [sums, image]


@sweep(
    ("pads", "number"),
    [
        (SPATIAL, 1),
        (((0, 0), (1, 2), (0, 3), (0, 1)), 0),
        (((1, 0), (1, 2), (0, 3), (0, 0)), 0),
    ],
)
def test_other_padding_is_kept(pads: tuple[Pair, ...], number: float) -> None:
    b = GraphBuilder()
    image = padded(b, b.input(2, 5, 4, 3), pads, number)
    images, _, _, channels = image.shape
    sums = b.convolution(image, b.weights(4, 3, 3, channels), output=(images, 6, 5, 4))
    assert not changes(b.finish(sums), fold_padding)
