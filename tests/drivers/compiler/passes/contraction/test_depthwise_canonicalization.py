"""Groups of one channel become depthwise convolutions, and one channel an ordinary one."""

from support.compiler.graphs import GraphBuilder, changes, kinds, node_of
from support.sweeps import sweep

from neurald.drivers.compiler.ir.graph import Convolution, DepthwiseConvolution
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.contraction.depthwise_canonicalization import canonicalize_depthwise


@sweep("multiplier", [1, 2])
@sweep("kind", [Scalar.FLOAT32, Scalar.UINT8])
def test_groups_of_one_channel_become_depthwise(multiplier: int, kind: Scalar) -> None:
    b = GraphBuilder()
    sums = b.convolution(
        b.input(2, 6, 5, 3, type=kind),
        b.weights(3 * multiplier, 3, 2, 1, type=kind),
        output=(2, 3, 6, 3 * multiplier),
        type=Scalar.FLOAT32 if kind.is_float else Scalar.INT32,
        stride=(2, 1),
        padding=((1, 0), (1, 1)),
        groups=3,
        input_zero=0 if kind.is_float else 4,
        weights_zero=0 if kind.is_float else 5,
    )
    graph = b.finish(sums)
    assert changes(graph, canonicalize_depthwise)
    assert kinds(graph) == ["Compute", "DepthwiseConvolution"]
    assert node_of(graph, DepthwiseConvolution).multiplier == multiplier
    assert changes(graph, transform)
    assert kinds(graph) == ["DepthwiseConvolution"]


@sweep(("groups", "depth"), [(1, 1), (2, 2), (1, 4)])
def test_other_groups_are_kept(groups: int, depth: int) -> None:
    b = GraphBuilder()
    sums = b.convolution(
        b.input(1, 4, 4, groups * depth), b.weights(4, 3, 3, depth), output=(1, 2, 2, 4), groups=groups
    )
    assert not changes(b.finish(sums), canonicalize_depthwise)


@sweep("channels", [1, 5])
@sweep("kind", [Scalar.FLOAT32, Scalar.UINT8])
def test_one_channel_becomes_an_ordinary_convolution(channels: int, kind: Scalar) -> None:
    b = GraphBuilder()
    sums = b.depthwise_convolution(
        b.input(2, 6, 5, 1, type=kind),
        b.weights(3, 2, channels, type=kind),
        output=(2, 3, 6, channels),
        type=Scalar.FLOAT32 if kind.is_float else Scalar.INT32,
        stride=(2, 1),
        padding=((1, 0), (1, 1)),
        input_zero=0 if kind.is_float else 4,
        weights_zero=0 if kind.is_float else 5,
    )
    graph = b.finish(sums)
    assert changes(graph, canonicalize_depthwise)
    assert kinds(graph) == ["Compute", "Convolution"]
    assert node_of(graph, Convolution).groups == 1
    assert not changes(graph, canonicalize_depthwise)
    assert changes(graph, transform)
    assert kinds(graph) == ["Convolution"]


def test_several_channels_stay_depthwise() -> None:
    b = GraphBuilder()
    sums = b.depthwise_convolution(b.input(1, 4, 4, 2), b.weights(3, 3, 4), output=(1, 2, 2, 4))
    assert not changes(b.finish(sums), canonicalize_depthwise)
