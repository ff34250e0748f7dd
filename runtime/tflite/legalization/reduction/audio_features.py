"""AudioSpectrogram and Mfcc: features of recordings.

They are computed in float32 by matrix products and Fourier transforms; LiteRT computes in float64.
"""

import math

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite.file.flexbuffer import FlexMap
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.machinery.steps import constant, known_shape, reshaped, step

#: Maximum number of samples of all frames, which bounds the constant that selects them.
_MAX_SAMPLES = 1 << 24
#: Maximum number of elements of a matrix of weights.
_MAX_WEIGHTS = 1 << 24
#: Smallest sum of a band, before its logarithm is taken.
_FLOOR = 1e-12


def audio_spectrogram(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes AudioSpectrogram.

    The magnitudes of the frequencies of overlapping frames, each multiplied by Hann's window and
    padded to a power of 2. Its input has a column for each channel.
    """
    options = FlexMap(operator.custom_options)
    window, stride = options.integer("window_size"), options.integer("stride")
    samples, channels = known_shape(graph, operator, 0, 2)
    if window < 2 or stride < 1 or samples < window:
        raise UnsupportedFeature(
            f"{samples} samples, frames of {window} every {stride}; at least one frame of 2 samples is expected"
        )
    frames = 1 + (samples - window) // stride
    if frames * window > _MAX_SAMPLES:
        raise UnsupportedFeature(f"{frames} frames of {window} samples; {_MAX_SAMPLES} samples are the most")
    length = 1 << (window - 1).bit_length()
    starts = np.arange(frames, dtype=np.int32)[:, np.newaxis] * stride
    places = (starts + np.arange(window, dtype=np.int32)).ravel()
    indexes = graph.vector([int(place) for place in places])
    by_channel = step(graph, OperationType.TRANSPOSE, graph.input(operator), graph.vector((1, 0)))
    picked = step(graph, OperationType.GATHER, by_channel, graph.int32(1), indexes)
    hann = 0.5 - 0.5 * np.cos(2 * math.pi * np.arange(window) / window)
    tapered = step(
        graph,
        OperationType.MUL,
        reshaped(graph, picked, (channels * frames, 1, window)),
        constant(graph, hann.reshape(1, 1, window)),
        graph.int32(FusedActivation.NONE),
    )
    spectrum = step(
        graph,
        OperationType.TFLITE_RFFT2D,
        tapered,
        graph.vector((1, length)),
        kind=OperandType.TENSOR_COMPLEX64,
    )
    shape = (channels, frames, length // 2 + 1)
    if not options.boolean("magnitude_squared", default=False):
        magnitude = step(graph, OperationType.TFLITE_COMPLEX_ABS, spectrum)
        reshaped(graph, magnitude, shape, graph.output(operator))
        return
    squares = []
    for part in (OperationType.TFLITE_REAL, OperationType.TFLITE_IMAG):
        number = step(graph, part, spectrum)
        squares.append(step(graph, OperationType.MUL, number, number, graph.int32(FusedActivation.NONE)))
    total = step(graph, OperationType.ADD, *squares, graph.int32(FusedActivation.NONE))
    reshaped(graph, total, shape, graph.output(operator))


def mfcc(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes Mfcc: the mel-frequency cepstral coefficients of a spectrogram of squares."""
    options = FlexMap(operator.custom_options)
    channels, frames, length = known_shape(graph, operator, 0, 3)
    bands, coefficients = (
        options.integer(name) for name in ("filterbank_channel_count", "dct_coefficient_count")
    )
    rate = graph.value(graph.input(operator, 1))
    if rate is None or rate.size != 1 or rate.dtype.kind != "i" or rate.item() < 1:
        raise UnsupportedFeature("the sample rate is not a positive constant")
    if length < 2 or not 1 <= coefficients <= bands or bands * length > _MAX_WEIGHTS:
        raise UnsupportedFeature(
            f"{coefficients} coefficients of {bands} bands of {length} frequencies; at most as many "
            f"coefficients as bands, and {_MAX_WEIGHTS} weights, are expected"
        )
    weights = _mel_weights(
        bands,
        length,
        int(rate.item()),
        options.real("lower_frequency_limit"),
        options.real("upper_frequency_limit"),
    )
    magnitudes = step(
        graph, OperationType.SQRT, reshaped(graph, graph.input(operator), (channels * frames, length))
    )
    energies = _product(graph, magnitudes, weights)
    floor = constant(graph, np.full((1, 1), _FLOOR))
    logarithms = step(graph, OperationType.LOG, step(graph, OperationType.MAXIMUM, energies, floor))
    angles = np.arange(coefficients)[:, np.newaxis] * (np.arange(bands) + 0.5) * (math.pi / bands)
    cepstrum = _product(graph, logarithms, math.sqrt(2 / bands) * np.cos(angles))
    reshaped(graph, cepstrum, (channels, frames, coefficients), graph.output(operator))


def _product(graph: SubgraphBuilder, rows: int, weights: Array) -> int:
    """Emits the product of rows with weights, whose rows belong to the columns of the result."""
    zeros = constant(graph, np.zeros(len(weights)))
    none = graph.int32(FusedActivation.NONE)
    return step(graph, OperationType.FULLY_CONNECTED, rows, constant(graph, weights), zeros, none)


def _mel_weights(bands: int, length: int, rate: int, lowest: float, highest: float) -> Array:
    """Returns the weights of a spectrum's frequencies in overlapping triangular bands.

    The centres of the bands are at equal distances on the mel scale.

    Raises:
        UnsupportedFeature: the limits of the frequencies are wrong.
    """
    if not 0 <= lowest < highest or not math.isfinite(highest):
        raise UnsupportedFeature(f"frequencies from {lowest:g} to {highest:g}; a range from 0 on is expected")
    hertz = 0.5 * rate / (length - 1)
    mels = _mel(np.arange(length) * hertz)
    bottom, top = _mel(np.array([lowest, highest]))
    centres = bottom + (top - bottom) / (bands + 1) * np.arange(1, bands + 2)
    first, last = int(1.5 + lowest / hertz), int(highest / hertz)
    weights = np.zeros((bands, length))
    for place in range(first, min(last, length - 1) + 1):
        above = int(np.searchsorted(centres[:bands], mels[place]))
        begin = bottom if above == 0 else centres[above - 1]
        falling = (centres[above] - mels[place]) / (centres[above] - begin)
        if above > 0:
            weights[above - 1, place] += falling
        if above < bands:
            weights[above, place] += 1 - falling
    return weights


def _mel(
    frequencies: Array,
) -> Array:
    found: Array = 1127.0 * np.log1p(frequencies / 700.0)
    return found


#: Custom operators by name.
CUSTOM: dict[str, Legalization] = {
    "AudioSpectrogram": Legalization(rule=audio_spectrogram),
    "Mfcc": Legalization(rule=mfcc, inputs=(2, 2)),
}
