"""Kernels that compute row by row: reductions with their readers, top-k and arg-max."""
