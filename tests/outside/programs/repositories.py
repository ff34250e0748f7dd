"""Runs example programs of other projects' repositories, on a photo.

They are TensorFlow's `label_image.py`, the detector of EdjeElectronics for the Raspberry Pi, the
detector of Frigate, TensorFlow's pose estimation, LiteRT's `benchmark_litert_model.py` and Coral's
adapters, which write and read tensors through views.
NEURALD_REPOSITORIES names a folder with checkouts of their repositories.
"""

import os
import runpy
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import cv2
import numpy as np
from matplotlib import cbook
from PIL import Image

HERE = Path(__file__).resolve()
SHARED = Path(os.environ.get("NEURALD_TEST_DATA", HERE.parents[3].parent / "shared"))
MODELS, LABELS = SHARED / "models/tflite", SHARED / "models/labels"
REPOSITORIES = Path(os.environ["NEURALD_REPOSITORIES"])

RESULTS = Path(sys.argv[1]).resolve()
os.chdir(RESULTS.parent)
Image.open(cbook.get_sample_data("grace_hopper.jpg")).convert("RGB").save("photo.png")
found = {}
# OpenCV may have been built without windows; there are none to close.
cv2.destroyAllWindows = lambda: None


def run(path, *arguments):
    """Returns the variables of a program when it ends."""
    sys.argv = [str(path), *map(str, arguments)]
    sys.path.insert(0, str(path.parent))
    try:
        return runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.path.remove(str(path.parent))


start = time.perf_counter()

program = REPOSITORIES / "tensorflow/tensorflow/lite/examples/python/label_image.py"
for name in ("mobilenet_v1_0.25_224_fp32", "mobilenet_v1_0.25_128_uint8"):
    model = MODELS / f"{name}.tflite"
    labels = LABELS / "imagenet_labels.txt"
    ended = run(program, "-i", "photo.png", "-m", model, "-l", labels, "--num_threads", 2)
    found[f"classes of {name}"] = ended["results"] / (255 if ended["results"].dtype == np.uint8 else 1)

program = REPOSITORIES / "TensorFlow-Lite-Object-Detection-on-Android-and-Raspberry-Pi"
name = "ssd_mobilenet_v1_coco_uint8.tflite"
names = (
    "--modeldir",
    MODELS,
    "--graph",
    name,
    "--labels",
    LABELS / "coco_labels.txt",
    "--image",
    "photo.png",
)
shown = ("--noshow_results", "--save_results")
ended = run(program / "TFLite_detection_image.py", *names, *shown, "--threshold", "0.5")
numbers = np.array([each[1:] for each in ended["detections"]], np.float32)
found["detections"] = numbers / (1, ended["imW"], ended["imH"], ended["imW"], ended["imH"])
found["names"] = np.array([ended["labels"].index(each[0]) for each in ended["detections"]])
found["photos"] = np.array(len(list(Path("results").iterdir())))

# Frigate's detectors call these functions with themselves.
functions = run(REPOSITORIES / "frigate/frigate/detectors/detector_utils.py")
detector = SimpleNamespace()
functions["tflite_init"](detector, functions["Interpreter"](str(MODELS / name), num_threads=3))
pixels = np.asarray(Image.open("photo.png").resize((300, 300)))[None]
for number in range(2):
    found[f"frigate's detections {number}"] = functions["tflite_detect_raw"](detector, pixels)

folder = REPOSITORIES / "examples/lite/examples/pose_estimation/raspberry_pi"
sys.path.insert(0, str(folder))
from ml.movenet import Movenet

pose = Movenet(str(MODELS / "movenet_lightning_int8"))
photo = np.asarray(Image.open("photo.png"))
for number in range(2):  # the second time on the part of the photo that the first one has found
    person = pose.detect(photo, reset_crop_region=number == 0)
    # The points of this model differ between any two sets of kernels of 8 bits.
    found[f"points {number}"] = np.array(len(person.keypoints))

program = REPOSITORIES / "LiteRT/litert/python/tools/benchmark_litert_model.py"
np.random.seed(7)
run(
    program,
    "--model",
    MODELS / "kws_transformer_kwt1_fp32.tflite",
    "--num_runs",
    3,
    "--result_json",
    "b.json",
)
found["benchmarked"] = np.array(Path("b.json").exists())

# What PyCoral has in native code only concerns its own devices, of which there is none.
names = ("GetRuntimeVersion", "InvokeWithBytes", "InvokeWithDmaBuffer", "InvokeWithMemBuffer")
names += ("ListEdgeTpus", "SetVerbosity", "SupportsDmabuf")
sys.modules["pycoral.pybind"] = ModuleType("pycoral.pybind")
sys.modules["pycoral.pybind._pywrap_coral"] = native = ModuleType("pycoral.pybind._pywrap_coral")
vars(native).update(dict.fromkeys(names, print))
sys.path.insert(0, str(REPOSITORIES / "pycoral"))
from pycoral.adapters import classify, common, detect, segment
from pycoral.utils import edgetpu

try:
    edgetpu.make_interpreter(str(MODELS / "ssd_mobilenet_v1_coco_uint8.tflite"))
except (OSError, ValueError) as error:
    found["no such device"] = np.array("libedgetpu.so.1" in str(error))


def coral(name):
    """Returns an interpreter that is ready, as `make_interpreter` does without a device."""
    interpreter = edgetpu.tflite.Interpreter(str(MODELS / f"{name}.tflite"))
    interpreter.allocate_tensors()
    return interpreter


photo = Image.open("photo.png")
interpreter = coral("mobilenet_v1_0.25_224_fp32")
common.set_input(interpreter, np.asarray(photo.resize(common.input_size(interpreter))) / 127.5 - 1)
interpreter.invoke()
found["Coral's classes"] = np.array(classify.get_classes(interpreter, 5))
interpreter = coral("ssd_mobilenet_v1_coco_uint8")
_, scale = common.set_resized_input(interpreter, photo.size, photo.resize)
interpreter.invoke()
found["Coral's objects"] = np.array([each.id for each in detect.get_objects(interpreter, 0.6, scale)])
interpreter = coral("deeplabv3_257_fp32")
common.set_input(interpreter, np.asarray(photo.resize(common.input_size(interpreter))) / 127.5 - 1)
interpreter.invoke()
found["Coral's mask"] = np.argmax(segment.get_output(interpreter), axis=-1)

found["seconds"] = np.array(time.perf_counter() - start)
np.savez(RESULTS, **found)
