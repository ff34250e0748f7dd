"""Arithmetic shared by several subjects: fixed point, quantised values, hashes."""
