"""Selects kernels: builds and measures candidates in several processes."""
