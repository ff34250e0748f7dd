"""Kernels of functions of elements."""
