"""Kernels of procedures: scattering, searching, and suppression of boxes."""
