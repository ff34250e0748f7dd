"""Trains the demo's digit classifier and writes it as a quantised `.tflite` file.

Run in an environment with the `train` dependency group:

    python scripts/train_digits.py

It takes scikit-learn's bundled digits (1,797 handwritten digits, 8 x 8 pixels), holds out 30 % of
them, trains a small convolutional network on the rest in plain NumPy, quantises it to 8 bits after
training (weights per channel, ranges of activations from the training digits), and writes two files
of the package:

- `service/demo/digits.tflite`: the model; its description states the accuracy on the held-out
  digits.
- `service/demo/digits.npz`: the held-out digits, which the model has never seen: `images` (uint8, n
  x 8 x 8, white on black) and `labels` (uint8, n).

The accuracy is that of the finished file, run by neurald. The same machine and library versions
produce the same bytes; elsewhere rounding may differ, and the accuracy by a digit or two.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tflite
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import neurald as nd

Array = np.ndarray[Any, np.dtype[Any]]

DEMO = Path(__file__).resolve().parent.parent / "service" / "demo"
SEED = 0
EPOCHS = 60
BATCH = 32
LEARNING_RATE = 2e-3
HELD_BACK = 0.3
CHANNELS = (16, 32)
CLASSES = 10

log = logging.getLogger("train_digits")


# --- The network: convolution, pool, convolution, pool, fully connected ---


def patches(images: Array) -> Array:
    """Returns the 3 x 3 neighbourhood of every pixel, zero-padded: (n, h, w, 3 * 3 * channels)."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = sliding_window_view(padded, (3, 3), axis=(1, 2))
    flat: Array = np.moveaxis(windows, 3, 5).reshape(*images.shape[:3], -1)
    return flat


