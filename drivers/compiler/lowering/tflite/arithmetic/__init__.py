"""Arithmetic shared by TFLite's lowerings: interpolated function tables."""
