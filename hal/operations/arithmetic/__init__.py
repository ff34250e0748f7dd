"""Arithmetic that references of several subjects share: fixed point, quantised values, hashes."""
