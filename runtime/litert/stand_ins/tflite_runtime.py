"""Stands for the package `tflite_runtime` where this folder is in `sys.path`."""

from neurald.runtime.litert.program import stand_in

stand_in(__name__)
