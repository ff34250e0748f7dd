"""Convolutions, poolings, fully connected layers and matrix products."""
