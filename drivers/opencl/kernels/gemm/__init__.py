"""Kernels for matrix products and convolutions."""
