"""Generates the LLVM IR of kernels."""
