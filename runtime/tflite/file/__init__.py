"""Reads the format and the content of `.tflite` files."""
