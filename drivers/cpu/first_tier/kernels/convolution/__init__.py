"""Kernels of convolutions, products of matrices, and other sums over windows."""
