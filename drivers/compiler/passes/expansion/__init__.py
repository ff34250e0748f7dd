"""Passes that expand nodes into expressions, for compilers without kernels for them."""
