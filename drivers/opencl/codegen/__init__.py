"""Kernels and programs as OpenCL C."""
