"""The networks, by name."""

from collections.abc import Callable, Mapping

from .network import Activation, Network


def mobilenet_v1() -> Network:
    """Builds MobileNet (Howard et al., 2017), width 1, 224 × 224."""
    network = Network()
    layer = network.convolution(network.image, 32, 3, 2, Activation.RELU6)
    blocks = (
        (1, 64),
        (2, 128),
        (1, 128),
        (2, 256),
        (1, 256),
        (2, 512),
        *[(1, 512)] * 5,
        (2, 1024),
        (1, 1024),
    )
    for stride, channels in blocks:
        layer = network.depthwise(layer, stride)
        layer = network.convolution(layer, channels, 1, 1, Activation.RELU6)
    network.classify(layer)
    return network


def mobilenet_v2() -> Network:
    """Builds MobileNetV2 (Sandler et al., 2018), width 1, 224 × 224."""
    network = Network()
    layer = network.convolution(network.image, 32, 3, 2, Activation.RELU6)
    blocks = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for expansion, channels, count, stride in blocks:
        for number in range(count):
            before, depth = layer, layer.value.shape[3]
            if expansion > 1:
                layer = network.convolution(layer, depth * expansion, 1, 1, Activation.RELU6)
            layer = network.depthwise(layer, 1 if number else stride)
            layer = network.convolution(layer, channels, 1)
            if number:
                layer = network.sum(layer, before)
    layer = network.convolution(layer, 1280, 1, 1, Activation.RELU6)
    network.classify(layer)
    return network


def resnet_50() -> Network:
    """Builds ResNet-50 (He et al., 2016), 224 × 224, with the stride in the 3 × 3 convolutions."""
    network = Network()
    layer = network.convolution(network.image, 64, 7, 2, Activation.RELU)
    layer = network.maximum_pool(layer, 3, 2)
    for channels, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            step = 1 if number else stride
            before = layer
            layer = network.convolution(layer, channels, 1, 1, Activation.RELU)
            layer = network.convolution(layer, channels, 3, step, Activation.RELU)
            if number == 0:
                before = network.convolution(before, 4 * channels, 1, step)
            layer = network.convolution(layer, 4 * channels, 1)
            layer = network.sum(layer, before, Activation.RELU)
    network.classify(layer)
    return network


def addition() -> Network:
    """Builds an addition of one number to itself, which measures overhead only."""
    network = Network(size=1, channels=1)
    network.sum(network.image, network.image)
    return network


NETWORKS: Mapping[str, Callable[[], Network]] = {
    "addition": addition,
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "resnet_50": resnet_50,
}
