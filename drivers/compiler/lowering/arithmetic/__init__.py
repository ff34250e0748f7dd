"""Arithmetic shared by lowerings: fixed point and quantised values."""
