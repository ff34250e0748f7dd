"""Lowers TFLite's convolutions, poolings, fully connected layers and matrix products."""
