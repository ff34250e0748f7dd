"""Emits functions, conversions and divisions of vectors."""
