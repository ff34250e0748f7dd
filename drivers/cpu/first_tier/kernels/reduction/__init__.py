"""Kernels for whole rows: reductions, searches, sums and transforms."""
