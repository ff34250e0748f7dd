"""Kernels that compute several layers."""
