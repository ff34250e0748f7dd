"""Runs programs of other projects' repositories on the small models that these have themselves.

They are DTLN's `real_time_processing_tf_lite.py`, which removes noise and passes states from call to
call, MLPerf Tiny's `03_tflite_test.py`, which finds anomalies in sounds, and the classifiers of
hands and gestures of hand-gesture-recognition-using-mediapipe.
NEURALD_REPOSITORIES names a folder with checkouts of their repositories.
"""

import csv
import os
import runpy
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import soundfile

REPOSITORIES = Path(os.environ["NEURALD_REPOSITORIES"])
RATE = 16000

RESULTS = Path(sys.argv[1]).resolve()
os.chdir(RESULTS.parent)
found = {}
noise = np.random.default_rng(5)


def run(path, *arguments):
    """Returns the variables of a program when it ends."""
    sys.argv = [str(path), *map(str, arguments)]
    sys.path.insert(0, str(path.parent))
    try:
        return runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.path.remove(str(path.parent))


def write_sound(path, pitch_hz, seconds):
    """Writes a tone with overtones and noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    times = np.arange(int(seconds * RATE)) / RATE
    tones = sum(np.sin(2 * np.pi * pitch_hz * n * times) / n for n in range(1, 6))
    sound = 0.1 * tones * (np.sin(5 * times) > 0) + 0.02 * noise.normal(size=times.size)
    soundfile.write(path, sound, RATE, format="WAV")


start = time.perf_counter()

# The program names this file.
write_sound(Path("path/to/your/favorite/.wav"), 170, 3)
Path("pretrained_model").mkdir()
for name in ("model_1.tflite", "model_2.tflite"):
    shutil.copy(REPOSITORIES / "DTLN/pretrained_model" / name, "pretrained_model")
ended = run(REPOSITORIES / "DTLN/real_time_processing_tf_lite.py")
found["without noise"] = ended["out_file"]
found["states"] = np.concatenate([ended["states_1"], ended["states_2"]])

folder = REPOSITORIES / "tiny/benchmark/training/anomaly_detection"
for number in range(3):
    write_sound(Path(f"dev_data/ToyCar/test/normal_id_01_{number:08d}.wav"), 200 + 40 * number, 2)
    write_sound(Path(f"dev_data/ToyCar/test/anomaly_id_01_{number:08d}.wav"), 1500 + 400 * number, 2)
shutil.copy(folder / "baseline.yaml", ".")
shutil.copytree(folder / "trained_models/ToyCar/baseline_tf23/model", "model")
run(folder / "03_tflite_test.py", "-d")
for path in sorted(Path("result").glob("*_score_*.csv")):
    if "_quant_anomaly" not in path.name:  # 8-bit weights of layers of float inputs
        found[path.stem] = np.array([float(score) for _, score in csv.reader(path.read_text().splitlines())])

folder = REPOSITORIES / "hand-gesture-recognition-using-mediapipe"
os.chdir(folder)
sys.path.insert(0, str(folder))
from model import KeyPointClassifier, PointHistoryClassifier

for classifier, file in (
    (KeyPointClassifier(), "model/keypoint_classifier/keypoint.csv"),
    (PointHistoryClassifier(), "model/point_history_classifier/point_history.csv"),
):
    rows = [list(map(float, row[1:])) for row in csv.reader(Path(file).read_text().splitlines())][::20]
    found[file] = np.array([classifier(row) for row in rows])

np.savez(RESULTS, seconds=np.array(time.perf_counter() - start), **found)
