"""Lowers convolutions, poolings, fully connected layers and matrix products."""
