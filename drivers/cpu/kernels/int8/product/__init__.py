"""Quantised convolutions and matrix products, in register tiles, tile registers or dot products."""
