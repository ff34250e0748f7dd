"""Emits LLVM instructions on scalars and vectors."""
