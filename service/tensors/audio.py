"""Converts sounds to model inputs."""

import math
from pathlib import Path
from typing import Final

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.service.tensors.arrays import Array, describe_type, input_slots
from neurald.service.tensors.files import open_regular
from neurald.service.tensors.wav import read_header

#: Samples per second that most models of speech and sounds expect.
DEFAULT_RATE: Final = 16_000
#: No sound of which anything could be recognised is shorter.
_SHORTEST_S: Final = 0.1
_MAX_RATE: Final = 768_000
#: Most samples of all channels together, and most samples at the model's rate. Each takes 20 bytes
#: or more while it is converted.
_MAX_SAMPLES: Final = 1 << 26
_TYPES: Final = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT16,
    OperandType.TENSOR_QUANT8_ASYMM,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    OperandType.TENSOR_QUANT16_SYMM,
)


def audio_input(model: Model, path: Path, rate: int = DEFAULT_RATE) -> tuple[Array, str]:
    """Reads a sound as the only input of a model, which takes a waveform.

    Channels are mixed, and the samples are brought to the model's rate. A sound that is too short
    is followed by silence. Real inputs get samples from -1 to 1, quantised ones the same,
    quantised.

    Args:
        model: whose input has one dimension of several samples; others have the length 1 or are
            open.
        path: a WAV file.
        rate: samples per second that the model expects.

    Returns:
        The input, and a remark if a part of the sound is not used, or silence is added; otherwise
        the remark is empty.

    Raises:
        BadData: the model takes no waveform, or the file is not a WAV file of integers or floats.
        OSError: the file cannot be read.
    """
    slots = input_slots(model)
    if len(slots) != 1:
        raise BadData(
            f"the model has {len(slots)} inputs; a sound needs a model with exactly one. --inputs FILE.npz gives "
            "arrays to several"
        )
    operand = slots[0].operand
    position = _samples_dimension(operand.dimensions)
    if operand.type not in _TYPES or operand.dimensions is None or position is None:
        found = describe_type(operand.type.dtype, operand.dimensions)
        raise BadData(
            f"the model's input is {found}; a sound needs an input of which one dimension has all samples"
        )
    samples = read_audio(path, rate)
    length, remark = operand.dimensions[position] or len(samples), ""
    if len(samples) > length:
        remark = f"the model takes {length / rate:.2f} s; the first of {len(samples) / rate:.2f} s of sound are used"
        if length < _SHORTEST_S * rate:
            remark += ". Perhaps it expects features that are computed from sound; give these with --inputs"
    elif len(samples) < length:
        remark = (
            f"the model takes {length / rate:.2f} s; silence follows the {len(samples) / rate:.2f} s of sound"
        )
    samples = np.pad(samples[:length], (0, max(0, length - len(samples))))
    shape = [length if place == position else 1 for place in range(len(operand.dimensions))]
    if is_quantized(operand):
        limits = np.iinfo(operand.type.dtype.name)
        steps = np.rint(samples / operand.scale) + operand.zero_point
        samples = np.clip(steps, limits.min, limits.max)
    return np.asarray(samples, operand.type.dtype).reshape(shape), remark


def _samples_dimension(dimensions: tuple[int, ...] | None) -> int | None:
    """Returns which dimension has the samples: the only long one, or else the last open one."""
    long = [place for place, length in enumerate(dimensions or ()) if length > 1]
    opened = [place for place, length in enumerate(dimensions or ()) if length == 0]
    if len(long) > 1:
        return None
    return long[0] if long else opened[-1] if opened else None


def read_audio(path: Path, rate: int) -> Array:
    """Reads a WAV file as float64 samples from -1 to 1 at a rate per second.

    Raises:
        BadData: the file is not a WAV file of integers or floats, or is damaged or too large.
        OSError: the file cannot be read.
    """
    with open_regular(path) as file:
        try:
            header = read_header(file)
        except BadData as error:
            raise BadData(f"{path} is not a WAV file that can be read: {error}") from None
        found, channels = header.rate, header.channels
        if not 0 < found <= _MAX_RATE:
            raise BadData(f"{path} has {found} samples per second; 1 to {_MAX_RATE} are expected")
        longest = min(_MAX_SAMPLES // channels, _MAX_SAMPLES * found // rate)
        most_bytes = longest * channels * header.width
        content = file.read(min(header.size_bytes, most_bytes + 1))
    if len(content) > most_bytes:
        raise BadData(
            f"{path} takes more than {longest / found:g} s; this is the limit for {channels} channels, with "
            f"{found} samples per second that become {rate}"
        )
    samples = header.samples(content)
    if not len(samples):
        raise BadData(f"{path} has no samples; a recording is expected")
    mixed = samples.mean(1)
    if found == rate:
        return np.asarray(mixed)
    count = max(1, math.floor(len(mixed) * rate / found))
    if rate < found:
        # Frequencies that the lower rate cannot hold would come back as others.
        window = max(1, round(found / rate))
        mixed = np.convolve(mixed, np.full(window, 1 / window), "same")[: len(mixed)]
    converted: Array = np.interp(np.arange(count) * (found / rate), np.arange(len(mixed)), mixed)
    return converted
