"""Shared parts of specialised kernels: loops, windows, tiles, packed weights and function texts."""
