"""Binds operations that move elements."""
