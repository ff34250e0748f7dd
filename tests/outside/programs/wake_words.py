"""Listens for wake words with openWakeWord, whose models are in the package wyoming-openwakeword."""

import importlib.util
import sys
import time
from pathlib import Path

import numpy as np
from openwakeword.model import Model

np.random.seed(3)  # the package fills its buffers with noise
package = importlib.util.find_spec("wyoming_openwakeword")
folder = Path(package.origin).parent / "models"
words = sorted(str(path) for path in folder.glob("*_v0.1.tflite"))
start = time.perf_counter()
model = Model(
    wakeword_models=words,
    inference_framework="tflite",
    melspec_model_path=str(folder / "melspectrogram.tflite"),
    embedding_model_path=str(folder / "embedding_model.tflite"),
)
# Two seconds of a voice-like sound: harmonics of a falling tone, and noise.
rng = np.random.default_rng(1)
times = np.arange(32_000) / 16_000
sound = sum(np.sin(2 * np.pi * number * (180 - 20 * times) * times) / number for number in range(1, 12))
sound = (3_000 * sound * (1 + np.sin(9 * times)) + rng.normal(0, 300, times.shape)).astype(np.int16)
scores = [model.predict(sound[at : at + 1280]) for at in range(0, len(sound), 1280)]
np.savez(
    sys.argv[1],
    scores=np.array([[each[name] for name in sorted(each)] for each in scores]),
    embeddings=np.array(model.preprocessor.feature_buffer),
    spectrogram=np.array(model.preprocessor.melspectrogram_buffer),
    seconds=np.array(time.perf_counter() - start),
)
