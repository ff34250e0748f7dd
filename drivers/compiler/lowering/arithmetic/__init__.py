"""Arithmetic that lowerings of several subjects share: fixed point and quantised values."""
