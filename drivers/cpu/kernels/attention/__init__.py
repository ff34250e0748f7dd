"""Kernels of attention: two matrix products and the rows between them."""