def pool_windows(images: Array) -> Array:
    """Returns 2 x 2 windows that do not overlap: (n, h / 2, w / 2, channels, 4)."""
    n, height, width, channels = images.shape
    split = images.reshape(n, height // 2, 2, width // 2, 2, channels)
    return split.transpose(0, 1, 3, 5, 2, 4).reshape(n, height // 2, width // 2, channels, 4)


def unpool(gradient: Array, windows: Array) -> Array:
    """Computes the gradient of 2 x 2 max pooling: it goes to the largest pixel of a window."""
    n, height, width, channels = gradient.shape
    largest = windows.argmax(-1)[..., None] == np.arange(4)
    split = (gradient[..., None] * largest).reshape(n, height, width, channels, 2, 2)
    spread: Array = split.transpose(0, 1, 4, 2, 5, 3).reshape(n, 2 * height, 2 * width, channels)
    return spread


def scatter_patches(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Computes the gradient of `patches`.

    Every pixel sums the gradients from its nine neighbours.
    """
    n, height, width, channels = shape
    split = gradient.reshape(n, height, width, 3, 3, channels)
    padded = np.zeros((n, height + 2, width + 2, channels), gradient.dtype)
    for y in range(3):
        for x in range(3):
            padded[:, y : y + height, x : x + width] += split[:, :, :, y, x]
    return padded[:, 1:-1, 1:-1]


class Network:
    """Two 3 x 3 convolutions with ReLU and 2 x 2 max pooling, then one fully connected layer.

    `weights` holds three matrices (inputs x outputs) and three biases; a convolution's inputs are
    ordered y, x, channel.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        sizes = ((9, CHANNELS[0]), (9 * CHANNELS[0], CHANNELS[1]), (4 * CHANNELS[1], CLASSES))
        matrices = [rng.normal(0, np.sqrt(2 / rows), (rows, columns)) for rows, columns in sizes]
        biases = [np.zeros(columns) for _, columns in sizes]
        self.weights = [w.astype(np.float32) for w in (*matrices, *biases)]

    def forward(self, images: Array) -> list[Array]:
        """Returns the intermediate results for training and calibration, the logits last."""
        w1, w2, w3, b1, b2, b3 = self.weights
        patches1 = patches(images)
        conv1 = np.maximum(patches1 @ w1 + b1, 0)
        windows1 = pool_windows(conv1)
        pool1 = windows1.max(-1)
        patches2 = patches(pool1)
        conv2 = np.maximum(patches2 @ w2 + b2, 0)
        windows2 = pool_windows(conv2)
        flat = windows2.max(-1).reshape(len(images), -1)
        return [patches1, conv1, windows1, pool1, patches2, conv2, windows2, flat, flat @ w3 + b3]

    def gradients(self, images: Array, labels: Array) -> list[Array]:
        """Returns the gradients of the mean cross-entropy, in the order of `weights`."""
        _, w2, w3, _, _, _ = self.weights
        patches1, conv1, windows1, pool1, patches2, conv2, windows2, flat, logits = self.forward(images)
        odds = np.exp(logits - logits.max(-1, keepdims=True))
        at_logits = (odds / odds.sum(-1, keepdims=True) - np.eye(CLASSES)[labels]).astype(np.float32) / len(
            images
        )
        n, height, width, channels, _ = windows2.shape
        at_pool2 = (at_logits @ w3.T).reshape(n, height, width, channels)
        at_conv2 = unpool(at_pool2, windows2) * (conv2 > 0)
        at_pool1 = scatter_patches(at_conv2 @ w2.T, pool1.shape)
        at_conv1 = unpool(at_pool1, windows1) * (conv1 > 0)
        return [
            np.tensordot(patches1, at_conv1, ((0, 1, 2), (0, 1, 2))),
            np.tensordot(patches2, at_conv2, ((0, 1, 2), (0, 1, 2))),
            flat.T @ at_logits,
            at_conv1.sum((0, 1, 2)),
            at_conv2.sum((0, 1, 2)),
            at_logits.sum(0),
        ]


def shifted(images: Array, rng: np.random.Generator) -> Array:
    """Moves each image by up to one pixel, so that the network learns shapes, not positions."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = sliding_window_view(padded, images.shape[1:3], axis=(1, 2))
    y, x = rng.integers(0, 3, (2, len(images)))
    return np.moveaxis(windows[np.arange(len(images)), y, x], 1, 3)


def train(images: Array, labels: Array) -> Network:
    """Trains with Adam on the cross-entropy, with a cosine learning rate schedule."""
    rng = np.random.default_rng(SEED)
    network = Network(rng)
    means = [np.zeros_like(w) for w in network.weights]
    squares = [np.zeros_like(w) for w in network.weights]
    steps = EPOCHS * (len(images) // BATCH)
    step = 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        for start in range(0, len(images) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            step += 1
            rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            gradients = network.gradients(shifted(images[batch], rng), labels[batch])
            for weight, gradient, mean, square in zip(
                network.weights, gradients, means, squares, strict=True
            ):
                mean += 0.1 * (gradient - mean)
                square += 0.001 * (gradient**2 - square)
                unbiased = mean / (1 - 0.9**step), square / (1 - 0.999**step)
                weight -= (rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)).astype(np.float32)
        if (epoch + 1) % 10 == 0:
            right = np.mean(network.forward(images)[-1].argmax(-1) == labels)
            log.info("epoch %d of %d: %.2f %% of the training digits right", epoch + 1, EPOCHS, 100 * right)
    return network


# --- Quantisation ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """Tensor of the file.

    Real value = (stored - zero_point) * scale, with one scale per index of `axis`.
    """

    name: str
    shape: tuple[int, ...]
    type: int
    scales: Sequence[float] = ()
    zero_point: int = 0
    axis: int = 0
    data: Array | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Operator of the file with tensor indices.

    `options` writes its options table and returns the offset.
    """

    code: int
    version: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    options_type: int = tflite.BuiltinOptions.NONE
    options: Callable[[flatbuffers.Builder], int] | None = None


def activation(name: str, shape: tuple[int, ...], low: float, high: float) -> Tensor:
    """Returns an int8 tensor for values from `low` to `high`, in which 0 is exact."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = float(np.float32((high - low) / 255))
    return Tensor(
        name=name,
        shape=shape,
        type=tflite.TensorType.INT8,
        scales=[scale],
        zero_point=round(-128 - low / scale),
    )


def constants(
    name: str, weight: Array, bias: Array, input_scale: float, per_channel: bool
) -> tuple[Tensor, Tensor]:
    """Returns symmetric int8 weights (outputs first) and the int32 bias at both scales' product."""
    flat = np.abs(weight.reshape(len(weight), -1))
    largest = flat.max(1) if per_channel else flat.max(keepdims=True)[0]
    scales = (largest / 127).astype(np.float32)
    wide = scales.reshape(-1, *(1,) * (weight.ndim - 1))
    bias_scales = np.float32(input_scale) * scales
    weights = Tensor(
        name=f"{name}/weights",
        shape=weight.shape,
        type=tflite.TensorType.INT8,
        scales=scales.tolist(),
        data=np.clip(np.round(weight / wide), -127, 127).astype(np.int8),
    )
    biases = Tensor(
        name=f"{name}/bias",
        shape=bias.shape,
        type=tflite.TensorType.INT32,
        scales=bias_scales.tolist(),
        data=np.round(bias / bias_scales).astype(np.int32),
    )
    return weights, biases


def conv_options(builder: flatbuffers.Builder) -> int:
    """Writes options: 3 x 3, stride 1, zero padding, ReLU."""
    tflite.Conv2DOptionsStart(builder)
    tflite.Conv2DOptionsAddPadding(builder, tflite.Padding.SAME)
    tflite.Conv2DOptionsAddStrideW(builder, 1)
    tflite.Conv2DOptionsAddStrideH(builder, 1)
    tflite.Conv2DOptionsAddFusedActivationFunction(builder, tflite.ActivationFunctionType.RELU)
    return int(tflite.Conv2DOptionsEnd(builder))


def pool_options(builder: flatbuffers.Builder) -> int:
    """Writes options: 2 x 2, stride 2."""
    tflite.Pool2DOptionsStart(builder)
    tflite.Pool2DOptionsAddPadding(builder, tflite.Padding.VALID)
    tflite.Pool2DOptionsAddStrideW(builder, 2)
    tflite.Pool2DOptionsAddStrideH(builder, 2)
    tflite.Pool2DOptionsAddFilterWidth(builder, 2)
    tflite.Pool2DOptionsAddFilterHeight(builder, 2)
    return int(tflite.Pool2DOptionsEnd(builder))


def fully_connected_options(builder: flatbuffers.Builder) -> int:
    """Writes options without activation."""
    tflite.FullyConnectedOptionsStart(builder)
    return int(tflite.FullyConnectedOptionsEnd(builder))


def softmax_options(builder: flatbuffers.Builder) -> int:
    """Writes options with beta 1."""
    tflite.SoftmaxOptionsStart(builder)
    tflite.SoftmaxOptionsAddBeta(builder, 1.0)
    return int(tflite.SoftmaxOptionsEnd(builder))


def quantise(network: Network, images: Array) -> tuple[list[Tensor], list[Operator]]:
    """Returns an int8 graph with uint8 input and output.

    `images` determine the activation ranges.
    """
    w1, w2, w3, b1, b2, b3 = network.weights
    _, conv1, _, _, _, conv2, _, _, logits = network.forward(images)
    first, second = CHANNELS
    uint8, int8 = tflite.TensorType.UINT8, tflite.TensorType.INT8

    pixels = Tensor(name="image", shape=(1, 8, 8, 1), type=uint8, scales=[1 / 255])
    signed = Tensor(name="image_int8", shape=(1, 8, 8, 1), type=int8, scales=[1 / 255], zero_point=-128)
    out1 = activation("conv1/relu", (1, 8, 8, first), 0, float(conv1.max()))
    out2 = activation("conv2/relu", (1, 4, 4, second), 0, float(conv2.max()))
    out3 = activation("logits", (1, CLASSES), float(logits.min()), float(logits.max()))
    same1 = {"type": int8, "scales": out1.scales, "zero_point": out1.zero_point}
    same2 = {"type": int8, "scales": out2.scales, "zero_point": out2.zero_point}
    tensors = [
        pixels,
        signed,
        *constants("conv1", w1.T.reshape(first, 3, 3, 1), b1, signed.scales[0], True),
        out1,
        Tensor(name="pool1", shape=(1, 4, 4, first), **same1),
        *constants("conv2", w2.T.reshape(second, 3, 3, first), b2, out1.scales[0], True),
        out2,
        Tensor(name="pool2", shape=(1, 2, 2, second), **same2),
        Tensor(
            name="flat/shape",
            shape=(2,),
            type=tflite.TensorType.INT32,
            data=np.array([1, 4 * second], np.int32),
        ),
        Tensor(name="flat", shape=(1, 4 * second), **same2),
        *constants("dense", w3.T, b3, out2.scales[0], False),
        out3,
        Tensor(name="softmax", shape=(1, CLASSES), type=int8, scales=[1 / 256], zero_point=-128),
        Tensor(name="probabilities", shape=(1, CLASSES), type=uint8, scales=[1 / 256]),
    ]
    index = {tensor.name: i for i, tensor in enumerate(tensors)}

    def operator(
        code: int,
        version: int,
        inputs: str,
        output: str,
        kind: int = 0,
        options: Callable[..., int] | None = None,
    ) -> Operator:
        return Operator(
            code=code,
            version=version,
            inputs=[index[name] for name in inputs.split()],
            outputs=[index[output]],
            options_type=kind,
            options=options,
        )

    code, kind = tflite.BuiltinOperator, tflite.BuiltinOptions
    conv, pool = (kind.Conv2DOptions, conv_options), (kind.Pool2DOptions, pool_options)
    dense = (kind.FullyConnectedOptions, fully_connected_options)
    return tensors, [
        operator(code.QUANTIZE, 1, "image", "image_int8"),
        operator(code.CONV_2D, 3, "image_int8 conv1/weights conv1/bias", "conv1/relu", *conv),
        operator(code.MAX_POOL_2D, 2, "conv1/relu", "pool1", *pool),
        operator(code.CONV_2D, 3, "pool1 conv2/weights conv2/bias", "conv2/relu", *conv),
        operator(code.MAX_POOL_2D, 2, "conv2/relu", "pool2", *pool),
        operator(code.RESHAPE, 1, "pool2 flat/shape", "flat"),
        operator(code.FULLY_CONNECTED, 4, "flat dense/weights dense/bias", "logits", *dense),
        operator(code.SOFTMAX, 2, "logits", "softmax", kind.SoftmaxOptions, softmax_options),
        operator(code.QUANTIZE, 1, "softmax", "probabilities"),
    ]


# --- The file ---


def serialise(tensors: Sequence[Tensor], operators: Sequence[Operator], description: str) -> bytes:
    """Writes a `.tflite` file with one graph, also available as the signature `serving_default`."""
    builder = flatbuffers.Builder(1 << 14)

    def table_vector(offsets: Sequence[int]) -> int:
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    def int_vector(values: Sequence[int]) -> int:
        return int(builder.CreateNumpyVector(np.array(values, np.int32)))

    def buffer(data: Array | None) -> int:
        content = None
        if data is not None:
            # Readers map the file and use constants in place, so these get an alignment for every
            # type.
            stored = data.astype(data.dtype.newbyteorder("<")).tobytes()
            builder.StartVector(1, len(stored), 16)
            builder.head = builder.head - len(stored)
            builder.Bytes[builder.head : builder.head + len(stored)] = stored
            content = builder.EndVector()
        tflite.BufferStart(builder)
        if content is not None:
            tflite.BufferAddData(builder, content)
        return int(tflite.BufferEnd(builder))

    def tensor_table(tensor: Tensor, buffer_index: int) -> int:
        name = builder.CreateString(tensor.name)
        shape = int_vector(tensor.shape)
        quantization = None
        if tensor.scales:
            scales = builder.CreateNumpyVector(np.array(tensor.scales, np.float32))
            zero_points = builder.CreateNumpyVector(np.full(len(tensor.scales), tensor.zero_point, np.int64))
            tflite.QuantizationParametersStart(builder)
            tflite.QuantizationParametersAddScale(builder, scales)
            tflite.QuantizationParametersAddZeroPoint(builder, zero_points)
            tflite.QuantizationParametersAddQuantizedDimension(builder, tensor.axis)
            quantization = tflite.QuantizationParametersEnd(builder)
        tflite.TensorStart(builder)
        tflite.TensorAddShape(builder, shape)
        tflite.TensorAddType(builder, tensor.type)
        tflite.TensorAddBuffer(builder, buffer_index)
        tflite.TensorAddName(builder, name)
        if quantization is not None:
            tflite.TensorAddQuantization(builder, quantization)
        return int(tflite.TensorEnd(builder))

    def operator_table(operator: Operator) -> int:
        inputs, outputs = int_vector(operator.inputs), int_vector(operator.outputs)
        options = operator.options(builder) if operator.options else None
        tflite.OperatorStart(builder)
        tflite.OperatorAddOpcodeIndex(builder, codes.index((operator.code, operator.version)))
        tflite.OperatorAddInputs(builder, inputs)
        tflite.OperatorAddOutputs(builder, outputs)
        if options is not None:
            tflite.OperatorAddBuiltinOptionsType(builder, operator.options_type)
            tflite.OperatorAddBuiltinOptions(builder, options)
        return int(tflite.OperatorEnd(builder))

    def code_table(code: int, version: int) -> int:
        tflite.OperatorCodeStart(builder)
        # Readers from before the codes outgrew a byte read this field only.
        tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(code, 127))
        tflite.OperatorCodeAddVersion(builder, version)
        tflite.OperatorCodeAddBuiltinCode(builder, code)
        return int(tflite.OperatorCodeEnd(builder))

    def tensor_map(index: int) -> int:
        name = builder.CreateString(tensors[index].name)
        tflite.TensorMapStart(builder)
        tflite.TensorMapAddName(builder, name)
        tflite.TensorMapAddTensorIndex(builder, index)
        return int(tflite.TensorMapEnd(builder))

    codes = sorted({(operator.code, operator.version) for operator in operators})
    last = len(tensors) - 1
    # Buffer 0 is empty by convention: tensors without constant data point to it.
    constant = [tensor.data for tensor in tensors if tensor.data is not None]
    buffers = table_vector([buffer(None), *(buffer(data) for data in constant)])
    numbers = iter(range(1, len(constant) + 1))
    tensor_vector = table_vector(
        [tensor_table(tensor, 0 if tensor.data is None else next(numbers)) for tensor in tensors]
    )
    operator_vector = table_vector([operator_table(operator) for operator in operators])
    inputs, outputs, graph_name = int_vector([0]), int_vector([last]), builder.CreateString("main")
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, tensor_vector)
    tflite.SubGraphAddInputs(builder, inputs)
    tflite.SubGraphAddOutputs(builder, outputs)
    tflite.SubGraphAddOperators(builder, operator_vector)
    tflite.SubGraphAddName(builder, graph_name)
    subgraphs = table_vector([tflite.SubGraphEnd(builder)])

    signature_inputs, signature_outputs = table_vector([tensor_map(0)]), table_vector([tensor_map(last)])
    key = builder.CreateString("serving_default")
    tflite.SignatureDefStart(builder)
    tflite.SignatureDefAddInputs(builder, signature_inputs)
    tflite.SignatureDefAddOutputs(builder, signature_outputs)
    tflite.SignatureDefAddSignatureKey(builder, key)
    tflite.SignatureDefAddSubgraphIndex(builder, 0)
    signatures = table_vector([tflite.SignatureDefEnd(builder)])

    code_vector = table_vector([code_table(*code) for code in codes])
    text = builder.CreateString(description)
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    tflite.ModelAddOperatorCodes(builder, code_vector)
    tflite.ModelAddSubgraphs(builder, subgraphs)
    tflite.ModelAddDescription(builder, text)
    tflite.ModelAddBuffers(builder, buffers)
    tflite.ModelAddSignatureDefs(builder, signatures)
    builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def accuracy(content: bytes, images: Array, labels: Array) -> float:
    """Returns the share of digits that the finished file classifies correctly, run by neurald."""
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        file.write(content)
        file.flush()
        compilation = nd.CompilationBuilder(nd.load_tflite(file.name)).finish()
        guesses = [int(compilation.run(image[None, :, :, None])[0].argmax()) for image in images]
    return float(np.mean(np.array(guesses) == labels))


def main() -> int:
    """Trains, quantises, evaluates and writes."""
    parser = argparse.ArgumentParser(description="Trains the demo's digit classifier.")
    parser.add_argument(
        "--output", type=Path, default=DEMO, help="folder to write digits.tflite and digits.npz to"
    )
    folder: Path = parser.parse_args().output
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)

    digits = load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, digits.target, test_size=HELD_BACK, random_state=SEED, stratify=digits.target
    )
    as_input = (train_images[..., None] / np.float32(255)).astype(np.float32)
    network = train(as_input, train_labels)
    tensors, operators = quantise(network, as_input)

    share = accuracy(serialise(tensors, operators, ""), test_images, test_labels)
    description = (
        f"Handwritten digits, 8 x 8 pixels, white on black; trained by neurald's scripts/train_digits.py on "
        f"{len(train_images)} digits of scikit-learn; accuracy {share:.4f} on the {len(test_images)} held back"
    )
    folder.mkdir(parents=True, exist_ok=True)
    content = serialise(tensors, operators, description)
    (folder / "digits.tflite").write_bytes(content)
    np.savez_compressed(folder / "digits.npz", images=test_images, labels=test_labels.astype(np.uint8))
    log.info("%s: %d bytes", folder / "digits.tflite", len(content))
    log.info(
        "accuracy of the quantised model on the %d digits held back: %.2f %%", len(test_images), 100 * share
    )
    return 0 if share >= 0.97 else 1


if __name__ == "__main__":
    sys.exit(main())
