"""Builds files of one custom operator."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flatbuffers import flexbuffers
from support.models.whole_model import run_references
from support.tflite.builder import TfliteModel

from neurald.drivers.cpu.device import CpuDevice
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite

Array = np.ndarray[Any, np.dtype[Any]]


def custom_file(
    name: str,
    inputs: Sequence[tuple[Sequence[int], str] | Array | dict[str, Any]],
    outputs: Sequence[tuple[Sequence[int], str]],
    options: bytes | dict[str, Any] = b"",
) -> TfliteModel:
    """Builds a file.

    Args:
        name: of the operator.
        inputs: shape and type of each input; an array is a constant of type FLOAT32 or INT32, and a
            dictionary has the arguments of `TfliteGraph.tensor`.
        outputs: shape and type of each output.
        options: bytes, or the values of a FlexBuffers map.
    """
    file = TfliteModel()
    graph = file.subgraph()
    tensors, fed = [], []
    for position, given in enumerate(inputs):
        if isinstance(given, np.ndarray):
            kind = "INT32" if given.dtype.kind == "i" else "FLOAT32"
            tensors.append(graph.tensor(given.shape, kind, data=given))
            continue
        described = given if isinstance(given, dict) else {"shape": given[0], "type_": given[1]}
        tensors.append(graph.tensor(**described, name=f"input_{position}"))
        fed.append(tensors[-1])
    results = [graph.tensor(shape, kind, name=f"output_{i}") for i, (shape, kind) in enumerate(outputs)]
    data = bytes(flexbuffers.Dumps(options)) if isinstance(options, dict) else options
    graph.operator("CUSTOM", tensors, results, custom_code=name, custom_options=data)
    graph.inputs, graph.outputs = fed, results
    return file


def transposed(
    shape: tuple[int, int, int],
    window: tuple[int, int],
    strides: tuple[int, int],
    padding: int,
    seed: int = 0,
) -> TfliteModel:
    """Builds a Convolution2DTransposeBias of one image to five channels.

    Args:
        shape: height, width, channels.
        window, strides: height and width.
        padding: 1 for SAME, 2 for VALID.
        seed: of the weights.
    """
    rng = np.random.default_rng(seed)
    height, width, channels = shape
    grown = [
        length * stride if padding == 1 else (length - 1) * stride + size
        for length, stride, size in zip((height, width), strides, window, strict=True)
    ]
    weights = rng.standard_normal((5, *window, channels)).astype(np.float32)
    bias = rng.standard_normal(5).astype(np.float32)
    options = struct.pack("<5i", padding, strides[1], strides[0], 0, 0)
    return custom_file(
        "Convolution2DTransposeBias",
        (((1, *shape), "FLOAT32"), weights, bias),
        [((1, *grown, 5), "FLOAT32")],
        options,
    )


def pool_options(window: tuple[int, int], padding: int, activation: int = 0) -> bytes:
    """Returns the options of pooling by windows of that height and width."""
    height, width = window
    return struct.pack("<6i", padding, width, height, width, height, activation) + bytes(16)


def pooled(size: tuple[int, int], window: tuple[int, int], padding: int) -> TfliteModel:
    """Builds a MaxPoolingWithArgmax2D of two images with three channels."""
    rows, columns = (
        -(-length // side) if padding == 1 else length // side
        for length, side in zip(size, window, strict=True)
    )
    shape = (2, rows, columns, 3)
    return custom_file(
        "MaxPoolingWithArgmax2D",
        [((2, *size, 3), "FLOAT32")],
        [(shape, "FLOAT32"), (shape, "FLOAT32")],
        pool_options(window, padding),
    )


def unpooled(size: tuple[int, int], window: tuple[int, int], padding: int = 2) -> TfliteModel:
    """Builds a MaxUnpooling2D of two images of that size with three channels."""
    shape = (2, *size, 3)
    whole = (2, size[0] * window[0], size[1] * window[1], 3)
    return custom_file(
        "MaxUnpooling2D",
        [(shape, "FLOAT32"), (shape, "FLOAT32")],
        [(whole, "FLOAT32")],
        pool_options(window, padding),
    )


def spectrogram(
    samples: int, channels: int, window: int, stride: int, *, magnitude_squared: bool
) -> TfliteModel:
    """Builds an AudioSpectrogram."""
    frames, length = 1 + (samples - window) // stride, 1 << (window - 1).bit_length()
    return custom_file(
        "AudioSpectrogram",
        [((samples, channels), "FLOAT32")],
        [((channels, frames, length // 2 + 1), "FLOAT32")],
        {"window_size": window, "stride": stride, "magnitude_squared": magnitude_squared},
    )


def mfcc(
    shape: tuple[int, int, int], limits: tuple[float, float], bands: int, coefficients: int
) -> TfliteModel:
    """Builds an Mfcc of spectrograms at 16 kHz."""
    return custom_file(
        "Mfcc",
        [(shape, "FLOAT32"), np.array([16000], np.int32)],
        [((*shape[:2], coefficients), "FLOAT32")],
        {
            "lower_frequency_limit": limits[0],
            "upper_frequency_limit": limits[1],
            "filterbank_channel_count": bands,
            "dct_coefficient_count": coefficients,
        },
    )


def hadamard(shape: Sequence[int], size: int) -> TfliteModel:
    """Builds an aeq.hadamard_rotation of blocks of that size."""
    return custom_file(
        "aeq.hadamard_rotation", [(shape, "FLOAT32")], [(shape, "FLOAT32")], {"hadamard_size": size}
    )


def numeric_verify(kind: str, zero_point: int = 0, result: str = "FLOAT32") -> TfliteModel:
    """Builds a NumericVerify of a 2 x 3 tensor of a type, with scale 0.5 unless it is FLOAT16.

    Args:
        kind: the type.
        zero_point: that of the tensor.
        result: the type that the file declares for the differences.
    """
    first: dict[str, Any] = {"shape": (2, 3), "type_": kind}
    if kind != "FLOAT16":
        first |= {"scale": 0.5, "zero_point": zero_point}
    return custom_file(
        "NumericVerify",
        [first, ((2, 3), "FLOAT32")],
        [((2, 3), result)],
        {"tolerance": 5.0, "log_if_failed": False},
    )


def results_of(file: TfliteModel, folder: Path, *inputs: Array) -> list[Array]:
    """Runs a file on kernels, after checking that references agree with them to 1e-4."""
    model = load_tflite(file.write(folder / "custom.tflite"))
    found = CompilationBuilder(model, [CpuDevice()]).finish().run(*inputs)
    for one, other in zip(found, run_references(model, *inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * float(np.abs(other).max(initial=0)))
    return list(found)
