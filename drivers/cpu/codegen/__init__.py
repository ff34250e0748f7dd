"""Kernels as text in LLVM's language."""
