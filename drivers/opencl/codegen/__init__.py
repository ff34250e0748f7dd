"""Generates OpenCL C for kernels and programs."""
