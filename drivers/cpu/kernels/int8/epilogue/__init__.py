"""Epilogues of quantised kernels: rescaled sums, residual additions, and stores of the results."""
