"""Finds the notes of a melody with Basic Pitch."""

import sys
import tempfile
import time
import wave
from pathlib import Path

import basic_pitch
import numpy as np
from basic_pitch.inference import predict

times = np.arange(22_050 * 3) / 22_050
frequency = np.choose((times * 2).astype(int) % 4, [261.63, 329.63, 392.0, 523.25])
sound = sum(np.sin(2 * np.pi * number * frequency * times) / number for number in range(1, 6))
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "melody.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 22_050, 0, "NONE", ""))
        file.writeframes((8_000 * sound).astype(np.int16).tobytes())
    model = Path(basic_pitch.__file__).parent / "saved_models" / "icassp_2022" / "nmp.tflite"
    start = time.perf_counter()
    output, _, notes = predict(path, model)
np.savez(
    sys.argv[1],
    notes=np.array(sorted(note[:4] for note in notes)),
    seconds=np.array(time.perf_counter() - start),
    **output,
)
