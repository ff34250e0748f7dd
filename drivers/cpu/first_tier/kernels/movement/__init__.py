"""Kernels that move elements."""
