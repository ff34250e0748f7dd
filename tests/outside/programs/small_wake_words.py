"""Listens for wake words with OVOS' plugin for microWakeWord; the models are in pymicro-wakeword."""

import importlib.util
import sys
import time
from pathlib import Path

import numpy as np

package = importlib.util.find_spec("ovos_ww_plugin_microwakeword")
module = importlib.util.spec_from_file_location("inference", Path(package.origin).with_name("inference.py"))
# The plugin itself is for OVOS' framework only.
inference = importlib.util.module_from_spec(module)
module.loader.exec_module(inference)
folder = Path(importlib.util.find_spec("pymicro_wakeword").origin).parent / "models"

rng = np.random.default_rng(1)
times = np.arange(32_000) / 16_000
sound = sum(np.sin(2 * np.pi * number * (180 - 20 * times) * times) / number for number in range(1, 12))
sound = (3_000 * sound * (1 + np.sin(9 * times)) + rng.normal(0, 300, times.shape)).astype(np.int16)
found = {}
start = time.perf_counter()
for model in sorted(folder.glob("*.tflite")):
    engine = inference.MicroWakeWordEngine(str(model))
    found[f"{model.stem} at first"] = np.array(engine.process_audio(sound.tobytes()))
    engine.reset()
    found[f"{model.stem} again"] = np.array(engine.process_audio(sound.tobytes()))
np.savez(sys.argv[1], seconds=np.array(time.perf_counter() - start), **found)
