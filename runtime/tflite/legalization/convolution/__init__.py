"""Legalization: convolutions, poolings, fully connected layers and matrix products."""
