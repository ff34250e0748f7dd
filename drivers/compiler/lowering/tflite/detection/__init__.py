"""Lowerings of the operations in `neurald.hal.operations.tflite.detection`."""
