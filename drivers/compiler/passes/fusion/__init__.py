"""Fuses nodes into kernels, where that is estimated to be cheaper."""
