"""Reads `.tflite` files: the format, and what is in it."""
