"""Quantised convolutions and matrix products, in register tiles, tile registers or as dot products."""
