"""Measures, compares and draws for `neurald benchmark`."""
