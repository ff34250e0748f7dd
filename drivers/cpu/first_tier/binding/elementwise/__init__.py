"""Binds functions of elements."""
