"""Lowerings of the extension `neurald.tflite`, one family per file.

Families are named as in `neurald.hal.operations.tflite`.
"""
