import io
import random
import wave
from pathlib import Path

import numpy as np
import pytest

import neurald as nd
from neurald.service.tensors.audio import audio_input, read_audio


def sound(path: Path, samples: np.ndarray, rate: int = 16_000, width: int = 2, channels: int = 1) -> Path:
    """Writes samples from -1 to 1, of shape [moments] or [moments, channels]."""
    if width == 1:
        stored = (np.asarray(samples) * 127 + 128).astype(np.uint8).tobytes()
    else:
        whole = (np.asarray(samples, np.float64) * (2**31 - 1)).astype("<i4").reshape(-1, 1)
        stored = whole.view(np.uint8).reshape(-1, 4)[:, 4 - width :].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(stored)
    return path


def taking(kind: nd.OperandType, *shapes: tuple[int, ...]) -> nd.Model:
    """Builds a model that passes on inputs of these shapes."""
    builder = nd.ModelBuilder()
    inputs = [builder.add_operand(kind, each) for each in shapes]
    outputs = [builder.add_operand(kind, each) for each in shapes]
    for source, result in zip(inputs, outputs, strict=True):
        builder.add_operation(nd.OperationType.ABS, [source], [result])
    builder.identify_inputs_and_outputs(inputs, outputs)
    return builder.finish()


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_all_widths_have_the_same_range(tmp_path: Path, width: int) -> None:
    given = np.array([0, 0.5, -0.5, 0.99, -1])
    found = read_audio(sound(tmp_path / "a.wav", given, width=width), 16_000)
    np.testing.assert_allclose(found, given, atol=0.02)


def test_channels_are_mixed_and_rates_converted(tmp_path: Path) -> None:
    moments = np.arange(4_000) / 8_000
    tone = np.sin(2 * np.pi * 100 * moments)
    path = sound(tmp_path / "a.wav", np.stack([tone, 0 * tone], 1), rate=8_000, channels=2)
    found = read_audio(path, 16_000)
    assert len(found) == 8_000
    np.testing.assert_allclose(found[::2], tone / 2, atol=1e-3)
    assert len(read_audio(path, 4_000)) == 2_000
    high = sound(tmp_path / "b.wav", np.sin(2 * np.pi * 3_900 * moments), rate=8_000)
    assert np.abs(read_audio(high, 1_000)).max() < 0.2  # not as a low tone


def test_inputs_of_models(tmp_path: Path) -> None:
    path = sound(tmp_path / "a.wav", np.full(100, 0.5))
    kind = nd.OperandType.TENSOR_FLOAT32
    array, remark = audio_input(taking(kind, (1, 160, 1)), path)
    assert array.dtype == np.float32
    assert (array.shape, remark) == (
        (1, 160, 1),
        "the model takes 0.01 s; silence follows the 0.01 s of sound",
    )
    assert audio_input(taking(kind, (1, 100, 1)), path)[1] == ""
    np.testing.assert_allclose(array.reshape(-1)[[0, 99, 100]], [0.5, 0.5, 0], atol=1e-3)
    array, remark = audio_input(taking(kind, (40,)), path)
    assert (array.shape, remark) == (
        (40,),
        "the model takes 0.00 s; the first of 0.01 s of sound are used. Perhaps it expects features that are "
        "computed from sound; give these with --inputs",
    )
    assert audio_input(taking(kind, (0, 0)), path)[0].shape == (1, 100)
    for model in (
        taking(kind, (1, 32, 32)),
        taking(kind, (1, 1)),
        taking(nd.OperandType.TENSOR_INT32, (40,)),
    ):
        with pytest.raises(nd.BadData, match="one dimension has all samples"):
            audio_input(model, path)
    with pytest.raises(nd.BadData, match="the model has 2 inputs"):
        audio_input(taking(kind, (40,), (40,)), path)


def test_sounds_that_would_take_too_much_memory_are_refused(tmp_path: Path) -> None:
    slow = sound(tmp_path / "a.wav", np.zeros(4_195), rate=1)
    with pytest.raises(
        nd.BadData, match="more than 4194 s; this is the limit for 1 channels, with 1 samples"
    ):
        read_audio(slow, 16_000)
    assert len(read_audio(slow, 1_000)) == 4_195_000


def test_damaged_files(tmp_path: Path) -> None:
    content = bytearray(sound(tmp_path / "a.wav", np.zeros(50)).read_bytes())
    path = tmp_path / "b.wav"
    seed = random.Random(1)
    refusals = []
    for _ in range(300):
        changed = bytearray(content[: seed.randrange(len(content))] if seed.random() < 0.3 else content)
        for _ in range(seed.randrange(1, 4)):
            if changed:
                changed[seed.randrange(min(len(changed), 60))] = seed.randrange(256)
        path.write_bytes(changed)
        try:
            read_audio(path, 16_000)
        except nd.BadData as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert all(str(path) in each for each in refusals)
    silent = io.BytesIO()
    with wave.open(silent, "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
    path.write_bytes(silent.getvalue())
    with pytest.raises(nd.BadData, match="no samples"):
        read_audio(path, 16_000)
