"""Kernels of attention: two matrix products and the softmax between them."""
