"""Classifies a photo with teachable-machine-lite, and compares models by litert-precision-guard."""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from litert_precision_guard import cli
from matplotlib import cbook
from PIL import Image
from teachable_machine_lite import TeachableMachineLite

HERE = Path(__file__).resolve()
SHARED = Path(os.environ.get("NEURALD_TEST_DATA", HERE.parents[3].parent / "shared"))
MODELS, LABELS = SHARED / "models/tflite", SHARED / "models/labels"

RESULTS = Path(sys.argv[1]).resolve()
os.chdir(RESULTS.parent)
Image.open(cbook.get_sample_data("grace_hopper.jpg")).convert("RGB").save("photo.png")
found = {}
start = time.perf_counter()

classifier = TeachableMachineLite(
    model_path=str(MODELS / "mobilenet_v1_0.25_224_fp32.tflite"),
    labels_file_path=str(LABELS / "imagenet_labels.txt"),
)
best = classifier.classify_image("photo.png")
found["class"] = np.array([best["id"], best["confidence"] / 100])

for name in ("hand_landmark_lite_fp16", "movie_review_text_fp32", "toy_decoder_kv_cache_fp32"):
    report = Path(f"{name}.json")
    sys.argv = ["guard", str(MODELS / f"{name}.tflite"), "--backends", "cpu", "--json-output", str(report)]
    try:
        status = cli.main()
    except SystemExit as end:
        status = end.code
    # It makes no inputs of int64, which the decoder has.
    found[f"status of {name}"] = np.array(int(status or 0))
    if report.exists():
        tensors = json.loads(report.read_text())["backends"]["cpu"]["tensors"]
        found[f"norms of {name}"] = np.array([each["target_norm"] for each in tensors])

np.savez(RESULTS, seconds=np.array(time.perf_counter() - start), **found)
