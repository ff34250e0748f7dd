"""Extents: lengths of dimensions that are only known at run time."""
