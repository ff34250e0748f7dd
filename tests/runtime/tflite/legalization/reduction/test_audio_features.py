"""AudioSpectrogram and Mfcc, compared with their definitions in float64."""

import math
from pathlib import Path

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.custom import custom_file, mfcc, results_of, spectrogram

from neurald.hal.errors import BadData
from neurald.runtime.tflite import load_tflite


@sweep(
    "samples, channels, window, stride",
    [(400, 1, 64, 32), (300, 2, 100, 50), (100, 3, 30, 7), (16, 1, 16, 9)],
)
@sweep("squared", [False, True])
def test_a_spectrogram(
    tmp_path: Path, samples: int, channels: int, window: int, stride: int, squared: bool
) -> None:
    sound = np.random.default_rng(0).standard_normal((samples, channels)).astype(np.float32)
    file = spectrogram(samples, channels, window, stride, magnitude_squared=squared)
    (found,) = results_of(file, tmp_path, sound)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    length = 1 << (window - 1).bit_length()
    for frame in range(found.shape[1]):
        part = sound[frame * stride : frame * stride + window].T * hann
        magnitude = np.abs(np.fft.rfft(part, length))
        expected = magnitude**2 if squared else magnitude
        np.testing.assert_allclose(found[:, frame], expected, rtol=1e-3, atol=1e-4 * expected.max())


@sweep("shape", [(1, 5, 257), (2, 3, 129)])
@sweep("limits", [(20.0, 4000.0), (0.0, 8000.0), (300.0, 30000.0)])
def test_cepstral_coefficients(
    tmp_path: Path, shape: tuple[int, int, int], limits: tuple[float, float]
) -> None:
    bands, coefficients = 26, 13
    power = np.random.default_rng(0).standard_normal(shape).astype(np.float32) ** 2
    (found,) = results_of(mfcc(shape, limits, bands, coefficients), tmp_path, power)

    def mel(hertz: float) -> float:
        return 1127 * math.log1p(hertz / 700)

    width = 8000 / (shape[2] - 1)
    edges = np.linspace(mel(limits[0]), mel(limits[1]), bands + 2)
    first, last = int(1.5 + limits[0] / width), min(int(limits[1] / width), shape[2] - 1)
    energies = np.zeros((*shape[:2], bands))
    for place in range(first, last + 1):
        for band in range(bands):
            low, centre, high = edges[band : band + 3]
            at = mel(place * width)
            weight = (at - low) / (centre - low) if at <= centre else (high - at) / (high - centre)
            energies[..., band] += np.sqrt(power[..., place].astype(np.float64)) * max(weight, 0)
    logarithms = np.log(np.maximum(energies, 1e-12))
    for number in range(coefficients):
        angles = np.pi * number / bands * (np.arange(bands) + 0.5)
        expected = math.sqrt(2 / bands) * (logarithms * np.cos(angles)).sum(-1)
        np.testing.assert_allclose(found[..., number], expected, rtol=1e-3, atol=1e-3)


SOUND, POWER, RATE = ((16, 1), "FLOAT32"), ((1, 2, 9), "FLOAT32"), np.array([16000], np.int32)
OPTIONS = {
    "lower_frequency_limit": 20.0,
    "upper_frequency_limit": 4000.0,
    "filterbank_channel_count": 4,
    "dct_coefficient_count": 4,
}


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (spectrogram(16, 1, 20, 5, magnitude_squared=True), "at least one frame"),
        (spectrogram(16, 1, 1, 1, magnitude_squared=True), "at least one frame"),
        (
            custom_file("AudioSpectrogram", [SOUND], [POWER], {"window_size": 4, "stride": 0}),
            "frames of 4 every 0",
        ),
        (spectrogram(10_000_000, 1, 1000, 1, magnitude_squared=True), "samples are the most"),
        (custom_file("Mfcc", [POWER, RATE], [POWER], {**OPTIONS, "dct_coefficient_count": 5}), "as bands"),
        (custom_file("Mfcc", [POWER, RATE], [POWER], {**OPTIONS, "upper_frequency_limit": 10.0}), "20 to 10"),
        (custom_file("Mfcc", [POWER, RATE * 0], [POWER], OPTIONS), "not a positive constant"),
        (custom_file("Mfcc", [POWER, ((1,), "INT32")], [POWER], OPTIONS), "not a positive constant"),
    ],
)
def test_what_is_refused(file: TfliteModel, words: str) -> None:
    with pytest.raises(BadData, match=words):
        load_tflite(file.build())
